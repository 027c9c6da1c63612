//! What goes to stdout, and in which format.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::Error;
use crate::escape;

/// How answers are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// The way to stdout.
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

    /// Writes text and a line's end. Text from a store is escaped before it comes here.
    pub(crate) fn line(self, text: impl Display) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        // A line that is followed live must not wait in a buffer.
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Error::Output)
    }

    /// Writes a remark to stderr: something to know that is no part of the answer.
    pub(crate) fn remark(self, sentence: &str) {
        // If stderr is closed there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "note: {}", escape::plain(sentence));
    }

    /// Writes the one JSON document of a command.
    pub(crate) fn json(self, document: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Error::said(format!("the answer cannot be written as JSON: {error}")))?;
        self.line(escape::json(&text))
    }

    /// The exit code of a command that says something by it, also if nobody has read its output to the end.
    pub(crate) fn verdict(self, code: ExitCode, written: Result<(), Error>) -> Result<ExitCode, Error> {
        match written {
            Err(error) if !error.is_broken_pipe() => Err(error),
            _ => Ok(code),
        }
    }

    /// Writes the sentence or the document, as asked for.
    pub(crate) fn answer(self, sentence: impl Display, document: &impl Serialize) -> Result<(), Error> {
        if self.is_json() { self.json(document) } else { self.line(escape::plain(&sentence.to_string())) }
    }
}
