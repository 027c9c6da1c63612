//! P3: ordinary concurrent async code sees the same results in the same order live and in every replay, across random
//! completion orders and random crashes.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{self, FuturesUnordered};
use outlive::prelude::*;
use outlive::{EntryKind, OnConflict};
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestEngine};

use crate::support::{World, world};

const SEEDS: u64 = 300;
/// Number of signals sent to the shapes that wait for them.
const SIGNALS: u64 = 4;

/// Runs a step that returns its own label, and asserts that it does not get another's.
async fn step(ctx: &Ctx, name: &str, label: &str) -> Result<String> {
    let got = ctx.step(name, || world(ctx).work(label)).await?;
    assert_eq!(got, label, "a result was given to another operation");
    world(ctx).note(format!("{name}={got}"));
    Ok(got)
}

async fn branch(ctx: Ctx, i: u64) -> Result<u64> {
    step(&ctx, "fetch", &format!("fetch{i}")).await?;
    step(&ctx, "store", &format!("store{i}")).await?;
    Ok(i)
}

async fn join_distinct(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let (a, b) = tokio::join!(async { step(&ctx, "a1", "a1").await.and(step(&ctx, "a2", "a2").await) }, async {
        step(&ctx, "b1", "b1").await.and(step(&ctx, "b2", "b2").await)
    },);
    step(&ctx, "end", &format!("end {} {}", a?, b?)).await?;
    Ok(())
}

async fn join_keyed(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let one = |i: u64| {
        let ctx = &ctx;
        async move {
            let label = format!("one{i}");
            let got = ctx.step("one", || world(ctx).work(label.as_str())).key(i).await?;
            assert_eq!(got, label);
            world(ctx).note(format!("{i}={got}"));
            Ok::<_, BoxError>(())
        }
    };
    tokio::try_join!(one(1), one(2), one(3))?;
    step(&ctx, "end", "end").await?;
    Ok(())
}

async fn unordered(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let mut running: FuturesUnordered<_> = (0..5).map(|i| branch(ctx.scope(i), i)).collect();
    while let Some(i) = running.next().await {
        let i = i?;
        step(&ctx, "after", &format!("after{i}")).await?;
    }
    Ok(())
}

async fn select_ready_made(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    for round in 0..3 {
        let (x, y) = (format!("x{round}"), format!("y{round}"));
        let a = ctx.step("x", || world(&ctx).work(x.as_str()));
        let b = ctx.step("y", || world(&ctx).work(y.as_str()));
        let won = tokio::select! { v = a => v?, v = b => v? };
        world(&ctx).note(&won);
        step(&ctx, "next", &format!("next {won}")).await?;
    }
    Ok(())
}

async fn select_blocks(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    for round in 0..3 {
        let (left, right) = (ctx.scope("left"), ctx.scope("right"));
        let won = tokio::select! {
            v = async { step(&left, "one", &format!("l1 {round}")).await?; step(&left, "two", &format!("l2 {round}")).await } => v?,
            v = async { step(&right, "one", &format!("r1 {round}")).await?; step(&right, "two", &format!("r2 {round}")).await } => v?,
        };
        step(&ctx, "next", &format!("next {won}")).await?;
    }
    Ok(())
}

async fn select_loop_dropped(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let (mut got, mut round) = (0, 0);
    while got < SIGNALS {
        let tick = format!("tick{round}");
        round += 1;
        tokio::select! {
            v = ctx.wait::<u64>("recv") => {
                let v = v?;
                assert_eq!(v, got, "signals come in order, each once");
                world(&ctx).note(format!("recv{v}"));
                got += 1;
                step(&ctx, "handle", &format!("handle{v}")).await?;
            }
            v = ctx.step("tick", || world(&ctx).work(tick.as_str())) => world(&ctx).note(v?),
        }
    }
    Ok(())
}

async fn select_loop_carried(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let (mut got, mut round) = (0, 0);
    let mut recv = Box::pin(ctx.wait::<u64>("recv"));
    while got < SIGNALS {
        let tick = format!("tick{round}");
        round += 1;
        tokio::select! {
            v = &mut recv => {
                let v = v?;
                assert_eq!(v, got, "signals come in order, each once");
                world(&ctx).note(format!("recv{v}"));
                got += 1;
                recv = Box::pin(ctx.wait::<u64>("recv"));
                step(&ctx, "handle", &format!("handle{v}")).await?;
            }
            v = ctx.step("tick", || world(&ctx).work(tick.as_str())) => world(&ctx).note(v?),
        }
    }
    Ok(())
}

