//! A Rust file as the rules see it.

use crate::syntax;

/// A Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the workspace root.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The code, without comments and literals.
    pub code: String,
    /// The code, without tests either.
    pub shipped: String,
}

impl Source {
    /// Parses a file.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let code = syntax::code_of(text);
        let shipped = if is_test(path) { String::new() } else { syntax::without_tests(&code) };
        Self { path: path.to_owned(), text: text.to_owned(), code, shipped }
    }

    /// Whether it is part of a crate, rather than of its tests, examples or benches.
    #[must_use]
    pub fn is_in_src(&self) -> bool {
        self.path.contains("/src/")
    }

    /// Formats a finding at the line of a byte of the code.
    #[must_use]
    pub fn finding(&self, at: usize, problem: &str) -> String {
        format!("{}:{} {problem}", self.path, syntax::line_of(&self.code, at))
    }
}

/// Whether a file contains nothing but tests: it is in `tests`, or is the body of a `mod tests;`.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}
