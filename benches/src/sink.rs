//! W1 with a sink whose endpoint never answers, against W1 without one: a dead endpoint slows no run.

use std::net::TcpListener;

use outlive::HttpSink;
use outlive::prelude::*;

use crate::figures::Measured;
use crate::load::Flood;
use crate::numbers::rounded;
use crate::setup::Setup;
use crate::w1;

/// How often each is measured, in turns.
const ROUNDS: usize = 5;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    // Connections are taken by the machine, and nobody ever reads from them.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/events", silent.local_addr()?);
    let flood = Flood::of(setup.n);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let path = |name: &str| setup.dir.join(format!("{name}-{round}.db"));
        without.push(w1::flood(&path("without"), flood).await?.rate());
        let path = path("with");
        let sink = HttpSink::new(&url).every("100 ms").timeout("1 minute");
        let engine = Engine::open(&path).sink(sink).grace("100 ms");
        with.push(w1::flood_on(engine, &path, flood).await?);
    }
    without.sort_by(f64::total_cmp);
    with.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let (without, mut median) = (without[ROUNDS / 2], with.swap_remove(ROUNDS / 2));
    median.own = vec![
        ("steps_per_sec_without_sink", rounded(Some(without), 0)),
        ("ratio_to_without_sink", rounded(Some(median.rate() / without), 3)),
    ];
    Ok(median)
}