async fn two_carried(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    // Both may get a delivery while neither is polled: which one the next select sees must not be left to chance.
    for round in 0..3 {
        let mut a = Box::pin(branch(ctx.scope("a"), round * 10));
        let mut b = Box::pin(branch(ctx.scope("b"), round * 10 + 1));
        let c = format!("c{round}");
        let first = tokio::select! { v = &mut a => v?, v = &mut b => v?, v = step(&ctx, "c", &c) => v.map(|_| 99)? };
        step(&ctx, "between", &format!("between{round} {first}")).await?;
        if first == 99 {
            let second = tokio::select! { v = &mut a => v?, v = &mut b => v? };
            step(&ctx, "second", &format!("second{round} {second}")).await?;
        }
    }
    Ok(())
}

/// The `select!` of futures, which stops polling a branch once it is done.
async fn futures_select(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    for round in 0..2 {
        let one = |i: u64| Box::pin(branch(ctx.scope(i), round * 10 + i).fuse());
        let (mut a, mut b, mut c) = (one(1), one(2), one(3));
        loop {
            let won = futures_util::select! { v = a => v?, v = b => v?, v = c => v?, complete => break };
            step(&ctx, "after", &format!("after{won}")).await?;
        }
    }
    Ok(())
}

async fn buffered(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let branches = futures_util::stream::iter(0..6).map(|i| branch(ctx.scope(i), i));
    let mut done = branches.buffer_unordered(3);
    while let Some(i) = done.next().await {
        world(&ctx).note(format!("done{}", i?));
    }
    Ok(())
}

async fn join_forty(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let all = join_all((0..40).map(|i| branch(ctx.scope(i), i))).await;
    world(&ctx).note(format!("{all:?}").len().to_string());
    Ok(())
}

async fn mapped(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let all = ctx.map(0..6, |i| i % 4, branch).concurrency(3).await?;
    assert_eq!(all, (0..6).collect::<Vec<_>>());
    Ok(())
}

fn nest(ctx: Ctx, depth: u64, path: String) -> Pin<Box<dyn Future<Output = Result<String>> + Send>> {
    Box::pin(async move {
        step(&ctx, "in", &format!("in{path}")).await?;
        if depth == 0 {
            return Ok(path);
        }
        let (left, right) = (ctx.scope("l"), ctx.scope("r"));
        let (l, r) = (nest(left, depth - 1, format!("{path}l")), nest(right, depth - 1, format!("{path}r")));
        let got = if depth.is_multiple_of(2) {
            let (l, r) = tokio::try_join!(l, r)?;
            format!("{l}+{r}")
        } else {
            tokio::select! { v = l => v?, v = r => v? }
        };
        step(&ctx, "out", &format!("out{path} {got}")).await
    })
}

async fn nested(ctx: Ctx, _: ()) -> Result<String> {
    world(&ctx).born();
    nest(ctx, 4, String::new()).await
}

// ---- branches that share something: one delivery makes several of them ready ----

/// Two branches await one step, and the order in which they continue is visible.
async fn shared_pair(ctx: &Ctx, round: u64) -> Result<()> {
    let label = format!("shared{round}");
    let body = || world(ctx).work(label.as_str());
    let shared = ctx.step("shared", body).map(|done| done.map_err(|error| error.to_string())).shared();
    let came = Mutex::new(Vec::new());
    let first = |who: &'static str| {
        let (shared, came) = (shared.clone(), &came);
        async move {
            let done = shared.await;
            came.lock().unwrap().push(who);
            done
        }
    };
    let (a, b) = tokio::join!(first("a"), first("b"));
    a.and(b)?;
    let came = came.into_inner().unwrap().join(" before ");
    world(ctx).note(&came);
    // Depends on the order in which the branches continued.
    step(ctx, "act", &format!("act{round} {came}")).await?;
    Ok(())
}

