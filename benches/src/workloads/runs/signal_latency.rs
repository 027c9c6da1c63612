//! Signal latency (W8): the time from the acknowledgement until a run has the signal.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use outlive::prelude::*;
use tokio::task::JoinSet;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::{Flood, until};
use crate::harness::numbers::{micros, rounded};
use crate::harness::progress;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;

/// How often each run waits.
const WAITS: u64 = 10;
/// Number of signals sent at a time.
const SENDERS: usize = 16;

/// The moments at which a signal was acknowledged and its run had it.
#[derive(Default)]
struct Marks {
    acknowledged: OnceLock<Instant>,
    delivered: OnceLock<Instant>,
}

type Board = Arc<Vec<Marks>>;

async fn listen(ctx: Ctx, _: u64) -> Result<()> {
    for _ in 0..WAITS {
        let signal: usize = ctx.wait("news").await?;
        let board = ctx.get::<Board>();
        ctx.step("note", || async move {
            let _ = board[signal].delivered.set(Instant::now());
            Ok::<_, Error>(())
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let runs = (setup.n / WAITS).max(1);
    let of_a_side = usize::try_from(runs * WAITS)?;
    let board: Board = Arc::new((0..2 * of_a_side).map(|_| Marks::default()).collect());
    let engine = Engine::open(&path).workflow("listen", listen).provide(board.clone()).start().await?;
    let (within, outside): (&Client, &Client) = (&engine.client(), &Client::open(&path)?);
    let name = |id: u64| format!("listener-{id}");
    Flood::of(2 * runs).start(|id| within.start(listen, &id).id(&name(id))).await?;
    until(within, Filter::runs(), |counts| counts.of(StatusKind::Waiting) == 2 * runs).await?;

    let watch = Stopwatch::start();
    for (client, ids, first) in [(outside, 0..runs, 0), (within, runs..2 * runs, of_a_side)] {
        let mut listeners = Vec::new();
        for id in ids {
            listeners.push(client.get_run::<()>(&name(id)).await?);
        }
        send(&listeners, first, &board).await?;
    }
    until(within, Filter::runs(), |counts| counts.of(StatusKind::Completed) == 2 * runs).await?;
    let spent = watch.read();
    let durability = engine.durability();
    engine.shutdown().await?;
    let (times, within) = (latencies(&board[..of_a_side])?, latencies(&board[of_a_side..])?);
    let ratio = micros(&times, 50).zip(micros(&within, 50)).map(|(outside, within)| outside / within);
    let own = vec![
        ("ratio_to_same_process", rounded(ratio, 2)),
        ("p50_us_same_process", rounded(micros(&within, 50), 0)),
        ("p99_us_same_process", rounded(micros(&within, 99), 0)),
    ];
    let (steps, against) = (2 * runs * WAITS, Against::Sync);
    Ok(Measured { durability, steps, spent, times, against, own, ..Measured::default() })
}

/// Sends each run its signals in rounds; a round begins when all runs wait again.
async fn send(listeners: &[Run<()>], first: usize, board: &Board) -> Result<()> {
    let bar = progress::of(WAITS * listeners.len() as u64, "signals");
    for round in 0..usize::try_from(WAITS)? {
        let begin = first + round * listeners.len();
        send_round(listeners, begin, board).await?;
        let marks = &board[begin..begin + listeners.len()];
        while marks.iter().any(|mark| mark.delivered.get().is_none()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bar.inc(listeners.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

async fn send_round(listeners: &[Run<()>], begin: usize, board: &Board) -> Result<()> {
    let mut tasks = JoinSet::new();
    for (listener, number) in listeners.iter().zip(begin..) {
        if tasks.len() >= SENDERS
            && let Some(sent) = tasks.join_next().await
        {
            sent??;
        }
        let (signal, board) = (listener.signal("news", &number), board.clone());
        tasks.spawn(async move {
            signal.await?;
            let _ = board[number].acknowledged.set(Instant::now());
            Ok::<_, Error>(())
        });
    }
    while let Some(sent) = tasks.join_next().await {
        sent??;
    }
    Ok(())
}

/// Returns the sorted latencies. A run may have its signal before the sender learns that it was acknowledged.
fn latencies(board: &[Marks]) -> Result<Vec<Duration>> {
    let latency = |marks: &Marks| {
        let (acknowledged, delivered) = (marks.acknowledged.get()?, marks.delivered.get()?);
        Some(delivered.saturating_duration_since(*acknowledged))
    };
    let latencies: Option<Vec<Duration>> = board.iter().map(latency).collect();
    let mut latencies = latencies.ok_or("a signal was acknowledged, but not delivered; please report it")?;
    latencies.sort();
    Ok(latencies)
}
