//! What follows from a durable write: instances are loaded, and messages and events are passed on to them.

use std::sync::Arc;

use outlive_core::event::Event;
use outlive_core::id::InstanceNum;
use outlive_core::journal::EntryKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::queue::{PushTarget, PushWrite, Spot};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Claim, Claimed, Commit, OnConflict, Reopen, SendWrite, StartWrite, Write};

use super::Worker;
use super::loader::Brought;
use crate::instance::info::Info;
use crate::runtime::committer::WriteListener;
use crate::runtime::waiters::RunOutcome;

impl WriteListener for Worker {
    fn written(&self, write: &Write, answer: &mut Answer) {
        self.services.due.note_progress(write, answer);
        match (write, answer) {
            (Write::Start(start), Answer::Started { num, created: true, is_driven }) => {
                self.started(start, *num, *is_driven);
            }
            (Write::Start(start), _) if start.owner == self.services.epoch => self.services.unreserve(1),
            (Write::Claim(claim), Answer::Claimed(claimed)) => self.claimed(claim, std::mem::take(claimed)),
            (Write::Claim(claim), answer) => {
                self.services.unreserve(claim.nums.len());
                if matches!(answer, Answer::Fenced) {
                    self.services.fenced();
                }
            }
            (Write::Commit(commit), answer @ (Answer::Fenced | Answer::WriteRefused { .. })) => {
                let is_reserved =
                    |write: &&Write| matches!(write, Write::Start(start) if start.owner == self.services.epoch);
                self.services.unreserve(commit.writes.iter().filter(is_reserved).count());
                if matches!(answer, Answer::Fenced) {
                    // The instance may be gone, or the lease may be lost.
                    self.services.check_lease();
                }
            }
            (Write::Turn(_), Answer::Fenced) => self.services.check_lease(),
            (Write::Message(send), Answer::Sent { num, pos, before, is_new: true, reached }) => {
                self.services.replies.place(send.token, *num, *pos);
                self.sent(send, *num, *pos, *before);
                self.look_again(reached);
            }
            (Write::Push(push), Answer::Pushed { num, positions, before, .. }) => {
                self.pushed(push, *num, positions, *before);
            }
            (Write::Turn(turn), Answer::DoneWith(answers)) => {
                self.carried(&turn.writes, answers);
                let is_stuck = turn.state.as_ref().is_some_and(|state| state.status == Status::Stuck);
                if is_stuck && self.services.residency.mailbox(turn.num).is_none() {
                    // It became stuck while it was loaded, so no driver notifies those who wait for it.
                    self.services.waiters.ask(turn.num);
                    self.services.replies.drop_all_of(turn.num);
                }
            }
            (Write::ResolveDeadLetters(_), Answer::DeadLettersResolved { nums, .. }) => self.look_again(nums),
            (Write::Rewind(rewind), Answer::DoneWith(answers)) => {
                self.services.residency.renew(rewind.num);
                self.services.queue_due(rewind.num);
                self.carried(&rewind.writes, answers);
            }
            (Write::Fork(_), Answer::Started { num, .. }) => self.services.queue_due(*num),
            (Write::Reopen(reopen), Answer::Done) => self.reopened(reopen),
            (Write::Commit(commit), Answer::Done) => self.committed(commit),
            (Write::Commit(commit), Answer::DoneWith(answers)) => {
                self.committed(commit);
                self.carried(&commit.writes, answers);
            }
            (other, _) => self.gave(other),
        }
    }

    fn refused(&self, write: &Write) {
        match write {
            Write::Start(start) if start.owner == self.services.epoch => self.services.unreserve(1),
            Write::Claim(claim) => self.services.unreserve(claim.nums.len()),
            _ => {}
        }
    }

    fn stopped(&self) {
        self.services.stopped();
    }
}

impl Worker {
    /// Passes on what a commit or turn has sent to other instances.
    fn carried(&self, writes: &[Write], answers: &mut [Answer]) {
        writes.iter().zip(answers).for_each(|(write, answer)| self.written(write, answer));
    }

    /// Notifies those who wait for what a run gives out.
    fn gave(&self, write: &Write) {
        if let Write::Output(output) = write {
            self.services.waiters.changed(output.num);
        }
    }

    fn reopened(&self, reopen: &Reopen) {
        if let Some(num) = reopen.num {
            return self.services.queue_due(num);
        }
        // It is due now, but only the store knows its number.
        let (services, id) = (Arc::downgrade(&self.services), reopen.id.clone());
        tokio::spawn(async move {
            let Some(services) = services.upgrade() else { return };
            if let Ok(Some(instance)) = services.store.instance(&id).await {
                services.due.add(instance.num);
            }
        });
    }