async fn shared(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    for round in 0..3 {
        shared_pair(&ctx, round).await?;
    }
    Ok(())
}

async fn shared_beside_another(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let (one, other) = (ctx.scope("one"), ctx.scope("other"));
    let shared = async {
        for round in 0..3 {
            shared_pair(&one, round).await?;
        }
        Ok::<_, BoxError>(())
    };
    tokio::try_join!(branch(other, 7), shared)?;
    Ok(())
}

async fn shared_in_unordered(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let pair = |i: u64| {
        let ctx = ctx.scope(i);
        async move { shared_pair(&ctx, i).await.map(|()| i) }
    };
    let mut running: FuturesUnordered<_> = (0..3).map(pair).collect();
    while let Some(i) = running.next().await {
        let i = i?;
        step(&ctx, "after", &format!("after{i}")).await?;
    }
    Ok(())
}

async fn notified(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let notify = tokio::sync::Notify::new();
    let waiter = |who: &'static str| {
        let (ctx, notify) = (ctx.scope(who), &notify);
        async move {
            for round in 0..2 {
                notify.notified().await;
                world(&ctx).note(format!("{who} is notified, {}", ctx.uuid()));
                step(&ctx, "go", &format!("{who} {round}")).await?;
            }
            Ok::<_, BoxError>(())
        }
    };
    let caller = async {
        for round in 0..2 {
            step(&ctx, "call", &format!("call {round}")).await?;
            notify.notify_waiters();
            step(&ctx, "rest", &format!("rest {round}")).await?;
            step(&ctx, "rest longer", &format!("rest longer {round}")).await?;
        }
        Ok::<_, BoxError>(())
    };
    // A waiter that is not back in time misses a call, in every replay just as live.
    let waiters = async { tokio::try_join!(waiter("a"), waiter("b"), waiter("c")) };
    tokio::select! {
        biased;
        done = waiters => drop(done?),
        done = caller => done?,
    }
    step(&ctx, "end", "end").await?;
    Ok(())
}

async fn locked(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let (lock, gate) = (tokio::sync::Mutex::new(0), tokio::sync::Notify::new());
    let wants = |who: &'static str| {
        let (ctx, lock, gate) = (ctx.scope(who), &lock, &gate);
        async move {
            gate.notified().await;
            let mut held = lock.lock().await;
            *held += 1;
            world(&ctx).note(format!("{who} has it as number {held}, {}", ctx.random()));
            step(&ctx, "work", &format!("{who} works")).await
        }
    };
    let opens = async {
        step(&ctx, "open", "open").await?;
        gate.notify_waiters();
        Ok::<_, BoxError>(String::new())
    };
    tokio::try_join!(wants("a"), wants("b"), wants("c"), wants("d"), opens)?;
    Ok(())
}

async fn channels(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<String>(1);
    let (counts, mut one) = tokio::sync::broadcast::channel::<u64>(8);
    let mut other = counts.subscribe();
    let (done, over) = tokio::sync::oneshot::channel::<()>();
    let producer = |who: &'static str, sender: tokio::sync::mpsc::Sender<String>| {
        let ctx = ctx.scope(who);
        async move {
            for round in 0..2 {
                let made = step(&ctx, "make", &format!("{who}{round}")).await?;
                sender.send(made).await?;
            }
            Ok::<_, BoxError>(())
        }
    };
    let consumer = async {
        let mut count = 0;
        while let Some(made) = receiver.recv().await {
            world(&ctx).note(format!("took {made}"));
            step(&ctx, "take", &format!("take {made}")).await?;
            count += 1;
            counts.send(count)?;
        }
        done.send(()).map_err(|()| "the receiver was dropped")?;
        Ok::<_, BoxError>(())
    };
    let listener = |who: &'static str, heard: u64| world(&ctx).note(format!("{who} hears of {heard}"));
    let listen_one = async {
        for _ in 0..4 {
            listener("one", one.recv().await?);
        }
        Ok::<_, BoxError>(())
    };
    let listen_other = async {
        for _ in 0..4 {
            listener("other", other.recv().await?);
        }
        over.await?;
        world(&ctx).note("over");
        Ok::<_, BoxError>(())
    };
    let second = sender.clone();
    tokio::try_join!(producer("a", sender), producer("b", second), consumer, listen_one, listen_other)?;
    Ok(())
}

