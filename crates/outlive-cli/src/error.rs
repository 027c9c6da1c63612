//! The error of a failed command, and how it is printed to stderr.

use std::fmt;
use std::io::{self, Write as _};

use crate::escape::plain;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// An error from the library.
    Outlive(outlive::Error),
    /// Writing to stdout failed.
    Output(io::Error),
    /// A message of the command line itself: what is wrong, then what to do.
    Said(String),
}

impl Error {
    pub(crate) fn said(sentence: impl Into<String>) -> Self {
        Self::Said(sentence.into())
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Prints the error to stderr.
    pub(crate) fn tell(&self) {
        // If stderr is closed, there is nowhere left to report to.
        let _ = writeln!(io::stderr().lock(), "error: {}", plain(&self.to_string()));
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outlive(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write output: {error}"),
            Self::Said(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Outlive(error) => Some(error),
            Self::Output(error) => Some(error),
            Self::Said(_) => None,
        }
    }
}

impl From<outlive::Error> for Error {
    fn from(error: outlive::Error) -> Self {
        Self::Outlive(error)
    }
}
