//! The child process whose code is checked.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use outlive::check::{CHECK, REPORT};
use tokio::process::{Child, Command};

use super::tail::Tail;
use crate::error::CliError;
use crate::output::escape::plain;

/// How long the program may take to exit after its report.
const GRACE: Duration = Duration::from_secs(2);
/// How many characters of its output are shown if it does not report.
const WORDS_MAX: usize = 600;

/// The running program, its report and its output.
pub(crate) struct Program {
    child: Child,
    name: String,
    folder: tempfile::TempDir,
    pub(crate) report: Tail,
}

impl Program {
    pub(crate) fn start(words: &[OsString], file: &Path) -> Result<Self, CliError> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(CliError::message("no program given; name one after `--`"));
        };
        let name = program.to_string_lossy().into_owned();
        let refuse = |error: io::Error| CliError::message(format!("cannot start program {name:?}: {error}"));
        let folder = tempfile::tempdir().map_err(refuse)?;
        let report = folder.path().join("report.jsonl");
        let words = File::create(folder.path().join("words")).map_err(refuse)?;
        let child = Command::new(program)
            .args(arguments)
            .env(CHECK, file)
            .env(REPORT, &report)
            // If its output is shown, it must fit on one line.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(words.try_clone().map_err(refuse)?)
            .stderr(words)
            .kill_on_drop(true)
            .spawn()
            .map_err(refuse)?;
        Ok(Self { child, name, report: Tail::new(&report), folder })
    }

    /// Returns the exit status, if the program has exited.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, CliError> {
        let ended = self.child.try_wait();
        ended.map_err(|error| CliError::message(format!("cannot wait for {:?}: {error}", self.name)))
    }

    /// Waits for the program to exit, and kills it if it takes too long.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            // Killing it fails only if it has exited.
            let _ = self.child.kill().await;
        }
    }

    /// Returns the error for a program that does not report.
    pub(crate) fn without_report(&self, how: &str) -> CliError {
        let said = std::fs::read(self.folder.path().join("words")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', " | ");
        let from = said.char_indices().rev().nth(WORDS_MAX).map_or(0, |(at, _)| at);
        let said = if said.is_empty() { String::new() } else { format!("; its output: {}", plain(&said[from..])) };
        CliError::message(format!(
            "{:?} {how} without checking anything: it started no engine with `.check_from_env()`; call that before \
             `.start()`, and pass the arguments that make the program start its engine{said}",
            self.name
        ))
    }
}
