//! Kills workers and clients at random moments; in the end, everything acknowledged must have happened.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use outlive::{Client, Filter, StatusKind};
use outlive_sqlite::doctor;

use super::asker::Asker;
use super::child::{Role, store_in};
use super::plan::Chance;
use super::process::Process;
use super::records::Records;
use super::tally::{Acks, Promises};
use super::verdict::{self, Counted};

const CLIENTS: usize = 3;
/// How long a worker may take to start.
const UP_MAX: Duration = Duration::from_secs(30);
/// One in this many workers is killed during startup.
const EARLY: u64 = 4;
/// One in this many kills also takes a client; one in this many takes all processes at once.
const CLIENT: u64 = 10;
const ALL: u64 = 25;
/// How often the store is examined while its worker is dead.
const EXAMINATIONS: u64 = 12;

/// The result of a hunt.
pub(super) struct Caught {
    pub(super) kills: u64,
    pub(super) early: u64,
    pub(super) client_kills: u64,
    pub(super) blackouts: u64,
    pub(super) examinations: u64,
    pub(super) driven: u64,
    pub(super) acks: Acks,
    pub(super) counted: Counted,
    /// How long the remaining runs took once the kills had stopped.
    pub(super) rest: Duration,
}

struct Hunt<'a> {
    folder: &'a Path,
    chance: Chance,
    generation: u64,
    askers: Vec<Asker>,
    promises: Promises,
    records: Records,
    caught: Caught,
}

/// Kills this many workers, then lets everything end and judges it.
pub(super) fn hunt(folder: &Path, seed: u64, kills: u64) -> Result<Caught, String> {
    let askers = (0..CLIENTS).map(|client| Asker::start(folder, seed, client)).collect::<Result<_, _>>()?;
    let mut hunt = Hunt {
        folder,
        chance: Chance(seed),
        generation: 0,
        askers,
        promises: Promises::new(),
        records: Records::default(),
        caught: nothing(),
    };
    let bar = ProgressBar::new(kills);
    for kill in 1..=kills {
        hunt.kill(kill.is_multiple_of((kills / EXAMINATIONS).max(1)))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    hunt.end()
}

impl Hunt<'_> {
    fn worker(&mut self) -> Result<Process, String> {
        self.generation += 1;
        Process::start(&Role::Worker { folder: self.folder.to_owned(), generation: self.generation })
    }

    /// Starts a worker and kills it, and possibly others with it.
    fn kill(&mut self, is_examined: bool) -> Result<(), String> {
        let worker = self.worker()?;
        if self.chance.below(EARLY) == 0 {
            self.caught.early += 1;
            thread::sleep(Duration::from_micros(self.chance.below(25_000)));
        } else {
            if !worker.wait_for("up", UP_MAX)? {
                return Err(format!("a worker did not start within {UP_MAX:?}"));
            }
            thread::sleep(Duration::from_micros(self.chance.below(60_000)));
        }
        if self.chance.below(CLIENT) == 0 {
            self.kill_client()?;
        }
        check(worker.kill()?)?;
        self.caught.kills += 1;
        if self.chance.below(ALL) == 0 {
            return self.black_out();
        }
        self.records.look(self.folder)?;
        if is_examined {
            examine(self.folder)?;
            self.caught.examinations += 1;
        }
        for asker in &mut self.askers {
            asker.hear(&mut self.promises, &mut self.caught.acks)?;
        }
        Ok(())
    }

    /// Kills a client while the worker is alive.
    fn kill_client(&mut self) -> Result<(), String> {
        let which = usize::try_from(self.chance.below(CLIENTS as u64)).unwrap_or(0);
        let asker = &mut self.askers[which];
        asker.kill(&mut self.promises, &mut self.caught.acks)?;
        self.caught.client_kills += 1;
        asker.go_on()
    }

    /// Kills the clients too: the next process to open the file finds a log that no process has open.
    fn black_out(&mut self) -> Result<(), String> {
        for asker in &mut self.askers {
            asker.kill(&mut self.promises, &mut self.caught.acks)?;
        }
        for asker in &mut self.askers {
            asker.go_on()?;
        }
        self.caught.blackouts += 1;
        self.caught.client_kills += CLIENTS as u64;
        Ok(())
    }

    /// Lets everything end after the last kill.
    fn end(mut self) -> Result<Caught, String> {
        let worker = self.worker()?;
        for asker in &mut self.askers {
            asker.stop(&mut self.promises, &mut self.caught.acks)?;
        }
        let begun = Instant::now();
        // Everything since the first kill may be left, and suspects are recovered in groups.
        let patience = Duration::from_secs(60 + self.promises.len() as u64 / 100);
        wait_for_ends(self.folder, patience)?;
        self.caught.rest = begun.elapsed();
        examine(self.folder)?;
        check(worker.stop()?)?;
        examine(self.folder)?;
        self.caught.examinations += 2;
        self.caught.driven = self.records.driven;
        self.caught.counted = verdict::judge(self.folder, &self.promises, &self.records)?;
        Ok(self.caught)
    }
}

fn nothing() -> Caught {
    let counted = Counted { effects: 0, repeated: 0, completed: 0, cancelled: 0, interrupted: 0, entries: 0 };
    Caught {
        kills: 0,
        early: 0,
        client_kills: 0,
        blackouts: 0,
        examinations: 0,
        driven: 0,
        acks: Acks::default(),
        counted,
        rest: Duration::ZERO,
    }
}

/// Checks that a worker printed nothing but that it is up.
fn check(lines: Vec<String>) -> Result<(), String> {
    match lines.into_iter().find(|line| line != "up") {
        Some(line) => Err(format!("a worker printed {line:?}")),
        None => Ok(()),
    }
}

/// Waits until all runs have ended.
pub(super) fn wait_for_ends(folder: &Path, patience: Duration) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let client = Client::open(store_in(folder)).map_err(|e| e.to_string())?;
        let deadline = Instant::now() + patience;
        loop {
            let counts = client.count(Filter::runs()).await.map_err(|e| e.to_string())?;
            let alive = StatusKind::ALL.into_iter().filter(|kind| !kind.is_ended() && counts.of(*kind) > 0);
            let alive: Vec<String> = alive.map(|kind| format!("{} {}", counts.of(kind), kind.as_str())).collect();
            if alive.is_empty() {
                return Ok(());
            }
            if counts.of(StatusKind::Stuck) > 0 || Instant::now() > deadline {
                return Err(format!("some runs have not ended {patience:?} after the last kill: {}", alive.join(", ")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

/// Checks that the doctor finds nothing.
pub(super) fn examine(folder: &Path) -> Result<doctor::Diagnosis, String> {
    let report = doctor::examine(&store_in(folder)).map_err(|e| e.message)?;
    match report.findings.first() {
        None => Ok(report),
        Some(first) => Err(format!("the doctor has {} findings, the first is {first:?}", report.findings_count)),
    }
}
