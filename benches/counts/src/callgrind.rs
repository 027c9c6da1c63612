//! Counts the instructions of a scenario with valgrind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use outlive::prelude::Result;

use crate::scenario::Scenario;

/// A folder in memory, if there is one: disk time is not counted, only waited for.
const MEMORY: &str = "/dev/shm";

/// Returns the instructions per operation: the difference to twice as many operations, so that one-time costs drop out.
pub(crate) fn count(scenario: Scenario) -> Result<u64> {
    let times = scenario.operations();
    let (once, twice) = thread::scope(|scope| {
        let once = scope.spawn(|| count_all(scenario, times, "once"));
        let twice = count_all(scenario, 2 * times, "twice");
        (once.join(), twice)
    });
    let once = once.map_err(|_| "counting panicked")??;
    Ok(twice?.saturating_sub(once) / times)
}

/// Returns the instructions of a process that does the operation this many times.
fn count_all(scenario: Scenario, times: u64, name: &str) -> Result<u64> {
    let folder = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir())?;
    let (program, listing) = (std::env::current_exe()?, listing(scenario, name)?);
    finish(own(Command::new(&program), "prepare", scenario, times, folder.path()))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--tool=callgrind", "--fair-sched=try"]);
    valgrind.arg(format!("--callgrind-out-file={}", listing.display())).arg(program);
    finish(own(valgrind, "perform", scenario, times, folder.path()))?;
    total(&listing)
}

/// Returns a command for this program, with the same environment on every machine.
fn own(mut command: Command, part: &str, scenario: Scenario, times: u64, folder: &Path) -> Command {
    command.args([part, &scenario.to_string(), &times.to_string()]).arg(folder);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn finish(mut command: Command) -> Result<()> {
    let output = command.output().map_err(|error| {
        format!(
            "failed to start {:?}: {error}; if it is missing, run `apt-get install valgrind`",
            command.get_program()
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// Returns where the last count of a scenario is stored, function by function.
pub(crate) fn listing(scenario: Scenario, name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().ok_or("the program has no parent folder")?.join("counts");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{scenario}.{name}")))
}

/// Reads the total that callgrind writes at the end.
fn total(listing: &Path) -> Result<u64> {
    let text = fs::read_to_string(listing)?;
    let sum = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(sum.ok_or_else(|| format!("{} has no totals", listing.display()))?.trim().parse()?)
}

/// Returns the tools that counts depend on.
pub(crate) fn tools() -> Result<String> {
    let [rust, c] = ["rustc", "cc"].map(|tool| -> Result<String> {
        let output = Command::new(tool).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    });
    Ok(format!("{}, {} on {}", rust?, c?, std::env::consts::ARCH))
}
