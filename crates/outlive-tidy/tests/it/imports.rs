//! Within a crate, modules import one way.

use outlive_tidy::imports::circles;
use outlive_tidy::source::Source;
use outlive_tidy::tree;

use crate::assert_none;

fn crate_of(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| Source::new(&format!("crates/a/src/{path}"), text)).collect()
}

#[test]
fn two_modules_that_import_each_other_are_found() {
    let found = circles(&crate_of(&[
        ("lib.rs", "mod b;\nmod c;\n"),
        ("b.rs", "use crate::c::C;\n"),
        ("c.rs", "\nfn f() { crate::b::g() }\n"),
    ]));
    assert_eq!(found, ["b imports c at crates/a/src/b.rs:1, c imports b at crates/a/src/c.rs:2"]);
}

#[test]
fn cycle_of_three_through_groups_and_super_is_found_once() {
    let found = circles(&crate_of(&[
        ("b.rs", "use std::{fmt, io};\nuse crate::{error::Error, c::{self, C as D}};\n"),
        ("c/deep.rs", "use super::super::d::D;\n"),
        ("d.rs", "mod inner { use super::super::b; }\n"),
        ("error.rs", ""),
    ]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("c imports d at crates/a/src/c/deep.rs:1"), "{found:?}");
}

#[test]
fn root_re_exports_are_resolved_to_their_module() {
    let found = circles(&crate_of(&[
        ("lib.rs", "pub use b::{B, Other as Renamed};\n"),
        ("b.rs", "use crate::c::C;\n"),
        ("c.rs", "use crate::Renamed;\n"),
    ]));
    assert_eq!(found, ["b imports c at crates/a/src/b.rs:1, c imports b at crates/a/src/c.rs:1"]);
}

#[test]
fn module_that_imports_a_root_item_is_found() {
    let found = circles(&crate_of(&[
        ("main.rs", "mod b;\nmod new;\nfn main() { b::go() }\n"),
        ("b.rs", "use crate::{main, new};\n"),
    ]));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn parents_tests_comments_and_other_crates_make_no_cycle() {
    let found = circles(&crate_of(&[
        ("lib.rs", "pub use b::B;\npub mod prelude { pub use crate::{B, c::C}; }\n"),
        (
            "b.rs",
            "mod deep;\nuse self::deep::D;\nuse other::c::C;\n/// See [`C`](crate::c::C).\n#[cfg(test)]\nmod tests { use crate::c::C; }\n",
        ),
        ("b/deep.rs", "use super::B;\nuse crate::b::E;\npub(in crate::b) fn f() -> impl Sized + use<> {}\n"),
        ("c.rs", "use crate::b::deep::D;\n"),
        ("bin/tool.rs", "use crate::c::C;\n"),
    ]));
    assert_eq!(found, [""; 0]);
}

#[test]
fn siblings_below_the_root_that_import_each_other_are_found() {
    let found = circles(&crate_of(&[
        ("lib.rs", "mod a;\n"),
        ("a.rs", "mod b;\nmod c;\npub struct A;\n"),
        ("a/b.rs", "use super::A;\nuse super::c::C;\n"),
        ("a/c.rs", "use crate::a::b::B;\nuse super::A;\n"),
    ]));
    assert_eq!(found, ["a::b imports a::c at crates/a/src/a/b.rs:2, a::c imports a::b at crates/a/src/a/c.rs:1"]);
}

/// Two cycles left in the test tools: a simulated plan holds its end, and a mutant's child runs its suites.
fn is_expected(circle: &str) -> bool {
    ["simulate::end", "tools::mutants::child"].iter().any(|name| circle.starts_with(name))
}

#[test]
fn modules_import_one_way() {
    let crates = tree::crates().expect("the sources can be read");
    assert!(crates.len() > 4, "only {} crates were found", crates.len());
    let found = crates.iter().flat_map(|sources| circles(sources)).filter(|circle| !is_expected(circle));
    assert_none(&found.collect::<Vec<_>>());
}
