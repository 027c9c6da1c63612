//! Has valgrind count the instructions of a scenario.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use outlive::prelude::Result;

use crate::scenario::Scenario;

/// Memory as a folder, where there is one: what a disk takes is not counted, only waited for.
const MEMORY: &str = "/dev/shm";

/// The instructions of one operation: what twice as many cost more, so that everything that is done once drops out.
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

/// The instructions of a process that does the operation that many times.
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

/// A process of this program, with the same environment on every machine.
fn own(mut command: Command, part: &str, scenario: Scenario, times: u64, folder: &Path) -> Command {
    command.args([part, &scenario.to_string(), &times.to_string()]).arg(folder);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn finish(mut command: Command) -> Result<()> {
    let output = command.output().map_err(|error| {
        format!("{:?} does not start: {error}; if it is missing: apt-get install valgrind", command.get_program())
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// Where the last count of a scenario lies, function by function.
pub(crate) fn listing(scenario: Scenario, name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().ok_or("a program lies in a folder")?.join("counts");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{scenario}.{name}")))
}

/// The sum that callgrind writes at the end.
fn total(listing: &Path) -> Result<u64> {
    let text = fs::read_to_string(listing)?;
    let sum = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(sum.ok_or_else(|| format!("{} has no totals", listing.display()))?.trim().parse()?)
}

/// The tools that numbers depend on.
pub(crate) fn tools() -> Result<String> {
    let [rust, c] = ["rustc", "cc"].map(|tool| -> Result<String> {
        let output = Command::new(tool).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    });
    Ok(format!("{}, {} on {}", rust?, c?, std::env::consts::ARCH))
}
