//! The scanner tells code from comments and literals.

use outlive_tidy::syntax::{code_of, functions, inline_modules, paths, without_tests};

#[track_caller]
fn assert_code(text: &str, code: &str) {
    let found = code_of(text);
    assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), code);
    assert_eq!(found.lines().count(), text.lines().count(), "lines stay where they are");
    assert_eq!(found.chars().count(), text.chars().count(), "columns stay where they are");
}

#[test]
fn comments_are_not_code() {
    assert_code("a // b\nc /* d /* e */ f\n */ g\n", "a c g");
}

#[test]
fn literals_are_not_code() {
    assert_code(r#"a("b \" c", 'd', '\'', '\u{7d}', b'}', b"}") + 1"#, "a( , , , , b , b ) + 1");
    assert_code("a(r\"b\\\", r#\"c\"d\"#, br##\"e\"#\"##, f)", "a( , , b , f)");
}

#[test]
fn lifetimes_and_raw_names_are_code() {
    assert_code("fn f<'a, 'b>(r#type: &'a str, for_r: &'b u8) {}", "fn f<'a, 'b>(r#type: &'a str, for_r: &'b u8) {}");
}

#[test]
fn test_only_items_are_left_out() {
    let code =
        "a();\n#[cfg(test)]\n#[expect(b)]\nmod tests {\n    fn c() { d(); }\n}\ne();\n#[cfg(test)]\nmod f;\ng();\n";
    let shipped = without_tests(code);
    assert_eq!(shipped.split_whitespace().collect::<Vec<_>>(), ["a();", "e();", "g();"]);
    assert_eq!(shipped.len(), code.len());
}

#[test]
fn functions_are_measured_from_signature_to_end() {
    let code = "trait T { fn none(&self) -> [u8; 4]; }\nconst fn f<T>(\n    a: fn(u8) -> u8,\n) -> [u8; 2]\nwhere\n    T: X,\n{\n    |b| { c }\n}\n";
    let found = functions(code);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].name.as_str(), found[0].line, found[0].length), ("f", 2, 8));
}

#[test]
fn inline_modules_are_found() {
    let found = inline_modules("mod a;\nmod b { mod c { } }\n");
    assert_eq!(found.iter().map(|module| module.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(found[0].begin < found[1].begin && found[1].end < found[0].end);
}

#[test]
fn paths_are_expanded() {
    let found = paths("use a::{b::{self, c as d}, e::*}; use f; fn g() { crate::h::i::<J>(k) }");
    let found: Vec<_> = found.iter().map(|path| (path.names.join("::"), path.alias.as_deref())).collect();
    let expected = [("a::b", Some("b")), ("a::b::c", Some("d")), ("a::e::*", Some("*")), ("f", Some("f"))];
    assert_eq!(found[..4], expected.map(|(names, alias)| (names.to_owned(), alias)));
    assert_eq!(found[4], ("crate::h::i".to_owned(), None));
    assert_eq!(found.len(), 5);
}
