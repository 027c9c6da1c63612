//! Recovery after kills: n runs in long steps, a process that is killed twice, and the time until all runs are back.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::prelude::*;
use serde_json::{Value, json};

use crate::harness::child::{self, number};
use crate::harness::figures::{Against, Measured};
use crate::harness::load::{Flood, size};
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage::{self, Spent, Stopwatch};

/// The part that runs as its own process.
pub(crate) const PRISONER: &str = "kills-prisoner";
/// How often it is killed before it is measured.
const KILLS: usize = 2;

type Begun = Arc<AtomicU64>;

/// A step that lasts as long as the process.
async fn long(ctx: Ctx, _: u64) -> Result<()> {
    let begun = ctx.get::<Begun>();
    let body = || async {
        begun.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<()>>().await
    };
    Ok(ctx.step("long", body).await?)
}

/// Runs n runs in steps, starting them if there are none, and reports once all are in their steps.
pub(crate) async fn be_prisoner(setup: &Setup) -> Result<()> {
    let (begun, watch) = (Begun::default(), Stopwatch::start());
    let engine = Engine::open(setup.store()).workflow("long", long).provide(begun.clone()).start().await?;
    if engine.count(Filter::runs()).await?.total() == 0 {
        Flood::of(setup.n).start(|id| engine.start(long, &id)).await?;
    }
    while begun.load(Ordering::Relaxed) < setup.n {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut stdout = std::io::stdout().lock();
    let said = json!({
        "cpu_secs": watch.read().cpu.as_secs_f64(),
        "peak_rss_mb": usage::peak_rss_mb(),
        "durability": engine.durability(),
    });
    writeln!(stdout, "{said}")?;
    stdout.flush()?;
    std::future::pending().await
}

/// Starts the process and kills it once all runs are in their steps. Returns its report, and how long that took.
fn live(path: &Path, setup: &Setup) -> Result<(Value, Duration)> {
    let begun = Instant::now();
    let mut prisoner = child::begin(PRISONER, path, setup)?;
    let mut lines = BufReader::new(prisoner.stdout.take().ok_or("the child has no stdout")?).lines();
    let said = lines.next().ok_or("the process ended before all runs were in their steps")?;
    let elapsed = begun.elapsed();
    prisoner.kill()?;
    prisoner.wait()?;
    Ok((serde_json::from_str(&said?)?, elapsed))
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    for _ in 0..KILLS {
        live(&path, setup)?;
    }
    let (said, elapsed) = live(&path, setup)?;
    let cpu = Duration::from_secs_f64(number(&said, "cpu_secs")?);
    Ok(Measured {
        durability: said["durability"].as_str().unwrap_or_default().to_owned(),
        steps: setup.n,
        spent: Spent { elapsed, cpu },
        bytes: size(&path),
        runs: setup.n,
        against: Against::Log,
        peak_rss_mb: Some(number(&said, "peak_rss_mb")?),
        own: vec![("all_back_secs", rounded(Some(elapsed.as_secs_f64()), 3))],
        ..Measured::default()
    })
}
