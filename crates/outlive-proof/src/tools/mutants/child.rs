//! Runs each defect in its own process, which may hang or die without affecting the next.

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::SILENCE_MAX;
use super::defects::Defect;
use super::suites::{SIMULATE, SUITES};

/// How often the child is polled.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a child without a defect is called.
pub(super) const NONE: &str = "none";

/// The child to be judged.
pub(super) struct Child<'a> {
    /// The binary that has all defects, each behind a switch.
    pub(super) binary: &'a Path,
    pub(super) defect: Option<&'static Defect>,
    /// Limit on the schedules to simulate.
    pub(super) schedules: u64,
    pub(super) seed: u64,
}

/// The result of one suite; a child prints one after the other, each on a line.
#[derive(Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) suite: String,
    /// Number of cases or schedules it took.
    pub(super) tried: u64,
    pub(super) millis: u64,
    pub(super) found: Option<String>,
}

impl Verdict {
    /// Returns how many schedules it took, if it ran schedules.
    pub(super) fn schedules(&self) -> u64 {
        if self.suite.starts_with(SIMULATE) { self.tried } else { 0 }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} tried, {} ms", self.suite, self.tried, self.millis)
    }
}

impl Child<'_> {
    /// Runs all suites until one finds something. Returns the verdict of the last one.
    #[expect(clippy::disallowed_methods, reason = "measures real time")]
    pub(super) fn judge(&self) -> Result<Verdict, String> {
        let trouble = |error: std::io::Error| format!("failed to run a child process: {error}");
        let folder = tempfile::tempdir().map_err(trouble)?;
        let said = folder.path().join("said");
        let start = Instant::now();
        let name = self.defect.map_or(NONE, |defect| defect.name);
        let mut child = Command::new(self.binary)
            .args(["--mutant", name])
            .args(["--seed", &self.seed.to_string(), "--count", &self.schedules.to_string()])
            .stdout(File::create(&said).map_err(trouble)?)
            .stderr(Stdio::null())
            .spawn()
            .map_err(trouble)?;
        let mut heard = (0, Instant::now());
        let died = loop {
            if let Some(status) = child.try_wait().map_err(trouble)? {
                break (!status.success()).then(|| format!("the process exited with {status}"));
            }
            let length = fs::metadata(&said).map_err(trouble)?.len();
            if length != heard.0 {
                heard = (length, Instant::now());
            } else if heard.1.elapsed() > SILENCE_MAX {
                child.kill().and_then(|()| child.wait()).map_err(trouble)?;
                break Some(format!("the process hangs: no output for {} s", SILENCE_MAX.as_secs()));
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let mut verdict = last(&said, name, died).map_err(trouble)?;
        verdict.millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(verdict)
    }
}

/// Returns the last verdict, unless the child ended in the middle of a suite. The first line is the name of its defect:
/// a child that fails before it has turned that on has found nothing.
fn last(said: &Path, name: &str, died: Option<String>) -> std::io::Result<Verdict> {
    let text = fs::read_to_string(said)?;
    if text.lines().next() != Some(name) {
        let ended = died.unwrap_or_default();
        return Err(std::io::Error::other(format!("{name} was not turned on: {ended}")));
    }
    let mut verdicts: Vec<Verdict> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if let (Some(suite), Some(_)) = (SUITES.get(verdicts.len()), &died) {
        return Ok(Verdict { suite: suite.name.to_owned(), tried: 0, millis: 0, found: died });
    }
    verdicts.pop().ok_or_else(|| std::io::Error::other("the process printed nothing"))
}