    fn committed(&self, commit: &Commit) {
        if let Some(state) = commit.state.as_ref().filter(|state| RunOutcome::is_in(state.status)) {
            // A later claim, after a retry, loads a new copy.
            self.services.residency.retire(commit.num);
            self.services.waiters.notify(commit.num, state);
            self.services.waiters.changed(commit.num);
        }
        if commit.entries.last().is_some_and(|last| last.kind == EntryKind::Restarted) {
            // The next run is loaded like any other that is due: its input and its messages are in the store.
            self.services.residency.retire(commit.num);
            self.services.queue_due(commit.num);
        }
    }

    /// Loads claimed instances into memory.
    fn claimed(&self, claim: &Claim, claimed: Vec<Claimed>) {
        self.services.unreserve(claim.nums.len() - claimed.len());
        let is_left_out = |num: &&InstanceNum| !claimed.iter().any(|one| one.instance.num == **num);
        // The others are stuck or gone: callers waiting for a reply find out from the store.
        claim.nums.iter().filter(is_left_out).for_each(|num| self.services.replies.drop_all_of(*num));
        self.services.due.driven_again(claim, &claimed, self.services.now());
        for one in claimed {
            let num = one.instance.num;
            if let Some(mailbox) = self.services.residency.mailbox(num) {
                // A message led to a claim while the instance came into memory another way.
                self.services.unreserve(1);
                let is_posted = mailbox.post(|arrivals| {
                    arrivals.rare().inbox.extend(one.inbox.unwrap_or_default());
                    arrivals.is_claimed = true;
                });
                if !is_posted {
                    self.services.due.add(num);
                }
            } else {
                self.loader.bring_back(one);
            }
        }
    }

    fn started(&self, start: &StartWrite, num: InstanceNum, is_driven: bool) {
        if start.on_conflict == OnConflict::Replace {
            let follower = self.follower.clone();
            tokio::spawn(async move { follower.look().await });
            self.services.residency.replace(start.id.as_str(), num);
        }
        if !is_driven {
            match start.due <= self.services.now() {
                true => self.services.queue_due(num),
                false => self.services.wakes.add_stored(start.due, num),
            }
            if start.owner == self.services.epoch {
                // Another engine holds the lease.
                self.services.unreserve(1);
                self.services.fenced();
            }
            return;
        }
        let info = Info {
            id: start.id.to_string(),
            workflow: start.workflow.to_string(),
            run_number: 1,
            started_at: start.at,
            tags: start.tags.clone(),
            deadline: start.deadline,
            num,
            seed: start.seed,
            parent: start.parent.clone().map(Box::new),
            origin: start.origin.clone(),
        };
        self.loader.spawn(info, Brought::new(start.input.clone()));
    }

    fn sent(&self, send: &SendWrite, num: InstanceNum, pos: u64, before: u64) {
        let inbound = Inbound { pos, at: send.at, message: send.message.clone() };
        let is_posted = self
            .services
            .residency
            .mailbox(num)
            .is_some_and(|mailbox| mailbox.post(|arrivals| arrivals.rare().messages.push((inbound, before))));
        if !is_posted {
            self.services.queue_due(num);
            if send.message.is_end() {
                self.services.due.hurry(num);
                self.services.due.wakeup.notify_one();
            }
        }
    }

    /// Notifies an instance of pushed events, or queues a claim for it.
    fn pushed(&self, push: &PushWrite, num: InstanceNum, positions: &[u64], before: u64) {
        self.services.replies.place(push.token, num, positions.first().copied().unwrap_or(0));
        let Some(mailbox) = self.services.residency.mailbox(num) else { return self.services.queue_due(num) };
        let is_posted = mailbox.post(|arrivals| {
            if push.place == PushTarget::Queue {
                arrivals.is_pushed = true;
                let rank = push.events.iter().map(rank_of).min();
                let rare = arrivals.rare();
                rare.rank_pushed = [rare.rank_pushed, rank].into_iter().flatten().min();
                return;
            }
            let mut before = before;
            for (event, pos) in push.events.iter().zip(positions).filter(|(_, pos)| **pos > 0) {
                let message = Message::Event(event.clone());
                arrivals.rare().messages.push((Inbound { pos: *pos, at: push.at, message }, before));
                before = *pos;
            }
        });
        if !is_posted {
            self.services.queue_due(num);
        }
    }

    /// Makes these instances read what is stored for them, or queues claims.
    fn look_again(&self, nums: &[InstanceNum]) {
        for num in nums {
            match self.services.residency.mailbox(*num) {
                Some(mailbox) => self.services.read_inbox(*num, &mailbox),
                None => self.services.queue_due(*num),
            }
        }
    }
}

/// Returns the rank of an event, which goes before all of larger rank. One with a key may go before any.
fn rank_of(event: &Event) -> i64 {
    if event.key.is_some() { i64::MIN } else { Spot::rank_of(event.priority) }
}
