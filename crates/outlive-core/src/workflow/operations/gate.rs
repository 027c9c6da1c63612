//! The gate before each attempt of a step: its retry budget and its breaker, which may hold it back.
//!
//! An attempt that is held back has not started. Nothing is recorded about it, so a crash costs it nothing: the step
//! begins again where its record left off, and asks whatever breaker the new process has. A replay never asks.

use crate::retry::{AttemptEnd, BreakerChange, BreakerDecision, BudgetDecision};
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::care::{BreakerNotice, HeldBack};
use crate::workflow::op::OpPhase;

use super::Operations;
use super::cursor::OpCursor;

/// Asks whether an attempt may start now. If not, returns when to ask again.
pub(super) fn admit(step: &mut OpCursor<'_>, attempt: u32) -> Result<(), Timestamp> {
    let now = step.now;
    let Some(op) = step.get_mut() else { return Ok(()) };
    let Some(care) = op.step_spec().and_then(|spec| spec.care.clone()) else { return Ok(()) };
    let state = op.record.care.get_or_insert_default();
    state.held = None;
    if let Some(budget) = care.budget.as_ref().filter(|_| !state.is_paid) {
        let (is_paid, until) = match budget.admit(attempt, now) {
            BudgetDecision::Pass => (true, None),
            BudgetDecision::At(due) => (true, Some(due)),
            BudgetDecision::AskAt(again) => (false, Some(again)),
        };
        state.is_paid = is_paid;
        if let Some(until) = until {
            let reason = match budget.name() {
                Some(name) => format!("retry budget {name} is used up"),
                None => "its retry budget is used up".to_owned(),
            };
            state.held = Some(HeldBack { until, reason });
            return Err(until);
        }
    }
    let Some(breaker) = &care.breaker else {
        state.is_paid = false;
        return Ok(());
    };
    match breaker.admit(now, &care.bell) {
        BreakerDecision::Pass(ticket, change) => {
            (state.is_paid, state.ticket) = (false, Some(ticket));
            report(step, breaker.name(), attempt, change);
            Ok(())
        }
        BreakerDecision::Wait { until } => {
            state.held = Some(HeldBack { until, reason: format!("breaker {} is open", breaker.name()) });
            Err(until)
        }
    }
}

/// Reports to the breaker how the current attempt has ended.
pub(super) fn ended(step: &mut OpCursor<'_>, attempt: u32, end: AttemptEnd) {
    let now = step.now;
    let Some(op) = step.get_mut() else { return };
    let Some(ticket) = op.record.care.as_mut().and_then(|care| care.ticket.take()) else { return };
    let breaker = ticket.breaker_name();
    let change = ticket.end(end, now);
    report(step, &breaker, attempt, change);
}

fn report(step: &mut OpCursor<'_>, breaker: &str, attempt: u32, change: Option<BreakerChange>) {
    let Some((change, op)) = change.zip(step.get()) else { return };
    let notice = BreakerNotice { breaker: breaker.to_owned(), op: op.key.clone(), attempt, change };
    step.ops.notices.push(notice);
}

/// Has an attempt that is held back ask again. Does nothing for any other operation.
pub(super) fn ask_again(ops: &mut Operations, slot: Slot) {
    let is_held = ops.table.get(slot).is_some_and(|op| {
        matches!(op.phase, OpPhase::Armed) && op.record.care.as_ref().is_some_and(|care| care.held.is_some())
    });
    if is_held {
        ops.table.set_timer(slot, Timestamp::AT_ONCE);
    }
}
