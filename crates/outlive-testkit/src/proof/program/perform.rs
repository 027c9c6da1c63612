//! Executes programs as a workflow: each node becomes the operation it stands for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use outlive::prelude::*;

use super::care::Guards;
use super::family::reach;
use super::give::give;
use super::race::{Coin, Race};
use super::share::share;
use super::{Node, Program, Reach};

/// The values provided to the workflow.
pub(super) struct Programs {
    programs: Vec<Arc<Program>>,
    coin: Coin,
    guards: Guards,
}

impl Programs {
    pub(super) fn new(programs: Vec<Arc<Program>>, seed: u64) -> Self {
        Self { programs, coin: Coin::new(seed), guards: Guards::new() }
    }
}

type Branch<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>>> + Send + 'a>>;

/// The workflow that executes the program with this index, from this part on, with what the parts before have returned.
pub(super) async fn program(ctx: Ctx, (index, from, before): (usize, usize, Vec<String>)) -> Result<Vec<String>> {
    let program = ctx.get::<Programs>().programs[index].clone();
    let Node::Seq(parts) = &program.body else { return perform(ctx, &program.body).await };
    let mut all = before;
    for (i, part) in parts.iter().enumerate().skip(from) {
        if i > from && program.restarts.contains(&i) {
            return Ok(ctx.restart(&(index, i, all)).await?);
        }
        all.extend(perform(ctx.scope(i), part).await?);
    }
    if program.fails { fail().await.map(|_| all) } else { Ok(all) }
}

/// The workflow that executes a child: the index of the program of its parent, and its place there.
pub(super) async fn child(ctx: Ctx, (index, place): (usize, usize)) -> Result<Vec<String>> {
    let program = ctx.get::<Programs>().programs[index].clone();
    let child = &program.children[place];
    let output = perform(ctx, &child.body).await?;
    if child.fails { fail().await.map(|_| output) } else { Ok(output) }
}

fn perform(ctx: Ctx, node: &Node) -> Branch<'_> {
    Box::pin(async move {
        match node {
            Node::Sleep(millis) => {
                ctx.sleep(*millis).await?;
                Ok(Vec::new())
            }
            Node::Wait(name) => Ok(vec![ctx.wait::<String>(name).await?]),
            Node::WaitFor(name, millis) => match ctx.wait::<String>(name).timeout(*millis).await {
                Err(Error::WaitTimeout { .. }) => Ok(vec![format!("{name} timed out")]),
                other => Ok(vec![other?]),
            },
            Node::Seq(nodes) => {
                let mut all = Vec::new();
                for (i, node) in nodes.iter().enumerate() {
                    all.extend(perform(ctx.scope(i), node).await?);
                }
                Ok(all)
            }
            // Each poll begins with a different branch.
            Node::Join(nodes) if nodes.len() == 2 => {
                let [one, other] = [0, 1].map(|i| perform(ctx.scope(i), &nodes[i]));
                let (one, other) = tokio::try_join!(one, other)?;
                Ok([one, other].concat())
            }
            Node::Join(nodes) => {
                let branches = nodes.iter().enumerate().map(|(i, node)| perform(ctx.scope(i), node));
                Ok(futures_util::future::try_join_all(branches).await?.concat())
            }
            Node::Shared(what, name) => Ok(vec![share(&ctx, *what, name).await?]),
            Node::Race(one, other) => {
                let branches = [perform(ctx.scope(0), one), perform(ctx.scope(1), other)];
                Race { branches, coin: ctx.get::<Programs>().coin.clone() }.await
            }
            Node::Carry(parts) => {
                let [one, other, then] = &**parts;
                let mut branches = [perform(ctx.scope(0), one), perform(ctx.scope(1), other)];
                begin(&mut branches).await;
                let mut all = perform(ctx.scope(2), then).await?;
                all.extend(Race { branches, coin: ctx.get::<Programs>().coin.clone() }.await?);
                Ok(all)
            }
            Node::Loop(times, node) => {
                let mut all = Vec::new();
                for _ in 0..*times {
                    all.extend(perform(ctx.clone(), node).await?);
                }
                Ok(all)
            }
            Node::Map(times, node) => {
                let one = |scope: Ctx, _: u64| perform(scope, node);
                Ok(ctx.map(0..*times, |i| *i, one).concurrency(2).await?.concat())
            }
            Node::Reach(node) => perform_reach(ctx, node).await,
            Node::Give(node) => give(&ctx, node).await,
            step => Ok(vec![perform_step(&ctx, step).await?]),
        }
    })
}

async fn perform_reach(ctx: Ctx, node: &Reach) -> Result<Vec<String>> {
    let meanwhile = |ctx| async move {
        match node {
            Reach::Spawn(_, meanwhile) => perform(ctx, meanwhile).await,
            _ => Ok(Vec::new()),
        }
    };
    reach(ctx, node, meanwhile).await
}

/// Polls each branch once, which must not finish any of them.
async fn begin(branches: &mut [Branch<'_>]) {
    std::future::poll_fn(|cx| {
        for branch in &mut *branches {
            assert!(branch.as_mut().poll(cx).is_pending(), "nothing is ready before a quiet point");
        }
        Poll::Ready(())
    })
    .await;
}

async fn succeed(name: &str) -> Result<String> {
    Ok(name.to_owned())
}

async fn fail() -> Result<String> {
    Err("no".into())
}

async fn undo(_: String) -> Result<()> {
    Ok(())
}

async fn perform_step(ctx: &Ctx, node: &Node) -> Result<String, Error> {
    match node {
        Node::Care(care) => care.perform(ctx, &ctx.get::<Programs>().guards).await,
        Node::Step(name) => ctx.step(name, || succeed(name)).await,
        Node::Undo(name) => ctx.step(name, || succeed(name)).undo("undo", undo).await,
        Node::Look(name) => {
            ctx.step(name, || succeed(name)).await?;
            Ok(format!("{name} saw {} at {}", ctx.random(), ctx.now().as_millis()))
        }
        Node::Flaky(name, times) => {
            let body = |attempt: Attempt| async move {
                if attempt.number > *times { succeed(name).await } else { fail().await }
            };
            ctx.step(name, body).retry(Retry::times(4).constant("1 s")).await
        }
        Node::Failing(name) => match ctx.step(name, fail).await {
            Err(Error::Step { step, .. }) => Ok(format!("{step} failed")),
            other => other,
        },
        Node::Exhausted(name) => match ctx.step(name, fail).retry(Retry::times(1).exponential("1 s")).await {
            Err(Error::RetryExhausted { step, attempts: 2, .. }) => Ok(format!("{step} exhausted")),
            other => other,
        },
        Node::Once(name) => match ctx.step(name, || succeed(name)).at_most_once().await {
            Err(Error::Interrupted { step, .. }) => Ok(format!("{step} interrupted")),
            other => other,
        },
        Node::Hang(name) => match ctx.step(name, std::future::pending::<Result<String>>).timeout("2 s").await {
            Err(Error::Timeout { step, .. }) => Ok(format!("{step} timed out")),
            other => other,
        },
        Node::Limited(name) => match ctx.step(name, || succeed(name)).timeout("2 s").await {
            Err(Error::Timeout { step, .. }) => Ok(format!("{step} timed out")),
            other => other,
        },
        Node::Fallback(name) => {
            let instead = |_| async move { Ok::<_, BoxError>(format!("{name} fell back")) };
            ctx.step(name, fail).fallback(instead).await
        }
        _ => Err(Error::Setup(format!("{node:?} is not a step"))),
    }
}
