//! Reads a report line by line while it is being written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use outlive::check::ReportLine;

use crate::error::CliError;

/// A file that another process writes lines to.
pub(crate) struct Tail {
    path: PathBuf,
    /// The number of bytes read so far.
    read: u64,
    /// The start of a line whose end is not written yet.
    rest: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0, rest: Vec::new() }
    }

    /// Returns the lines added since the last call.
    pub(crate) fn read(&mut self) -> Result<Vec<ReportLine>, CliError> {
        self.take().map_err(|error| CliError::message(format!("cannot read report {:?}: {error}", self.path)))?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(parse).collect()
    }

    fn take(&mut self) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_end(&mut self.rest)? as u64;
        Ok(())
    }
}

fn parse(line: &[u8]) -> Result<ReportLine, CliError> {
    serde_json::from_slice(line).map_err(|error| {
        let shown: String = String::from_utf8_lossy(line).chars().take(80).collect();
        CliError::message(format!(
            "the program reported {shown:?}, which is unknown here ({error}); use the same release for both"
        ))
    })
}
