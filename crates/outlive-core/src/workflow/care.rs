//! What only some steps have: a breaker, a retry budget, heartbeats. In boxes, so that no other step pays for it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::payload::Payload;
use crate::retry::{BreakerChange, BreakerTicket, SharedBreaker, SharedBudget};
use crate::time::Timestamp;

/// The options of a step that few steps have.
#[derive(Clone, Debug)]
pub struct StepCare {
    /// Holds back attempts while what they call keeps failing.
    pub breaker: Option<Arc<SharedBreaker>>,
    /// Limits retries.
    pub budget: Option<Arc<SharedBudget>>,
    /// How long a body may go without a heartbeat.
    pub heartbeat_timeout: Option<Duration>,
    /// Woken when an attempt that the breaker holds back should [ask again](super::AttemptCare::ask_again).
    pub bell: Waker,
}

impl Default for StepCare {
    fn default() -> Self {
        Self { breaker: None, budget: None, heartbeat_timeout: None, bell: Waker::noop().clone() }
    }
}

/// A change in the state of a breaker that an attempt of a run has caused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerNotice {
    /// The name of the breaker.
    pub breaker: String,
    /// The identity of the step.
    pub op: Arc<str>,
    /// The attempt.
    pub attempt: u32,
    /// What has changed.
    pub change: BreakerChange,
}

/// The attempt that sends a heartbeat.
#[derive(Clone, Debug)]
pub struct HeartbeatSource {
    /// Its step.
    pub slot: super::Slot,
    /// The identity of that step, as slots are reused.
    pub op: Arc<str>,
    /// Its number.
    pub attempt: u32,
}

/// The state of such a step.
#[derive(Default, Debug)]
pub(super) struct OpCare {
    /// Why the next attempt has not started though it was due.
    pub(super) held: Option<HeldBack>,
    /// Whether the budget has accepted the next attempt.
    pub(super) is_paid: bool,
    /// The permission of the breaker for the current attempt.
    pub(super) ticket: Option<BreakerTicket>,
    /// The last recorded heartbeat.
    pub(super) progress: Option<Payload>,
    pub(super) beat: Option<Beat>,
}

/// Why an attempt is held back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldBack {
    /// When it asks again, or starts.
    pub until: Timestamp,
    /// What holds it back, for people.
    pub reason: String,
}

/// The signs of life of the current attempt.
#[derive(Debug)]
pub(super) struct Beat {
    /// The last one: its start, or a heartbeat.
    pub(super) last: Timestamp,
    /// When a heartbeat was last recorded.
    pub(super) recorded: Option<Timestamp>,
    /// The last heartbeat, if it is not recorded yet.
    pub(super) pending: Option<Payload>,
}
