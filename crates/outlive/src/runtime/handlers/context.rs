//! The untyped part of every job context.

use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::job::{Call, FlushReason, Record};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;

use super::outbox::{HandlerEnv, Outbox};
use crate::error::Error;

/// The call a context belongs to.
pub(crate) struct CallContext {
    pub(crate) outbox: Outbox,
    pub(crate) id: Name,
    pub(crate) key: String,
    /// The name of the handler.
    pub(crate) handler: &'static str,
    pub(crate) attempt: u32,
    /// Whether the caller waits for the return value.
    pub(crate) is_asked: bool,
    pub(crate) run_count: u64,
    pub(crate) event_count: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Timestamp,
    pub(crate) due: Option<Timestamp>,
    pub(crate) next: Option<Timestamp>,
    pub(crate) flush: Option<FlushReason>,
    pub(crate) first_event: Option<Payload>,
}

impl CallContext {
    pub(crate) fn new(
        env: Arc<HandlerEnv>,
        id: &Name,
        key: String,
        (call, record): (&Call, &Record),
        at: CallTimes,
    ) -> Self {
        Self {
            outbox: Outbox::new(env),
            id: id.clone(),
            key,
            handler: call.handler.as_str(),
            attempt: call.attempt,
            is_asked: matches!(
                call.event.as_ref().map(|inbound| &inbound.message),
                Some(Message::Event(event)) if event.is_asking
            ),
            run_count: record.runs,
            event_count: record.events,
            created_at: at.created,
            started_at: at.started,
            due: call.tick,
            next: record.next,
            flush: call.flush,
            first_event: record.first_event.clone(),
        }
    }

    pub(crate) fn own_id(&self) -> &str {
        JobKind::own_id(&self.id)
    }

    pub(crate) fn job_name(&self) -> &str {
        self.id.as_str().split(':').nth(1).unwrap_or_default()
    }

    pub(crate) fn try_get<T: Send + Sync + 'static>(&self) -> Result<&T, Error> {
        self.outbox.env().provided.get()
    }
}

/// When an instance was created, and when the call of its handler started.
#[derive(Clone, Copy)]
pub(crate) struct CallTimes {
    pub(crate) created: Timestamp,
    pub(crate) started: Timestamp,
}
