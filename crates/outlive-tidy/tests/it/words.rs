//! No placeholder, no silenced test and no hidden panic is left in the code.

use outlive_tidy::source::Source;
use outlive_tidy::words::left;

use crate::{assert_none, sources};

#[test]
fn each_forbidden_word_is_found() {
    for text in ["todo!()", "unimplemented!(\"x\")", "dbg!(a)", "a.unwrap()", "#[allow(dead_code)]"] {
        let found = left(&Source::new("crates/a/src/lib.rs", &format!("//! A.\n{text};\n")));
        assert_eq!(found.len(), 1, "{text}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:2 has `"), "{found:?}");
    }
}

#[test]
fn ignored_test_is_found() {
    let text = "#[test]\n#[ignore = \"slow\"]\nfn it_works() {}\n";
    let found = left(&Source::new("crates/a/tests/it/main.rs", text));
    assert_eq!(found, ["crates/a/tests/it/main.rs:2 has `#[ignore`: a test that does not run proves nothing"]);
}

#[test]
fn tests_and_doc_examples_may_unwrap() {
    let text = "/// ```\n/// a.unwrap();\n/// ```\nfn a() { \"b.unwrap()\" }\n#[cfg(test)]\nmod tests { fn b() { c.unwrap(); } }\n";
    assert_eq!(left(&Source::new("crates/a/src/lib.rs", text)), [""; 0]);
    assert_eq!(left(&Source::new("crates/a/tests/it/main.rs", "fn a() { b.unwrap(); }")), [""; 0]);
    assert_eq!(left(&Source::new("crates/a/src/lib.rs", "a.unwrap_or_default()")), [""; 0]);
}

#[test]
fn stilted_phrases_are_found_in_shipped_code() {
    let phrase = ["who", "ever"].concat();
    let text = format!("//! A.\n// For {phrase} asks.\nfn {phrase}_asks() {{}}\n");
    let found = left(&Source::new("crates/a/src/lib.rs", &text));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/a/src/lib.rs:2 says \""), "{found:?}");
    assert_eq!(left(&Source::new("crates/a/tests/it/main.rs", &text)), [""; 0]);
}

#[test]
fn no_forbidden_word_is_left() {
    assert_none(&sources().iter().flat_map(left).collect::<Vec<_>>());
}
