//! A dead sink: short runs with a sink whose endpoint never responds, compared with none.

use std::net::TcpListener;

use outlive::HttpSink;
use outlive::prelude::*;
use serde_json::json;

use crate::harness::figures::Measured;
use crate::harness::load::Flood;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::workloads::runs::many_short_runs;

/// Number of pairs measured, one run with the sink and one without.
const PAIRS: usize = 5;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    // The kernel accepts connections, but nothing ever reads from them.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/events", silent.local_addr()?);
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        // The two take turns going first: a disk may be fresher then.
        let (without, with) = if pair % 2 == 0 {
            let without = flood(setup, pair, None).await?;
            (without, flood(setup, pair, Some(&url)).await?)
        } else {
            let with = flood(setup, pair, Some(&url)).await?;
            (flood(setup, pair, None).await?, with)
        };
        pairs.push((with.rate() / without.rate(), without.rate(), with));
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ratios: Vec<_> = pairs.iter().map(|(ratio, ..)| rounded(Some(*ratio), 3)).collect();
    let (ratio, without, mut median) = pairs.swap_remove(PAIRS / 2);
    median.own = vec![
        ("steps_per_sec_without_sink", rounded(Some(without), 0)),
        ("ratio_to_without_sink", rounded(Some(ratio), 3)),
        ("ratios_of_pairs", json!(ratios)),
    ];
    Ok(median)
}

/// Floods a new file with short runs, with a sink to this endpoint if there is one.
async fn flood(setup: &Setup, pair: usize, url: Option<&str>) -> Result<Measured> {
    let path = setup.dir.join(format!("{}-{pair}.db", if url.is_some() { "with" } else { "without" }));
    let engine = match url {
        Some(url) => {
            let sink = HttpSink::new(url).every("100 ms").timeout("1 minute");
            Engine::open(&path).sink(sink).grace("100 ms")
        }
        None => Engine::open(&path),
    };
    many_short_runs::flood_on(engine, &path, Flood::of(setup.n)).await
}
