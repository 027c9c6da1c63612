//! Child processes of this program: to be killed, or to be measured separately.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use outlive::prelude::Result;
use serde_json::Value;

use crate::harness::setup::Setup;

/// Returns a command that runs this program with other arguments.
pub(crate) fn program(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// Returns a command that runs a part of a workload on a store. Leftovers are removed with the workload's folder.
pub(crate) fn part(part: &str, store: &Path, setup: &Setup) -> Result<Command> {
    let mut command = program(&[part, "--n", &setup.n.to_string(), "--threads", &setup.threads.to_string()])?;
    command.arg("--dir").arg(&setup.dir).arg("--file").arg(store);
    Ok(command)
}

/// Starts a part that reports line by line.
pub(crate) fn begin(name: &str, store: &Path, setup: &Setup) -> Result<Child> {
    Ok(part(name, store, setup)?.stdout(Stdio::piped()).spawn()?)
}

/// Runs a command to its end. Returns the JSON on its last line.
pub(crate) fn ask(mut command: Command) -> Result<Value> {
    let output = command.stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{:?} exited with {}: {said}", command.get_args().next(), output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// Returns a number from a child's report.
pub(crate) fn number(said: &Value, name: &str) -> Result<f64> {
    said[name].as_f64().ok_or_else(|| format!("no number {name:?} in {said}").into())
}