async fn merged_streams(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let rounds = |who: &'static str| {
        let ctx = ctx.scope(who);
        stream::unfold((ctx, 0), move |(ctx, round)| async move {
            if round == 3 {
                return None;
            }
            let made = step(&ctx, "make", &format!("{who}{round}")).await;
            Some((made, (ctx, round + 1)))
        })
    };
    let mut merged = Box::pin(stream::select(rounds("a"), rounds("b")));
    while let Some(made) = merged.next().await {
        let made = made?;
        step(&ctx, "use", &format!("use {made}")).await?;
    }
    Ok(())
}

/// Items of a set become ready while the set is not polled: several bodies, or a body and a delivery, share one poll.
async fn slowly_taken(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let item = |i: u64| {
        let ctx = ctx.scope(i);
        async move {
            let (gate, order) = (&tokio::sync::Notify::new(), &Mutex::new(String::new()));
            let hears = |who: char| gate.notified().map(move |()| order.lock().unwrap().push(who));
            let opens = async {
                step(&ctx, "opens", &format!("opens{i}")).await?;
                gate.notify_waiters();
                Ok::<_, BoxError>(())
            };
            let label = format!("other{i}");
            let other = step(&ctx, "other", &label);
            let (_, _, opened, other) = tokio::join!(hears('a'), hears('b'), opens, other);
            opened?;
            other?;
            let order = order.lock().unwrap().clone();
            step(&ctx, "order", &format!("order{i} {order}")).await
        }
        .boxed()
    };
    take_slowly(&ctx, vec![step(&ctx, "quick", "quick").boxed(), item(1), item(2)]).await
}

/// The branches of an item: two that await a shared step, and one with its own step.
async fn shares(ctx: Ctx, i: u64, shared: impl Future<Output = bool> + Clone) -> Result<String> {
    let order = &Mutex::new(String::new());
    let hears = |who: char| shared.clone().map(move |_| order.lock().unwrap().push(who));
    let label = format!("other{i}");
    let (_, other, _) = tokio::join!(hears('a'), step(&ctx, "other", &label), hears('b'));
    other?;
    let order = order.lock().unwrap().clone();
    step(&ctx, "order", &format!("order{i} {order}")).await
}

/// Takes items one by one, with a step after each during which the others are not polled.
async fn take_slowly(ctx: &Ctx, items: Vec<BoxFuture<'_, Result<String>>>) -> Result<()> {
    let mut all = stream::iter(items).buffer_unordered(3);
    while let Some(order) = all.next().await {
        let order = order?;
        step(ctx, "after", &format!("after {order}")).await?;
    }
    Ok(())
}

/// A step that branches of one item share: its wake-up and that of the item's own step are handled in one poll, and
/// were counted as two.
async fn shared_in_slowly_taken(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let item = |i: u64| {
        let ctx = ctx.scope(i);
        async move {
            let body = || world(&ctx).work(format!("shared{i}"));
            let shared = ctx.step("shared", body).map(|done| done.is_ok()).shared();
            shares(ctx.clone(), i, shared).await
        }
        .boxed()
    };
    take_slowly(&ctx, vec![step(&ctx, "quick", "quick").boxed(), item(1), item(2)]).await
}

/// A step that several items share.
async fn shared_between_slowly_taken(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    let body = || world(&ctx).work("shared");
    let shared = ctx.step("shared", body).map(|done| done.is_ok()).shared();
    let item = |i: u64| shares(ctx.scope(i), i, shared.clone()).boxed();
    take_slowly(&ctx, vec![step(&ctx, "quick", "quick").boxed(), item(1), item(2)]).await
}

/// A step begins in a set that is not polled when the step is ready, and is then awaited elsewhere. The driver kept
/// waiting for it in the set, forever.
async fn taken_out(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    for round in 0..3 {
        let (carried, between) = (format!("carried{round}"), format!("between{round}"));
        let step = Box::pin(step(&ctx, "carried", &carried));
        let mut set: FuturesUnordered<_> = [step].into_iter().collect();
        assert!(std::future::poll_fn(|cx| Poll::Ready(set.poll_next_unpin(cx).is_pending())).await);
        self::step(&ctx, "between", &between).await?;
        let step = set.into_iter().next().ok_or("it is still there")?;
        let (done, slept) = tokio::join!(step, ctx.sleep(0));
        slept?;
        world(&ctx).note(done?);
    }
    Ok(())
}

