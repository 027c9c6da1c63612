//! Checks every store against the conformance suite, and two stores against each other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use outlive_core::store::Store;
use outlive_core::store::memory::MemoryStore;
use outlive_sqlite::{Durability, Options, SqliteStore};
use outlive_testkit::conformance::{Home, Opening, cases, differential};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::tools::{Lines, Order};

/// Operations on one pair of stores; then both start over, or journals would grow without end.
const ROUND: u64 = 250;

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let runtime = runtime()?;
    let promises = cases().len();
    runtime.block_on(keep_promises("memory", || Ok(Box::new(Memory::default()))))?;
    runtime.block_on(keep_promises("SQLite", || Ok(Box::new(File::new(Options::default())?))))?;
    let rounds = order.amount(25_000, 5_000_000).div_ceil(ROUND);
    compare(order.seed, rounds)?;
    Ok(vec![
        ("promises kept by the memory store".to_owned(), promises.to_string()),
        ("promises kept by the SQLite store".to_owned(), promises.to_string()),
        (
            "random operations, each on both stores, all results and contents compared".to_owned(),
            figure(rounds * ROUND),
        ),
        ("pairs of stores, each with its own seed".to_owned(), figure(rounds)),
        ("differences".to_owned(), "0".to_owned()),
    ])
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

fn figure(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

async fn keep_promises(store: &str, fresh: impl Fn() -> Result<Box<dyn Home>, String>) -> Result<(), String> {
    let mut broken = Vec::new();
    for case in cases() {
        if let Err(found) = case.run(fresh()?).await {
            broken.push(format!("{}\n    {found}", case.name));
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(format!("{store} breaks {} promises:\n{}", broken.len(), broken.join("\n")))
}

/// Compares one pair of stores for each seed from `seed` on, on all cores.
fn compare(seed: u64, rounds: u64) -> Result<(), String> {
    let bar = ProgressBar::new(rounds * ROUND);
    bar.set_style(
        ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} operations, {eta}").expect("it is valid"),
    );
    let next = AtomicU64::new(0);
    let work = || {
        let runtime = runtime()?;
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= rounds {
                return Ok(());
            }
            runtime.block_on(compare_once(seed.wrapping_add(round)))?;
            bar.inc(ROUND);
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a store panicked".to_owned())));
        ended.collect::<Result<(), String>>()
    })
}

async fn compare_once(seed: u64) -> Result<(), String> {
    // The comparison does not depend on when data reaches the disk.
    let file = File::new(Options::new().durability(Durability::Relaxed))?;
    let operations = usize::try_from(ROUND).unwrap_or(usize::MAX);
    let different = differential(file.store()?, Arc::new(MemoryStore::new()), seed, operations).await;
    different.map_err(|found| format!("{found}\n  reproduce with: ./prove conformance --count 1 --seed {seed}"))
}

/// A store in memory survives a crash only if something keeps it alive.
#[derive(Default)]
struct Memory(Arc<MemoryStore>);

impl Home for Memory {
    fn open(&self) -> Opening<'_> {
        let store = self.0.clone();
        Box::pin(async move { Ok(store as _) })
    }
}

/// A file in a folder that is removed on drop.
struct File {
    path: PathBuf,
    options: Options,
    _folder: TempDir,
}

impl File {
    fn new(options: Options) -> Result<Self, String> {
        let folder =
            tempfile::tempdir().map_err(|error| format!("failed to create a folder for the store: {error}"))?;
        Ok(Self { path: folder.path().join("runs.db"), options, _folder: folder })
    }

    fn store(&self) -> Result<Arc<dyn Store>, String> {
        let store = SqliteStore::open(&self.path, self.options.clone()).map_err(|error| error.to_string())?;
        Ok(Arc::new(store))
    }
}

impl Home for File {
    fn open(&self) -> Opening<'_> {
        Box::pin(async move { self.store() })
    }
}
