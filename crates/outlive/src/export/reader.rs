//! Reads an export line by line, trusting it no more than any file of unknown origin.

use std::io::BufRead;

use outlive_core::time::Timestamp;

use super::Exported;
use super::wire::{EndLine, FORMAT, HeaderLine, RunLine, VERSION};
use crate::error::{ExportError, ExportProblem};

/// The first line of an export.
///
/// ```
/// use outlive::export::Reader;
/// let text = r#"{"format":"outlive-export","version":1,"source":"shop.db","at":0,"runs":7}"#;
/// let reader = Reader::new(text.as_bytes()).unwrap();
/// assert_eq!((reader.header().source.as_str(), reader.header().runs), ("shop.db", 7));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Header {
    /// The source of the runs.
    pub source: String,
    /// When the export was written.
    pub at: Timestamp,
    /// The number of runs when the export was begun.
    pub runs: u64,
}

/// Reads an export, run by run.
///
/// ```
/// use outlive::export::Reader;
/// # use outlive::prelude::*;
/// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("nap", nap)).await;
/// # test.start(nap, &()).id("n-1").await?;
/// let mut file = Vec::new();
/// outlive::export::write(test.store().clone(), Filter::runs(), &mut file, |_| {}).await?;
/// let runs = Reader::new(&file[..])?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(runs[0].instance.id.as_str(), "n-1");
/// # Ok(()) }
/// ```
pub struct Reader<R> {
    lines: R,
    header: Header,
    /// The number of the line last read.
    line: u64,
    /// The number of runs returned.
    found: u64,
    /// `true` once all is read, or something is wrong.
    is_over: bool,
    buffer: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// If there is no header, or it is of a later release.
    ///
    /// ```
    /// use outlive::export::{ExportProblem, Reader};
    /// let later = r#"{"format":"outlive-export","version":7,"source":"","at":0,"runs":0}"#;
    /// assert_eq!(Reader::new(later.as_bytes()).err().unwrap().problem, ExportProblem::Version { found: 7, known: 1 });
    /// ```
    pub fn new(lines: R) -> Result<Self, ExportError> {
        let header = Header { source: String::new(), at: Timestamp::AT_ONCE, runs: 0 };
        let mut reader = Self { lines, header, line: 0, found: 0, is_over: false, buffer: Vec::new() };
        let not_an_export = ExportError { line: 1, problem: ExportProblem::NotAnExport };
        if !reader.read_line()? {
            return Err(not_an_export);
        }
        // The version comes first: a later release may have another header.
        let first: serde_json::Value = serde_json::from_slice(&reader.buffer).map_err(|_| not_an_export.clone())?;
        if first["format"] != FORMAT {
            return Err(not_an_export);
        }
        match first["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(found) => {
                return Err(reader.error(ExportProblem::Version { found, known: VERSION.into() }));
            }
            None => return Err(not_an_export),
        }
        let header: HeaderLine =
            serde_json::from_value(first).map_err(|error| reader.error(ExportProblem::Garbage(error.to_string())))?;
        reader.header = Header { source: header.source, at: Timestamp::from_millis(header.at), runs: header.runs };
        Ok(reader)
    }

    /// Returns the header.
    ///
    /// ```
    /// # use outlive::export::Reader;
    /// # let text = r#"{"format":"outlive-export","version":1,"source":"shop.db","at":0,"runs":7}"#;
    /// assert_eq!(Reader::new(text.as_bytes()).unwrap().header().source, "shop.db");
    /// ```
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn error(&self, problem: ExportProblem) -> ExportError {
        ExportError { line: self.line, problem }
    }

    /// Reads the next line that is not blank, and returns `false` if there is none.
    fn read_line(&mut self) -> Result<bool, ExportError> {
        loop {
            self.line += 1;
            self.buffer.clear();
            let read = self.lines.read_until(b'\n', &mut self.buffer);
            match read {
                Err(error) => return Err(self.error(ExportProblem::Unreadable(error.to_string()))),
                Ok(0) => return Ok(false),
                Ok(_) if self.buffer.iter().all(u8::is_ascii_whitespace) => {}
                Ok(_) => return Ok(true),
            }
        }
    }

    /// Reads the run on the next line. Returns `None` if it is the last line.
    fn read_run(&mut self) -> Result<Option<Exported>, ExportError> {
        if !self.read_line()? {
            return Err(self.error(ExportProblem::Truncated));
        }
        if let Ok(EndLine { end }) = serde_json::from_slice(&self.buffer) {
            if end != self.found {
                return Err(self.error(ExportProblem::Count { said: end, found: self.found }));
            }
            return Ok(None);
        }
        let line: RunLine = match serde_json::from_slice(&self.buffer) {
            Ok(line) => line,
            Err(error) if error.is_eof() && self.buffer.last() != Some(&b'\n') => {
                return Err(self.error(ExportProblem::Truncated));
            }
            Err(error) => return Err(self.error(ExportProblem::Garbage(error.to_string()))),
        };
        let run = line.into_run().map_err(|what| self.error(ExportProblem::Garbage(what)))?;
        self.found += 1;
        Ok(Some(run))
    }
}

/// Iterates over the runs. Ends after an error.
impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Exported, ExportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read_run();
        self.is_over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}
