//! Executes scripts as a workflow, and keeps a ledger of what its steps did.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::future::{Either, select, try_join};
use outlive::ctx::{Step, StepBody, Wait, WithAttempt};
use outlive::prelude::*;
use outlive::{Builder, Strict};

use super::script::{Kind, Line, Op};

/// Workflow name under which scripts are registered.
pub(super) const NAME: &str = "play";

/// An operation's `what`, and the iteration of its loop.
pub(super) type Effect = (u32, u32);

/// The values provided to the workflow.
#[derive(Clone)]
pub(super) struct Stage {
    lines: Arc<Vec<Line>>,
    is_strict: bool,
    ledger: Arc<Mutex<Vec<Effect>>>,
}

impl Stage {
    pub(super) fn new(lines: &[Line], is_strict: bool) -> Self {
        Self { lines: Arc::new(lines.to_vec()), is_strict, ledger: Arc::default() }
    }

    /// Registers the workflow and provides the script.
    pub(super) fn register(&self, engine: Builder) -> Builder {
        let engine = engine.provide(self.clone());
        if self.is_strict { engine.workflow(NAME, Strict(play)) } else { engine.workflow(NAME, play) }
    }

    /// Returns what the step bodies have done, in order.
    pub(super) fn ledger(&self) -> Vec<Effect> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Performs the effect, or fails.
    fn attempt(&self, op: &Op, effect: Effect, attempt: &Attempt) -> Result<()> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
        if op.is_flaky && !attempt.is_retry { Err("not yet".into()) } else { Ok(()) }
    }
}

/// Returns the value of an effect as JSON, from which the effect can be recovered.
pub(super) fn value(effect: Effect, is_number: bool) -> serde_json::Value {
    if is_number { as_number(effect).into() } else { as_text(effect).into() }
}

fn as_number((what, turn): Effect) -> u32 {
    what * 10 + turn
}

fn as_text((what, turn): Effect) -> String {
    format!("{what}/{turn}")
}

/// Returns the effect that a value came from.
pub(super) fn effect_of(value: &serde_json::Value) -> Option<Effect> {
    if let Some(number) = value.as_u64() {
        let number = u32::try_from(number).ok()?;
        return Some((number / 10, number % 10));
    }
    let (what, turn) = value.as_str()?.split_once('/')?;
    Some((what.parse().ok()?, turn.parse().ok()?))
}

/// Whether the workflow continues after some lines.
type Branch<'a> = Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>>;

/// The workflow that executes the script.
async fn play(ctx: Ctx, (): ()) -> Result<()> {
    let stage = ctx.get::<Stage>().clone();
    perform(&ctx, &stage, &stage.lines, 0).await?;
    Ok(())
}

fn perform<'a>(ctx: &'a Ctx, stage: &'a Stage, lines: &'a [Line], turn: u32) -> Branch<'a> {
    Box::pin(async move {
        for line in lines {
            let goes_on = match line {
                Line::Op(op) => operate(ctx, stage, op, turn).await?,
                Line::Return => false,
                Line::Join(one, other) => {
                    let (one, other) = (perform(ctx, stage, one, turn), perform(ctx, stage, other, turn));
                    let (one, other) = try_join(one, other).await?;
                    one && other
                }
                Line::Race(one, other) => {
                    let (one, other) = (perform(ctx, stage, one, turn), perform(ctx, stage, other, turn));
                    match select(one, other).await {
                        Either::Left((goes_on, _)) | Either::Right((goes_on, _)) => goes_on?,
                    }
                }
                Line::Carry(one, other) => {
                    let mut carried = perform(ctx, stage, one, turn);
                    let begun = std::future::poll_fn(|cx| Poll::Ready(carried.as_mut().poll(cx))).await;
                    let other = perform(ctx, stage, other, turn).await?;
                    let one = match begun {
                        Poll::Ready(ended) => ended?,
                        Poll::Pending => carried.await?,
                    };
                    one && other
                }
                Line::Loop(body) => perform(ctx, stage, body, 1).await? && perform(ctx, stage, body, 2).await?,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

async fn operate(ctx: &Ctx, stage: &Stage, op: &Op, turn: u32) -> Result<bool> {
    let ctx = &op.scope.as_ref().map_or_else(|| ctx.clone(), |scope| ctx.scope(scope));
    let key = op.key.as_ref().map(|key| format!("{key}{turn}"));
    let effect = (op.what, turn);
    match (op.kind, op.is_number) {
        (Kind::Step, true) => {
            let body =
                |attempt: Attempt| async move { stage.attempt(op, effect, &attempt).map(|()| as_number(effect)) };
            prepared(ctx.step(&op.name, body), op, key).await?;
        }
        (Kind::Step, false) => {
            let body = |attempt: Attempt| async move { stage.attempt(op, effect, &attempt).map(|()| as_text(effect)) };
            prepared(ctx.step(&op.name, body), op, key).await?;
        }
        (Kind::Sleep, _) => {
            let sleep = ctx.sleep("1 hour");
            key.into_iter().fold(sleep, |sleep, key| sleep.key(key)).await?;
        }
        (Kind::Wait, true) => heard(limited(ctx.wait::<u32>(&op.name), op, key).await)?,
        (Kind::Wait, false) => heard(limited(ctx.wait::<String>(&op.name), op, key).await)?,
    }
    Ok(true)
}

fn prepared<'a, B: StepBody<WithAttempt>>(
    step: Step<'a, B, WithAttempt>,
    op: &Op,
    key: Option<String>,
) -> Step<'a, B, WithAttempt> {
    let step = key.into_iter().fold(step, |step, key| step.key(key));
    let step = op.was.iter().fold(step, |step, was| step.was(was));
    if op.is_flaky { step.retry(Retry::times(2).constant("1 hour")) } else { step }
}

fn limited<'a, T>(wait: Wait<'a, T>, op: &Op, key: Option<String>) -> Wait<'a, T> {
    let wait = key.into_iter().fold(wait, |wait, key| wait.key(key));
    if op.is_flaky { wait.timeout("2 hours") } else { wait }
}

/// A wait that times out is over too.
fn heard<T>(waited: Result<T, Error>) -> Result<()> {
    match waited {
        Err(error) if !error.is_timeout() => Err(error.into()),
        _ => Ok(()),
    }
}
