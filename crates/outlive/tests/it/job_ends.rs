//! Jobs that become idle, and jobs whose process dies while they run.

use std::time::Duration;

use outlive::job::{JobStatus, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
const SUMS: Task<u32, u32> = Task::new("sums");

async fn send(ctx: WorkerPoolCtx<u32>, _: u32) -> Result<()> {
    if ctx.is_retry() { Ok(()) } else { Err("the line is busy".into()) }
}

async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> {
    ctx.update_state(|sum| *sum += n);
    Ok(())
}

async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

#[tokio::test]
async fn pool_becomes_idle_after_waiting_for_a_retry() {
    let retry = Retry::times(1).constant("20 ms");
    let engine = Engine::open("memory:").job(MAIL.concurrency(1).retry(retry).execute(send)).start().await.unwrap();
    engine.job(MAIL).push(&1).await.unwrap();
    let drained = tokio::time::timeout(Duration::from_secs(120), engine.job(MAIL).wait_idle()).await;
    drained.expect("the pool is drained and `wait_idle` returns").unwrap();
}

#[tokio::test]
async fn process_can_die_while_an_instance_runs() {
    let mut test = TestEngine::new(|engine| engine.job(SUMS.on_event(add).execute(nothing))).await;
    for _ in 0..99 {
        test.job(SUMS).send("tea", &1).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(120), test.crash()).await.expect("the instance leaves memory");
    test.settle().await;
    assert_eq!(test.job(SUMS).state("tea").await.unwrap(), Some(99));
}

#[tokio::test]
async fn stuck_instance_resumes_with_a_deploy_that_can_read_it() {
    const WORDS: Task<u32, String> = Task::new("sums");
    async fn write(ctx: TaskCtx<u32, String>, n: u32) -> Result<()> {
        ctx.set_state(format!("{}{n}", ctx.state().unwrap_or_default()));
        Ok(())
    }
    async fn rest(_: TaskCtx<u32, String>) -> Result<()> {
        Ok(())
    }
    let mut test = TestEngine::new(|engine| engine.job(SUMS.on_event(add).execute(nothing))).await;
    test.job(SUMS).send("tea", &1).await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.job(WORDS.on_event(write).execute(rest))).await;
    test.job(WORDS).send("tea", &2).await.unwrap();
    test.settle().await;
    assert_eq!(test.job(WORDS).status("tea").await.unwrap().status, JobStatus::Stuck);
    test.deploy(|engine| engine.job(SUMS.on_event(add).execute(nothing))).await;
    test.settle().await;
    assert_eq!(test.job(SUMS).state("tea").await.unwrap(), Some(3), "the event was kept");
}