/// Branches that share a step and race in a biased order.
async fn biased_select(ctx: Ctx, _: ()) -> Result<()> {
    world(&ctx).born();
    for round in 0..3 {
        let label = format!("shared{round}");
        let body = || world(&ctx).work(label.as_str());
        let shared = ctx.step("shared", body).map(|done| done.is_ok()).shared();
        let (a, b) = (shared.clone(), shared);
        let won = tokio::select! { biased; _ = b => "b", _ = a => "a" };
        step(&ctx, "next", &format!("next{round} {won}")).await?;
    }
    Ok(())
}

/// Checks one seed: a run with two crashes at random writes.
async fn check<F, M, O>(workflow: F, signals: u64, seed: u64)
where
    F: outlive::workflow::WorkflowFn<M, Input = (), Output = O> + Copy,
    M: 'static,
    O: Send + 'static,
{
    let world = World::new(seed);
    let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
    let provided = world.clone();
    let mut test = TestEngine::new(move |engine| engine.workflow("w", workflow).provide(provided.clone()))
        .store(faults.clone())
        .paranoid(false)
        .patience(Duration::ZERO)
        .await;
    let mut recorded: Vec<(String, u64)> = Vec::new();
    let acked = Arc::new(AtomicU64::new(0));
    for crash in 0..3 {
        if crash < 2 {
            let at = faults.writes() + 1 + world.chance.below(12);
            faults.add(if world.chance.below(2) == 0 { Fault::CrashBefore(at) } else { Fault::CrashAfter(at) });
        }
        drive(&test, workflow, signals, &acked, &world).await;
        test.settle().await;
        let ledger = world.ledger();
        for (label, count) in &recorded {
            assert_eq!(ledger.get(label), Some(count), "recorded step {label:?} ran again");
        }
        let Ok(run) = test.get_run::<serde_json::Value>("r").await else {
            faults.revive();
            test.crash().await;
            continue;
        };
        let done = run.journal().await.unwrap().into_iter().filter(|entry| entry.kind == EntryKind::StepDone);
        let labels = done.map(|entry| entry.payload.unwrap().decode::<String>().unwrap());
        recorded = labels.map(|label| (label.clone(), ledger[&label])).collect();
        let status = run.status().await.unwrap();
        if status == Status::Completed {
            break;
        }
        assert!(!status.is_ended() && status != Status::Stuck, "{:?}", run.info().await.unwrap());
        faults.revive();
        test.crash().await;
    }
    let run: Run<serde_json::Value> = test.get_run("r").await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Completed, "{:?}", run.info().await.unwrap());
    let lives = world.lives();
    for (one, next) in lives.iter().zip(lives.iter().skip(1)) {
        assert!(next.len() >= one.len() && next[..one.len()] == one[..], "seen: {one:?}, then: {next:?}");
    }
}

/// Starts the run and sends its signals, with turns of the runtime in between, until it is done or the process is dead.
async fn drive<F, M, O>(test: &TestEngine, workflow: F, signals: u64, acked: &Arc<AtomicU64>, world: &World)
where
    F: outlive::workflow::WorkflowFn<M, Input = (), Output = O> + Copy,
    M: 'static,
    O: Send + 'static,
{
    let client = test.client();
    let start = client.start(workflow, &()).id("r").on_conflict(OnConflict::Join);
    let acked = acked.clone();
    let chance = world.chance.clone();
    // A call to a dead process never returns: this task is dropped with the engine.
    tokio::spawn(async move {
        let Ok(run) = start.await else { return };
        while acked.load(Ordering::SeqCst) < signals {
            for _ in 0..chance.below(20) {
                tokio::task::yield_now().await;
            }
            let n = acked.load(Ordering::SeqCst);
            if run.signal("recv", &n).dedup_key(&n.to_string()).await.is_err() {
                return;
            }
            acked.fetch_add(1, Ordering::SeqCst);
        }
    });
    for _ in 0..10 {
        test.settle().await;
    }
}

