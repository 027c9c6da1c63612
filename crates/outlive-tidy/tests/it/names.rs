//! No two types of the product crates share a name.

use outlive_tidy::names::shared_names;
use outlive_tidy::source::Source;

use crate::{assert_none, sources};

#[test]
fn duplicate_type_name_is_found() {
    let found = shared_names(&[
        Source::new("crates/outlive/src/a.rs", "pub(crate) struct Place;\nstruct Error;\n"),
        Source::new("crates/outlive-core/src/b.rs", "\npub enum Place { Here }\npub struct Error;\n"),
        Source::new("crates/outlive-testkit/src/c.rs", "pub struct Place;\n"),
    ]);
    assert_eq!(found, ["crates/outlive/src/a.rs:1, crates/outlive-core/src/b.rs:2 are all called `Place`"]);
}

#[test]
fn every_type_name_is_unique() {
    assert_none(&shared_names(&sources()));
}
