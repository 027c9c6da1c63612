//! Reads any bytes as a workflow program with a schedule of faults: it returns what the program means, whatever happens
//! to it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{select_all, try_join_all};
use outlive::clock::Clock;
use outlive::prelude::*;
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestEngine};
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

/// Runs a program through its faults, and compares what it returns with what it means.
///
/// ```
/// outlive_fuzz::program::run(b"some program");
/// ```
///
/// # Panics
/// If a run ends differently from what its program means, or does not end.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let plan = Plan::any(&mut bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime can be created").block_on(plan.perform());
}

/// A part of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Node {
    Step(String),
    /// Fails this often before it succeeds.
    Flaky(String, u32),
    /// Fails for good.
    Failing(String),
    /// Runs at most once, and may be lost.
    Once(String),
    /// Never ends, except by its timeout.
    Hang(String),
    Sleep(u64),
    Wait(String),
    Sequence(Vec<Node>),
    Join(Vec<Node>),
    Race(Vec<Node>),
    Loop(u64, Box<Node>),
    Map(u64, Box<Node>),
}

impl Node {
    /// Returns what may be left of an output after this part; empty if this part cannot have produced its beginning.
    fn rests<'a>(&self, output: &'a [String]) -> Vec<&'a [String]> {
        let one = |words: &[String]| match output.split_first() {
            Some((first, rest)) if words.contains(first) => vec![rest],
            _ => Vec::new(),
        };
        let all = |nodes: &mut dyn Iterator<Item = &Self>| {
            nodes.fold(vec![output], |outputs, node| outputs.into_iter().flat_map(|rest| node.rests(rest)).collect())
        };
        match self {
            Self::Step(name) | Self::Flaky(name, _) | Self::Wait(name) => one(std::slice::from_ref(name)),
            Self::Failing(name) => one(&[format!("{name} failed")]),
            Self::Hang(name) => one(&[format!("{name} timed out")]),
            Self::Once(name) => one(&[name.clone(), format!("{name} lost")]),
            Self::Sleep(_) => vec![output],
            Self::Sequence(nodes) | Self::Join(nodes) => all(&mut nodes.iter()),
            Self::Race(nodes) => nodes.iter().flat_map(|node| node.rests(output)).collect(),
            Self::Loop(times, node) | Self::Map(times, node) => all(&mut (0..*times).map(|_| &**node)),
        }
    }
}

/// A program, the messages from outside, and the faults.
#[derive(Debug)]
struct Plan {
    program: Node,
    signals: Vec<String>,
    names: u64,
    has_cancel: bool,
    faults: Vec<Fault>,
    chance: u64,
}

impl Plan {
    fn any(bytes: &mut Bytes<'_>) -> Self {
        let kinds: [fn(u64) -> Fault; 5] =
            [Fault::CrashBefore, Fault::CrashAfter, Fault::UnknownBefore, Fault::UnknownAfter, Fault::Refuse];
        // A fourth crash without progress makes a run stuck, as it should.
        let (count, mut write) = (bytes.below(4), 0);
        let fault = |_| {
            write += 1 + bytes.below(12);
            bytes.pick(&kinds)(write)
        };
        let faults = (0..count).map(fault).collect();
        let (has_cancel, chance) = (bytes.is(8), bytes.any());
        let mut plan = Self { program: Node::Sleep(0), signals: Vec::new(), names: 0, has_cancel, faults, chance };
        let count = 1 + bytes.below(3);
        plan.program = Node::Sequence(plan.nodes(bytes, count, 3));
        plan
    }

    fn nodes(&mut self, bytes: &mut Bytes<'_>, count: u64, depth: u64) -> Vec<Node> {
        (0..count).map(|_| self.node(bytes, depth)).collect()
    }

