//! The error of a failed command.

use std::fmt;
use std::io;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// An error from the library.
    Outlive(outlive::Error),
    /// Writing to stdout failed.
    Output(io::Error),
    /// A message of the command line itself: what is wrong, then what to do.
    Message(String),
}

impl CliError {
    pub(crate) fn message(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outlive(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write output: {error}"),
            Self::Message(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CliError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Outlive(error) => Some(error),
            Self::Output(error) => Some(error),
            Self::Message(_) => None,
        }
    }
}

impl From<outlive::Error> for CliError {
    fn from(error: outlive::Error) -> Self {
        Self::Outlive(error)
    }
}
