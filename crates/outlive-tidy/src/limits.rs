//! Limits on the length of files and functions, and rules for file headers and names.

use crate::source::Source;
use crate::syntax;

/// The longest file, in lines, without its closing test module.
pub const FILE_LINES_MAX: usize = 800;
/// The longest function, in lines.
pub const FUNCTION_LINES_MAX: usize = 60;

/// Reports a file in `src` that does not begin with what it is for.
#[must_use]
pub fn headless(source: &Source) -> Option<String> {
    let is_headless = source.is_in_src() && !source.text.starts_with("//!");
    is_headless.then(|| format!("{}:1 must begin with `//!` and what the file is for", source.path))
}

/// Reports a file in `src` that is too long.
#[must_use]
pub fn long_file(source: &Source) -> Option<String> {
    let lines = source.shipped.trim_end().lines().count();
    let problem = || format!("{}:{lines} has {lines} lines, at most {FILE_LINES_MAX} are allowed", source.path);
    (source.is_in_src() && lines > FILE_LINES_MAX).then(problem)
}

/// Reports the functions of a file that are too long.
#[must_use]
pub fn long_functions(source: &Source) -> Vec<String> {
    let functions = syntax::functions(&source.code).into_iter();
    let long = functions.filter(|function| function.length > FUNCTION_LINES_MAX);
    let problem = |function: syntax::Function| {
        let syntax::Function { name, line, length } = function;
        format!("{}:{line} `{name}` has {length} lines, at most {FUNCTION_LINES_MAX} are allowed", source.path)
    };
    long.map(problem).collect()
}

/// Reports a file that is named by its folder instead of by itself.
#[must_use]
pub fn misnamed(source: &Source) -> Option<String> {
    let problem = || format!("{}:1 should be `name.rs` next to `name/`", source.path);
    source.path.ends_with("/mod.rs").then(problem)
}

/// Reports a file that is an integration test binary other than `tests/it`.
#[must_use]
pub fn lone_binary(source: &Source) -> Option<String> {
    let (_, below) = source.path.split_once("/tests/")?;
    let is_binary = !below.contains('/') || below.ends_with("/main.rs") && below != "it/main.rs";
    let problem = || format!("{}:1 is a separate test binary; make it a module of `tests/it`", source.path);
    is_binary.then(problem)
}
