//! A layer that times every step: attempts, failures and seconds by name, without a line in the steps.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive::layer::{Inner, Layer, LayerFuture, ObservedStep};
use outlive::prelude::*;

/// What is known about the steps of one name.
#[derive(Default)]
struct Times {
    attempts: u32,
    failed: u32,
    total: Duration,
}

/// Times steps by name.
#[derive(Clone, Default)]
struct StepTimes(Arc<Mutex<BTreeMap<String, Times>>>);

impl StepTimes {
    fn note(&self, step: &str, is_ok: bool, took: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = times.entry(step.to_owned()).or_default();
        times.attempts += 1;
        times.failed += u32::from(!is_ok);
        times.total += took;
    }

    fn print(&self) {
        for (step, times) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let Times { attempts, failed, total } = times;
            println!("{step:12} {attempts} attempts, {failed} failed, {} ms", total.as_millis());
        }
    }
}

impl Layer for StepTimes {
    fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = inner.run().await;
            self.note(step.name, result.is_ok(), begun.elapsed());
            result
        })
    }
}

async fn charge(attempt: Attempt) -> Result<u32> {
    tokio::time::sleep(Duration::from_millis(30)).await;
    if attempt.number == 1 { Err("the bank does not answer".into()) } else { Ok(42) }
}

async fn ship() -> Result<()> {
    tokio::time::sleep(Duration::from_millis(80)).await;
    Ok(())
}

async fn checkout(ctx: Ctx, _: u32) -> Result<u32> {
    let paid = ctx.step("charge card", charge).retry(Retry::times(3).constant("20 ms")).await?;
    ctx.step("ship", ship).await?;
    Ok(paid)
}

#[tokio::main]
async fn main() -> Result<()> {
    let times = StepTimes::default();
    let engine = Engine::open("memory:").workflow("checkout", checkout).layer(times.clone()).start().await?;
    let mut runs = Vec::new();
    for order in 0..5 {
        runs.push(engine.start(checkout, &order).await?);
    }
    for run in &runs {
        run.result().await?;
    }
    engine.shutdown().await?;
    times.print();
    Ok(())
}
