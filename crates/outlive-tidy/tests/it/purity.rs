//! The core has no clock, no randomness, no I/O and no random iteration order.

use outlive_tidy::purity::impurities;
use outlive_tidy::source::Source;

use crate::{assert_none, sources};

#[test]
fn impurity_is_found_however_it_is_imported() {
    let bad = [
        "fn f() { std::time::SystemTime::now() }",
        "use std::time::{Duration, Instant as Moment};",
        "fn f() { std::fs::read(x) }",
        "use std::{fmt, fs};",
        "use std::{env::{self, args}};",
        "use std::net::*;",
        "use std::io::{Write, stdout};",
        "use std::io;",
        "use std::collections::{BTreeMap, HashMap};",
        "type S = std::collections::HashSet<u8>;",
        "async fn f() { tokio::task::yield_now().await }",
        "use rand::Rng;",
        "fn f() { jiff::Timestamp::now() }",
        "fn f() { std::thread::spawn(g) }",
        "fn f() { println!() }",
    ];
    for text in bad {
        assert!(!impurities(&Source::new("crates/outlive-core/src/a.rs", text)).is_empty(), "{text}");
    }
}

#[test]
fn comments_strings_tests_and_longer_words_are_not_impure() {
    let text = "//! No `HashMap`, no std::fs.\nuse std::io::{Result as IoResult, Write};\nlet operand = \"tokio\";\nfn f(at: SystemTime) {}\n#[cfg(test)]\nmod tests { use std::fs; }\n";
    assert_eq!(impurities(&Source::new("crates/outlive-core/src/a.rs", text)), [""; 0]);
}

#[test]
fn core_is_pure() {
    let sources = sources();
    let core: Vec<_> = sources.iter().filter(|source| source.path.starts_with("crates/outlive-core/src/")).collect();
    assert!(core.len() > 10, "only {} files of the core were found", core.len());
    assert_none(&core.into_iter().flat_map(impurities).collect::<Vec<_>>());
}
