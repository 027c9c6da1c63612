//! Kill and resume (W4): short runs killed in the middle, the time until steps resume and until all are done.

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::Counts;
use outlive::prelude::*;
use serde_json::{Value, json};

use crate::harness::child::{self, number};
use crate::harness::figures::{Against, Measured};
use crate::harness::load::{Flood, size, until};
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::steps::{Receipt, STEPS, work};
use crate::harness::usage::{self, Spent, Stopwatch};

/// The parts that run as their own processes.
pub(crate) const VICTIM: &str = "kill-and-resume-victim";
pub(crate) const HEIR: &str = "kill-and-resume-heir";
/// Printed by the heir when a step body begins.
const FIRST: &str = "first";

/// Progress of a process.
#[derive(Clone, Default)]
struct Tally {
    begun: Arc<AtomicU64>,
    durable: Arc<AtomicU64>,
}

async fn counted(ctx: Ctx, id: u64) -> Result<()> {
    for step in 0..STEPS {
        let tally = ctx.get::<Tally>();
        ctx.step("work", || begin(tally, id, step)).await?;
        tally.durable.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn begin(tally: &Tally, id: u64, step: u64) -> Result<Receipt> {
    if tally.begun.fetch_add(1, Ordering::Relaxed) == 0 {
        say(FIRST)?;
    }
    work(id, step).await
}

fn say(line: impl std::fmt::Display) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

/// Takes steps until it is killed; prints how many are durable once half of them are.
pub(crate) async fn be_victim(setup: &Setup) -> Result<()> {
    let tally = Tally::default();
    let engine = Engine::open(setup.store()).workflow("counted", counted).provide(tally.clone()).start().await?;
    Flood::of(setup.n).start(|id| engine.start(counted, &id)).await?;
    while tally.durable.load(Ordering::Relaxed) < setup.n * STEPS / 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    say(tally.durable.load(Ordering::Relaxed))?;
    std::future::pending().await
}

/// Resumes where the victim was killed, and runs to the end.
pub(crate) async fn be_heir(setup: &Setup) -> Result<()> {
    let tally = Tally::default();
    let watch = Stopwatch::start();
    let engine = Engine::open(setup.store()).workflow("counted", counted).provide(tally.clone()).start().await?;
    let is_done = |counts: &Counts| counts.of(StatusKind::Completed) == counts.total();
    let completed = until(&engine.client(), Filter::runs(), is_done).await?.total();
    say(json!({
        "completed": completed,
        "begun": tally.begun.load(Ordering::Relaxed),
        "cpu_secs": watch.read().cpu.as_secs_f64(),
        "peak_rss_mb": usage::peak_rss_mb(),
        "durability": engine.durability(),
    }))?;
    Ok(engine.shutdown().await?)
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let mut victim = child::begin(VICTIM, &path, setup)?;
    let mut durable = 0;
    for line in BufReader::new(victim.stdout.take().ok_or("the child has no stdout")?).lines() {
        if let Ok(count) = line?.parse::<u64>() {
            durable = count;
            victim.kill()?;
        }
    }
    victim.wait()?;

    let begun = Instant::now();
    let mut heir = child::begin(HEIR, &path, setup)?;
    let (mut first, mut said) = (None, Value::Null);
    for line in BufReader::new(heir.stdout.take().ok_or("the child has no stdout")?).lines() {
        match line?.as_str() {
            FIRST => first = Some(begun.elapsed()),
            report => said = serde_json::from_str(report)?,
        }
    }
    let all_done = begun.elapsed();
    if !heir.wait()?.success() {
        return Err("the process that resumed after the kill failed".into());
    }
    check(setup.n, durable, &said)?;
    let own = vec![
        ("first_step_secs", rounded(first.map(|first| first.as_secs_f64()), 3)),
        ("all_done_secs", rounded(Some(all_done.as_secs_f64()), 3)),
        ("durable_at_kill", json!(durable)),
    ];
    let cpu = Duration::from_secs_f64(number(&said, "cpu_secs")?);
    Ok(Measured {
        durability: said["durability"].as_str().unwrap_or_default().to_owned(),
        steps: said["begun"].as_u64().unwrap_or(0),
        spent: Spent { elapsed: all_done - first.unwrap_or_default(), cpu },
        bytes: size(&path),
        runs: setup.n,
        against: Against::Log,
        peak_rss_mb: Some(number(&said, "peak_rss_mb")?),
        own,
        ..Measured::default()
    })
}

/// Checks that nothing acknowledged was lost, and that no durable step was repeated.
fn check(n: u64, durable: u64, said: &Value) -> Result<()> {
    let (completed, begun) = (number(said, "completed")? as u64, number(said, "begun")? as u64);
    if completed != n {
        return Err(format!("{n} starts were acknowledged, but {completed} runs completed; please report it").into());
    }
    if begun + durable > n * STEPS {
        let again = begun + durable - n * STEPS;
        return Err(format!("{again} durable steps were repeated after the kill; please report it").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_run_and_repeated_durable_step_are_found() {
        let said = |completed: u64, begun: u64| json!({"completed": completed, "begun": begun});
        assert!(check(10, 60, &said(10, 40)).is_ok());
        assert!(check(10, 60, &said(9, 40)).is_err());
        assert!(check(10, 60, &said(10, 41)).is_err());
    }
}
