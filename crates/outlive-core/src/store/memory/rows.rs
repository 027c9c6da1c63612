//! Writes and reads of the in-memory store: one function per kind of write, which checks everything before it changes
//! anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::child::ChildOutcome;
use crate::id::{InstanceNum, Name};
use crate::journal::{Entry, EntryKind};
use crate::kind::JobKind;
use crate::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::Dead;
use crate::status::{Status, StatusKind};
use crate::store::commit::{
    self, Absolve, Answer, Claim, Claimed, Commit, Epoch, OnConflict, Refusal, Reopen, StartWrite, Write,
};
use crate::store::page;
use crate::store::query::{Counts, FeedContent, FeedItem, Filter, Instance, Page, Suspect, Urgency, Wake};
use crate::time::Timestamp;

use super::row::{Row, is_dense};

/// Journals of an instance that ended with a restart. Only the feed has their entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastJournal {
    pub(super) num: InstanceNum,
    /// The number of the entry that begins the next journal.
    pub(super) until: u64,
    /// When that was.
    pub(super) at: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) instances: BTreeMap<InstanceNum, Row>,
    pub(super) ids: BTreeMap<Name, InstanceNum>,
    /// The wakes of all instances, ordered by due time. Changed only by [`set_wake`].
    pub(super) wakes: BTreeSet<Wake>,
    /// The last instance number in use; never decreases, even when instances are purged.
    pub(super) num_last: u64,
    /// The last inbox position in use, across all inboxes; never decreases.
    pub(super) pos_last: u64,
    /// The last epoch in use; never decreases.
    epoch_last: u64,
    /// The epoch that holds the lease, if any.
    pub(super) lease: Option<Epoch>,
    /// The feed, by position.
    pub(super) feed: BTreeMap<u64, FeedItem>,
    /// The last feed position in use; never decreases.
    pub(super) feed_last: u64,
    /// The journals that ended with a restart, by the position of that.
    pub(super) past: BTreeMap<u64, PastJournal>,
    /// The number of lifecycle events of each removed instance.
    pub(super) gone: BTreeMap<InstanceNum, u64>,
    /// The results of pushes, by token.
    pub(super) pushed: BTreeMap<u64, Answer>,
    pub(super) dead: BTreeMap<u64, Dead>,
    pub(super) replies: BTreeMap<u64, Payload>,
    pub(super) marks: BTreeMap<Name, u64>,
}

impl Rows {
    pub(super) fn apply(&mut self, write: &Write) -> Answer {
        match write {
            Write::Start(start) => self.start(start),
            Write::Message(send) => self.send(send),
            Write::Commit(commit) => self.commit(commit),
            Write::Claim(claim) => self.claim(claim),
            Write::Reopen(reopen) => self.reopen(reopen),
            Write::Rewind(rewind) => self.rewind(rewind),
            Write::Fork(fork) => self.fork(fork),
            Write::Purge(id, num) => self.purge(id, *num),
            Write::Push(push) => self.push(push),
            Write::Turn(turn) => self.turn(turn),
            Write::ResolveDeadLetters(resolve) => self.resolve(resolve),
            Write::Mark(name, value) => self.set_mark(name, *value),
            Write::Trim(trim) => self.trim(trim),
            Write::Absolve(absolve) => self.absolve(absolve),
            Write::Output(output) => self.give_fenced(output),
            Write::Expire(expire) => self.expire(expire),
        }
    }

    pub(super) fn lease(&mut self, now: Timestamp) -> Epoch {
        let is_driven = |row: &&mut Row| row.instance.owner != Epoch(0);
        let blamed = self.culprit();
        for row in self.instances.values_mut().filter(is_driven) {
            row.instance.owner = Epoch(0);
            row.instance.recoveries = row.instance.recoveries.saturating_add(1);
            row.instance.blamed += u32::from(blamed == Some(row.instance.num));
            set_wake(&mut self.wakes, &mut row.instance, Some(now));
        }
        self.epoch_last += 1;
        let epoch = Epoch(self.epoch_last);
        self.lease = Some(epoch);
        epoch
    }

