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
        Self::has_received(self, pos)
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
pub(super) struct Receivers(String);

impl Receivers {
    pub(super) fn of(writes: &[Write]) -> Self {
        let id = |write: &Write| match write {
            Write::Message(send) => Some(format!("{:?}", send.id.as_str())),
            Write::Start(start) => Some(format!("{:?}", start.id.as_str())),
            Write::Push(push) => Some(format!("{:?}", push.id.as_str())),
            _ => None,
        };
        let ids: Vec<_> = writes.iter().filter_map(id).collect();
        Self(if ids.len() > 1 { format!("one of {}", ids.join(", ")) } else { ids.concat() })
    }

    /// Explains why a write that a handler asked for was refused.
    pub(super) fn refused(&self, refusal: &Refusal) -> String {
        let Self(ids) = self;
        match refusal {
            Refusal::NotFound => format!("it signals {ids}, which does not exist; start the run first"),
            Refusal::Status(status) => format!("it sends to {ids}, which is {status}"),
            Refusal::Conflict { workflow } => {
                format!("it starts {ids}, an id that a run of {workflow:?} has; use another id")
            }
            other => format!("its write to {ids} was refused: {other:?}"),
        }
    }
}
