//! Fills and frees the disk under a running engine.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use outlive::{Client, Engine, ErrorKind, Filter};

use super::child::{ask, store_in};
use super::effects::{self, Effects};
use super::hunt::{examine, wait_for_ends};
use super::records::Records;
use super::tally::{Acks, Promises, Tally};
use super::{programs, verdict};
use crate::tools::Lines;

const SIZE: &str = "size=48m";
/// Number of clients: the first through the engine, the others from outside.
const CLIENTS: usize = 3;
/// How long there is space, and how long there is none.
const ROOM: Duration = Duration::from_millis(200);
const NO_ROOM: Duration = Duration::from_millis(300);
/// How soon a full disk must be noticed, and a free one must serve.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(seed: u64, times: u64) -> Result<Lines, String> {
    let outside = tempfile::tempdir().map_err(|e| format!("failed to create a folder for the ledger: {e}"))?;
    let what = "times the disk was full".to_owned();
    let Some(disk) = SmallDisk::mount(outside.path())? else {
        return Ok(vec![(what, "0: mounting a tmpfs requires root".to_owned())]);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let world = Arc::new(World::default());
    let slowest = runtime
        .block_on(fill_and_free(&disk, seed, times, &world))
        .map_err(|problem| format!("on a full disk: {problem}; reproduce with --seed {seed}"))?;
    drop(runtime);
    examine(&disk.path)?;
    let heard = world.heard();
    let counted = verdict::judge(&disk.path, &heard.promises, &Records::default())?;
    Ok(vec![
        (what, times.to_string()),
        ("calls refused meanwhile, each because the disk is full".to_owned(), heard.acks.troubles.to_string()),
        ("reads that succeeded meanwhile".to_owned(), heard.reads.to_string()),
        ("starts, signals and cancels acknowledged there".to_owned(), heard.acks.all().to_string()),
        ("runs that ended there as expected".to_owned(), (counted.completed + counted.cancelled).to_string()),
        ("longest wait for a reply after there was space again".to_owned(), format!("{} ms", slowest.as_millis())),
    ])
}

/// A running client.
type Asking = tokio::task::JoinHandle<Result<(), String>>;

/// Everything the clients have received.
#[derive(Default)]
struct Heard {
    promises: Promises,
    acks: Acks,
    reads: u64,
}

#[derive(Default)]
struct World {
    heard: Mutex<Heard>,
    is_stopping: AtomicBool,
}

impl World {
    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the longest wait for a reply after there was space again.
async fn fill_and_free(disk: &SmallDisk, seed: u64, times: u64, world: &Arc<World>) -> Result<Duration, String> {
    let effects = Effects::open(&disk.path, 1).map_err(|e| e.to_string())?;
    let engine = programs::register(Engine::open(store_in(&disk.path)), effects).start().await;
    let engine = engine.map_err(|e| e.to_string())?;
    let mut askers = Vec::new();
    for client in 0..CLIENTS {
        let asked = if client == 0 { Ok(engine.client()) } else { Client::open(store_in(&disk.path)) };
        askers.push(tokio::spawn(ask_on(asked.map_err(|e| e.to_string())?, Tally::new(seed, client), world.clone())));
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..times {
        tokio::time::sleep(ROOM).await;
        let filler = disk.fill();
        until("the disk is full, but no call fails", || world.heard().acks.troubles, &mut askers).await?;
        read_on(&engine, world).await?;
        drop(filler);
        let freed = Instant::now();
        until("there is space again, but no call succeeds", || world.heard().acks.all(), &mut askers).await?;
        slowest = slowest.max(freed.elapsed());
    }
    world.is_stopping.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.await.map_err(|e| e.to_string())??;
    }
    let folder = disk.path.clone();
    let ends =
        tokio::task::spawn_blocking(move || wait_for_ends(&folder, Duration::from_secs(60)).and(examine(&folder)));
    ends.await.map_err(|e| e.to_string())??;
    engine.shutdown().await.map_err(|e| e.to_string())?;
    Ok(slowest)
}

/// Requests one operation after the other, each until it succeeds, and stops at the end of a block.
async fn ask_on(client: Client, mut tally: Tally, world: Arc<World>) -> Result<(), String> {
    while !world.is_stopping.load(Ordering::Relaxed) || tally.progress.index > 0 {
        let op = tally.next().ok_or("a block has no operations")?;
        match ask(&client, op).await {
            Ok(answer) => {
                let heard = &mut *world.heard();
                tally.acknowledged(&answer, &mut heard.promises, &mut heard.acks)?;
            }
            Err(error) if error.kind() == ErrorKind::Store && error.to_string().contains("is full") => {
                world.heard().acks.troubles += 1;
            }
            Err(error) => return Err(format!("{op:?} failed: {error}")),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Waits until a count has grown. If a client ends in the meantime, returns its result.
async fn until(otherwise: &str, count: impl Fn() -> u64, askers: &mut Vec<Asking>) -> Result<(), String> {
    let (before, deadline) = (count(), Instant::now() + PATIENCE);
    while count() == before {
        if let Some(ended) = askers.iter().position(Asking::is_finished) {
            return askers.swap_remove(ended).await.map_err(|e| e.to_string())?;
        }
        if Instant::now() > deadline {
            return Err(format!("{otherwise} after {PATIENCE:?}"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Checks that reads work while the disk is full.
async fn read_on(engine: &Engine, world: &World) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < NO_ROOM {
        let page = engine.list(Filter::runs()).await.map_err(|e| format!("failed to list runs: {e}"))?;
        for run in page.runs.iter().take(3) {
            let run =
                engine.get_run::<serde_json::Value>(&run.id).await.map_err(|e| format!("failed to find a run: {e}"))?;
            run.journal().await.map_err(|e| format!("failed to read a journal: {e}"))?;
            world.heard().reads += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// A real disk with little space.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts the disk. Returns `None` if this user may not mount one. The ledger of effects is stored outside of it: a
    /// step that could not write its line would fail.
    fn mount(outside: &Path) -> Result<Option<Self>, String> {
        let path = outside.join("disk");
        std::fs::create_dir(&path).map_err(|e| e.to_string())?;
        let mut command = Command::new("mount");
        let command = command.args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(&path).stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let disk = Self { path };
        std::os::unix::fs::symlink(outside.join("effects"), effects::path_in(&disk.path)).map_err(|e| e.to_string())?;
        Ok(Some(disk))
    }

    /// Takes all space, including what others free, until it is dropped.
    fn fill(&self) -> Filler {
        let (path, is_over) = (self.path.join("filler"), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (path, is_over) = (path.clone(), is_over.clone());
            move || {
                let Ok(mut file) = File::create(path) else { return };
                while !is_over.load(Ordering::Relaxed) {
                    if file.write_all(&[0; 4096]).is_err() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        });
        Filler { path, is_over, thread: Some(thread) }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

struct Filler {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}