    /// Returns the instance to blame for a crash: the most suspicious one that was being driven, unless several are
    /// equally suspicious.
    fn culprit(&self) -> Option<InstanceNum> {
        let driven = || self.instances.values().map(|row| &row.instance).filter(|one| one.owner != Epoch(0));
        let rank = |one: &Instance| (one.is_suspect(), one.recoveries > 0);
        let worst = driven().map(rank).max()?;
        let mut found = driven().filter(|one| rank(one) == worst).map(|one| one.num);
        found.next().filter(|_| found.next().is_none())
    }

    fn absolve(&mut self, absolve: &Absolve) -> Answer {
        if self.lease != Some(absolve.epoch) {
            return Answer::Fenced;
        }
        for num in &absolve.nums {
            let guilty = |row: &&mut Row| row.is_open() && row.instance.recoveries > absolve.max_recoveries;
            if let Some(row) = self.instances.get_mut(num).filter(guilty) {
                (row.instance.recoveries, row.instance.blamed) = (absolve.max_recoveries, 0);
            }
        }
        Answer::Done
    }

    pub(super) fn release(&mut self, epoch: Epoch) {
        if self.lease != Some(epoch) {
            return;
        }
        self.lease = None;
        // There is no clock here. 1970 is in the past, so they are due at once for the next lease holder.
        for row in self.instances.values_mut().filter(|row| row.instance.owner != Epoch(0)) {
            row.instance.owner = Epoch(0);
            set_wake(&mut self.wakes, &mut row.instance, Some(Timestamp::AT_ONCE));
        }
    }

    /// Appends a lifecycle event to the feed.
    pub(super) fn report(&mut self, num: InstanceNum, record: LifecycleRecord) {
        let Some(row) = self.instances.get_mut(&num) else { return };
        row.instance.reported += record.kind.count();
        let number = row.seq_last() + row.instance.reported;
        self.feed_last += 1;
        let (id, workflow) = (row.instance.id.clone(), row.instance.workflow.clone());
        let item = FeedItem { pos: self.feed_last, num, id, workflow, number, content: FeedContent::Lifecycle(record) };
        self.feed.insert(self.feed_last, item);
    }

    pub(super) fn report_entry(&mut self, num: InstanceNum, entry: &Entry) {
        let Some(row) = self.instances.get(&num) else { return };
        self.feed_last += 1;
        let (id, workflow) = (row.instance.id.clone(), row.instance.workflow.clone());
        let number = entry.seq + row.instance.reported;
        let content = FeedContent::Entry(entry.clone());
        self.feed.insert(self.feed_last, FeedItem { pos: self.feed_last, num, id, workflow, number, content });
        if entry.kind == EntryKind::Restarted {
            self.past.insert(self.feed_last, PastJournal { num, until: entry.seq, at: entry.at });
        }
    }

    /// Appends a lifecycle event for a run's new status, if it changed to one that is reported.
    fn tell_status(&mut self, num: InstanceNum, before: Option<StatusKind>, at: Timestamp) {
        let Some(instance) = self.instances.get(&num).map(|row| &row.instance) else { return };
        if before == Some(instance.status.kind()) || JobKind::of(&instance.workflow).is_some() {
            return;
        }
        if let Some(record) = LifecycleRecord::of_run(before, instance.status, instance.note.as_deref(), at) {
            let record = record.because(instance.outcome.as_ref());
            self.report(num, record);
        }
    }

    fn start(&mut self, start: &StartWrite) -> Answer {
        if let Some(row) = self.row(&start.id) {
            let held = &row.instance;
            if row.token == start.token {
                return Answer::Started { num: held.num, created: true, is_driven: self.lease == Some(start.owner) };
            }
            match start.on_conflict {
                OnConflict::Join if held.workflow == start.workflow && held.input == start.input => {
                    return Answer::Started { num: held.num, created: false, is_driven: false };
                }
                OnConflict::Join => {
                    return Answer::Refused(Refusal::Conflict { workflow: held.workflow.clone() });
                }
                OnConflict::Reject => return Answer::Refused(Refusal::Taken),
                OnConflict::Replace => match self.waiting_parent(held) {
                    Some(parent) => return Answer::Refused(Refusal::Child { parent }),
                    None => self.remove(&start.id),
                },
            }
        }
        Answer::Started { num: self.create(start), created: true, is_driven: self.lease == Some(start.owner) }
    }

