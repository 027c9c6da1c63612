//! Finds what the core must not use: clocks, randomness, I/O, threads, and unordered maps.

use crate::source::Source;
use crate::syntax;

/// Names of something impure, whatever path leads to them.
const NAMES: [&str; 9] =
    ["Instant", "HashMap", "HashSet", "RandomState", "tokio", "rand", "getrandom", "println", "eprintln"];
/// Paths that lead to something impure.
const PATHS: [&[&str]; 11] = [
    &["std", "fs"],
    &["std", "net"],
    &["std", "thread"],
    &["std", "env"],
    &["std", "process"],
    &["std", "io"],
    &["SystemTime", "now"],
    &["Timestamp", "now"],
    &["Zoned", "now"],
    &["thread", "sleep"],
    &["env", "var"],
];
/// Exceptions to those paths that do no I/O by themselves: what serializers use to write to memory.
const HARMLESS: [&[&str]; 3] = [&["std", "io", "Error"], &["std", "io", "Result"], &["std", "io", "Write"]];
/// Crates that bring something impure with them.
const CRATES: [&str; 8] =
    ["tokio", "rand", "fastrand", "getrandom", "uuid", "rusqlite", "tokio-postgres", "futures-executor"];

/// Reports where a file of the core is impure.
#[must_use]
pub fn impurities(source: &Source) -> Vec<String> {
    let code = &source.shipped;
    let names = syntax::tokens(code).into_iter().filter(|token| NAMES.contains(&token.text));
    let names = names.map(|token| (token.at, token.text.to_owned()));
    let leads_to_any = |path: &syntax::Path, parts: &[&[&str]]| parts.iter().any(|part| leads_to(path, part));
    let paths = syntax::paths(code).into_iter();
    let paths = paths.filter(|path| leads_to_any(path, &PATHS) && !leads_to_any(path, &HARMLESS));
    let paths = paths.map(|path| (path.at, path.names.join("::")));
    let mut found: Vec<_> = names.chain(paths).collect();
    found.sort();
    let problem = |(at, name): (usize, String)| {
        source.finding(at, &format!("has `{name}`: the core takes time, randomness and messages as parameters"))
    };
    found.into_iter().map(problem).collect()
}

fn leads_to(path: &syntax::Path, impure: &[&str]) -> bool {
    path.names.windows(impure.len()).any(|names| names.iter().zip(impure).all(|(name, part)| name == part))
}

/// Returns which of these crates the core must not depend on.
#[must_use]
pub fn impure_crates(dependencies: &[String]) -> Vec<String> {
    dependencies.iter().filter(|name| CRATES.contains(&name.as_str())).cloned().collect()
}
