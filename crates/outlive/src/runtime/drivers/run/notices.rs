//! Reports what attempts of a run did to breakers: a log line, and an event for listeners in this process.

use outlive_core::retry::BreakerChange;
use outlive_core::workflow::{BreakerNotice, ParsedIdentity, unescaped};

use crate::instance::attempts::Begun;
use crate::instance::resident::ResidentRun;

/// Reports changes of breakers.
pub(super) fn report(resident: &ResidentRun, notices: Vec<BreakerNotice>) {
    for notice in notices {
        let (seq, is_durable) = {
            let state = resident.lock();
            (state.machine.recorder().seq(), state.machine.recorder().is_durable())
        };
        let (breaker, run) = (&*notice.breaker, &*resident.info.id);
        match notice.change {
            BreakerChange::Opened { until } => tracing::warn!(breaker, run, "breaker is open until {until}"),
            BreakerChange::HalfOpened => tracing::info!(breaker, run, "breaker is half-open: one attempt is made"),
            BreakerChange::Closed => tracing::info!(breaker, run, "breaker is closed"),
        }
        resident.env.attempts.report(|| Begun {
            at: resident.now(),
            num: resident.info.num,
            instance: resident.info.id.clone(),
            workflow: resident.info.workflow.clone(),
            step: unescaped(ParsedIdentity::of(&notice.op).name),
            operation: notice.op.clone(),
            attempt: notice.attempt,
            seq,
            is_durable,
            breaker: Some(Box::new((notice.breaker.clone(), notice.change))),
        });
    }
}
