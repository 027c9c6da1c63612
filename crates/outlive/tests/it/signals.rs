//! Signals: none is lost, none is taken twice, and those of one name arrive in the order they were sent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use outlive::prelude::*;
use outlive_sqlite::{Durability, Options, SqliteStore};
use outlive_testkit::{Fault, Faults, TestEngine};

use crate::support::turn;
use tokio::sync::Semaphore;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Receives this many numbers.
async fn collect(ctx: Ctx, count: u32) -> Result<Vec<u32>> {
    let mut got = Vec::new();
    for _ in 0..count {
        got.push(ctx.wait("n").await?);
    }
    Ok(got)
}

/// Like `collect`, after a step and an hour.
async fn collect_later(ctx: Ctx, count: u32) -> Result<Vec<u32>> {
    ctx.step("begin", || ok(())).await?;
    ctx.sleep("1 hour").await?;
    collect(ctx, count).await
}

/// Returns whichever comes first.
async fn signal_or_hour(ctx: Ctx, _: ()) -> Result<Option<u32>> {
    tokio::select! {
        n = ctx.wait("n") => Ok(Some(n?)),
        slept = ctx.sleep("1 hour") => Ok(slept.map(|()| None)?),
    }
}

async fn send<O>(run: &Run<O>, numbers: impl IntoIterator<Item = u32>) {
    for n in numbers {
        run.signal("n", &n).await.unwrap();
    }
}

#[tokio::test]
async fn signal_sent_before_the_wait_is_delivered() {
    let test = TestEngine::new(|engine| engine.workflow("later", collect_later)).await;
    let run = test.start(collect_later, &1).await.unwrap();
    test.settle().await;
    send(&run, [7]).await;
    test.advance("59 minutes").await;
    assert!(!run.status().await.unwrap().is_ended());
    test.advance("1 minute").await;
    assert_eq!(run.result().await.unwrap(), [7]);
}

