//! Writes results to stdout in the requested format.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::Error;
use crate::escape;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// Writes to stdout in one format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    format: Format,
}

impl Out {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Writes a line. Text from a store must already be escaped.
    pub(crate) fn line(self, text: impl Display) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        // A line that is followed live must not sit in a buffer.
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Error::Output)
    }

    /// Writes a note to stderr: something worth knowing that is not part of the output.
    pub(crate) fn remark(self, sentence: &str) {
        // If stderr is closed, there is nowhere to report to.
        let _ = writeln!(io::stderr().lock(), "note: {}", escape::plain(sentence));
    }

    /// Writes the JSON document of a command.
    pub(crate) fn json(self, document: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Error::said(format!("cannot write the output as JSON: {error}")))?;
        self.line(escape::json(&text))
    }

    /// Returns the exit code of a command whose exit code is its result, even if the output was not read to the end.
    pub(crate) fn verdict(self, code: ExitCode, written: Result<(), Error>) -> Result<ExitCode, Error> {
        match written {
            Err(error) if !error.is_broken_pipe() => Err(error),
            _ => Ok(code),
        }
    }

    /// Writes the sentence or the document, depending on the format.
    pub(crate) fn answer(self, sentence: impl Display, document: &impl Serialize) -> Result<(), Error> {
        if self.is_json() { self.json(document) } else { self.line(escape::plain(&sentence.to_string())) }
    }
}
