//! Task events (J4): n events are sent to n/10 tasks, many at a time.

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::close;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;
use crate::workloads::jobs::clients::many;

const ORDERS: Task<u64, u64> = Task::new("orders");
const CLIENTS: u64 = 2_000;

async fn handle(ctx: TaskCtx<u64, u64>, event: u64) -> Result<()> {
    ctx.update_state(|sum| *sum += event);
    Ok(())
}

async fn check(_: TaskCtx<u64, u64>) -> Result<()> {
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.dir.join("jobs.db");
    let engine = Engine::open(&path).job(ORDERS.on_event(handle).execute(check)).start().await?;
    let instances = (setup.n / 10).max(1);
    let watch = Stopwatch::start();
    let client = engine.job(ORDERS);
    let times = many(setup.n, CLIENTS, move |event| {
        let client = client.clone();
        async move { client.send(&format!("{}", event % instances), &1).await.map(drop) }
    });
    let times = times.await?;
    // When the reply to the last event of a task arrives, all events before it have been handled.
    let client = engine.job(ORDERS);
    let asked = many(instances, CLIENTS, move |instance| {
        let client = client.clone();
        async move { client.ask::<()>(&instance.to_string(), &0).await }
    });
    asked.await?;
    let spent = watch.read();
    let mut sum = 0;
    for instance in 0..instances {
        sum += engine.job(ORDERS).state(&instance.to_string()).await?.unwrap_or(0);
    }
    if sum != setup.n {
        return Err(format!("{} events were sent, but {sum} were handled", setup.n).into());
    }
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let (events, runs) = (setup.n + instances, instances);
    Ok(Measured { durability, events, spent, times, bytes, runs, against: Against::Log, ..Measured::default() })
}
