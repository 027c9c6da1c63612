//! What a handler can see and do, whatever its kind: the part of every context that has no types in it.

use std::any::TypeId;
use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::job::{Call, FlushReason, Record};
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;

use super::outbox::{Outbox, Surroundings};
use crate::error::Error;

/// The call that a context belongs to.
pub(crate) struct Setting {
    pub(crate) outbox: Outbox,
    pub(crate) id: Name,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) run_count: u64,
    pub(crate) event_count: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Timestamp,
    pub(crate) due: Option<Timestamp>,
    pub(crate) next: Option<Timestamp>,
    pub(crate) flush: Option<FlushReason>,
    pub(crate) first_event: Option<Payload>,
}

impl Setting {
    pub(crate) fn new(around: Arc<Surroundings>, id: &Name, call: &Call, record: &Record, about: About) -> Self {
        Self {
            outbox: Outbox::new(around),
            id: id.clone(),
            key: about.key,
            attempt: call.attempt,
            run_count: record.runs,
            event_count: record.events,
            created_at: about.created,
            started_at: about.started,
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
        let found = self.outbox.env().provided.get(&TypeId::of::<T>());
        found.and_then(|value| value.downcast_ref()).ok_or(Error::NotProvided { type_name: std::any::type_name::<T>() })
    }
}

/// What is known of a call beside what its instance keeps.
pub(crate) struct About {
    /// The same for all attempts of the call.
    pub(crate) key: String,
    /// When its instance came into being.
    pub(crate) created: Timestamp,
    /// When it began.
    pub(crate) started: Timestamp,
}
