//! What the drivers of jobs and pools share: receiving messages in order, submitting one turn at a time, and explaining
//! why one was refused.

use std::sync::Arc;

use outlive_core::id::InstanceNum;
use outlive_core::job::{Job, Pool};
use outlive_core::message::Inbound;
use outlive_core::store::commit::{Refusal, Turn, Write};

use crate::instance::mailbox::Mailbox;
use crate::runtime::committer::WriteReply;
use crate::runtime::services::Services;

/// A machine that receives messages in order.
pub(super) trait ReceiveInOrder {
    fn receive(&mut self, inbound: Inbound);
    fn has_received(&self, pos: u64) -> bool;

    /// Receives messages, each with the position of the one before it. Stops at the first one that does not follow what
    /// was received, and returns `true`: a message from another process came before it.
    fn receive_until_gap(&mut self, messages: Vec<(Inbound, u64)>) -> bool {
        for (inbound, before) in messages {
            let has_gap = !self.has_received(before);
            if has_gap {
                return true;
            }
            self.receive(inbound);
        }
        false
    }
}

impl ReceiveInOrder for Job {
    fn receive(&mut self, inbound: Inbound) {
        Self::receive(self, inbound);
    }

    fn has_received(&self, pos: u64) -> bool {
        self.inbox().has_received(pos)
    }
}

impl ReceiveInOrder for Pool {
    fn receive(&mut self, inbound: Inbound) {
        Self::receive(self, inbound);
    }

    fn has_received(&self, pos: u64) -> bool {
        Self::has_received(self, pos)
    }
}

/// The turns of an instance, which are submitted one at a time.
pub(crate) struct TurnLog {
    num: InstanceNum,
    /// The number of lifecycle events reported for the instance, as the store has it.
    reported: u64,
    /// How many more there are once the turn in progress is durable.
    reporting: u64,
}

impl TurnLog {
    pub(crate) fn new(num: InstanceNum, reported: u64) -> Self {
        Self { num, reported, reporting: 0 }
    }

    /// Submits the next turn, which `fill` completes. The result is posted to the mailbox.
    pub(super) fn submit(&mut self, services: &Services, mailbox: &Arc<Mailbox>, fill: impl FnOnce(Turn) -> Turn) {
        let turn = fill(Turn::new(self.num, services.epoch, self.reported));
        self.reporting = turn.lifecycle.iter().map(|record| record.kind.count()).sum();
        services.committer.submit(Write::Turn(Box::new(turn)), WriteReply::Job(mailbox.clone()));
    }

    /// Notes that the turn in progress is durable.
    pub(super) fn committed(&mut self) {
        self.reported += std::mem::take(&mut self.reporting);
    }
}

/// The ids that the writes of a handler go to, for people.
pub(super) struct Receivers(Vec<String>);

impl Receivers {
    pub(super) fn of(writes: &[Write]) -> Self {
        let id = |write: &Write| match write {
            Write::Message(send) => send.id.to_string(),
            Write::Start(start) => start.id.to_string(),
            Write::Push(push) => push.id.to_string(),
            _ => String::new(),
        };
        Self(writes.iter().map(id).collect())
    }

    /// Explains why one of the writes that a handler asked for was refused.
    pub(super) fn refused(&self, index: usize, refusal: &Refusal) -> String {
        let id = self.0.get(index).map_or("", String::as_str);
        match refusal {
            Refusal::NotFound => format!("it signals {id:?}, which does not exist; start the run first"),
            Refusal::Status(status) => format!("it sends to {id:?}, which is {status}"),
            Refusal::Conflict { workflow } => {
                format!("it starts {id:?}, an id that a run of {workflow:?} has; use another id")
            }
            other => format!("its write to {id:?} was refused: {other:?}"),
        }
    }
}