    pub(super) fn create(&mut self, start: &StartWrite) -> InstanceNum {
        self.num_last += 1;
        let num = InstanceNum(self.num_last);
        let is_driven = self.lease == Some(start.owner);
        let mut instance = Instance {
            num,
            id: start.id.clone(),
            workflow: start.workflow.clone(),
            status: if is_driven { Status::Running } else { Status::Pending },
            created_at: start.at,
            started_at: is_driven.then_some(start.at),
            ended_at: None,
            input: start.input.clone(),
            outcome: None,
            note: None,
            origin: start.origin.clone(),
            seed: start.seed,
            tags: start.tags.clone(),
            recoveries: 0,
            blamed: 0,
            owner: if is_driven { start.owner } else { Epoch(0) },
            wake: None,
            reported: 0,
            parent: start.parent.clone(),
            deadline: start.deadline,
            restarts: 0,
        };
        set_wake(&mut self.wakes, &mut instance, (!is_driven).then_some(start.due));
        self.ids.insert(start.id.clone(), num);
        self.instances.insert(num, Row::new(instance, start.token));
        if JobKind::of(&start.workflow).is_none() {
            let kind = if is_driven { LifecycleRecordKind::RunBegun } else { LifecycleRecordKind::RunQueued };
            self.report(num, LifecycleRecord::new(kind, start.at));
        }
        num
    }

    pub(super) fn send(&mut self, send: &commit::SendWrite) -> Answer {
        let Some(num) = self.ids.get(&send.id).copied().filter(|num| send.num.is_none_or(|asked| asked == *num)) else {
            return Answer::Refused(Refusal::NotFound);
        };
        let Some(row) = self.instances.get_mut(&num) else {
            return Answer::Refused(Refusal::NotFound);
        };
        if let Some(pos) = row.tokens.get(&send.token) {
            // The owner may not have received the message before it.
            let before = row.inbox.range(..pos).next_back().map_or(0, |(pos, _)| *pos);
            return Answer::Sent { num, pos: *pos, before, is_new: true, reached: Vec::new() };
        }
        let status = row.instance.status;
        let is_for_the_open = matches!(send.message, Message::Pause | Message::Resume);
        if status.is_ended() || (status == Status::Stuck && is_for_the_open) {
            return Answer::Refused(Refusal::Status(status));
        }
        if let Some(pos) = send.dedup.as_ref().and_then(|key| row.keys.get(key)) {
            return Answer::Sent { num, pos: *pos, before: 0, is_new: false, reached: Vec::new() };
        }
        let before = row.inbox.keys().next_back().copied().unwrap_or(0);
        self.pos_last += 1;
        let before_status = row.instance.status;
        row.accept(self.pos_last, send);
        let is_run = JobKind::of(&row.instance.workflow).is_none();
        let is_kept = row.instance.status == Status::Pending && !send.message.is_end() && is_run;
        if row.is_open() && row.instance.owner == Epoch(0) && !is_kept {
            let due = Wake::by_message(row.instance.wake, self.pos_last, Urgency::of(&send.message));
            set_wake(&mut self.wakes, &mut row.instance, Some(due));
        }
        let has_ended = row.instance.status.is_ended() && !before_status.is_ended();
        let pos = self.pos_last;
        if let (true, false, Message::Cancel { reason } | Message::Terminate { reason }) =
            (has_ended, is_run, &send.message)
        {
            self.report(num, LifecycleRecord::terminated(reason, send.at));
            self.remove(&send.id);
        }
        self.tell_status(num, Some(before_status.kind()), send.at);
        let reached = if has_ended && is_run { self.pass_on_end(num, send) } else { Vec::new() };
        Answer::Sent { num, pos, before, is_new: true, reached }
    }

