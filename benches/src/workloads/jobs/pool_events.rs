//! Pool events (J1): a pool gets n events in batches, and handles them with a trivial handler.

use std::sync::atomic::{AtomicU64, Ordering};

use outlive::job::{Push, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::close;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;

const MAIL: WorkerPool<u64> = WorkerPool::new("mail");
/// Number of events in one push.
const BATCH: u64 = 1_000;
const CONCURRENCY: usize = 256;

static HANDLED: AtomicU64 = AtomicU64::new(0);

async fn send(_: WorkerPoolCtx<u64>, _: u64) -> Result<()> {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.dir.join("jobs.db");
    HANDLED.store(0, Ordering::Relaxed);
    let engine = Engine::open(&path).job(MAIL.concurrency(CONCURRENCY).execute(send)).start().await?;
    let watch = Stopwatch::start();
    let mail = engine.job(MAIL);
    let mut at = 0;
    while at < setup.n {
        let end = (at + BATCH).min(setup.n);
        mail.push_many((at..end).map(Push::new)).await?;
        at = end;
    }
    mail.wait_idle().await?;
    let spent = watch.read();
    let handled = HANDLED.load(Ordering::Relaxed);
    if handled != setup.n {
        return Err(format!("{} events were pushed, but {handled} were handled", setup.n).into());
    }
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let (events, runs) = (setup.n, setup.n);
    Ok(Measured { durability, events, spent, bytes, runs, against: Against::Log, ..Measured::default() })
}
