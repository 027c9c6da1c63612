//! P1, P2, P4: a crash before or after any commit changes neither the result nor what is recorded, and no side effect
//! happens more often than once per crash more.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{EntryKind, OnConflict};
use outlive_core::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestEngine};
use serde_json::Value;

use crate::support::{World, world};

// ---- programs ----

async fn effect(ctx: &Ctx, name: &str) -> Result<String> {
    Ok(ctx.step(name, || world(ctx).work(name)).await?)
}

async fn sequence(ctx: Ctx, _: ()) -> Result<String> {
    Ok(effect(&ctx, "a").await? + &effect(&ctx, "b").await? + &effect(&ctx, "c").await?)
}

/// Fails the first `times` times that it is done, over all lives of the process.
async fn flaky(ctx: &Ctx, name: &str, times: u64) -> Result<String> {
    let got = world(ctx).work(name).await?;
    if world(ctx).ledger()[name] <= times { Err("not yet".into()) } else { Ok(got) }
}

async fn retry(ctx: Ctx, _: ()) -> Result<String> {
    let got = ctx.step("flaky", || flaky(&ctx, "flaky", 2)).retry(Retry::times(5).constant("10 s")).await?;
    Ok(got + &effect(&ctx, "after").await?)
}

async fn exhausted(ctx: Ctx, _: ()) -> Result<String> {
    let ended = ctx.step("never", || flaky(&ctx, "never", 99)).retry(Retry::times(2).constant("10 s")).await;
    assert!(matches!(ended, Err(Error::RetryExhausted { attempts: 3, .. } | Error::Cancelled { .. })), "{ended:?}");
    effect(&ctx, "instead").await
}

async fn hang(ctx: &Ctx) -> Result<String> {
    world(ctx).work("hang").await?;
    std::future::pending().await
}

async fn timeout(ctx: Ctx, _: ()) -> Result<String> {
    let ended = ctx.step("hang", || hang(&ctx)).timeout("30 s").await;
    assert!(ended.as_ref().is_err_and(Error::is_timeout), "{ended:?}");
    effect(&ctx, "after").await
}

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

async fn race(ctx: Ctx, _: ()) -> Result<String> {
    let won = tokio::select! {
        v = ctx.step("left", || world(&ctx).work("left")).into_future() => v?,
        v = ctx.step("right", || world(&ctx).work("right")).into_future() => v?,
    };
    Ok(effect(&ctx, "after").await? + &won)
}