    /// Passes on the end of a stuck run, which no driver does: its parent learns of it, and its attached children get
    /// the same message. Returns the instances that got one.
    fn pass_on_end(&mut self, num: InstanceNum, send: &commit::SendWrite) -> Vec<InstanceNum> {
        let Some(instance) = self.instances.get(&num).map(|row| &row.instance) else { return Vec::new() };
        let outcome = ChildOutcome::of(instance.status, None, instance.note.as_deref());
        let to_parent = instance.parent.iter().zip(outcome).map(|(parent, outcome)| {
            commit::SendWrite::child_ended(parent, &instance.id, &outcome, send.token, send.at)
        });
        let is_attached =
            |one: &&Instance| one.parent.as_ref().is_some_and(|parent| parent.num == num && !parent.is_detached);
        let children = self.instances.values().map(|row| &row.instance).filter(is_attached);
        let to_children = children.map(|child| commit::SendWrite {
            id: child.id.clone(),
            num: Some(child.num),
            dedup: None,
            ..send.clone()
        });
        let family: Vec<_> = to_parent.chain(to_children).collect();
        let mut reached = Vec::new();
        for message in family {
            if let Answer::Sent { num, reached: further, .. } = self.send(&message) {
                reached.push(num);
                reached.extend(further);
            }
        }
        reached
    }

    /// Returns the id of the parent that waits for this instance, if there is one.
    fn waiting_parent(&self, instance: &Instance) -> Option<Name> {
        let parent = instance.parent.as_ref().filter(|_| !instance.status.is_ended())?;
        let row = self.instances.get(&parent.num)?;
        (!row.instance.status.is_ended()).then(|| parent.id.clone())
    }

    fn commit(&mut self, commit: &Commit) -> Answer {
        if self.lease != Some(commit.epoch) {
            return Answer::Fenced;
        }
        let Some(row) = self.instances.get_mut(&commit.num) else {
            return Answer::Fenced;
        };
        if row.has_applied(commit) {
            return if commit.writes.is_empty() { Answer::Done } else { self.send_again(&commit.writes) };
        }
        if !row.is_open() || row.seq_last() != commit.seq_before || !is_dense(commit) {
            return Answer::Fenced;
        }
        let unseen = row.unseen_by(commit.state.as_ref(), &commit.taken);
        if !unseen.is_empty() {
            return Answer::Unseen(unseen);
        }
        let answers = match self.send_all(&commit.writes, |rows| rows.is_open(commit.num)) {
            Ok(answers) => answers,
            Err(against) => return against,
        };
        let Some(row) = self.instances.get_mut(&commit.num) else { return Answer::Fenced };
        let before = row.instance.status.kind();
        row.take(commit);
        if let Some(state) = &commit.state {
            row.enter(state, commit.epoch);
            let wake = state.wake.filter(|_| row.is_open());
            set_wake(&mut self.wakes, &mut row.instance, wake);
        }
        commit.entries.iter().for_each(|entry| self.report_entry(commit.num, entry));
        if let Some(state) = &commit.state {
            self.tell_status(commit.num, Some(before), state.at);
        }
        if commit.writes.is_empty() { Answer::Done } else { Answer::DoneWith(answers) }
    }

    /// Applies the writes that a commit or turn carries. If one is refused, or `is_fine` returns `false` after them,
    /// nothing is changed, and the result says why.
    pub(super) fn send_all(
        &mut self,
        writes: &[Write],
        is_fine: impl FnOnce(&Self) -> bool,
    ) -> Result<Vec<Answer>, Answer> {
        let whole = (!writes.is_empty()).then(|| self.clone());
        let mut answers = Vec::with_capacity(writes.len());
        let mut against = None;
        for (index, write) in writes.iter().enumerate() {
            match self.send_one(write) {
                Answer::Refused(refusal) if !write.is_notice() => {
                    against = Some(Answer::WriteRefused { index, refusal });
                    break;
                }
                answer => answers.push(answer),
            }
        }
        let against = against.or((!is_fine(self)).then_some(Answer::Fenced));
        match (against, whole) {
            (None, _) => Ok(answers),
            (Some(against), whole) => {
                whole.into_iter().for_each(|whole| *self = whole);
                Err(against)
            }
        }
    }

