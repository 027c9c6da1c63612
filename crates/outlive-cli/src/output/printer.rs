//! Prints results to stdout in the requested format, and notes and errors to stderr.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::CliError;
use crate::output::escape;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// Prints in one format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    format: Format,
}

impl Printer {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Writes a line. Text from a store must already be escaped.
    pub(crate) fn line(self, text: impl Display) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        // A line that is followed live must not sit in a buffer.
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(CliError::Output)
    }

    /// Writes a note to stderr: something worth knowing that is not part of the output.
    pub(crate) fn note(self, sentence: &str) {
        // If stderr is closed, there is nowhere to report to.
        let _ = writeln!(io::stderr().lock(), "note: {}", escape::plain(sentence));
    }

    /// Writes an error to stderr.
    pub(crate) fn error(self, error: &CliError) {
        // If stderr is closed, there is nowhere left to report to.
        let _ = writeln!(io::stderr().lock(), "error: {}", escape::plain(&error.to_string()));
    }

    /// Writes the JSON document of a command.
    pub(crate) fn json(self, document: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| CliError::message(format!("cannot write the output as JSON: {error}")))?;
        self.line(escape::json(&text))
    }

    /// Returns the exit code of a command whose exit code is its result, even if the output was not read to the end.
    pub(crate) fn verdict(self, code: ExitCode, written: Result<(), CliError>) -> Result<ExitCode, CliError> {
        match written {
            Err(error) if !error.is_broken_pipe() => Err(error),
            _ => Ok(code),
        }
    }

    /// Writes the sentence or the document, depending on the format.
    pub(crate) fn result(self, sentence: impl Display, document: &impl Serialize) -> Result<(), CliError> {
        if self.is_json() { self.json(document) } else { self.line(escape::plain(&sentence.to_string())) }
    }
}
