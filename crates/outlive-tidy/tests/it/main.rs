//! The rules of the project: each finds violations, and the tree has none.

mod imports;
mod limits;
mod machine;
mod manifests;
mod names;
mod purity;
mod sizes;
mod supply;
mod syntax;
mod words;

use outlive_tidy::source::Source;
use outlive_tidy::tree;

/// All sources of the workspace.
fn sources() -> Vec<Source> {
    let sources = tree::sources().expect("the sources can be read");
    assert!(sources.len() > 50, "only {} sources were found: the rules would check nothing", sources.len());
    sources
}

/// Fails with one line per finding.
#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{} places break this rule:\n{}", found.len(), found.join("\n"));
}