    /// Repeats the result of a commit or turn that was applied before. Its writes are recognized by their tokens.
    pub(super) fn send_again(&mut self, writes: &[Write]) -> Answer {
        Answer::DoneWith(writes.iter().map(|write| self.send_one(write)).collect())
    }

    /// Applies one write that a commit or turn carries.
    fn send_one(&mut self, write: &Write) -> Answer {
        match write {
            Write::Output(output) => self.give(output),
            other => self.apply(other),
        }
    }

    pub(super) fn is_open(&self, num: InstanceNum) -> bool {
        self.instances.get(&num).is_some_and(Row::is_open)
    }

    fn claim(&mut self, claim: &Claim) -> Answer {
        if self.lease != Some(claim.epoch) {
            return Answer::Fenced;
        }
        let mut claimed: Vec<Claimed> = Vec::new();
        for num in &claim.nums {
            if claimed.iter().any(|one| one.instance.num == *num) {
                continue;
            }
            let Some(row) = self.instances.get_mut(num) else {
                continue;
            };
            let is_free = [Epoch(0), claim.epoch].contains(&row.instance.owner);
            if !row.is_open() || !is_free || row.instance.is_early(claim.at) {
                continue;
            }
            let before = row.instance.status.kind();
            let is_again = row.instance.owner == claim.epoch && row.instance.started_at == Some(claim.at);
            let is_first = row.instance.started_at.is_none() || is_again;
            row.instance.owner = claim.epoch;
            row.instance.started_at.get_or_insert(claim.at);
            row.instance.note = None;
            let is_held = row.instance.status == Status::Paused;
            let had_paused = before.is_idle() && !is_held;
            if !is_held {
                row.instance.status = Status::Running;
            }
            set_wake(&mut self.wakes, &mut row.instance, None);
            let (journal, inbox) = (Ok(row.entries.clone()), Ok(row.inbox_after(0)));
            self.tell_status(*num, Some(before), claim.at);
            let Some(row) = self.instances.get(num) else { continue };
            claimed.push(Claimed { is_first, had_paused, instance: row.instance.clone(), journal, inbox });
        }
        Answer::Claimed(claimed)
    }

    fn reopen(&mut self, reopen: &Reopen) -> Answer {
        let found = self.ids.get(&reopen.id).filter(|found| reopen.num.is_none_or(|num| **found == num));
        let Some(row) = found.and_then(|num| self.instances.get_mut(num)) else {
            return Answer::Refused(Refusal::NotFound);
        };
        if !matches!(row.instance.status, Status::Failed | Status::Stuck) {
            if row.entries.last().is_some_and(|last| last.is_reopening(reopen.at)) {
                return Answer::Done;
            }
            return Answer::Refused(Refusal::Status(row.instance.status));
        }
        let entry = Entry::reopened(row.seq_last() + 1, reopen.at, row.instance.status, row.instance.outcome.as_ref());
        row.entries.push(entry.clone());
        let is_run = JobKind::of(&row.instance.workflow).is_none();
        let instance = &mut row.instance;
        instance.status = Status::Pending;
        // The outcome of a job is its record, which it continues with.
        instance.outcome = instance.outcome.take().filter(|_| !is_run);
        instance.note = None;
        instance.ended_at = None;
        (instance.recoveries, instance.blamed) = (0, 0);
        set_wake(&mut self.wakes, instance, Some(reopen.at));
        let num = instance.num;
        self.report_entry(num, &entry);
        if is_run {
            self.report(num, LifecycleRecord::new(LifecycleRecordKind::RunQueued, reopen.at));
        }
        if entry.kind == EntryKind::Retried {
            self.repeat_ends(num, entry.seq, reopen.at);
        }
        Answer::Done
    }

