//! P1, P2, P4: a crash before or after any commit, or at any two, changes neither the result nor what is recorded, and no
//! side effect happens more often than once per crash more.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use outlive::prelude::*;
use outlive_core::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestEngine};

use crate::programs::PROGRAMS;
use crate::support::{World, world};

// ---- programs of every shape, crashed everywhere ----

macro_rules! everywhere {
    ($($name:ident: $program:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let (_, program) = PROGRAMS.iter().find(|(name, _)| *name == $program).unwrap();
            let report = program(7).run().await;
            assert!(report.commits() > 2 && report.schedules() > 2 * report.commits(), "{report}");
        }
    )*};
}

everywhere! {
    a_sequence_survives_a_crash_at_every_commit: "sequence";
    a_retried_step_survives_a_crash_at_every_commit: "retry";
    an_exhausted_step_survives_a_crash_at_every_commit: "exhausted";
    a_timeout_survives_a_crash_at_every_commit: "timeout";
    a_timeout_of_all_attempts_survives_a_crash_at_every_commit: "deadline";
    sleeps_survive_a_crash_at_every_commit: "sleep";
    waits_survive_a_crash_at_every_commit: "wait";
    signals_that_come_before_the_wait_survive_a_crash_at_every_commit: "buffered";
    a_wait_that_gives_up_survives_a_crash_at_every_commit: "wait_timeout";
    a_signal_that_is_given_back_survives_a_crash_at_every_commit: "given_back";
    a_signal_that_beats_a_sleep_survives_a_crash_at_every_commit: "signal_against_sleep";
    a_sleep_that_beats_a_signal_survives_a_crash_at_every_commit: "sleep_against_signal";
    a_race_survives_a_crash_at_every_commit: "race";
    a_join_survives_a_crash_at_every_commit: "join";
    a_loop_survives_a_crash_at_every_commit: "looped";
    a_map_survives_a_crash_at_every_commit: "mapped";
    a_cancel_with_clean_up_survives_a_crash_at_every_commit: "cleaned";
    a_cancel_between_attempts_survives_a_crash_at_every_commit: "cancelled_retry";
    a_fallback_survives_a_crash_at_every_commit: "fallback";
    a_step_that_may_run_once_never_runs_twice: "once";
    what_is_drawn_survives_a_crash_at_every_commit: "drawn";
    a_failure_survives_a_crash_at_every_commit: "failing";
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
