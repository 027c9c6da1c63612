//! Errors of reading and writing exports.

use std::fmt;

/// Why a file cannot be read as an export, and on which line.
///
/// ```
/// use outlive::export::{ExportProblem, Reader};
/// let error = Reader::new("milk, tea".as_bytes()).err().unwrap();
/// assert_eq!((error.line, &error.problem), (1, &ExportProblem::NotAnExport));
/// assert!(error.to_string().starts_with("line 1: "));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ExportError {
    /// The line number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: ExportProblem,
}

/// What is wrong with an export.
///
/// ```
/// use outlive::export::ExportProblem;
/// fn is_worth_another_copy(problem: &ExportProblem) -> bool {
///     matches!(problem, ExportProblem::Truncated | ExportProblem::Unreadable(_))
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExportProblem {
    /// The file does not start as an export does.
    NotAnExport,
    /// The export was written by a later release.
    Version {
        /// The export's version.
        found: u64,
        /// The latest version that this release reads.
        known: u64,
    },
    /// The line is not a run.
    Garbage(String),
    /// The file ends without its last line.
    Truncated,
    /// The last line states a different number of runs than there are.
    Count {
        /// The number the last line states.
        said: u64,
        /// The number of runs in the file.
        found: u64,
    },
    /// The file cannot be read.
    Unreadable(String),
    /// The file cannot be written.
    Unwritten(String),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            ExportProblem::NotAnExport => {
                write!(f, "this is neither a store nor an export; make one with `outlive export FILE --out EXPORT`")
            }
            ExportProblem::Version { found, known } => {
                write!(f, "this export has version {found}, but this release reads up to {known}; use a later release")
            }
            ExportProblem::Garbage(what) => write!(f, "this is not an exported run: {what}; export again"),
            ExportProblem::Truncated => {
                write!(f, "the export ends without its last line; copy or export it again")
            }
            ExportProblem::Count { said, found } => {
                write!(f, "the export states {said} runs but has {found}; export it again")
            }
            ExportProblem::Unreadable(why) => write!(f, "the export cannot be read: {why}"),
            ExportProblem::Unwritten(why) => write!(f, "the export cannot be written: {why}"),
        }
    }
}

impl std::error::Error for ExportError {}
