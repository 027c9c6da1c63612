//! The log of executions: a line in a file each time a step body starts, in any process.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;

use outlive::Timestamp;

use crate::output::time;

/// A log file.
pub(crate) struct ExecutionLog {
    path: PathBuf,
}

/// One execution of a step body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StepExecution {
    pub(crate) at: Timestamp,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    pub(crate) pid: u32,
}

impl ExecutionLog {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Appends a line in one write, so that a kill leaves a whole line or none.
    pub(crate) fn write(&self, step: &str, attempt: u32) -> io::Result<()> {
        let line = format!("{}\t{step}\t{attempt}\t{}\n", time::now().as_millis(), std::process::id());
        OpenOptions::new().append(true).create(true).open(&self.path)?.write_all(line.as_bytes())
    }

    /// Reads all lines so far.
    pub(crate) fn read(&self) -> io::Result<Vec<StepExecution>> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().filter_map(parse).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn parse(line: &str) -> Option<StepExecution> {
    let mut fields = line.split('\t');
    Some(StepExecution {
        at: Timestamp::from_millis(fields.next()?.parse().ok()?),
        step: fields.next()?.to_owned(),
        attempt: fields.next()?.parse().ok()?,
        pid: fields.next()?.parse().ok()?,
    })
}
