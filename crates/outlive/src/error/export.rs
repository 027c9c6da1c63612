//! What can be wrong with an export.

use std::fmt;

/// Why a file cannot be read as an export, and in which line.
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
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: ExportProblem,
}

/// What can be wrong with an export.
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
    /// The file does not begin as an export does.
    NotAnExport,
    /// It was written by a later release.
    Version {
        /// Its version.
        found: u64,
        /// The latest that this release reads.
        known: u64,
    },
    /// The line is no run.
    Garbage(String),
    /// The file ends before it says so.
    Truncated,
    /// The last line tells of another number of runs than there are.
    Count {
        /// What the last line says.
        said: u64,
        /// How many there are.
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
                write!(
                    f,
                    "this export is of version {found}, and {known} is the latest known here; use a later release"
                )
            }
            ExportProblem::Garbage(what) => write!(f, "this is not a run of an export: {what}; export it again"),
            ExportProblem::Truncated => {
                write!(f, "the export ends here without its last line; copy or export it again")
            }
            ExportProblem::Count { said, found } => {
                write!(f, "the export says that it has {said} runs, and has {found}; export it again")
            }
            ExportProblem::Unreadable(why) => write!(f, "the export cannot be read: {why}"),
            ExportProblem::Unwritten(why) => write!(f, "the export cannot be written: {why}"),
        }
    }
}

impl std::error::Error for ExportError {}
