//! Lists and counts in a file with many finished runs: the time of each, and the memory they hold.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use outlive::prelude::*;
use serde_json::Value;

use crate::harness::crowd::{self, Crowd};
use crate::harness::figures::Measured;
use crate::harness::load::size;
use crate::harness::numbers::{percentile, rounded};
use crate::harness::setup::Setup;
use crate::harness::steps::no_step;
use crate::harness::usage::{self, Spent, Stopwatch};

/// How often each is measured; the median counts.
const ROUNDS: usize = 5;
/// Number of runs that rare filters match.
const RARE: u64 = 10;
/// Number of lists that are requested and dropped.
const DROPPED: usize = 6;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    Crowd { sleepers: 0, finished: setup.n }.fill(&path).await?;
    let engine = crowd::engine(&path).start().await?;
    for n in 0..RARE {
        engine.start(no_step, &n).id(&format!("rare-{n}")).tag("shop", "paris").await?.result().await?;
    }
    engine.shutdown().await?;
    let client = Client::open(&path)?;
    let none = Filter::runs().created_before(Timestamp::from_millis(1));
    let (before, watch) = (usage::rss_mb(), Stopwatch::start());
    let mut own = vec![
        ("newest_ms", list(&client, &Filter::runs(), 100).await?),
        ("prefix_ms", list(&client, &Filter::runs().id_prefix("rare-"), RARE).await?),
        ("tag_ms", list(&client, &Filter::runs().tag("shop", "paris"), RARE).await?),
        ("failed_ms", list(&client, &Filter::runs().status(StatusKind::Failed), 0).await?),
        ("no_match_ms", list(&client, &none, 0).await?),
        ("count_behind_dropped_ms", count_behind_dropped(&client, &none).await?),
    ];
    let (spent, over) = (watch.read(), usage::rss_mb() - before);
    own.push(("rss_over_before_mb", rounded(Some(over), 1)));
    Ok(Measured {
        durability: client.durability(),
        spent: Spent { elapsed: Duration::ZERO, ..spent },
        bytes: size(&path),
        runs: setup.n + RARE,
        own,
        ..Measured::default()
    })
}

/// Returns the time until the first page arrives, which has at most 100 and at least `least` runs.
async fn list(client: &Client, filter: &Filter, least: u64) -> Result<Value> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let page = client.list(filter.clone()).await?;
        times.push(begun.elapsed());
        if (page.runs.len() as u64) < least.min(client.count(Filter::runs()).await?.total()) {
            return Err(format!("got {} runs, expected at least {least}: {filter:?}", page.runs.len()).into());
        }
    }
    Ok(middle(times))
}

/// Returns the time of a count behind lists that were dropped.
async fn count_behind_dropped(client: &Client, filter: &Filter) -> Result<Value> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..DROPPED {
            let _ = pin!(client.list(filter.clone())).poll(&mut Context::from_waker(Waker::noop()));
        }
        let begun = Instant::now();
        client.count(Filter::runs()).await?;
        times.push(begun.elapsed());
    }
    Ok(middle(times))
}

fn middle(mut times: Vec<Duration>) -> Value {
    times.sort();
    rounded(percentile(&times, 50).map(|time| time.as_secs_f64() * 1e3), 2)
}
