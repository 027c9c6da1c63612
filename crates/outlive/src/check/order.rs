//! Checks requested through the environment: how `outlive check FILE -- PROGRAM` reaches the code of a program it is
//! not part of.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Check;
use super::report::{Checked, Report};
use crate::error::Error;
use crate::export::{ExportProgress, Source};

/// The variable that makes an engine check this store or export instead of executing one.
pub const CHECK: &str = "OUTLIVE_CHECK";
/// The variable that names the file to write the report to, as JSON lines.
pub const REPORT: &str = "OUTLIVE_CHECK_REPORT";

/// The maximum number of progress lines in a report.
const PROGRESS_LINES_MAX: u64 = 500;

/// A line of a report, as written while a check runs.
///
/// ```
/// use outlive::check::ReportLine;
/// let line: ReportLine = serde_json::from_str(r#"{"progress":{"done":3,"total":7}}"#).unwrap();
/// assert!(matches!(line, ReportLine::Progress { done: 3, total: 7 }));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReportLine {
    /// The progress so far.
    Progress {
        /// The number of runs done.
        done: u64,
        /// The number of runs.
        total: u64,
    },
    /// The verdict on a run.
    Run(Checked),
    /// The last line: all verdicts are written.
    Done {
        /// The number of runs.
        runs: u64,
    },
    /// The last line if the check failed: why.
    Error(String),
}

/// A check requested by the environment.
pub(crate) struct EnvCheck {
    source: PathBuf,
    report: Option<PathBuf>,
}

/// Returns `true` if this process was asked to [check](super::Report) a store instead of executing one, as `outlive
/// check FILE -- PROGRAM` does. The first engine that is started then checks, and `main` need not set up anything else.
///
/// ```
/// # async fn migrate() {}
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// if !outlive::is_check() {
///     migrate().await; // the program's own database
/// }
/// # }
/// ```
#[must_use]
pub fn is_check() -> bool {
    source().is_some()
}

fn source() -> Option<std::ffi::OsString> {
    std::env::var_os(CHECK).filter(|source| !source.is_empty())
}

impl EnvCheck {
    /// Returns the requested check, if there is one.
    pub(crate) fn from_env() -> Option<Self> {
        let source = source()?;
        Some(Self { source: source.into(), report: std::env::var_os(REPORT).map(PathBuf::from) })
    }

    /// Runs the check, and returns the error that ends the program.
    pub(crate) async fn carry_out(self, check: impl FnOnce(Source) -> Check) -> Error {
        let file = match self.report.as_ref().map(File::create).transpose() {
            Ok(file) => file,
            Err(error) => return unwritten(&error),
        };
        let mut progress_file = match file.as_ref().map(File::try_clone).transpose() {
            Ok(file) => file,
            Err(error) => return unwritten(&error),
        };
        let mut told = 0;
        let check = check(Source::from(self.source)).on_progress(move |ExportProgress { done, total }| {
            let is_time = done - told >= total / PROGRESS_LINES_MAX;
            if let Some(file) = progress_file.as_mut().filter(|_| is_time) {
                told = done;
                // A write error is reported at the end.
                let _ = write(file, &[ReportLine::Progress { done, total }]);
            }
        });
        let checked = check.await;
        let told = file.map_or(Ok(()), |mut file| write(&mut file, &lines(&checked)));
        match (told, checked) {
            (Err(error), _) => unwritten(&error),
            (Ok(()), Ok(report)) => Error::Checked { summary: report.summary() },
            (Ok(()), Err(error)) => error,
        }
    }
}

fn lines(checked: &Result<Report, Error>) -> Vec<ReportLine> {
    match checked {
        Ok(report) => {
            let runs = report.runs().iter().cloned().map(ReportLine::Run);
            runs.chain([ReportLine::Done { runs: report.runs().len() as u64 }]).collect()
        }
        Err(error) => vec![ReportLine::Error(error.to_string())],
    }
}

fn write(file: &mut File, lines: &[ReportLine]) -> io::Result<()> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    file.write_all(&text)
}

fn unwritten(error: &io::Error) -> Error {
    Error::Setup(format!("cannot write the check report to the file that {REPORT} names: {error}"))
}