    fn node(&mut self, bytes: &mut Bytes<'_>, depth: u64) -> Node {
        let name = self.name();
        match bytes.below(if depth == 0 { 8 } else { 13 }) {
            0..=4 => Self::leaf(bytes, name),
            5 => Node::Once(name),
            6 | 7 => {
                self.signals.push(name.clone());
                Node::Wait(name)
            }
            8 => Node::Loop(1 + bytes.below(3), Box::new(Self::leaf(bytes, name))),
            9 => Node::Map(1 + bytes.below(3), Box::new(Self::leaf(bytes, name))),
            10 => Node::Join(self.nodes(bytes, 2, depth - 1)),
            11 => Node::Race(self.nodes(bytes, 2, depth - 1)),
            _ => Node::Sequence(self.nodes(bytes, 2, depth - 1)),
        }
    }

    /// Returns a node that may be repeated.
    fn leaf(bytes: &mut Bytes<'_>, name: String) -> Node {
        match bytes.below(5) {
            0 => Node::Step(name),
            1 => Node::Flaky(name, 1 + u32::from(bytes.is(2))),
            2 => Node::Failing(name),
            3 => Node::Hang(name),
            _ => Node::Sleep(bytes.below(5_000)),
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    async fn perform(&self) {
        let world = World { ledger: Arc::default(), chance: Arc::new(Mutex::new(self.chance)) };
        let provided = world.clone();
        let setup = move |engine: outlive::Builder| engine.workflow("program", workflow).provide(provided.clone());
        let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        let mut test = TestEngine::new(setup).store(faults.clone()).patience(Duration::ZERO).await;
        self.faults.iter().for_each(|fault| faults.add(*fault));
        let ended = loop {
            let death = async {
                while !faults.is_dead() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            let ended = tokio::select! { biased; ended = self.story(&test, &faults) => ended, () = death => None };
            if let Some(ended) = ended {
                break ended;
            }
            faults.revive();
            test.crash().await;
        };
        self.check(ended, &world);
    }

    /// Runs the whole story from wherever it is. Returns `None` if the process died in it.
    async fn story(&self, test: &TestEngine, faults: &Faults) -> Option<std::result::Result<Vec<String>, Error>> {
        let run = insist(async || test.start(workflow, &self.program).id("r").await).await?;
        for name in &self.signals {
            insist(async || run.signal(name, name).dedup_key(name).await).await;
        }
        if self.has_cancel {
            insist(async || run.cancel("enough").await).await;
        }
        loop {
            // The engine waits in real time before it asks the store again; tokio's clock is paused.
            test.settle().await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            test.settle().await;
            if faults.is_dead() {
                return None;
            }
            let status = run.status().await.expect("reading does not fail");
            if status.is_ended() || status == Status::Stuck {
                return Some(run.result().await);
            }
            let due = test.next_due().await.unwrap_or_else(|| panic!("nothing is due, {status}: {self:?}"));
            test.advance(due.since(test.clock().now())).await;
        }
    }

    fn check(&self, ended: std::result::Result<Vec<String>, Error>, world: &World) {
        match ended {
            Ok(output) => {
                let is_meant = self.program.rests(&output).iter().any(|rest| rest.is_empty());
                assert!(is_meant, "{output:?} is not what the program means: {self:?}");
            }
            Err(error) => assert!(self.has_cancel && error.is_cancelled(), "{error}: {self:?}"),
        }
        for (name, count) in world.ledger.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let is_once = name.starts_with("once ");
            assert!(!is_once || *count == 1, "{name} was done {count} times: {self:?}");
        }
    }
}

/// Repeats a request until the store accepts it. Returns `None` if the run has ended.
async fn insist<T>(mut ask: impl AsyncFnMut() -> std::result::Result<T, Error>) -> Option<T> {
    loop {
        match ask().await {
            Ok(done) => return Some(done),
            Err(Error::Store(_)) => {}
            Err(Error::Status { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The side effects of step bodies, over all process lifetimes.
#[derive(Clone)]
struct World {
    ledger: Arc<Mutex<BTreeMap<String, u64>>>,
    chance: Arc<Mutex<u64>>,
}

impl World {
    /// Performs a side effect that takes some turns.
    async fn work(&self, label: String) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner).entry(label).or_default() += 1;
        let turns = {
            let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
            *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *chance >> 62
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

async fn workflow(ctx: Ctx, program: Node) -> Result<Vec<String>> {
    play(ctx, program).await
}

type Branch = Pin<Box<dyn Future<Output = Result<Vec<String>>> + Send>>;

fn play(ctx: Ctx, node: Node) -> Branch {
    match node {
        Node::Step(_) | Node::Flaky(..) | Node::Failing(_) | Node::Once(_) | Node::Hang(_) => {
            Box::pin(async move { Ok(vec![play_step(&ctx, &node).await?]) })
        }
        Node::Sleep(millis) => Box::pin(async move { Ok(ctx.sleep(millis).await.map(|()| Vec::new())?) }),
        Node::Wait(name) => Box::pin(async move { Ok(vec![ctx.wait::<String>(&name).await?]) }),
        Node::Sequence(nodes) => Box::pin(async move {
            let mut all = Vec::new();
            for (i, node) in nodes.into_iter().enumerate() {
                all.extend(play(ctx.scope(i), node).await?);
            }
            Ok(all)
        }),
        Node::Join(nodes) => Box::pin(async move { Ok(try_join_all(branches(&ctx, nodes)).await?.concat()) }),
        Node::Race(nodes) => Box::pin(async move { select_all(branches(&ctx, nodes)).await.0 }),
        Node::Loop(times, node) => Box::pin(async move {
            let mut all = Vec::new();
            for _ in 0..times {
                all.extend(play(ctx.clone(), (*node).clone()).await?);
            }
            Ok(all)
        }),
        Node::Map(times, node) => Box::pin(async move {
            let one = |scope: Ctx, _: u64| play(scope, (*node).clone());
            Ok(ctx.map(0..times, |i| *i, one).concurrency(2).await?.concat())
        }),
    }
}

fn branches(ctx: &Ctx, nodes: Vec<Node>) -> Vec<Branch> {
    nodes.into_iter().enumerate().map(|(i, node)| play(ctx.scope(i), node)).collect()
}

async fn play_step(ctx: &Ctx, node: &Node) -> Result<String> {
    let world = ctx.get::<World>();
    match node {
        Node::Flaky(name, times) => {
            let body = |attempt: Attempt| async move {
                world.work(name.clone()).await;
                if attempt.number <= *times { Err("not yet".into()) } else { Ok::<_, BoxError>(name.clone()) }
            };
            Ok(ctx.step(name, body).retry(Retry::times(4).constant("1 s")).await?)
        }
        Node::Failing(name) => {
            let body = || async {
                world.work(name.clone()).await;
                Err::<(), BoxError>("no".into())
            };
            match ctx.step(name, body).await {
                Err(Error::Step { step, .. }) => Ok(format!("{step} failed")),
                other => Err(unexpected(other)),
            }
        }
        Node::Hang(name) => {
            let body = || async {
                world.work(name.clone()).await;
                std::future::pending::<Result<()>>().await
            };
            match ctx.step(name, body).timeout("2 s").await {
                Err(Error::Timeout { step, .. }) => Ok(format!("{step} timed out")),
                other => Err(unexpected(other)),
            }
        }
        Node::Once(name) => {
            let body = || async {
                world.work(format!("once {name}")).await;
                Ok::<_, BoxError>(name.clone())
            };
            match ctx.step(name, body).at_most_once().await {
                Err(Error::Interrupted { step, .. }) => Ok(format!("{step} lost")),
                other => Ok(other?),
            }
        }
        Node::Step(name) => {
            let body = || async {
                world.work(name.clone()).await;
                Ok::<_, BoxError>(name.clone())
            };
            Ok(ctx.step(name, body).await?)
        }
        other => Err(format!("{other:?} is not a step").into()),
    }
}

/// A cancel may come at any operation; nothing else may.
fn unexpected<T: std::fmt::Debug>(result: std::result::Result<T, Error>) -> BoxError {
    match result {
        Err(error) if error.is_cancelled() => error.into(),
        other => format!("{other:?}").into(),
    }
}
