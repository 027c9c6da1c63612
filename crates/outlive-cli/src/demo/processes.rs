//! The processes that execute the order, one after the other.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::error::Error;

/// The processes so far.
pub(crate) struct Processes {
    folder: PathBuf,
    /// The one at work. It is killed if the demo ends before it.
    child: Option<Child>,
    pub(crate) started: usize,
    pub(crate) kills: usize,
}

impl Processes {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), child: None, started: 0, kills: 0 }
    }

    /// Starts one and gives its number.
    pub(crate) fn start(&mut self) -> Result<u32, Error> {
        let child = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("demo-child").arg(&self.folder).kill_on_drop(true);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        });
        let child =
            child.map_err(|error| Error::said(format!("the demo cannot start itself as a process: {error}")))?;
        let pid = child.id().unwrap_or_default();
        self.child = Some(child);
        self.started += 1;
        Ok(pid)
    }

    /// Kills the one at work (SIGKILL: it gets no chance to do anything), and gives its number.
    pub(crate) async fn kill(&mut self) -> Result<u32, Error> {
        let Some(mut child) = self.child.take() else { return Err(Error::said("there is no process to kill")) };
        let pid = child.id().unwrap_or_default();
        child.kill().await.map_err(|error| Error::said(format!("process {pid} cannot be killed: {error}")))?;
        self.kills += 1;
        Ok(pid)
    }

    /// Sees that the one at work has not ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.child.as_mut().map(Child::try_wait) {
            // It ends with a success once the order has, which will be seen at the next look.
            Some(Ok(Some(status))) if !status.success() => {
                Err(Error::said(format!("the process that executes the order ended by itself: {status}")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the one at work, which has nothing left to do.
    pub(crate) async fn wait(&mut self) -> Result<(), Error> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // `wait` would close stdin at once, by which the process would know its parent gone.
        let stdin = child.stdin.take();
        let ended = child.wait().await;
        drop(stdin);
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error::said(format!("the process that executed the order did not end well: {status}"))),
            Err(error) => Err(Error::said(format!("the end of the process cannot be seen: {error}"))),
        }
    }
}
