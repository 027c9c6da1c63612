//! Why a command could not be done, as it is told on stderr.

use std::fmt;
use std::io::{self, Write as _};

use crate::escape::plain;

/// Why a command could not be done.
#[derive(Debug)]
pub(crate) enum Error {
    /// The library refused.
    Outlive(outlive::Error),
    /// Stdout cannot be written.
    Output(io::Error),
    /// A sentence of our own: the thing, then the way out.
    Said(String),
}

impl Error {
    pub(crate) fn said(sentence: impl Into<String>) -> Self {
        Self::Said(sentence.into())
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Writes it to stderr.
    pub(crate) fn tell(&self) {
        // If stderr is closed too there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "error: {}", plain(&self.to_string()));
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outlive(error) => error.fmt(f),
            Self::Output(error) => write!(f, "the output cannot be written: {error}"),
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
