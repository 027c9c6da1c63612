//! Calls the handlers of a pool, and shows the events that are given up to `on_dead`.

use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::job::{Dispatch, End, EventJudge, Fate, Finished, Handling};
use outlive_core::kind::JobKind;
use outlive_core::queue::{Dead, Queued};
use outlive_core::store::commit::Write;
use outlive_core::time::Timestamp;
use tracing::Instrument;

use crate::instance::logs;
use crate::instance::meters::{self, HandlerMeasure};
use crate::runtime::handlers::{CallEnded, CallPolicy, Calling, HandlerEnv, PoolCall, PoolHandlers};

/// Calls the handlers of a pool. Shared by all of its calls.
pub(crate) struct PoolCaller {
    pub(crate) handlers: Arc<dyn PoolHandlers>,
    pub(crate) call_policy: CallPolicy,
    pub(crate) env: Arc<HandlerEnv>,
    pub(crate) id: Name,
    pub(crate) judge: Arc<EventJudge>,
}

impl PoolCaller {
    /// Starts a call. The future runs it to its end, and decides the fate of each event.
    pub(super) fn call(self: Arc<Self>, call: Dispatch) -> impl Future<Output = Finished> + Send + 'static {
        let span = logs::job(self.id.as_str(), "execute", call.attempt());
        let failed = |failure| CallEnded { end: End::Failed(failure), writes: Vec::new() }.at_once();
        let calling = match &call.handling {
            Handling::Execute => span.in_scope(|| Calling::begin(|| self.handlers.call(self.input(&call)))),
            Handling::Fail(failure) | Handling::GiveUp(failure) => failed(failure.clone()),
        };
        async move {
            let CallEnded { end, writes } = calling.instrument(span).await;
            self.measure("execute", &end, call.began);
            let mut finished = self.judge.decide(call.events, end, call.began, self.now());
            finished.writes = writes;
            if !matches!(call.handling, Handling::GiveUp(_)) {
                finished.writes.extend(self.show_dead(&finished).await);
            }
            self.log(&finished);
            finished
        }
    }

    fn now(&self) -> Timestamp {
        self.env.shared.clock.now()
    }

    /// Returns the input of the handler.
    fn input(&self, call: &Dispatch) -> PoolCall {
        let readable = |queued: &Queued| Some((queued.pos, queued.event.as_ref().ok()?.clone()));
        PoolCall {
            env: self.env.clone(),
            call_policy: self.call_policy.clone(),
            id: self.id.clone(),
            handler: "execute",
            events: call.events.iter().filter_map(readable).collect(),
            pushed_at: call.events.first().map_or(call.began, |queued| queued.at),
            started_at: call.began,
        }
    }

    /// Shows the events that are given up to `on_dead`, one after another. Returns the writes it asked for.
    async fn show_dead(&self, finished: &Finished) -> Vec<Write> {
        let mut writes = Vec::new();
        for (queued, dead) in finished.dead() {
            writes.extend(self.show(queued, dead).await);
        }
        writes
    }

    async fn show(&self, queued: &Queued, dead: &Dead) -> Vec<Write> {
        let input = PoolCall {
            env: self.env.clone(),
            call_policy: CallPolicy { retry_if: None, ..self.call_policy.clone() },
            id: self.id.clone(),
            handler: "on_dead",
            events: vec![(queued.pos, dead.event.clone())],
            pushed_at: queued.at,
            started_at: self.now(),
        };
        let (span, began) = (logs::job(self.id.as_str(), "on_dead", 1), input.started_at);
        let Some(calling) = span.in_scope(|| self.handlers.dead(input, dead)) else { return Vec::new() };
        let CallEnded { end, writes } = calling.instrument(span).await;
        self.measure("on_dead", &end, began);
        if let End::Failed(failure) = end {
            logs::handler_failed(self.id.as_str(), "on_dead", 1, &failure);
        }
        writes
    }

    fn measure(&self, handler: &'static str, end: &End, began: Timestamp) {
        meters::handler(handler, || HandlerMeasure {
            job: JobKind::job_of(&self.id).to_string(),
            is_ok: matches!(end, End::Done(_)),
            took: self.now().since(began),
        });
    }

    /// Logs failures and dead letters.
    fn log(&self, finished: &Finished) {
        for (_, fate) in &finished.events {
            if let Fate::Failed { failure, failed, dead, .. } = fate {
                logs::handler_failed(self.id.as_str(), "execute", *failed, failure);
                dead.iter().for_each(|dead| logs::dead(dead));
            }
        }
    }
}