async fn join(ctx: Ctx, _: ()) -> Result<String> {
    let (a, b, c) = tokio::try_join!(
        ctx.step("a", || world(&ctx).work("a")),
        ctx.step("b", || flaky(&ctx, "b", 1)).retry(Retry::times(3).constant("1 s")),
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

async fn cleaned(ctx: Ctx, _: ()) -> Result<String> {
    effect(&ctx, "reserve").await?;
    match ctx.sleep("1 day").await {
        Ok(()) => Ok("slept".into()),
        Err(error) => {
            assert!(error.is_cancelled());
            assert!(ctx.sleep("1 h").await.unwrap_err().is_cancelled());
            effect(&ctx, "release").await
        }
    }
}

async fn once(ctx: Ctx, _: ()) -> Result<String> {
    match ctx.step("launch", || world(&ctx).work("launch")).at_most_once().await {
        Ok(got) => effect(&ctx, "landed").await.map(|after| got + &after),
        Err(Error::Interrupted { .. }) => effect(&ctx, "lost").await,
        Err(error) => Err(error.into()),
    }
}

async fn fallback(ctx: Ctx, _: ()) -> Result<String> {
    let got = ctx
        .step("price", || flaky(&ctx, "price", 99))
        .retry(Retry::times(1).constant("1 s"))
        .fallback(|failure| async move { Ok(format!("instead of {failure}")) })
        .await?;
    Ok(got + &effect(&ctx, "after").await?)
}

// ---- the stage ----

/// What comes from outside, once nothing moves.
#[derive(Clone, Copy)]
enum Act {
    Signal(&'static str, &'static str),
    Cancel,
}

struct Stage {
    test: TestEngine,
    faults: Arc<Faults>,
    world: World,
    acts: &'static [Act],
}

/// How a run ended.
#[derive(PartialEq, Debug)]
struct Ended {
    status: Status,
    output: Option<Value>,
    note: Option<String>,
}

impl Stage {
    async fn new<F, M>(workflow: F, acts: &'static [Act], seed: u64) -> Self
    where
        F: outlive::workflow::WorkflowFn<M, Input = ()> + Clone,
        M: 'static,
    {
        let world = World::new(seed);
        let provided = world.clone();
        let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        let setup = move |engine: outlive::Builder| engine.workflow("w", workflow.clone()).provide(provided.clone());
        let test = TestEngine::new(setup).store(faults.clone()).patience(Duration::ZERO).await;
        Self { test, faults, world, acts }
    }

    /// Plays the whole story, from wherever it is. `None` if the process dies in it.
    async fn play(&self) -> Option<Ended> {
        tokio::select! {
            biased;
            ended = self.story() => Some(ended),
            () = self.death() => None,
        }
    }

    async fn death(&self) {
        while !self.faults.is_dead() {
            tokio::task::yield_now().await;
        }
    }

    async fn story(&self) -> Ended {
        let test = &self.test;
        let run = test.start_json("w", "null").id("r").on_conflict(OnConflict::Join).await.unwrap();
        test.settle().await;
        for (n, act) in self.acts.iter().enumerate() {
            match act {
                Act::Signal(name, value) => match run.signal(name, value).dedup(&n.to_string()).await {
                    Ok(()) | Err(Error::Status { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                Act::Cancel => {
                    run.cancel("enough").await.unwrap();
                }
            }
            test.settle().await;
        }
        test.skip_time().await;
        let info = run.info().await.unwrap();
        Ended { status: info.status, output: info.output.map(|output| output.decode().unwrap()), note: info.note }
    }

    /// The steps that are recorded, with how often they were done so far.
    async fn recorded(&self) -> Vec<(String, u64)> {
        let Ok(run) = self.test.run::<Value>("r").await else { return Vec::new() };
        let ledger = self.world.ledger();
        let done = run.journal().await.unwrap().into_iter().filter(|entry| entry.kind == EntryKind::StepDone);
        let labels = done.filter_map(|entry| entry.payload?.decode::<String>().ok());
        labels.filter_map(|label| ledger.get(&label).map(|count| (label.clone(), *count))).collect()
    }

    /// Dies at a commit, comes back and plays to the end.
    async fn die_and_go_on(&mut self, fault: Fault) -> Ended {
        self.faults.add(fault);
        if let Some(ended) = self.play().await {
            return ended;
        }
        let recorded = self.recorded().await;
        self.faults.revive();
        self.test.crash().await;
        let ended = self.play().await.expect("one death is enough");
        let ledger = self.world.ledger();
        for (label, count) in recorded {
            assert_eq!(ledger[&label], count, "{fault:?}: recorded step {label:?} ran again");
        }
        ended
    }
}

/// Whether a crash may change what a program gives.
#[derive(Clone, Copy, PartialEq)]
enum Oracle {
    /// It may not.
    Same,
    /// It may: the program races, or says what happened to it. Only how it ends, and what is recorded, must hold.
    Stable,
}

async fn crash_everywhere<F, M>(workflow: F, acts: &'static [Act], oracle: Oracle)
where
    F: outlive::workflow::WorkflowFn<M, Input = ()> + Clone,
    M: 'static,
{
    let stage = Stage::new(workflow.clone(), acts, 7).await;
    let whole = stage.play().await.expect("nobody dies here");
    assert!(whole.status.is_ended(), "{whole:?}");
    let (ledger, writes) = (stage.world.ledger(), stage.faults.writes());
    assert!(writes > 2);
    for n in 1..=writes {
        for fault in [Fault::CrashBefore(n), Fault::CrashAfter(n)] {
            let mut stage = Stage::new(workflow.clone(), acts, 7).await;
            let ended = stage.die_and_go_on(fault).await;
            assert_eq!(ended.status, whole.status, "{fault:?}: {ended:?}");
            if oracle == Oracle::Same {
                assert_eq!(ended, whole, "{fault:?}");
                at_most_once_more(&stage.world.ledger(), &ledger, fault);
            }
        }
    }
}

/// A crash repeats a side effect once at the most, and makes none go missing.
fn at_most_once_more(ledger: &BTreeMap<String, u64>, whole: &BTreeMap<String, u64>, fault: Fault) {
    assert_eq!(ledger.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>(), "{fault:?}");
    for (label, count) in ledger {
        assert!((whole[label]..=whole[label] + 1).contains(count), "{fault:?}: {label} was done {count} times");
    }
}

macro_rules! everywhere {
    ($($name:ident: $workflow:ident, $acts:expr, $oracle:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            crash_everywhere($workflow, $acts, Oracle::$oracle).await;
        }
    )*};
}

everywhere! {
    a_sequence_survives_a_crash_at_every_commit: sequence, &[], Same;
    a_retried_step_survives_a_crash_at_every_commit: retry, &[], Same;
    an_exhausted_step_survives_a_crash_at_every_commit: exhausted, &[], Same;
    a_timeout_survives_a_crash_at_every_commit: timeout, &[], Same;
    sleeps_survive_a_crash_at_every_commit: sleep, &[], Same;
    waits_survive_a_crash_at_every_commit: wait, &[Act::Signal("s", "x"), Act::Signal("s", "y")], Same;
    a_wait_that_gives_up_survives_a_crash_at_every_commit: wait_timeout, &[Act::Signal("s", "x")], Same;
    a_race_survives_a_crash_at_every_commit: race, &[], Stable;
    a_join_survives_a_crash_at_every_commit: join, &[], Same;
    a_loop_survives_a_crash_at_every_commit: looped, &[], Same;
    a_map_survives_a_crash_at_every_commit: mapped, &[], Same;
    a_cancel_with_clean_up_survives_a_crash_at_every_commit: cleaned, &[Act::Cancel], Same;
    a_fallback_survives_a_crash_at_every_commit: fallback, &[], Same;
    a_step_that_may_run_once_survives_a_crash_at_every_commit: once, &[], Stable;
}

#[tokio::test]
async fn a_step_that_may_run_once_never_runs_twice() {
    let stage = Stage::new(once, &[], 7).await;
    stage.play().await.unwrap();
    for n in 1..=stage.faults.writes() {
        for fault in [Fault::CrashBefore(n), Fault::CrashAfter(n)] {
            let mut stage = Stage::new(once, &[], 7).await;
            let ended = stage.die_and_go_on(fault).await;
            let ledger = stage.world.ledger();
            assert!(ledger.get("launch").copied().unwrap_or(0) <= 1, "{fault:?}");
            let output = ended.output.unwrap();
            assert!(output == "launchlanded" || output == "lost", "{fault:?}: {output}");
        }
    }
}

// ---- random programs against an interpreter that knows nothing of engines ----

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
enum Node {
    Step(String),
    /// Fails that often before it succeeds.
    Flaky(String, u64),
    /// Fails for good; the program goes on with its name.
    Failing(String),
    Once(String),
    Hang(String),
    Sleep(u64),
    Wait(String),
    Seq(Vec<Node>),
    Join(Vec<Node>),
    Loop(u64, Box<Node>),
    Map(u64, Box<Node>),
    Caught(Box<Node>),
}

struct Generator<'a> {
    world: &'a World,
    names: u64,
    signals: Vec<String>,
}

impl Generator<'_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn node(&mut self, depth: u64) -> Node {
        let kinds = if depth == 0 { 7 } else { 12 };
        let inner = |this: &mut Self| Box::new(this.node(depth - 1));
        match self.world.chance.below(kinds) {
            0 | 1 => Node::Step(self.name()),
            2 => Node::Flaky(self.name(), 1 + self.world.chance.below(2)),
            3 => Node::Failing(self.name()),
            4 => Node::Hang(self.name()),
            5 => Node::Sleep(self.world.chance.below(5_000)),
            6 => {
                let name = self.name();
                self.signals.push(name.clone());
                Node::Wait(name)
            }
            7 => Node::Join((0..2 + self.world.chance.below(2)).map(|_| self.node(depth - 1)).collect()),
            8 => Node::Loop(1 + self.world.chance.below(3), Box::new(self.node(0).without_wait(self))),
            9 => Node::Map(1 + self.world.chance.below(3), Box::new(self.node(0).without_wait(self))),
            10 => Node::Caught(inner(self)),
            _ => Node::Seq((0..2 + self.world.chance.below(3)).map(|_| self.node(depth - 1)).collect()),
        }
    }
}

impl Node {
    /// What is done more than once waits for no signal: one is sent per name.
    fn without_wait(self, generator: &mut Generator<'_>) -> Node {
        match self {
            Self::Wait(_) => {
                generator.signals.pop();
                Self::Step(generator.name())
            }
            other => other,
        }
    }

    /// What the program gives, by the meaning of its words alone.
    fn meaning(&self, out: &mut Vec<String>) {
        match self {
            Self::Step(name) | Self::Flaky(name, _) | Self::Once(name) => out.push(name.clone()),
            Self::Failing(name) => out.push(format!("{name} failed")),
            Self::Hang(name) => out.push(format!("{name} timed out")),
            Self::Sleep(_) => {}
            Self::Wait(name) => out.push(format!("{name} came")),
            Self::Seq(nodes) | Self::Join(nodes) => nodes.iter().for_each(|node| node.meaning(out)),
            Self::Loop(times, node) | Self::Map(times, node) => (0..*times).for_each(|_| node.meaning(out)),
            Self::Caught(node) => node.meaning(out),
        }
    }
}

type Branch = Pin<Box<dyn Future<Output = Result<Vec<String>>> + Send>>;

fn perform(ctx: Ctx, node: Node) -> Branch {
    Box::pin(async move {
        let gives = |name: String| vec![name];
        match node {
            Node::Step(name) => Ok(gives(ctx.step(&name, || world(&ctx).work(name.as_str())).await?)),
            Node::Once(name) => Ok(gives(ctx.step(&name, || world(&ctx).work(name.as_str())).at_most_once().await?)),
            Node::Flaky(name, times) => {
                let step = ctx.step(&name, |attempt: Attempt| {
                    let (ctx, name) = (&ctx, name.as_str());
                    async move {
                        let got = world(ctx).work(name).await?;
                        if u64::from(attempt.number) <= times { Err("not yet".into()) } else { Ok::<_, BoxError>(got) }
                    }
                });
                Ok(gives(step.retry(Retry::times(4).constant("1 s")).await?))
            }
            Node::Failing(name) => {
                let fails = || async { world(&ctx).work(name.as_str()).await.and(Err::<(), BoxError>("no".into())) };
                match ctx.step(&name, fails).await {
                    Err(Error::Step { step, .. }) => Ok(gives(format!("{step} failed"))),
                    other => Err(format!("{other:?}").into()),
                }
            }
            Node::Hang(name) => {
                let hangs =
                    || async { world(&ctx).work(name.as_str()).await.and(std::future::pending::<Result<()>>().await) };
                match ctx.step(&name, hangs).timeout("2 s").await {
                    Err(Error::Timeout { step, .. }) => Ok(gives(format!("{step} timed out"))),
                    other => Err(format!("{other:?}").into()),
                }
            }
            Node::Sleep(millis) => ctx.sleep(millis).await.map(|()| Vec::new()).map_err(Into::into),
            Node::Wait(name) => Ok(gives(ctx.wait::<String>(&name).await?)),
            Node::Seq(nodes) => {
                let mut all = Vec::new();
                for (i, node) in nodes.into_iter().enumerate() {
                    all.extend(perform(ctx.scope(i), node).await?);
                }
                Ok(all)
            }
            Node::Join(nodes) => {
                let branches = nodes.into_iter().enumerate().map(|(i, node)| perform(ctx.scope(i), node));
                Ok(futures_util::future::try_join_all(branches).await?.concat())
            }
            Node::Loop(times, node) => {
                let mut all = Vec::new();
                for _ in 0..times {
                    all.extend(perform(ctx.clone(), (*node).clone()).await?);
                }
                Ok(all)
            }
            Node::Map(times, node) => {
                let one = |scope: Ctx, _: u64| perform(scope, (*node).clone());
                Ok(ctx.map(0..times, |i| *i, one).concurrency(2).await?.concat())
            }
            Node::Caught(node) => perform(ctx, *node).await,
        }
    })
}

async fn interpreted(ctx: Ctx, program: Node) -> Result<Vec<String>> {
    perform(ctx, program).await
}

/// One random program, with up to three crashes at random commits.
async fn check_program(seed: u64) {
    let world = World::new(seed);
    let mut generator = Generator { world: &world, names: 0, signals: Vec::new() };
    let program = Node::Seq((0..1 + world.chance.below(3)).map(|_| generator.node(3)).collect());
    let signals = generator.signals;
    let mut meaning = Vec::new();
    program.meaning(&mut meaning);
    let provided = world.clone();
    let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
    let setup = move |engine: outlive::Builder| engine.workflow("w", interpreted).provide(provided.clone());
    let mut test = TestEngine::new(setup).store(faults.clone()).patience(Duration::ZERO).await;
    for crash in 0..4 {
        if crash < 3 {
            let at = faults.writes() + 1 + world.chance.below(20);
            faults.add(if world.chance.below(2) == 0 { Fault::CrashBefore(at) } else { Fault::CrashAfter(at) });
        }
        let story = async {
            let run = test.start(interpreted, &program).id("r").await.unwrap();
            for name in &signals {
                match run.signal(name, &format!("{name} came")).dedup(name).await {
                    Ok(()) | Err(Error::Status { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            test.result(&run).await
        };
        let death = async {
            while !faults.is_dead() {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::select! { biased; ended = story => Some(ended), () = death => None };
        if let Some(result) = ended {
            let result = result.unwrap_or_else(|error| panic!("seed {seed}: {error}: {program:?}"));
            assert_eq!(result, meaning, "seed {seed}: {program:?}");
            return;
        }
        faults.revive();
        test.crash().await;
    }
    panic!("seed {seed}: three crashes and a fourth life were not enough");
}

#[tokio::test]
async fn random_programs_mean_what_they_say_through_random_crashes() {
    for seed in 0..2_000 {
        check_program(seed).await;
    }
}
