//! One Rust file as the rules see it.

use crate::syntax;

/// One Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the root of the workspace.
    pub path: String,
    /// All of it.
    pub text: String,
    /// Its code, without comments and literals.
    pub code: String,
    /// Its code, without what only tests see either.
    pub shipped: String,
}

impl Source {
    /// A file of that path and text.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let code = syntax::code_of(text);
        let shipped = if is_test(path) { String::new() } else { syntax::without_tests(&code) };
        Self { path: path.to_owned(), text: text.to_owned(), code, shipped }
    }

    /// Whether it is a part of a crate, and not of its tests, examples or benches.
    #[must_use]
    pub fn is_in_src(&self) -> bool {
        self.path.contains("/src/")
    }

    /// A finding in the line of a byte of its code.
    #[must_use]
    pub fn finding(&self, at: usize, problem: &str) -> String {
        format!("{}:{} {problem}", self.path, syntax::line_of(&self.code, at))
    }
}

/// Whether a file has nothing but tests: it lies in `tests`, or is the body of a `mod tests;`.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}
