//! Words that must not be left in the code.

use crate::source::Source;

/// Not even in tests.
const NOWHERE: [(&str, &str); 6] = [
    ("todo!(", "write it, or open an issue"),
    ("unimplemented!(", "write it, or take it out"),
    ("#[ignore", "a test that is not run shows nothing"),
    ("dbg!(", "use `tracing`, or take it out"),
    ("#[allow(", "use `#[expect(.., reason = \"..\")]`, which says why and goes when it is not needed"),
    ("#![allow(", "use `#![expect(.., reason = \"..\")]`, which says why and goes when it is not needed"),
];
/// Only in tests.
const NOT_SHIPPED: [(&str, &str); 1] = [(".unwrap()", "give an error, or `expect` with the invariant")];

/// Where words are left that must not be.
#[must_use]
pub fn left(source: &Source) -> Vec<String> {
    let shipped = if source.is_in_src() { source.shipped.as_str() } else { "" };
    let everywhere = NOWHERE.iter().flat_map(|rule| found(source, &source.code, rule));
    let in_src = NOT_SHIPPED.iter().flat_map(|rule| found(source, shipped, rule));
    everywhere.chain(in_src).collect()
}

fn found(source: &Source, code: &str, (word, way_out): &(&str, &str)) -> Vec<String> {
    let problem = |(at, _)| source.finding(at, &format!("has `{word}`: {way_out}"));
    code.match_indices(word).map(problem).collect()
}