macro_rules! shapes {
    ($($name:ident: $workflow:ident, $signals:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            for seed in 0..SEEDS {
                check($workflow, $signals, seed).await;
            }
        }
    )*};
}

shapes! {
    a_join_of_distinct_names_replays_exactly: join_distinct, 0;
    a_join_of_one_function_with_keys_replays_exactly: join_keyed, 0;
    futures_unordered_with_a_step_per_result_replays_exactly: unordered, 0;
    a_select_over_ready_made_operations_replays_exactly: select_ready_made, 0;
    a_select_over_blocks_of_several_steps_replays_exactly: select_blocks, 0;
    a_select_loop_that_drops_its_wait_replays_exactly: select_loop_dropped, SIGNALS;
    a_select_loop_that_carries_its_wait_replays_exactly: select_loop_carried, SIGNALS;
    two_carried_branches_replay_exactly: two_carried, 0;
    a_select_of_futures_replays_exactly: futures_select, 0;
    buffer_unordered_replays_exactly: buffered, 0;
    join_all_of_forty_replays_exactly: join_forty, 0;
    a_map_with_repeated_keys_replays_exactly: mapped, 0;
    joins_and_selects_nested_to_depth_four_replay_exactly: nested, 0;
    a_step_shared_by_two_branches_of_a_join_replays_exactly: shared, 0;
    a_shared_step_in_a_nested_join_replays_exactly: shared_beside_another, 0;
    a_shared_step_in_a_join_in_futures_unordered_replays_exactly: shared_in_unordered, 0;
    branches_notified_together_replay_exactly: notified, 0;
    branches_that_want_one_lock_replay_exactly: locked, 0;
    channels_between_branches_replay_exactly: channels, 0;
    merged_streams_replay_exactly: merged_streams, 0;
    branches_of_slowly_consumed_items_replay_exactly: slowly_taken, 0;
    a_step_shared_within_a_slowly_consumed_item_replays_exactly: shared_in_slowly_taken, 0;
    a_step_shared_by_slowly_consumed_items_replays_exactly: shared_between_slowly_taken, 0;
    a_step_taken_out_of_a_set_replays_exactly: taken_out, 0;
    a_biased_select_over_a_shared_step_replays_exactly: biased_select, 0;
}

#[tokio::test]
async fn calls_are_futures_without_conversion() {
    async fn double(ctx: Ctx, n: u32) -> Result<u32> {
        let factor = &2;
        let steps = (0..n).map(|i| ctx.step("one", || async { Ok::<_, BoxError>(1) }).key(i));
        let sum: u32 = join_all(steps).await.into_iter().sum::<Result<u32, _>>()?;
        let nap: BoxFuture<'_, _> = Box::pin(ctx.sleep("1 hour"));
        let go = ctx.wait::<bool>("go").map(|go| go.unwrap_or(false)).shared();
        let map = ctx.map([sum], |_| "sum", |_, sum| async move { Ok::<_, BoxError>(sum * factor) });
        let (slept, go, map) = tokio::join!(nap, go, map);
        slept?;
        assert!(go);
        Ok(map?[0])
    }
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    let starts: FuturesUnordered<_> = [3, 4].into_iter().map(|n| test.start(double, &n)).collect();
    let runs: Vec<_> = starts.map(|run| run.unwrap()).collect().await;
    join_all(runs.iter().map(|run| run.signal("go", &true))).await;
    let mut sums = Vec::new();
    for run in &runs {
        sums.push(test.result(run).await.unwrap());
    }
    sums.sort_unstable();
    assert_eq!(sums, [6, 8]);
}

#[tokio::test]
async fn key_set_after_the_first_poll_changes_nothing() {
    async fn late(ctx: Ctx, _: ()) -> Result<()> {
        let mut nap = ctx.sleep("1 hour");
        assert!(futures_util::poll!(&mut nap).is_pending());
        Ok(nap.key("late").await?)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("late", late)).await;
    let run = test.start(late, &()).await.unwrap();
    test.settle().await;
    test.crash().await;
    test.result(&run).await.unwrap();
    assert!(run.journal().await.unwrap().iter().all(|entry| !entry.op.contains("late")));
}
