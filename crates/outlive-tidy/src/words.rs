//! Finds words that must not be left in the code.

use crate::source::Source;

/// Banned everywhere, even in tests.
const NOWHERE: [(&str, &str); 6] = [
    ("todo!(", "implement it, or open an issue"),
    ("unimplemented!(", "implement it, or remove it"),
    ("#[ignore", "a test that does not run proves nothing"),
    ("dbg!(", "use `tracing`, or remove it"),
    ("#[allow(", "use `#[expect(.., reason = \"..\")]`, which gives a reason and warns when it is not needed"),
    ("#![allow(", "use `#![expect(.., reason = \"..\")]`, which gives a reason and warns when it is not needed"),
];
/// Banned outside of tests.
const NOT_SHIPPED: [(&str, &str); 1] = [(".unwrap()", "return an error, or use `expect` with the invariant")];

/// Reports where banned words are left.
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
