//! Rewinds and forks in the in-memory store.

use crate::child::ChildOutcome;
use crate::id::{InstanceNum, Name};
use crate::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::status::Status;
use crate::store::commit::{Answer, Epoch, ForkWrite, KeptChild, Refusal, RewindWrite, SendWrite, Write};

use super::rows::{Rows, set_wake};

impl Rows {
    pub(super) fn rewind(&mut self, rewind: &RewindWrite) -> Answer {
        let found = self.row(&rewind.id).filter(|row| row.instance.num == rewind.num);
        let Some(row) = found else { return Answer::Refused(Refusal::NotFound) };
        if row.entries.contains(&rewind.entry) {
            return self.send_again(&rewind.writes);
        }
        let instance = &row.instance;
        if instance.owner != Epoch(0) || instance.started_at.is_none() {
            return Answer::Refused(Refusal::Status(instance.status));
        }
        if row.seq_last() + 1 != rewind.entry.seq {
            return Answer::Refused(Refusal::Changed);
        }
        debug_assert!(rewind.writes.iter().all(Write::is_notice), "none of them can be refused");
        self.restart(rewind);
        for child in &rewind.children {
            self.repeat_end(rewind, child);
        }
        let sent = rewind.writes.iter().map(|write| self.apply(write));
        Answer::DoneWith(sent.collect())
    }

    fn restart(&mut self, rewind: &RewindWrite) {
        let at = rewind.entry.at;
        let Some(row) = self.instances.get_mut(&rewind.num) else { return };
        row.entries.push(rewind.entry.clone());
        for inbound in &rewind.returned {
            row.inbox.entry(inbound.pos).or_insert_with(|| inbound.clone());
        }
        let instance = &mut row.instance;
        let was_pending = instance.status == Status::Pending;
        instance.status = Status::Pending;
        (instance.outcome, instance.note, instance.ended_at) = (None, None, None);
        (instance.recoveries, instance.blamed) = (0, 0);
        instance.deadline = instance.deadline.filter(|deadline| *deadline > at);
        set_wake(&mut self.wakes, instance, Some(at));
        self.report_entry(rewind.num, &rewind.entry);
        if !was_pending {
            self.report(rewind.num, LifecycleRecord::new(LifecycleRecordKind::RunQueued, at));
        }
    }

    /// Sends the end of a child that is kept, if it has ended and the inbox does not have it.
    fn repeat_end(&mut self, rewind: &RewindWrite, kept: &KeptChild) {
        let is_there = |inbound: &Inbound| matches!(&inbound.message, Message::ChildEnded { id, .. } if *id == kept.id);
        if self.instances.get(&rewind.num).is_none_or(|row| row.inbox.values().any(is_there)) {
            return;
        }
        if let Some(outcome) = self.outcome_for(rewind.num, kept) {
            let message = Message::ChildEnded { id: kept.id.clone(), outcome };
            self.send(&SendWrite::repeated_end(rewind, &kept.id, message));
        }
    }

    /// Returns the end of a child that is kept; `None` if it has not ended.
    fn outcome_for(&self, parent: InstanceNum, kept: &KeptChild) -> Option<Payload> {
        let is_its = |id: &Name| {
            let child = self.row(id).map(|row| &row.instance)?;
            child.parent.as_ref().is_some_and(|whose| whose.num == parent).then_some(child)
        };
        match is_its(&kept.id) {
            Some(child) => ChildOutcome::of(child.status, child.outcome.as_ref(), child.note.as_deref())
                .map(|outcome| outcome.to_payload()),
            None => Some(kept.outcome.clone().unwrap_or_else(KeptChild::gone)),
        }
    }

    pub(super) fn fork(&mut self, fork: &ForkWrite) -> Answer {
        if let Some(row) = self.row(&fork.start.id) {
            let num = row.instance.num;
            return match row.token == fork.start.token {
                true => Answer::Started { num, created: true, is_driven: false },
                false => Answer::Refused(Refusal::Taken),
            };
        }
        let num = self.create(&fork.start);
        let Some(row) = self.instances.get_mut(&num) else { return Answer::Refused(Refusal::NotFound) };
        fork.entries.iter().for_each(|entry| row.push(entry));
        row.inbox.extend(fork.inbox.iter().map(|inbound| (inbound.pos, inbound.clone())));
        for message in &fork.arriving {
            self.pos_last += 1;
            let inbound = Inbound { pos: self.pos_last, at: fork.start.at, message: message.clone() };
            row.inbox.insert(inbound.pos, inbound);
        }
        fork.entries.iter().for_each(|entry| self.report_entry(num, entry));
        Answer::Started { num, created: true, is_driven: false }
    }
}
