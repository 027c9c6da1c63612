//! The processes that execute the order, one after another.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::error::CliError;

/// The processes so far.
pub(crate) struct Processes {
    folder: PathBuf,
    /// The running process. It is killed if the demo ends first.
    child: Option<Child>,
    pub(crate) started: usize,
    pub(crate) kills: usize,
}

impl Processes {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), child: None, started: 0, kills: 0 }
    }

    /// Starts a process and returns its id.
    pub(crate) fn start(&mut self) -> Result<u32, CliError> {
        let child = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("demo-child").arg(&self.folder).kill_on_drop(true);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        });
        let child =
            child.map_err(|error| CliError::message(format!("cannot start the child process of the demo: {error}")))?;
        let pid = child.id().unwrap_or_default();
        self.child = Some(child);
        self.started += 1;
        Ok(pid)
    }

    /// Kills the running process with SIGKILL, so that it gets no chance to do anything, and returns its id.
    pub(crate) async fn kill(&mut self) -> Result<u32, CliError> {
        let Some(mut child) = self.child.take() else { return Err(CliError::message("no process to kill")) };
        let pid = child.id().unwrap_or_default();
        child.kill().await.map_err(|error| CliError::message(format!("cannot kill process {pid}: {error}")))?;
        self.kills += 1;
        Ok(pid)
    }

    /// Returns an error if the process has failed by itself.
    pub(crate) fn check(&mut self) -> Result<(), CliError> {
        match self.child.as_mut().map(Child::try_wait) {
            // It exits with success once the order has ended, which the next poll will see.
            Some(Ok(Some(status))) if !status.success() => {
                Err(CliError::message(format!("the process that executes the order exited unexpectedly: {status}")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the process to exit, once it has nothing left to do.
    pub(crate) async fn wait(&mut self) -> Result<(), CliError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // `wait` would close stdin at once, and the process would take its parent for gone.
        let stdin = child.stdin.take();
        let ended = child.wait().await;
        drop(stdin);
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(CliError::message(format!("the process that executed the order failed: {status}"))),
            Err(error) => Err(CliError::message(format!("cannot wait for the process: {error}"))),
        }
    }
}
