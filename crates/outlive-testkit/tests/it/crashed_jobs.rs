//! Crashes jobs of every kind everywhere: the end state is the same as without a crash.

use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Push, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::crash_jobs_everywhere;

const BEAT: Continuous<u32> = Continuous::new("beat");
const HOOKS: Debounce<u32, Vec<u32>> = Debounce::new("hooks");
const ORDERS: Task<u32, Vec<u32>> = Task::new("orders");
const LEDGER: Task<u32, Vec<u32>> = Task::new("ledger");
const MAIL: WorkerPool<u32> = WorkerPool::new("mail");

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    ctx.update_state(|beats| *beats += 1);
    // Every other run fails once.
    if ctx.run_count().is_multiple_of(2) && !ctx.is_retry() {
        return Err("once".into());
    }
    Ok(())
}

async fn keep(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|all| all.push(n));
    Ok(())
}

async fn nothing<C>(_: C) -> Result<()> {
    Ok(())
}

async fn handle(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    if n == 2 && ctx.attempt() < 3 {
        return Err("not yet".into());
    }
    ctx.update_state(|all| all.push(n));
    ctx.send(LEDGER, "all", &n)?;
    ctx.schedule_in("10 minutes")?;
    Ok(())
}

async fn remind(ctx: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    ctx.update_state(|all| all.push(100));
    ctx.send(LEDGER, "all", &100)?;
    Ok(())
}

async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|all| all.push(n));
    Ok(())
}

async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
    if ctx.attempt() < 2 {
        return Err("not yet".into());
    }
    ctx.state().into_iter().flatten().try_for_each(|n| ctx.send(LEDGER, "all", &n))?;
    Ok(())
}

async fn deliver(ctx: WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    match n {
        3 => Err("never".into()),
        4 if !ctx.is_retry() => Err("not yet".into()),
        n => Ok(ctx.send(LEDGER, "all", &n)?),
    }
}

/// Returns everything sent to the ledger, sorted.
async fn sorted(client: &Client) -> Result<Vec<u32>, Error> {
    let mut all = client.job(LEDGER).state("all").await?.unwrap_or_default();
    all.sort_unstable();
    Ok(all)
}

#[tokio::test]
async fn recurring_job_keeps_its_count_and_schedule() {
    let report = crash_jobs_everywhere(|engine| {
        engine.job(BEAT.every("10 minutes").retry(Retry::times(2).constant("1 minute")).execute(beat))
    })
    .act_at(0, |client| async move { client.job(BEAT).start("paris", &0).await.map(drop) })
    .until("35 minutes")
    .look(|client| async move {
        let info = client.job(BEAT).status("paris").await?;
        Ok((client.job(BEAT).state("paris").await?, info.run_count, info.status, info.failed))
    })
    .run()
    .await;
    // At 0, 10, 20 and 30 minutes.
    assert_eq!(report.end, "(Some(4), 4, Running, 0)");
}

#[tokio::test]
async fn task_handles_each_event_once_and_its_sends_arrive_once() {
    let report = crash_jobs_everywhere(|engine| {
        let orders = ORDERS.on_event(handle).retry(Retry::times(3).constant("1 minute")).execute(remind);
        engine.job(orders).job(LEDGER.on_event(keep).execute(nothing))
    })
    .act_at(0, |client| async move { client.job(ORDERS).send("42", &1).dedup_key("1").await.map(drop) })
    .act_at(0, |client| async move { client.job(ORDERS).send("42", &2).dedup_key("2").await.map(drop) })
    .act_at("30 seconds", |client| async move { client.job(ORDERS).send("42", &3).dedup_key("3").await.map(drop) })
    .look(|client| async move {
        let info = client.job(ORDERS).status("42").await?;
        let state = client.job(ORDERS).state("42").await?;
        Ok((state, info.event_count, info.run_count, info.status, sorted(&client).await?))
    })
    .run()
    .await;
    assert_eq!(report.end, "(Some([1, 2, 3, 100]), 3, 1, Idle, [1, 2, 3, 100])");
}

#[tokio::test]
async fn debounce_flushes_each_event_once() {
    let report = crash_jobs_everywhere(|engine| {
        let hooks = HOOKS.flush_after("1 minute").on_event(collect).retry(2).execute(flush);
        engine.job(hooks).job(LEDGER.on_event(keep).execute(nothing))
    })
    .act_at(0, |client| async move { client.job(HOOKS).add("shop", &1).dedup_key("1").await.map(drop) })
    .act_at("30 seconds", |client| async move { client.job(HOOKS).add("shop", &2).dedup_key("2").await.map(drop) })
    .act_at("5 minutes", |client| async move { client.job(HOOKS).add("shop", &3).dedup_key("3").await.map(drop) })
    .look(|client| async move { Ok((client.job(HOOKS).status("shop").await?.status, sorted(&client).await?)) })
    .run()
    .await;
    assert_eq!(report.end, "(NotFound, [1, 2, 3])");
}

#[tokio::test]
async fn pool_handles_and_records_each_event_once() {
    let report = crash_jobs_everywhere(|engine| {
        let mail = MAIL.concurrency(2).retry(Retry::times(1).constant("1 minute")).execute(deliver);
        engine.job(mail).job(LEDGER.on_event(keep).execute(nothing))
    })
    .act_at(0, |client| async move {
        let events = (1..=4).map(|n| Push::new(n).dedup_key(format!("{n}")));
        client.job(MAIL).push_many(events).await.map(drop)
    })
    .act_at("10 seconds", |client| async move {
        client.job(MAIL).push(&5).delay("5 minutes").priority(3).dedup_key("5").await.map(drop)
    })
    .look(|client| async move {
        let status = client.job(MAIL).status().await?;
        let dead: Vec<(u32, u32)> =
            client.job(MAIL).dead().await?.iter().map(|dead| (dead.event().unwrap(), dead.attempts)).collect();
        Ok((status.ready, status.running, status.delayed, dead))
    })
    .run()
    .await;
    assert_eq!(report.end, "(0, 0, 0, [(3, 2)])");
}
