//! The jobs that run alongside the order, in the process that is killed: heartbeat, webhook batcher and mail pool.

use std::path::Path;
use std::time::Duration;

use outlive::Builder;
use outlive::job::{
    Continuous, ContinuousCtx, Debounce, DebounceCtx, JobStatus, Task, TaskCtx, WorkerPool, WorkerPoolCtx,
};
use outlive::prelude::*;

use super::execution_log::ExecutionLog;
use super::folder::calls_in;

pub(crate) const HEARTBEAT: Continuous<u32> = Continuous::new("heartbeat");
pub(crate) const WEBHOOKS: Debounce<u32, Vec<u32>> = Debounce::new("webhooks");
pub(crate) const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
/// Counts finished work, in the same commits as the work.
pub(crate) const TALLY: Task<usize, usize> = Task::new("tally");

/// The only instance of the heartbeat and of the batcher.
pub(crate) const SHOP: &str = "shop";
/// The instances of the tally.
pub(crate) const TALLIES: [&str; 2] = ["webhooks", "mails"];
/// The mail that cannot be delivered.
const LOST_MAIL: u32 = 4;

/// The log of handler calls: a line each time one starts.
struct HandlerCalls(ExecutionLog);

/// Registers the jobs with an engine.
pub(crate) fn register(engine: Builder, folder: &Path) -> Builder {
    engine
        .provide(HandlerCalls(ExecutionLog::at(calls_in(folder))))
        .job(HEARTBEAT.every("250 ms").execute(beat))
        .job(WEBHOOKS.flush_after("1 second").on_event(collect).execute(flush))
        .job(MAIL.concurrency(1).retry(Retry::times(2).constant("200 ms")).execute(send))
        .job(TALLY.on_event(count).execute(nothing))
}

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    ctx.get::<HandlerCalls>().0.write("heartbeat", ctx.attempt())?;
    ctx.update_state(|beats| *beats += 1);
    Ok(())
}

async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, webhook: u32) -> Result<()> {
    ctx.update_state(|batch| batch.push(webhook));
    Ok(())
}

async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
    ctx.get::<HandlerCalls>().0.write("webhooks", ctx.attempt())?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(ctx.send(TALLY, TALLIES[0], &ctx.state().unwrap_or_default().len())?)
}

async fn send(ctx: WorkerPoolCtx<u32>, mail: u32) -> Result<()> {
    ctx.get::<HandlerCalls>().0.write("mails", ctx.attempt())?;
    tokio::time::sleep(Duration::from_millis(400)).await;
    if mail == LOST_MAIL {
        return Err("no such address".into());
    }
    Ok(ctx.send(TALLY, TALLIES[1], &1)?)
}

async fn count(ctx: TaskCtx<usize, usize>, more: usize) -> Result<()> {
    ctx.update_state(|count| *count += more);
    Ok(())
}

async fn nothing(_: TaskCtx<usize, usize>) -> Result<()> {
    Ok(())
}

/// Waits until all events are handled, then stops the heartbeat.
pub(crate) async fn settle(engine: &Engine) -> std::result::Result<(), outlive::Error> {
    engine.job(MAIL).wait_idle().await?;
    while engine.job(WEBHOOKS).status(SHOP).await?.status != JobStatus::NotFound {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let tally = engine.job_by_name("task:tally")?;
    for of in TALLIES {
        while !tally.inbox(of).await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    engine.job(HEARTBEAT).stop(SHOP).await
}
