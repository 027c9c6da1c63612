//! The program whose code is asked.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use outlive::check::{CHECK, REPORT};
use tokio::process::{Child, Command};

use super::tail::Tail;
use crate::error::Error;
use crate::escape::plain;

/// How long it may take to end once it has reported.
const GRACE: Duration = Duration::from_secs(2);
/// How much of what it said is told if it does not report.
const WORDS_MAX: usize = 600;

/// The program, the report it writes, and what it says meanwhile.
pub(crate) struct Program {
    child: Child,
    name: String,
    folder: tempfile::TempDir,
    pub(crate) report: Tail,
}

impl Program {
    pub(crate) fn start(words: &[OsString], file: &Path) -> Result<Self, Error> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Error::said("there is no program to ask; name one after `--`"));
        };
        let name = program.to_string_lossy().into_owned();
        let refuse = |error: io::Error| Error::said(format!("the program {name:?} cannot be started: {error}"));
        let folder = tempfile::tempdir().map_err(refuse)?;
        let report = folder.path().join("report.jsonl");
        let words = File::create(folder.path().join("words")).map_err(refuse)?;
        let child = Command::new(program)
            .args(arguments)
            .env(CHECK, file)
            .env(REPORT, &report)
            // What it says is told in a line, if it must be.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(words.try_clone().map_err(refuse)?)
            .stderr(words)
            .kill_on_drop(true)
            .spawn()
            .map_err(refuse)?;
        Ok(Self { child, name, report: Tail::new(&report), folder })
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        let ended = self.child.try_wait();
        ended.map_err(|error| Error::said(format!("the end of {:?} cannot be seen: {error}", self.name)))
    }

    /// Has it end, now that it has nothing more to say.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            // If it cannot be ended it has ended.
            let _ = self.child.kill().await;
        }
    }

    /// What is wrong with one that does not report.
    pub(crate) fn without_report(&self, how: &str) -> Error {
        let said = std::fs::read(self.folder.path().join("words")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', " | ");
        let from = said.char_indices().rev().nth(WORDS_MAX).map_or(0, |(at, _)| at);
        let said = if said.is_empty() { String::new() } else { format!("; it said: {}", plain(&said[from..])) };
        Error::said(format!(
            "{:?} {how} and has not checked anything: no engine was started in it; name the program and the arguments \
             with which it calls `Engine::open(..).start()`{said}",
            self.name
        ))
    }
}