#[tokio::test]
async fn signal_sent_before_the_run_starts_is_delivered() {
    let test = TestEngine::new(|engine| engine.workflow("collect", collect)).await;
    let run = test.start(collect, &2).delay("1 hour").await.unwrap();
    send(&run, [1, 2]).await;
    test.advance("1 hour").await;
    assert_eq!(run.result().await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn signal_does_not_start_a_delayed_run_early() {
    let test = TestEngine::new(|engine| engine.workflow("later", collect_later)).await;
    let run = test.start(collect_later, &1).delay("1 hour").await.unwrap();
    send(&run, [1]).await;
    test.advance("59 minutes").await;
    assert_eq!((run.status().await.unwrap(), test.executions("begin")), (Status::Pending, 0));
    test.advance("1 minute").await;
    assert_eq!(test.executions("begin"), 1);
}

#[tokio::test]
async fn signalled_delayed_run_starts_on_time_after_a_crash() {
    let mut test = TestEngine::new(|engine| engine.workflow("later", collect_later)).await;
    let run = test.start(collect_later, &1).delay("1 hour").await.unwrap();
    send(&run, [1]).await;
    test.crash().await;
    test.advance("59 minutes").await;
    assert_eq!(test.executions("begin"), 0);
    test.crash().await;
    test.advance("1 minute").await;
    assert_eq!(test.executions("begin"), 1);
    assert_eq!(test.result(&run).await.unwrap(), [1]);
}

#[tokio::test]
async fn signals_of_each_name_arrive_in_order_and_do_not_mix() {
    async fn two_names(ctx: Ctx, _: ()) -> Result<(Vec<u32>, Vec<u32>)> {
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(ctx.wait("m").await?);
        }
        Ok((collect(ctx, 3).await?, others))
    }
    let test = TestEngine::new(|engine| engine.workflow("two", two_names)).await;
    let run = test.start(two_names, &()).await.unwrap();
    for n in 1..=3 {
        send(&run, [n]).await;
        run.signal("m", &(n * 10)).await.unwrap();
    }
    assert_eq!(test.result(&run).await.unwrap(), (vec![1, 2, 3], vec![10, 20, 30]));
}

#[tokio::test]
async fn signals_keep_their_order_across_crashes() {
    let mut test = TestEngine::new(|engine| engine.workflow("later", collect_later)).await;
    test.start(collect_later, &6).id("r").await.unwrap();
    for n in 0..6 {
        // Three of them come before the wait, three after.
        let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
        send(&run, [n]).await;
        test.crash().await;
        test.advance("20 minutes").await;
    }
    let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn signal_is_taken_once_wherever_the_process_dies() {
    for n in 1..40 {
        for fault in [Fault::CrashBefore(n), Fault::CrashAfter(n)] {
            let faults = Arc::new(Faults::new(Arc::new(outlive_core::store::memory::MemoryStore::new())));
            let mut test = TestEngine::new(|engine| engine.workflow("collect", collect)).store(faults.clone()).await;
            test.start(collect, &3).id("r").await.unwrap();
            faults.add(fault);
            // A sender that gets no reply sends again, with the key that makes it the same signal.
            for number in 0..3_u32 {
                let key = number.to_string();
                loop {
                    let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
                    let sending = run.signal("n", &number).dedup_key(&key);
                    tokio::select! {
                        biased;
                        sent = sending => break sent.map(drop).unwrap_or_else(|error| assert!(matches!(error, Error::Status { .. }))),
                        () = dead(&faults) => {}
                    }
                    faults.revive();
                    test.crash().await;
                }
                test.settle().await;
                if faults.is_dead() {
                    faults.revive();
                    test.crash().await;
                }
            }
            let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
            assert_eq!(test.result(&run).await.unwrap(), [0, 1, 2], "{fault:?}");
        }
    }
}

async fn dead(faults: &Faults) {
    while !faults.is_dead() {
        tokio::task::yield_now().await;
    }
}

/// A race that a step wins although a signal is there: the wait has the signal, but comes second.
async fn lost_race(ctx: Ctx, count: u32) -> Result<Vec<u32>> {
    ctx.sleep("1 hour").await?;
    for _ in 0..2 {
        tokio::select! {
            biased;
            done = ctx.step("quick", || ok(())) => done?,
            n = ctx.wait::<u32>("n") => panic!("the wait won with {n:?}"),
        }
    }
    ctx.sleep("1 hour").await?;
    collect(ctx, count).await
}

#[tokio::test]
async fn wait_that_lost_a_race_returns_its_signal_to_its_position() {
    let test = TestEngine::new(|engine| engine.workflow("race", lost_race)).await;
    let run = test.start(lost_race, &4).await.unwrap();
    test.settle().await;
    send(&run, [1, 2]).await;
    test.advance("1 hour").await;
    let taken = run.journal().await.unwrap().iter().filter(|e| e.kind == outlive::EntryKind::SignalTaken).count();
    assert_eq!(taken, 2, "the wait had the signal each time, or this tests nothing");
    send(&run, [3, 4]).await;
    assert_eq!(test.result(&run).await.unwrap(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn returned_signal_survives_a_crash() {
    let mut test = TestEngine::new(|engine| engine.workflow("race", lost_race)).await;
    let run = test.start(lost_race, &3).id("r").await.unwrap();
    test.settle().await;
    send(&run, [1, 2]).await;
    test.advance("1 hour").await;
    test.crash().await;
    let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
    send(&run, [3]).await;
    test.crash().await;
    assert_eq!(test.result(&run).await.unwrap(), [1, 2, 3]);
    assert_eq!(test.executions("quick"), 2);
}

#[tokio::test]
async fn wait_that_lost_to_a_sleep_takes_nothing() {
    async fn three_rounds(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
        let mut got = Vec::new();
        while got.len() < 3 {
            tokio::select! {
                n = ctx.wait("n") => got.push(n?),
                slept = ctx.sleep("1 minute") => slept?,
            }
        }
        Ok(got)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("rounds", three_rounds)).await;
    let run = test.start(three_rounds, &()).id("r").await.unwrap();
    for n in 0..3 {
        test.advance("150 seconds").await;
        test.crash().await;
        let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
        send(&run, [n]).await;
    }
    assert_eq!(test.result(&run).await.unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn returned_signal_that_was_taken_is_not_taken_again_after_a_crash() {
    // The losing wait returns it in every replay too, when the wait that took it next already has it.
    async fn one_by_one(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
        let mut got = lost_race(ctx.clone(), 1).await?;
        ctx.sleep("1 hour").await?;
        got.push(ctx.wait("n").await?);
        Ok(got)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("one", one_by_one)).await;
    let run = test.start(one_by_one, &()).id("r").await.unwrap();
    test.settle().await;
    send(&run, [1]).await;
    test.advance("2 hours").await;
    test.crash().await;
    test.advance("1 hour").await;
    let run: Run<Vec<u32>> = test.get_run("r").await.unwrap();
    assert!(matches!(run.status().await.unwrap(), Status::Waiting { until: None }), "{:?}", run.info().await);
    send(&run, [2]).await;
    assert_eq!(test.result(&run).await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn wait_that_lost_a_race_takes_nothing_in_a_replay() {
    // It is polled before the winner, when the winner has its delivery but has not been polled yet.
    async fn loses(ctx: Ctx, _: ()) -> Result<u32> {
        tokio::select! {
            biased;
            n = ctx.wait::<u32>("n") => panic!("the wait won with {n:?}"),
            slept = ctx.sleep("1 hour") => slept?,
        }
        ctx.sleep("1 day").await?;
        Ok(ctx.wait("n").await?)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("loses", loses)).await;
    let run = test.start(loses, &()).id("r").await.unwrap();
    test.advance("2 hours").await;
    test.crash().await;
    let run: Run<u32> = test.get_run(run.id()).await.unwrap();
    run.signal("n", &1).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 1);
    let journal = run.journal().await.unwrap();
    let taken = journal.iter().filter(|entry| entry.kind == outlive::EntryKind::SignalTaken).count();
    assert_eq!(taken, 1, "{journal:?}");
}

#[tokio::test]
async fn signal_delivered_to_a_wait_that_is_never_polled_is_returned() {
    async fn looks_away(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
        let mut wait = Box::pin(ctx.wait::<u32>("n"));
        let polled = std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        ctx.sleep("1 hour").await?;
        ctx.step("meanwhile", || ok(())).await?;
        drop(wait);
        ctx.sleep("1 hour").await?;
        collect(ctx, 2).await
    }
    let mut test = TestEngine::new(|engine| engine.workflow("away", looks_away)).await;
    let run = test.start(looks_away, &()).await.unwrap();
    test.settle().await;
    send(&run, [1, 2]).await;
    test.advance("1 hour").await;
    test.crash().await;
    assert_eq!(test.result(&run).await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn signal_sent_at_any_moment_of_a_pause_is_received_at_once() {
    // With room for only one, the run leaves memory as soon as it has paused.
    for max_resident in [1, 100] {
        let setup =
            move |engine: outlive::Builder| engine.workflow("either", signal_or_hour).max_resident(max_resident);
        let test = TestEngine::new(setup).await;
        for turns in 0..40 {
            let client = test.client();
            let sending = tokio::spawn(async move {
                let run = client.start(signal_or_hour, &()).await.unwrap();
                for _ in 0..turns {
                    turn().await;
                }
                send(&run, [turns]).await;
                run
            });
            let run = sending.await.unwrap();
            test.settle().await;
            assert_eq!(run.status().await.unwrap(), Status::Completed, "after {turns} turns, room for {max_resident}");
            assert_eq!(run.result().await.unwrap(), Some(turns));
        }
    }
}

#[tokio::test]
async fn burst_of_signals_loads_a_run_once() {
    // Each signal finds the run outside memory and claims it while an earlier claim is under way.
    async fn notes(ctx: Ctx, count: u32) -> Result<Vec<u32>> {
        let mut got = Vec::new();
        while got.len() < count as usize {
            tokio::select! {
                n = ctx.wait("n") => got.push(n?),
                slept = ctx.sleep("1 hour") => slept?,
            }
            ctx.step("note", || ok(())).await?;
        }
        Ok(got)
    }
    let test = TestEngine::new(|engine| engine.workflow("notes", notes).max_resident(1)).await;
    for gap in 0..12 {
        let run = test.start(notes, &5).await.unwrap();
        test.settle().await;
        assert_eq!(test.resident(), 0);
        let before = test.executions("note");
        let sends = (0..5_u32).map(|n| {
            let run = run.clone();
            tokio::spawn(async move {
                for _ in 0..n * gap {
                    turn().await;
                }
                send(&run, [n]).await;
            })
        });
        join_all(sends.collect::<Vec<_>>()).await.into_iter().for_each(|sent| sent.unwrap());
        let mut got = test.result(&run).await.unwrap();
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3, 4], "gap {gap}");
        assert_eq!(test.executions("note") - before, 5, "gap {gap}");
    }
}

#[tokio::test]
async fn ten_thousand_signals_to_one_run_arrive_in_order() {
    let test = TestEngine::new(|engine| engine.workflow("collect", collect)).paranoid(false).await;
    let run = test.start(collect, &10_000).await.unwrap();
    let signals = (0..10_000_u32).map(|n| run.signal("n", &n));
    join_all(signals).await.into_iter().for_each(|sent| assert!(sent.unwrap()));
    assert!(test.result(&run).await.unwrap().into_iter().eq(0..10_000));
}

#[tokio::test]
async fn ten_thousand_signals_to_one_run_on_a_file_arrive_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Relaxed);
    let store = Arc::new(SqliteStore::open(&folder.path().join("s.db"), options).unwrap());
    let engine = Engine::with_store(store).workflow("collect", collect).start().await.unwrap();
    let run = engine.start(collect, &10_000).await.unwrap();
    let signals = (0..10_000_u32).map(|n| run.signal("n", &n));
    join_all(signals).await.into_iter().for_each(|sent| assert!(sent.unwrap()));
    assert!(run.result().await.unwrap().into_iter().eq(0..10_000));
}

#[tokio::test]
async fn second_signal_with_the_same_dedup_key_is_not_kept() {
    let test = TestEngine::new(|engine| engine.workflow("collect", collect)).await;
    let run = test.start(collect, &3).await.unwrap();
    assert!(run.signal("n", &1).dedup_key("a").await.unwrap());
    assert!(!run.signal("n", &2).dedup_key("a").await.unwrap());
    test.settle().await;
    // The first has been taken by now; its key still counts.
    assert!(!run.signal("n", &3).dedup_key("a").await.unwrap());
    assert!(run.signal("n", &4).dedup_key("b").await.unwrap());
    run.signal("n", &5).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [1, 4, 5]);
}

#[tokio::test]
async fn signal_to_an_ended_run_returns_its_status() {
    let test = TestEngine::new(|engine| engine.workflow("collect", collect)).await;
    let run = test.start(collect, &0).id("r").await.unwrap();
    test.settle().await;
    let error = run.signal("n", &1).await.unwrap_err();
    assert!(matches!(&error, Error::Status { id, status: Status::Completed, .. } if id == "r"), "{error:?}");
}

#[tokio::test]
async fn signal_to_a_missing_run_returns_not_found() {
    let test = TestEngine::new(|engine| engine.workflow("collect", collect)).await;
    let error = test.get_run::<()>("nobody").await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { id } if id == "nobody"), "{error:?}");
    let run = test.start(collect, &0).id("r").await.unwrap();
    test.settle().await;
    run.purge().await.unwrap();
    let error = run.signal("n", &1).await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { id } if id == "r"), "{error:?}");
}

#[tokio::test]
async fn unexpected_signal_does_not_change_when_a_sleep_ends() {
    let test = TestEngine::new(|engine| engine.workflow("later", collect_later)).await;
    let run = test.start(collect_later, &0).await.unwrap();
    for minute in 0..59 {
        send(&run, [minute]).await;
        test.advance("1 minute").await;
        assert!(!run.status().await.unwrap().is_ended(), "after {minute} minutes");
    }
    test.advance("1 minute").await;
    assert_eq!(run.status().await.unwrap(), Status::Completed);
}

// ---- from another client of the same file ----

/// Holds a step back until a permit is added.
struct Gate(Arc<Semaphore>);
/// The last number that was noted.
struct Noted(Arc<AtomicU32>);

impl Gate {
    async fn pass(&self) -> Result<()> {
        self.0.acquire().await?.forget();
        Ok(())
    }
}

impl Noted {
    async fn note(&self, n: u32) -> Result<()> {
        self.0.store(n, Ordering::SeqCst);
        Ok(())
    }
}

/// Notes each number while a long step runs.
async fn beside_a_step(ctx: Ctx, count: u32) -> Result<u32> {
    let (long, short) = (ctx.scope("long"), ctx.scope("short"));
    let work = async {
        long.step("work", || ctx.get::<Gate>().pass()).await?;
        Ok::<_, BoxError>(())
    };
    let note = async {
        let mut sum = 0;
        for _ in 0..count {
            let n: u32 = short.wait("n").await?;
            short.step("note", || ctx.get::<Noted>().note(n)).await?;
            sum += n;
        }
        Ok::<_, BoxError>(sum)
    };
    Ok(tokio::try_join!(work, note)?.1)
}

struct Shop {
    engine: Engine,
    /// Another client, as another process would have one.
    client: Client,
    gate: Arc<Semaphore>,
    noted: Arc<AtomicU32>,
    _folder: tempfile::TempDir,
}

async fn shop() -> Shop {
    shop_with(100).await
}

/// A shop with room for this many runs.
async fn shop_with(max_resident: usize) -> Shop {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let (gate, noted) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let engine = open_shop(&path, &gate, &noted, max_resident).await;
    Shop { engine, client: Client::open(&path).unwrap(), gate, noted, _folder: folder }
}

async fn open_shop(path: &Path, gate: &Arc<Semaphore>, noted: &Arc<AtomicU32>, max_resident: usize) -> Engine {
    let engine = Engine::open(path)
        .workflow("collect", collect)
        .workflow("either", signal_or_hour)
        .workflow("beside", beside_a_step)
        .provide(Gate(gate.clone()))
        .provide(Noted(noted.clone()))
        .max_resident(max_resident);
    engine.start().await.unwrap()
}

/// The file and the time are real; nothing here takes more than a few milliseconds.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), what).await.expect("the call hangs")
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn another_client_signals_a_waiting_run() {
    let shop = shop().await;
    let run = shop.engine.start(collect, &2).id("r").await.unwrap();
    until(async || run.status().await.unwrap().is_idle()).await;
    let other: Run<Vec<u32>> = shop.client.get_run("r").await.unwrap();
    send(&other, [1]).await;
    until(async || run.journal().await.unwrap().len() == 1).await;
    send(&other, [2]).await;
    assert_eq!(soon(run.result()).await.unwrap(), [1, 2]);
    assert_eq!(soon(other.result()).await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn another_client_signals_a_run_during_a_long_step() {
    let shop = shop().await;
    let run = shop.engine.start(beside_a_step, &2).id("r").await.unwrap();
    let other: Run<u32> = shop.client.get_run("r").await.unwrap();
    for n in [3, 4] {
        send(&other, [n]).await;
        until(async || shop.noted.load(Ordering::SeqCst) == n).await;
    }
    shop.gate.add_permits(1);
    assert_eq!(soon(run.result()).await.unwrap(), 7);
}

#[tokio::test]
async fn another_client_signals_a_run_that_sleeps_outside_memory() {
    let shop = shop_with(1).await;
    let run = shop.engine.start(signal_or_hour, &()).id("r").await.unwrap();
    until(async || shop.engine.resident() == 0).await;
    let other: Run<Option<u32>> = shop.client.get_run("r").await.unwrap();
    send(&other, [5]).await;
    assert_eq!(soon(run.result()).await.unwrap(), Some(5));
}

#[tokio::test]
async fn another_client_signals_a_run_that_has_not_started() {
    let shop = shop().await;
    let run = shop.engine.start(collect, &1).id("r").delay("300 ms").await.unwrap();
    let other: Run<Vec<u32>> = shop.client.get_run("r").await.unwrap();
    send(&other, [6]).await;
    assert_eq!(soon(run.result()).await.unwrap(), [6]);
    let info = run.info().await.unwrap();
    let delay = info.started_at.unwrap().since(info.created_at);
    assert!(delay >= Duration::from_millis(300), "it began after {delay:?}");
}

#[tokio::test]
async fn another_client_starts_signals_and_cancels_while_no_engine_runs() {
    const COLLECT: Workflow<u32, Vec<u32>> = Workflow::new("collect");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let client = Client::open(&path).unwrap();
    let run = client.start(COLLECT, &2).id("r").await.unwrap();
    send(&run, [1, 2]).await;
    let doomed = client.start(COLLECT, &1).id("d").await.unwrap();
    doomed.cancel("not wanted").await.unwrap();
    let engine = open_shop(&path, &Arc::new(Semaphore::new(0)), &Arc::default(), 100).await;
    assert_eq!(soon(run.result()).await.unwrap(), [1, 2]);
    let error = soon(doomed.result()).await.unwrap_err();
    assert!(matches!(&error, Error::Cancelled { reason } if reason == "not wanted"), "{error:?}");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn alternating_signals_of_two_clients_arrive_in_order() {
    let shop = shop().await;
    for round in 0..20 {
        let id = format!("r{round}");
        let run = shop.engine.start(collect, &10).id(&id).await.unwrap();
        let other: Run<Vec<u32>> = shop.client.get_run(&id).await.unwrap();
        until(async || run.status().await.unwrap().is_idle()).await;
        for n in 0..5 {
            send(&other, [2 * n]).await;
            send(&run, [2 * n + 1]).await;
        }
        let got = soon(run.result()).await.unwrap();
        assert!(got.iter().copied().eq(0..10), "round {round}: {got:?}");
    }
}

#[tokio::test]
async fn concurrent_signals_of_two_clients_each_arrive_once() {
    let shop = shop().await;
    let run = shop.engine.start(collect, &300).id("r").await.unwrap();
    let other: Run<Vec<u32>> = shop.client.get_run("r").await.unwrap();
    let sends = (0..300_u32).map(|n| if n % 3 == 0 { run.signal("n", &n) } else { other.signal("n", &n) });
    join_all(sends).await.into_iter().for_each(|sent| assert!(sent.unwrap()));
    let got: BTreeSet<u32> = soon(run.result()).await.unwrap().into_iter().collect();
    assert_eq!(got.len(), 300);
}

// ---- on many threads ----

/// Counts what it notes.
struct Notes(Arc<AtomicU32>);

/// Receives this many numbers; in between it sleeps too long to stay in memory.
async fn in_and_out(ctx: Ctx, count: usize) -> Result<Vec<u32>> {
    let mut got = Vec::new();
    while got.len() < count {
        tokio::select! {
            n = ctx.wait("n") => got.push(n?),
            slept = ctx.sleep("1 hour") => slept?,
        }
        ctx.step("note", || ok(ctx.get::<Notes>().0.fetch_add(1, Ordering::SeqCst))).await?;
    }
    Ok(got)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn signals_of_many_threads_to_evicted_runs_arrive_once_and_in_order() {
    const RUNS: u32 = 100;
    const EACH: u32 = 30;
    let noted = Arc::new(AtomicU32::new(0));
    let engine =
        Engine::open("memory:").workflow("in and out", in_and_out).provide(Notes(noted.clone())).max_resident(20);
    let engine = engine.start().await.unwrap();
    let mut senders = Vec::new();
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = engine.start(in_and_out, &(2 * EACH as usize)).await.unwrap();
        runs.push(run.clone());
        for from in [0, 1000] {
            let run = run.clone();
            senders.push(tokio::spawn(async move {
                for n in 0..EACH {
                    send(&run, [from + n]).await;
                    tokio::task::yield_now().await;
                }
            }));
        }
    }
    join_all(senders).await.into_iter().for_each(|sent| sent.unwrap());
    for run in runs {
        let result = tokio::time::timeout(Duration::from_secs(120), run.result()).await;
        let got = result.unwrap_or_else(|_| panic!("the run does not end: {run:?}")).unwrap();
        let (high, low): (Vec<u32>, Vec<u32>) = got.iter().partition(|n| **n >= 1000);
        assert!(low.into_iter().eq(0..EACH) && high.into_iter().eq(1000..1000 + EACH), "{got:?}");
    }
    assert_eq!(noted.load(Ordering::SeqCst), RUNS * 2 * EACH, "no step ran twice");
}

// ---- signals that do not read as the expected type ----

async fn decides(ctx: Ctx, _: ()) -> Result<bool> {
    ctx.step("charge", || ok(())).await?;
    Ok(ctx.wait("approval").timeout("3 days").await?)
}

/// One such signal made the run stuck for good: neither a correct one nor `retry` healed it, and `cancel` skipped the
/// refund.
#[tokio::test]
async fn signal_of_another_type_is_a_dead_letter_and_the_wait_continues() {
    let mut test = TestEngine::new(|engine| engine.workflow("decides", decides)).await;
    let run = test.start(decides, &()).id("r").await.unwrap();
    run.signal("approval", "yes").await.unwrap();
    run.signal("approval", &7).await.unwrap();
    test.settle().await;
    assert!(!run.status().await.unwrap().is_ended());
    let dead = run.dead_signals().await.unwrap();
    let values: Vec<_> = dead.iter().map(|dead| (dead.name.as_str(), dead.value.as_str())).collect();
    assert_eq!(values, [("approval", "\"yes\""), ("approval", "7")]);
    assert!(dead[0].problem.contains("bool"), "{}", dead[0].problem);
    test.crash().await;
    let run: Run<bool> = test.get_run("r").await.unwrap();
    assert_eq!(run.dead_signals().await.unwrap(), dead, "they are kept, and not refused again");
    run.signal("approval", &true).await.unwrap();
    assert!(test.result(&run).await.unwrap());
}

/// The first wait of the name refused a signal that the second could read.
#[tokio::test]
async fn signal_goes_to_the_first_wait_of_its_name_that_can_read_it() {
    async fn reads_both(ctx: Ctx, _: ()) -> Result<(u32, String)> {
        let (numbers, texts) = (ctx.scope("numbers"), ctx.scope("texts"));
        let both = tokio::try_join!(numbers.wait::<u32>("n"), texts.wait::<String>("n"));
        Ok(both?)
    }
    for is_early in [true, false] {
        let test = TestEngine::new(|engine| engine.workflow("reads both", reads_both)).await;
        let run = test.start(reads_both, &()).id("r").delay(if is_early { "1 minute" } else { "0s" }).await.unwrap();
        if !is_early {
            test.settle().await;
        }
        run.signal("n", &true).await.unwrap();
        run.signal("n", "text").await.unwrap();
        run.signal("n", &7_u32).await.unwrap();
        test.advance("1 minute").await;
        assert_eq!(test.result(&run).await.unwrap(), (7, "text".to_owned()), "early: {is_early}");
        let dead = run.dead_signals().await.unwrap();
        assert_eq!(dead.len(), 1, "early: {is_early}: {dead:?}");
    }
}

#[tokio::test]
async fn dead_signal_can_be_discarded_once() {
    let test = TestEngine::new(|engine| engine.workflow("decides", decides)).await;
    let run = test.start(decides, &()).await.unwrap();
    for value in ["yes", "no"] {
        run.signal("approval", value).await.unwrap();
    }
    test.settle().await;
    let first = run.dead_signals().await.unwrap().remove(0);
    run.discard_dead_signal(first.seq).await.unwrap();
    test.settle().await;
    let left = run.dead_signals().await.unwrap();
    assert_eq!(left.iter().map(|dead| dead.value.as_str()).collect::<Vec<_>>(), ["\"no\""]);
    let error = run.discard_dead_signal(first.seq).await.unwrap_err();
    assert!(error.to_string().contains(&format!("no dead letter {}", first.seq)), "{error}");
}

#[tokio::test]
async fn signal_whose_type_panics_when_read_is_a_dead_letter() {
    struct Bomb;
    impl<'de> serde::Deserialize<'de> for Bomb {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("boom")
        }
    }
    async fn defuses(ctx: Ctx, _: ()) -> Result<bool> {
        let waited = ctx.wait::<Bomb>("bomb").timeout("1 hour").await;
        Ok(waited.is_err_and(|error| error.is_timeout()))
    }
    let test = TestEngine::new(|engine| engine.workflow("defuses", defuses)).await;
    let run = test.start(defuses, &()).await.unwrap();
    run.signal("bomb", &()).await.unwrap();
    test.settle().await;
    assert!(run.dead_signals().await.unwrap()[0].problem.contains("boom"));
    assert!(test.result(&run).await.unwrap());
}

/// Someone debugging a run that does not continue finds the name it expects.
#[tokio::test]
async fn run_shows_which_signals_it_waits_for() {
    let test = TestEngine::new(|engine| engine.workflow("decides", decides)).await;
    let run = test.start(decides, &()).await.unwrap();
    run.signal("aproval", &true).await.unwrap();
    test.settle().await;
    assert_eq!(run.info().await.unwrap().note.as_deref(), Some("waits for \"approval\""));
}

#[tokio::test]
async fn typed_signal_name_works_for_sending_and_waiting() {
    const VOTE: outlive::SignalName<u32> = outlive::SignalName::new("vote");
    async fn votes(ctx: Ctx, _: ()) -> Result<u32> {
        Ok(ctx.wait(VOTE).await? + ctx.wait(VOTE).timeout("1 hour").await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("votes", votes)).await;
    let run = test.start(votes, &()).await.unwrap();
    run.signal(VOTE, &40).await.unwrap();
    run.signal("vote", &2).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 42);
}
