//! The stage for scenarios: a folder with a store, processes that come and go, and polling for conditions.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use outlive::{BoxError, Client};
use tempfile::TempDir;

/// The environment variables that make a process part of a scenario, and say where.
const ROLE: &str = "OUTLIVE_PROOF_REAL";
const FOLDER: &str = "OUTLIVE_PROOF_REAL_FOLDER";
/// How long to wait for a condition before it counts as violated.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The role of a process in a scenario.
pub(super) struct Role {
    pub(super) scenario: String,
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

impl Role {
    /// Returns the role of this process, if it has one.
    pub(super) fn asked() -> Option<Self> {
        let (role, folder) = (std::env::var(ROLE).ok()?, std::env::var_os(FOLDER)?);
        let (scenario, name) = role.split_once('/')?;
        Some(Self { scenario: scenario.to_owned(), name: name.to_owned(), folder: folder.into() })
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("shop.db")
    }

    /// Reports that the process is executing, and runs until it is killed.
    pub(super) async fn ready(&self) {
        self.say("ready");
        std::future::pending().await
    }

    /// Prints a line for the scenario.
    #[expect(clippy::print_stdout, reason = "the scenario reads it")]
    pub(super) fn say(&self, line: &str) {
        println!("{line}");
    }
}

/// The stage of one scenario.
pub(super) struct Stage {
    scenario: &'static str,
    folder: TempDir,
    is_long: bool,
}

impl Stage {
    pub(super) fn new(scenario: &'static str, is_long: bool) -> std::io::Result<Self> {
        Ok(Self { scenario, folder: tempfile::tempdir()?, is_long })
    }

    /// Creates an empty stage for the same scenario.
    pub(super) fn anew(&self) -> std::io::Result<Self> {
        Self::new(self.scenario, self.is_long)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder().join("shop.db")
    }

    pub(super) fn client(&self) -> Result<Client, BoxError> {
        Ok(Client::open(self.store())?)
    }

    /// Returns how many: in CI, or by hand.
    pub(super) fn amount(&self, short: u64, long: u64) -> u64 {
        if self.is_long { long } else { short }
    }

    /// Starts a process and waits until it reports that it is executing.
    pub(super) fn process(&self, name: &str) -> Result<Process, BoxError> {
        self.process_with(name, |_| {})
    }

    /// The same, with something more in its environment.
    pub(super) fn process_with(&self, name: &str, add: impl FnOnce(&mut Command)) -> Result<Process, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(ROLE, format!("{}/{name}", self.scenario)).env(FOLDER, self.folder());
        add(&mut command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or("the process has no stdout")?;
        let mut process = Process { child, out: BufReader::new(out), name: name.to_owned() };
        match process.line()?.as_str() {
            "ready" => Ok(process),
            other => Err(format!("process {name} printed {other:?} instead of starting").into()),
        }
    }
}

/// A process that executes the store. Killed on drop.
pub(super) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    name: String,
}

impl Process {
    /// Ends the process as a power cut would: none of its code runs any more.
    pub(super) fn kill(mut self) -> Result<(), BoxError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends it a signal, such as `STOP`.
    pub(super) fn send_signal(&self, name: &str) -> Result<(), BoxError> {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status()?;
        if sent.success() { Ok(()) } else { Err(format!("signal {name} was not sent: {sent}").into()) }
    }

    /// Returns the next line it prints.
    pub(super) fn line(&mut self) -> Result<String, BoxError> {
        let mut line = String::new();
        match self.out.read_line(&mut line)? {
            0 => Err(format!("process {} has ended", self.name).into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Whether it has exited by itself.
    pub(super) fn has_ended(&mut self) -> Result<bool, BoxError> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `look` succeeds. Until then it returns what it sees instead, which becomes the error in the end.
pub(super) async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Result<T, String>, BoxError>,
) -> Result<T, BoxError> {
    let begun = Instant::now();
    loop {
        match look().await? {
            Ok(found) => return Ok(found),
            Err(seen) if begun.elapsed() > PATIENCE => {
                return Err(format!("{what}: not after {PATIENCE:?}, instead {seen}").into());
            }
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// Does something for each number concurrently, a few hundred at a time.
pub(super) async fn for_each<F>(count: u64, mut act: impl FnMut(u64) -> F) -> Result<(), BoxError>
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..count {
        if tasks.len() >= 500 {
            tasks.join_next().await.transpose()?.transpose()?;
        }
        tasks.spawn(act(n));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
