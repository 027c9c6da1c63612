//! Start latency (W9): how long a start takes until it is acknowledged, with one client and with many.

use std::time::{Duration, Instant};

use outlive::prelude::*;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::{Flood, close, until};
use crate::harness::numbers::{micros, rounded};
use crate::harness::setup::Setup;
use crate::harness::steps::no_step;
use crate::harness::usage::Stopwatch;

/// Number of concurrent clients.
const CLIENTS: u64 = 64;

/// Starts runs one after the other.
async fn one_client(client: Client, n: u64) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(usize::try_from(n)?);
    for id in 0..n {
        let begun = Instant::now();
        client.start(no_step, &id).await?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let engine = Engine::open(&path).workflow("nothing", no_step).start().await?;
    let watch = Stopwatch::start();
    let times = tokio::spawn(one_client(engine.client(), setup.n)).await??;
    let spent = watch.read();
    let many = setup.n * CLIENTS / 4;
    let watch = Stopwatch::start();
    let mut crowded = Flood { n: many, in_flight: CLIENTS }.start(|id| engine.start(no_step, &id)).await?;
    let starts_per_sec = many as f64 / watch.read().elapsed.as_secs_f64();
    let runs = setup.n + many;
    until(&engine.client(), Filter::runs(), |counts| counts.of(StatusKind::Completed) == runs).await?;
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    crowded.sort();
    let own = vec![
        ("clients", CLIENTS.into()),
        ("p50_us_clients", rounded(micros(&crowded, 50), 0)),
        ("p99_us_clients", rounded(micros(&crowded, 99), 0)),
        ("starts_per_sec_clients", rounded(Some(starts_per_sec), 0)),
    ];
    Ok(Measured { durability, spent, times, bytes, runs, against: Against::Sync, own, ..Measured::default() })
}