    /// Sends the outcomes of all children that have ended to a run that had failed: its inbox was cleared, and it
    /// accepted none since.
    fn repeat_ends(&mut self, parent: InstanceNum, seq: u64, at: Timestamp) {
        let children = self.instances.values().map(|row| &row.instance);
        let ends = children.filter_map(|child| {
            let parent = child.parent.as_ref().filter(|whose| whose.num == parent)?;
            let outcome = ChildOutcome::of(child.status, child.outcome.as_ref(), child.note.as_deref())?;
            Some(commit::SendWrite::child_ended(parent, &child.id, &outcome, seq, at))
        });
        for end in ends.collect::<Vec<_>>() {
            self.send(&end);
        }
    }

    fn purge(&mut self, id: &Name, num: Option<InstanceNum>) -> Answer {
        let Some(row) = self.row(id).filter(|row| num.is_none_or(|num| row.instance.num == num)) else {
            return Answer::Refused(Refusal::NotFound);
        };
        if row.is_open() {
            return Answer::Refused(Refusal::Status(row.instance.status));
        }
        if let Some(parent) = self.waiting_parent(&row.instance) {
            return Answer::Refused(Refusal::Child { parent });
        }
        self.remove(id);
        Answer::Done
    }

    pub(super) fn row(&self, id: &Name) -> Option<&Row> {
        self.ids.get(id).and_then(|num| self.instances.get(num))
    }

    pub(super) fn remove(&mut self, id: &Name) {
        if let Some(mut row) = self.ids.remove(id).and_then(|num| self.instances.remove(&num)) {
            set_wake(&mut self.wakes, &mut row.instance, None);
            self.past.retain(|_, past| past.num != row.instance.num);
            self.gone.insert(row.instance.num, row.instance.reported);
            if !row.entries.is_empty() {
                let is_its =
                    |item: &FeedItem| item.num == row.instance.num && matches!(item.content, FeedContent::Entry(_));
                self.feed.retain(|_, told| !is_its(told));
            }
        }
    }

    pub(super) fn instance(&self, id: &Name) -> Option<Instance> {
        self.row(id).map(|row| row.instance.clone())
    }

    pub(super) fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Vec<Entry> {
        let entries = self.instances.get(&num).map_or(&[][..], |row| &row.entries);
        page::fill(entries.iter().filter(|entry| entry.seq > after).cloned(), limit)
    }

    pub(super) fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Vec<Inbound> {
        let Some(row) = self.instances.get(&num) else { return Vec::new() };
        page::fill(row.messages_after(after).cloned(), limit)
    }

    pub(super) fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Vec<Wake> {
        let later = self.wakes.range((Bound::Excluded(after), Bound::Unbounded));
        later.take_while(|wake| wake.due <= until).take(limit).copied().collect()
    }

    pub(super) fn suspects(&self, until: Timestamp) -> Vec<Suspect> {
        let due = self.wakes.iter().take_while(|wake| wake.due <= until);
        let due = due.filter_map(|wake| self.instances.get(&wake.num)).map(|row| &row.instance);
        due.filter(|one| one.is_suspect()).map(|one| Suspect { num: one.num, recoveries: one.recoveries }).collect()
    }

    pub(super) fn list(&self, filter: &Filter, before: Option<InstanceNum>, limit: usize) -> Page {
        let below = before.unwrap_or(InstanceNum(u64::MAX));
        let mut matching = self.instances.range(..below).rev().filter(|(_, row)| filter.matches(&row.instance));
        let instances = page::fill(matching.by_ref().map(|(_, row)| row.instance.clone()), limit);
        let next = matching.next().and_then(|_| instances.last()).map(|last| last.num);
        Page { instances, next }
    }

    pub(super) fn count(&self, filter: &Filter) -> Counts {
        let mut counts = Counts::default();
        for row in self.instances.values().filter(|row| filter.matches(&row.instance)) {
            *counts.0.entry(row.instance.status.kind()).or_default() += 1;
        }
        counts
    }
}

/// Replaces the wake of an instance, in its row and in `wakes`.
pub(super) fn set_wake(wakes: &mut BTreeSet<Wake>, instance: &mut Instance, wake: Option<Timestamp>) {
    let num = instance.num;
    if let Some(due) = std::mem::replace(&mut instance.wake, wake) {
        wakes.remove(&Wake { due, num });
    }
    if let Some(due) = wake {
        wakes.insert(Wake { due, num });
    }
}
