//! What a pool asks its driver to do, and what the driver learns in return.

use super::commit::PoolChange;
use super::outcome::Dispatch;
use crate::job::call::Exhausted;
use crate::queue::QueueRead;
use crate::time::Timestamp;

/// What to do now, in this order.
#[derive(Clone, Debug, Default)]
pub struct PoolTurn {
    /// What to commit. The result is reported with `Pool::committed`, `Pool::unseen` or `Pool::refused`.
    pub change: Option<PoolChange>,
    /// Calls to start. The end of each is reported with `Pool::ended`.
    pub calls: Vec<Dispatch>,
    /// A page to read, reported with `Pool::take_page` or `Pool::read_failed`.
    pub read: Option<QueueRead>,
    /// When to ask for the next turn, if nothing happens before.
    pub wake: Option<Timestamp>,
    /// Whether the pool has to stay in memory.
    pub need: PoolNeed,
}

/// Whether a pool has to stay in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolNeed {
    /// It has work to do, or keeps count for its rate.
    #[default]
    Busy,
    /// It is released and has nothing to do: it may leave if its place is needed.
    Idle,
    /// It has stopped and must leave.
    Over,
}

/// What is durable now.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolDurable {
    /// Inbox positions of messages that are done.
    pub taken: Vec<u64>,
    /// Exhausted retries, for the `on_exhausted` hook.
    pub exhausted: Vec<Exhausted>,
    /// Whether the pool is released.
    pub is_rest: bool,
}

/// What a refused commit leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedTurn {
    /// The handler that asked for the write has failed.
    Handler,
    /// `on_dead` asked for the write: the event is given up without it.
    Hook,
    /// No handler asked for it, so the pool is not ours any more.
    Lost,
}
