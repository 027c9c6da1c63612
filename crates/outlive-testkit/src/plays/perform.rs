//! Scripts as a workflow, and who keeps the ledger of what its steps did.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{Either, select, try_join};
use outlive::ctx::{NoArgument, Step, StepBody};
use outlive::prelude::*;

use super::script::{Kind, Line, Op};

/// The name under which scripts are registered.
pub(super) const NAME: &str = "play";

/// What something does, and in which turn of a loop.
pub(super) type Effect = (u32, u32);

/// What the workflow is provided with.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) lines: Arc<Vec<Line>>,
    ledger: Arc<Mutex<Vec<Effect>>>,
}

impl Stage {
    pub(super) fn new(lines: &[Line]) -> Self {
        Self { lines: Arc::new(lines.to_vec()), ledger: Arc::default() }
    }

    /// What the bodies of steps have done, in order.
    pub(super) fn ledger(&self) -> Vec<Effect> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, effect: Effect) {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
    }
}

/// The value of an effect, as JSON: it says which effect it is of.
pub(super) fn value(effect: Effect, is_number: bool) -> serde_json::Value {
    let (what, turn) = effect;
    if is_number { (what * 10 + turn).into() } else { format!("{what}/{turn}").into() }
}

/// The effect that a value is of.
pub(super) fn effect_of(value: &serde_json::Value) -> Option<Effect> {
    if let Some(number) = value.as_u64() {
        let number = u32::try_from(number).ok()?;
        return Some((number / 10, number % 10));
    }
    let (what, turn) = value.as_str()?.split_once('/')?;
    Some((what.parse().ok()?, turn.parse().ok()?))
}

/// Whether the workflow goes on after some lines.
type Branch<'a> = Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>>;

/// The workflow: performs the script.
pub(super) async fn play(ctx: Ctx, (): ()) -> Result<()> {
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
        (Kind::Step, true) => drop(prepared(ctx.step(&op.name, || number(stage, effect)), op, key).await?),
        (Kind::Step, false) => drop(prepared(ctx.step(&op.name, || text(stage, effect)), op, key).await?),
        (Kind::Sleep, _) => {
            let sleep = ctx.sleep("1 hour");
            key.into_iter().fold(sleep, |sleep, key| sleep.key(key)).await?;
        }
        (Kind::Wait, true) => {
            let wait = ctx.wait::<u32>(&op.name);
            key.into_iter().fold(wait, |wait, key| wait.key(key)).await?;
        }
        (Kind::Wait, false) => {
            let wait = ctx.wait::<String>(&op.name);
            key.into_iter().fold(wait, |wait, key| wait.key(key)).await?;
        }
    }
    Ok(true)
}

fn prepared<'a, B: StepBody<NoArgument>>(
    step: Step<'a, B, NoArgument>,
    op: &Op,
    key: Option<String>,
) -> Step<'a, B, NoArgument> {
    let step = key.into_iter().fold(step, |step, key| step.key(key));
    op.was.iter().fold(step, |step, was| step.was(was))
}

async fn text(stage: &Stage, effect: Effect) -> Result<String> {
    stage.note(effect);
    Ok(value(effect, false).as_str().unwrap_or_default().to_owned())
}

async fn number(stage: &Stage, effect: Effect) -> Result<u32> {
    stage.note(effect);
    Ok(effect.0 * 10 + effect.1)
}
