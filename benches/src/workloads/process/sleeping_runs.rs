//! Sleeping runs (W5): the memory a process holds for them, and how long it takes to start.

use std::time::{Duration, Instant};

use outlive::prelude::*;
use serde_json::json;

use crate::harness::child::{self, number};
use crate::harness::crowd::{self, Crowd};
use crate::harness::figures::{Figures, Measured};
use crate::harness::load::size;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage;

/// The part that runs as its own process.
pub(crate) const RESTER: &str = "sleeping-runs-rester";
/// How long a process is left idle before its memory is read.
const REST: Duration = Duration::from_secs(3);

/// Starts an idle engine, and returns what that took.
pub(crate) async fn rest(setup: &Setup) -> Result<Figures> {
    let begun = Instant::now();
    let engine = crowd::engine(&setup.store()).start().await?;
    let start = begun.elapsed();
    tokio::time::sleep(REST).await;
    let figures = vec![
        ("start_secs", json!(start.as_secs_f64())),
        ("rss_mb", json!(usage::rss_mb())),
        ("peak_rss_mb", json!(usage::peak_rss_mb())),
        ("durability", json!(engine.durability())),
    ];
    engine.shutdown().await?;
    Ok(Figures::plain(figures))
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    Crowd { sleepers: setup.n, finished: 0 }.fill(&path).await?;
    let ask = |store: &std::path::Path| {
        let mut command = child::part(RESTER, store, setup)?;
        command.arg("--json");
        child::ask(command)
    };
    let (empty, full) = (ask(&setup.dir.join("empty.db"))?, ask(&path)?);
    let over = number(&full, "rss_mb")? - number(&empty, "rss_mb")?;
    let own = vec![
        ("rss_over_empty_mb", rounded(Some(over), 1)),
        ("start_secs", rounded(Some(number(&full, "start_secs")?), 3)),
        ("start_empty_secs", rounded(Some(number(&empty, "start_secs")?), 3)),
    ];
    Ok(Measured {
        durability: full["durability"].as_str().unwrap_or_default().to_owned(),
        bytes: size(&path),
        runs: setup.n,
        peak_rss_mb: Some(number(&full, "peak_rss_mb")?),
        own,
        ..Measured::default()
    })
}
