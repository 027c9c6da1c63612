//! Limits: file and function length, file headers, no `mod.rs`, one integration binary per crate.

use outlive_tidy::limits::{headless, lone_binary, long_file, long_functions, misnamed};
use outlive_tidy::source::Source;

use crate::{assert_none, sources};

fn function_of(lines: usize) -> String {
    format!("fn f() {{\n{}}}\n", "    go();\n".repeat(lines - 2))
}

#[test]
fn function_of_61_lines_is_found() {
    let found = long_functions(&Source::new("crates/a/src/lib.rs", &format!("\n\n{}", function_of(61))));
    assert_eq!(found, ["crates/a/src/lib.rs:3 `f` has 61 lines, at most 60 are allowed"]);
    assert!(long_functions(&Source::new("crates/a/src/lib.rs", &function_of(60))).is_empty());
}

#[test]
fn long_function_inside_an_impl_or_test_module_is_found() {
    let inside = format!("impl A {{\n{}}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", function_of(61), function_of(70));
    assert_eq!(long_functions(&Source::new("crates/a/src/lib.rs", &inside)).len(), 2);
}

#[test]
fn braces_in_text_and_comments_do_not_end_a_function() {
    let text = format!("fn f() {{\n    a(\"}}\", '}}', r#\"\"}}\"#); // }}\n    /* }} */\n{}}}\n", "b();\n".repeat(58));
    assert_eq!(long_functions(&Source::new("crates/a/src/lib.rs", &text)).len(), 1);
}

#[test]
fn file_of_801_lines_is_found_not_counting_tests() {
    let long = Source::new("crates/a/src/lib.rs", &"a();\n".repeat(801));
    assert_eq!(long_file(&long).as_deref(), Some("crates/a/src/lib.rs:801 has 801 lines, at most 800 are allowed"));
    let tests = format!("\n#[cfg(test)]\n#[expect(x)]\nmod tests {{\n{}}}\n", "b();\n".repeat(500));
    assert_eq!(long_file(&Source::new("crates/a/src/lib.rs", &("a();\n".repeat(800) + &tests))), None);
    assert_eq!(long_file(&Source::new("crates/a/tests/it/main.rs", &long.text)), None);
}

#[test]
fn file_without_a_header_is_found() {
    assert!(headless(&Source::new("crates/a/src/b.rs", "use std::fmt;\n//! Late.\n")).is_some());
    assert_eq!(headless(&Source::new("crates/a/src/b.rs", "//! For this.\n")), None);
}

#[test]
fn mod_rs_is_found() {
    assert!(misnamed(&Source::new("crates/a/tests/it/mod.rs", "")).is_some());
    assert_eq!(misnamed(&Source::new("crates/a/src/my_mod.rs", "")), None);
}

#[test]
fn second_integration_binary_is_found() {
    assert!(lone_binary(&Source::new("crates/a/tests/more.rs", "")).is_some());
    assert!(lone_binary(&Source::new("crates/a/tests/more/main.rs", "")).is_some());
    assert_eq!(lone_binary(&Source::new("crates/a/tests/it/main.rs", "")), None);
    assert_eq!(lone_binary(&Source::new("crates/a/tests/it/more.rs", "")), None);
}

#[test]
fn every_file_has_a_header() {
    assert_none(&sources().iter().filter_map(headless).collect::<Vec<_>>());
}

#[test]
fn no_file_is_longer_than_800_lines() {
    assert_none(&sources().iter().filter_map(long_file).collect::<Vec<_>>());
}

#[test]
fn no_function_is_longer_than_60_lines() {
    assert_none(&sources().iter().flat_map(long_functions).collect::<Vec<_>>());
}

#[test]
fn no_file_is_called_mod_rs() {
    assert_none(&sources().iter().filter_map(misnamed).collect::<Vec<_>>());
}

#[test]
fn every_crate_has_one_integration_binary() {
    assert_none(&sources().iter().filter_map(lone_binary).collect::<Vec<_>>());
}
