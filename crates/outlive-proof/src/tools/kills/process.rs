//! A child process as seen by its parent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::child::{ROLE, Role};

pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    /// The lines it prints; closed when it ends.
    lines: Receiver<String>,
}

impl Process {
    pub(super) fn start(role: &Role) -> Result<Self, String> {
        let told = serde_json::to_string(role).map_err(|e| e.to_string())?;
        let program = std::env::current_exe().map_err(|e| format!("failed to find the current executable: {e}"))?;
        let mut command = Command::new(program);
        command.env(ROLE, told).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("failed to start a child: {e}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().ok_or("the child has no stdout")?);
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, stdin, lines })
    }

    /// Kills the child (SIGKILL: it gets no chance to react) and returns all lines it printed since the last call.
    pub(super) fn kill(mut self) -> Result<Vec<String>, String> {
        self.child.kill().map_err(|e| format!("failed to kill a child: {e}"))?;
        self.ended()?;
        // The pipe outlives the child, so nothing it printed before its death is lost.
        Ok(self.lines.iter().collect())
    }

    /// Returns the lines it printed since the last call.
    pub(super) fn hear(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Waits for a line, at most this long. Returns `false` if it did not arrive in time.
    pub(super) fn wait_for(&self, wanted: &str, patience: Duration) -> Result<bool, String> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line == wanted => return Ok(true),
                Ok(line) if line.starts_with("broken ") => return Err(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err("a child exited by itself".to_owned()),
            }
        }
    }

    /// Asks the child to exit, waits until it has, and returns all lines it printed since the last call.
    pub(super) fn stop(mut self) -> Result<Vec<String>, String> {
        if let Some(stdin) = &mut self.stdin {
            // It may have exited before, which its exit code shows.
            let _ = stdin.write_all(b"stop\n");
        }
        let lines: Vec<String> = self.lines.iter().collect();
        self.ended()?;
        Ok(lines)
    }

    fn ended(&mut self) -> Result<(), String> {
        self.child.wait().map(drop).map_err(|e| format!("failed to wait for a child: {e}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Leave nothing behind, whatever went wrong; a child that has exited cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
