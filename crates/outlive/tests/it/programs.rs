//! Workflows of every shape, each with the signals and checks it needs to be crashed everywhere. The proof `crashes`
//! runs them too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::layer::{Inner, Layer, LayerFuture, ObservedStep};
use outlive::prelude::*;
use outlive::workflow::WorkflowFn;
use outlive::{Breaker, RetryBudget};
use outlive_testkit::crash_everywhere;
use outlive_testkit::crashes::{CrashEverywhere, Ledger};

/// A program by name, ready to be crashed in a world with a seed.
pub(crate) type Program = (&'static str, fn(u64) -> CrashEverywhere<()>);

/// All programs.
pub(crate) const PROGRAMS: &[Program] = &[
    ("sequence", |seed| on(sequence, seed)),
    ("retry", |seed| on(retry, seed)),
    ("exhausted", |seed| on(exhausted, seed)),
    ("timeout", |seed| on(timeout, seed)),
    ("deadline", |seed| on(deadline, seed)),
    ("sleep", |seed| on(sleep, seed)),
    ("wait", |seed| on(wait, seed).signal_at("1 min", "s", "x").signal_at("2 min", "s", "y")),
    ("buffered", |seed| on(wait, seed).signal("s", "x").signal("s", "y")),
    ("wait_timeout", |seed| on(wait_timeout, seed).signal_at("30 min", "s", "x")),
    ("given_back", |seed| on(given_back, seed).races().signal_at("1 h", "s", "x").invariant("x is kept", keeps_x)),
    ("signal_against_sleep", |seed| on(signal_against_sleep, seed).signal_at("30 min", "s", "x")),
    ("sleep_against_signal", |seed| on(signal_against_sleep, seed).signal_at("90 min", "s", "x")),
    ("race", |seed| on(race, seed).races().invariant("one wins", one_wins)),
    ("join", |seed| on(join, seed)),
    ("looped", |seed| on(looped, seed)),
    ("mapped", |seed| on(mapped, seed)),
    ("cleaned", |seed| on(cleaned, seed).cancel_at("1 h", "enough")),
    ("cancelled_retry", |seed| on(cancelled_retry, seed).cancel_at("25 s", "enough")),
    ("fallback", |seed| on(fallback, seed)),
    ("heartbeats", |seed| on(heartbeats, seed)),
    ("silent", |seed| on(silent, seed)),
    ("breaker", |seed| on(breaker, seed).provide_with(guards)),
    ("two_behind_a_breaker", |seed| on(two_behind_a_breaker, seed).provide_with(guards)),
    ("cancelled_behind_a_breaker", |seed| {
        on(cancelled_behind_a_breaker, seed).provide_with(guards).cancel_at("25 s", "enough")
    }),
    ("once", |seed| on(once, seed).invariant("launched once or lost", launched_once)),
    ("drawn", |seed| on(drawn, seed)),
    ("failing", |seed| on(failing, seed).expect_failure()),
    ("family", |seed| with_children(on(family, seed))),
    ("cancelled_family", |seed| with_children(on(family, seed)).cancel_at("10 min", "enough")),
    ("sending", |seed| with_children(on(sending, seed))),
    ("layered", |seed| on(layered, seed).setup(|engine| engine.layer(Spoiler))),
];

fn with_children(crashes: CrashEverywhere<()>) -> CrashEverywhere<()> {
    crashes.setup(|engine| engine.workflow("slow", slow).workflow("fragile", fragile).workflow("asking", asking))
}

fn on<F, M>(workflow: F, seed: u64) -> CrashEverywhere<()>
where
    F: WorkflowFn<M, Input = ()> + Clone,
    M: 'static,
{
    crash_everywhere(workflow).world(move || World::new(seed))
}

// ---- the world ----

/// What outlives the process: how often each side effect ran. Its seed decides how long each takes.
#[derive(Clone)]
struct World(Arc<Mutex<State>>);

struct State {
    chance: u64,
    done: BTreeMap<String, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self(Arc::new(Mutex::new(State { chance, done: BTreeMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many turns of the runtime the next side effect takes (xorshift).
    fn turns(&self) -> u64 {
        let mut state = self.lock();
        state.chance ^= state.chance << 13;
        state.chance ^= state.chance >> 7;
        state.chance ^= state.chance << 17;
        (state.chance >> 11) % 4
    }

    /// A side effect that takes a few turns of the runtime and returns its own name.
    async fn work(&self, name: impl Into<String>) -> Result<String> {
        let name = name.into();
        *self.lock().done.entry(name.clone()).or_insert(0) += 1;
        for _ in 0..self.turns() {
            tokio::task::yield_now().await;
        }
        Ok(name)
    }

    /// Fails the first `times` times it runs, across all lives of the process.
    async fn flaky(&self, name: &str, times: u64) -> Result<String> {
        let got = self.work(name).await?;
        if self.lock().done[name] <= times { Err("not yet".into()) } else { Ok(got) }
    }

    /// Runs, and never ends.
    async fn hang(&self, name: &str) -> Result<String> {
        self.work(name).await?;
        std::future::pending().await
    }
}

fn world(ctx: &Ctx) -> &World {
    ctx.get::<World>()
}

async fn effect(ctx: &Ctx, name: &str) -> Result<String> {
    Ok(ctx.step(name, || world(ctx).work(name)).await?)
}

// ---- steps ----

async fn sequence(ctx: Ctx, _: ()) -> Result<String> {
    Ok(effect(&ctx, "a").await? + &effect(&ctx, "b").await? + &effect(&ctx, "c").await?)
}

async fn retry(ctx: Ctx, _: ()) -> Result<String> {
    let got = ctx.step("flaky", || world(&ctx).flaky("flaky", 2)).retry(Retry::times(5).constant("10 s")).await?;
    Ok(got + &effect(&ctx, "after").await?)
}

async fn exhausted(ctx: Ctx, _: ()) -> Result<String> {
    let ended = ctx.step("never", || world(&ctx).flaky("never", 99)).retry(Retry::times(2).constant("10 s")).await;
    assert!(matches!(ended, Err(Error::RetryExhausted { attempts: 3, .. })), "{ended:?}");
    effect(&ctx, "instead").await
}

async fn timeout(ctx: Ctx, _: ()) -> Result<String> {
    let ended = ctx.step("hang", || world(&ctx).hang("hang")).timeout("30 s").await;
    assert!(ended.as_ref().is_err_and(Error::is_timeout), "{ended:?}");
    effect(&ctx, "after").await
}

/// Each attempt has a timeout, and all of them together have one.
async fn deadline(ctx: Ctx, _: ()) -> Result<String> {
    let retry = Retry::times(9).constant("5 s");
    let ended = ctx.step("hang", || world(&ctx).hang("hang")).timeout("10 s").retry(retry).timeout("40 s").await;
    assert!(ended.as_ref().is_err_and(Error::is_timeout), "{ended:?}");
    effect(&ctx, "after").await
}

async fn fallback(ctx: Ctx, _: ()) -> Result<String> {
    let got = ctx
        .step("price", || world(&ctx).flaky("price", 99))
        .retry(Retry::times(1).constant("1 s"))
        .fallback(|failure| async move {
            // It takes a while, so that a crash can happen between the last attempt and its end.
            tokio::task::yield_now().await;
            Ok(format!("instead of {failure}"))
        })
        .await?;
    Ok(got + &effect(&ctx, "after").await?)
}

/// Each attempt continues where the last heartbeat left off, in whatever life.
async fn heartbeats(ctx: Ctx, _: ()) -> Result<String> {
    let body = |attempt: Attempt| {
        let world = world(&ctx);
        async move {
            let first = attempt.progress::<u32>()?.unwrap_or(0);
            assert!(first >= 2 * (attempt.number - 1), "attempt {} continues at {first}", attempt.number);
            for item in first..6 {
                world.work("item").await?;
                attempt.heartbeat(&(item + 1))?;
                if item + 1 == 2 * attempt.number {
                    return Err("not yet".into());
                }
            }
            Ok::<_, BoxError>("all".to_owned())
        }
    };
    let got = ctx.step("work", body).retry(Retry::times(5).constant("10 s")).heartbeat_timeout("1 min").await?;
    Ok(got + &effect(&ctx, "after").await?)
}

async fn silent(ctx: Ctx, _: ()) -> Result<String> {
    let ended = ctx.step("hang", || world(&ctx).hang("hang")).heartbeat_timeout("30 s").await;
    assert!(ended.as_ref().is_err_and(Error::is_timeout), "{ended:?}");
    effect(&ctx, "after").await
}

struct Guards(Breaker, RetryBudget);

/// What a process guards its services with; a new process has new ones.
fn guards() -> Guards {
    Guards(Breaker::new(1, Duration::from_secs(30)).named("service"), RetryBudget::new(0.1).reserve(1))
}

async fn guarded(ctx: &Ctx, name: &str, times: u64) -> Result<String> {
    let Guards(breaker, budget) = ctx.get();
    let step = ctx.step(name, || world(ctx).flaky(name, times)).retry(Retry::times(9).constant("1 s"));
    Ok(step.breaker(breaker).budget(budget).await?)
}

async fn breaker(ctx: Ctx, _: ()) -> Result<String> {
    Ok(guarded(&ctx, "a", 2).await? + &guarded(&ctx, "b", 2).await?)
}

async fn two_behind_a_breaker(ctx: Ctx, _: ()) -> Result<String> {
    let (one, other) = tokio::try_join!(guarded(&ctx, "a", 2), guarded(&ctx, "b", 2))?;
    Ok(one + &other + &effect(&ctx, "after").await?)
}

/// A new process has a closed breaker, and so makes one more attempt.
async fn cancelled_behind_a_breaker(ctx: Ctx, _: ()) -> Result<String> {
    guarded(&ctx, "a", 99).await?;
    effect(&ctx, "late").await
}

async fn once(ctx: Ctx, _: ()) -> Result<String> {
    match ctx.step("launch", || world(&ctx).work("launch")).at_most_once().await {
        Ok(got) => effect(&ctx, "landed").await.map(|after| got + &after),
        Err(Error::Interrupted { .. }) => effect(&ctx, "lost").await,
        Err(error) => Err(error.into()),
    }
}

fn launched_once(ledger: &Ledger) -> Result<(), String> {
    let (times, output) = (ledger.world::<World>().lock().done.get("launch").copied(), ledger.output::<String>());
    match (times, output.as_deref()) {
        (Some(1), Some("launchlanded")) | (None | Some(1), Some("lost")) => Ok(()),
        (times, output) => Err(format!("launched {times:?} times, and returned {output:?}")),
    }
}

/// Random values are the same in every life.
async fn drawn(ctx: Ctx, _: ()) -> Result<(u64, String, u64)> {
    let first = ctx.random();
    effect(&ctx, "a").await?;
    let id = ctx.uuid().to_string();
    ctx.sleep("1 h").await?;
    effect(&ctx, "b").await?;
    Ok((first, id, ctx.random()))
}

/// Ends with its own error.
async fn failing(ctx: Ctx, _: ()) -> Result<String> {
    effect(&ctx, "reserve").await?;
    match ctx.step("charge", || world(&ctx).flaky("charge", 99)).await {
        Err(error) => Err(format!("{} after {error}", effect(&ctx, "release").await?).into()),
        other => Ok(other?),
    }
}

// ---- time and signals ----

async fn sleep(ctx: Ctx, _: ()) -> Result<String> {
    let start = ctx.now();
    effect(&ctx, "before").await?;
    ctx.sleep("1 h").await?;
    ctx.sleep("1 h").await?;
    assert_eq!(ctx.now().since(start), Duration::from_secs(7_200));
    effect(&ctx, "after").await
}

async fn wait(ctx: Ctx, _: ()) -> Result<String> {
    let first: String = ctx.wait("s").await?;
    effect(&ctx, "between").await?;
    let second: String = ctx.wait("s").await?;
    Ok(first + &second)
}

async fn wait_timeout(ctx: Ctx, _: ()) -> Result<String> {
    let got = ctx.wait::<String>("s").timeout("1 h").await?;
    let none = ctx.wait::<String>("never").timeout("1 h").await;
    assert!(none.is_err_and(|error| error.is_timeout()));
    Ok(got + &effect(&ctx, "after").await?)
}

async fn signal_against_sleep(ctx: Ctx, _: ()) -> Result<String> {
    let first = tokio::select! {
        got = ctx.wait::<String>("s") => got?,
        slept = ctx.sleep("1 h") => slept.map(|()| "slept".to_owned())?,
    };
    Ok(first + &effect(&ctx, "after").await?)
}

/// The signal and the end of the sleep come at the same moment; a wait that loses returns the signal.
async fn given_back(ctx: Ctx, _: ()) -> Result<String> {
    let first = tokio::select! {
        got = ctx.wait::<String>("s") => got?,
        slept = ctx.sleep("1 h") => slept.map(|()| "slept".to_owned())?,
    };
    effect(&ctx, "between").await?;
    let second = if first == "slept" { ctx.wait("s").await? } else { String::new() };
    Ok(first + &second)
}

fn keeps_x(ledger: &Ledger) -> Result<(), String> {
    match ledger.output::<String>().as_deref() {
        Some("x" | "sleptx") => Ok(()),
        other => Err(format!("it returned {other:?}")),
    }
}

// ---- branches ----

async fn race(ctx: Ctx, _: ()) -> Result<String> {
    let won = tokio::select! {
        v = ctx.step("left", || world(&ctx).work("left")) => v?,
        v = ctx.step("right", || world(&ctx).work("right")) => v?,
    };
    Ok(effect(&ctx, "after").await? + &won)
}

fn one_wins(ledger: &Ledger) -> Result<(), String> {
    match ledger.output::<String>().as_deref() {
        Some("afterleft" | "afterright") => Ok(()),
        other => Err(format!("it returned {other:?}")),
    }
}

async fn join(ctx: Ctx, _: ()) -> Result<String> {
    let (a, b, c) = tokio::try_join!(
        ctx.step("a", || world(&ctx).work("a")),
        ctx.step("b", || world(&ctx).flaky("b", 1)).retry(Retry::times(3).constant("1 s")),
        async {
            ctx.sleep("5 s").await?;
            ctx.step("c", || world(&ctx).work("c")).await
        },
    )?;
    Ok(a + &b + &c)
}

async fn looped(ctx: Ctx, _: ()) -> Result<String> {
    let mut all = String::new();
    for i in 0..5 {
        all += &ctx.step("item", || world(&ctx).work(format!("item{i}"))).await?;
    }
    Ok(all)
}

async fn mapped(ctx: Ctx, _: ()) -> Result<String> {
    let one = |scope: Ctx, i: u32| async move {
        let first = scope.step("one", || world(&scope).work(format!("one{i}"))).await?;
        scope.sleep("1 s").await?;
        Ok::<_, BoxError>(first + &scope.step("two", || world(&scope).work(format!("two{i}"))).await?)
    };
    Ok(ctx.map(0..4, |i| *i, one).concurrency(2).await?.concat())
}

// ---- cancel ----

async fn cleaned(ctx: Ctx, _: ()) -> Result<String> {
    effect(&ctx, "reserve").await?;
    match ctx.sleep("1 day").await {
        Ok(()) => Ok("slept".into()),
        Err(error) => {
            assert!(error.is_cancelled());
            assert!(ctx.sleep("1 h").await.is_err_and(|error| error.is_cancelled()));
            effect(&ctx, "release").await
        }
    }
}

/// Is cancelled while it waits for the next attempt.
async fn cancelled_retry(ctx: Ctx, _: ()) -> Result<String> {
    match ctx.step("never", || world(&ctx).flaky("never", 99)).retry(Retry::times(9).constant("10 s")).await {
        Err(error) if error.is_cancelled() => effect(&ctx, "release").await,
        other => Err(format!("{other:?}").into()),
    }
}

// ---- children and effects ----

async fn slow(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 h").await?;
    Ok(n)
}

async fn fragile(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.sleep("1 min").await?;
    Err("broken".into())
}

async fn asking(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("answer").await?)
}

async fn family(ctx: Ctx, _: ()) -> Result<String> {
    let attached = ctx.spawn(asking, &()).id("attached").await?;
    ctx.spawn(slow, &1).id("detached").detach().await?;
    let failure = ctx.run(fragile, &()).await.err().map(|error| error.to_string());
    let result = ctx.run(slow, &2).await?;
    attached.signal("answer", &3).await?;
    Ok(format!("{result} {} {failure:?}", attached.result().await?))
}

async fn sending(ctx: Ctx, _: ()) -> Result<Vec<bool>> {
    let child = ctx.spawn(asking, &()).id("child").await?;
    let (cancelled, lost, started, taken) = tokio::join!(
        child.cancel("enough"),
        ctx.signal("nobody", "answer", &1),
        ctx.start(asking, &()).id("started"),
        ctx.spawn(slow, &1).id("child"),
    );
    ctx.signal("started", "answer", &1).await?;
    let sent = vec![cancelled.is_ok(), lost.is_ok(), started.is_ok(), taken.is_ok()];
    let late = ctx.start(slow, &1).id("late");
    tokio::select! {
        biased;
        _ = late => Ok(sent),
        _ = ctx.signal("nobody", "late", &1) => Ok(Vec::new()),
    }
}

// ---- layers ----

/// Fails the attempts of a step after its body has run, and says more about the errors of another.
struct Spoiler;

impl Layer for Spoiler {
    fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            match (step.name, inner.run().await) {
                ("spoiled", Ok(())) => Err(Permanent("spoiled").into()),
                ("flaky", Err(error)) => Err(format!("{error}, in attempt {}", step.attempt).into()),
                (_, result) => result,
            }
        })
    }
}

async fn layered(ctx: Ctx, _: ()) -> Result<String> {
    let got = effect(&ctx, "spoiled").await;
    let spoiled = got.err().map(|error| error.to_string()).filter(|text| text.contains("spoiled"));
    let spoiled = spoiled.ok_or("the layer was ignored")?;
    let got = ctx.step("flaky", || world(&ctx).flaky("flaky", 2)).retry(Retry::times(5).constant("10 s")).await?;
    ctx.sleep("1 h").await?;
    Ok(spoiled + &got + &effect(&ctx, "after").await?)
}
