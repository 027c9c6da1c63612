//! A stream: one step that appends many items, a few thousand at a time, and one reader that follows it.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::close;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;

/// The number of appends in flight.
const IN_FLIGHT: usize = 4_096;

async fn append(attempt: Attempt, n: u64) -> Result<u64, Error> {
    let appends = stream::iter(0..n).map(|item| attempt.append("items", &item));
    appends.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    Ok(n)
}

async fn writer(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.step("append", |attempt: Attempt| append(attempt, n)).await?)
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let engine = Engine::open(&path).workflow("writer", writer).start().await?;
    let watch = Stopwatch::start();
    let run = engine.start(writer, &setup.n).await?;
    let reader = run.clone();
    let reading = tokio::spawn(async move {
        let (mut items, mut count) = (reader.stream::<u64>("items"), 0);
        while let Some(item) = items.next().await? {
            count += u64::from(item.offset == count);
        }
        Ok::<_, Error>(count)
    });
    run.result().await?;
    let read = reading.await??;
    let spent = watch.read();
    if read != setup.n {
        return Err(format!("{read} of {} items were read in order", setup.n).into());
    }
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let per_sec = setup.n as f64 / spent.elapsed.as_secs_f64();
    let cpu_us = spent.cpu.as_secs_f64() * 1e6 / setup.n as f64;
    let own = vec![("appends_per_sec", rounded(Some(per_sec), 0)), ("cpu_us_per_append", rounded(Some(cpu_us), 1))];
    Ok(Measured { durability, bytes, runs: 1, own, ..Measured::default() })
}
