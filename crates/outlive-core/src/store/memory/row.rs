//! One instance of the in-memory store, and how messages and commits change it.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::id::Name;
use crate::journal::{Entry, EntryKind};
use crate::message::{Inbound, Message};
use crate::output::{Output, OutputKey};
use crate::queue::{Moved, PushTarget, Spot};
use crate::status::Status;
use crate::store::commit::{self, Commit, Epoch, NewState, Turn};
use crate::store::query::Instance;
use crate::time::Timestamp;

/// One instance.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) instance: Instance,
    /// The token of the start that created it.
    pub(super) token: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) inbox: BTreeMap<u64, Inbound>,
    /// The position of each message by its token. Kept after the message is taken, because the response to its sender
    /// may have been lost.
    pub(super) tokens: BTreeMap<u64, u64>,
    /// The position of the first message of each dedup key.
    pub(super) keys: BTreeMap<Name, u64>,
    /// Events that are taken by priority instead of arrival, with the time they were accepted.
    pub(super) queue: BTreeMap<(Spot, u64), (Timestamp, Event)>,
    /// What it has given out.
    pub(super) outputs: BTreeMap<OutputKey, Output>,
    /// The place of each item in its stream, by the token of its write.
    pub(super) items_by_token: BTreeMap<u64, u64>,
}

impl Row {
    pub(super) fn new(instance: Instance, token: u64) -> Self {
        let (entries, inbox) = (Vec::new(), BTreeMap::new());
        let (tokens, keys, queue) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (outputs, items_by_token) = (BTreeMap::new(), BTreeMap::new());
        Self { instance, token, entries, inbox, tokens, keys, queue, outputs, items_by_token }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.instance.status.is_ended() && self.instance.status != Status::Stuck
    }

    pub(super) fn seq_last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.seq)
    }

    fn entry(&self, seq: u64) -> Option<&Entry> {
        let index = usize::try_from(seq.checked_sub(self.entries.first()?.seq)?).ok()?;
        let entry = self.entries.get(index);
        debug_assert!(entry.is_none_or(|entry| entry.seq == seq), "a journal is numbered without gaps");
        entry
    }

    pub(super) fn messages_after(&self, after: u64) -> impl Iterator<Item = &Inbound> {
        self.inbox.range(after.saturating_add(1)..).map(|(_, inbound)| inbound)
    }

    pub(super) fn inbox_after(&self, after: u64) -> Vec<Inbound> {
        self.messages_after(after).cloned().collect()
    }

    /// Stores a message, or ends a stuck instance at once if the message asks for that.
    pub(super) fn accept(&mut self, pos: u64, send: &commit::SendWrite) {
        self.tokens.insert(send.token, pos);
        if let Some(key) = &send.dedup {
            self.keys.insert(key.clone(), pos);
        }
        match &send.message {
            Message::Cancel { reason } | Message::Terminate { reason } if self.instance.status == Status::Stuck => {
                self.instance.status = Status::Cancelled;
                self.instance.note = Some(reason.clone());
                self.instance.ended_at = Some(send.at);
                self.inbox.clear();
                self.queue.clear();
            }
            message => {
                self.inbox.insert(pos, Inbound { pos, at: send.at, message: message.clone() });
            }
        }
    }

    /// Returns `true` if this very commit was applied before and the response was lost. It must not be applied again: a
    /// message may have arrived since, and the commit's wake would miss it.
    pub(super) fn has_applied(&self, commit: &Commit) -> bool {
        if let Some(last) = commit.entries.last() {
            return is_dense(commit) && self.entry(last.seq) == Some(last);
        }
        self.seq_last() == commit.seq_before
            && !self.is_open()
            && commit.state.as_ref().is_some_and(|state| {
                self.instance.status == state.status
                    && self.instance.outcome == state.outcome
                    && self.instance.note == state.note
                    && self.instance.ended_at == state.status.is_ended().then_some(state.at)
            })
    }

    /// Returns the messages that are neither taken nor seen by a new state.
    pub(super) fn unseen_by(&self, state: Option<&NewState>, taken: &[u64]) -> Vec<Inbound> {
        let Some(seen) = state.and_then(|state| state.seen) else {
            return Vec::new();
        };
        let mut later = self.inbox_after(seen);
        later.retain(|inbound| !taken.contains(&inbound.pos));
        later
    }

    /// Appends an entry to the journal, or begins the next journal with it.
    pub(super) fn push(&mut self, entry: &Entry) {
        if entry.kind == EntryKind::Restarted {
            self.entries.clear();
            self.instance.restarts = entry.attempt.saturating_sub(1);
        }
        self.entries.push(entry.clone());
    }

    pub(super) fn take(&mut self, commit: &Commit) {
        commit.entries.iter().for_each(|entry| self.push(entry));
        for pos in &commit.taken {
            self.inbox.remove(pos);
        }
        if commit.is_progress() {
            self.absolve();
        }
    }

    /// Clears the suspicion that the instance crashes the process.
    fn absolve(&mut self) {
        (self.instance.recoveries, self.instance.blamed) = (0, 0);
    }

    /// Stores an event. Returns `false` if there is one with its dedup key.
    pub(super) fn keep(&mut self, pos: u64, at: Timestamp, event: &Event, place: PushTarget) -> bool {
        if let Some(key) = &event.dedup {
            if self.keys.contains_key(key) {
                return false;
            }
            self.keys.insert(key.clone(), pos);
        }
        match place {
            PushTarget::Inbox => {
                self.inbox.insert(pos, Inbound { pos, at, message: Message::Event(event.clone()) });
            }
            PushTarget::Queue => {
                self.queue.insert((Spot::of(event), pos), (at, event.clone()));
            }
        }
        true
    }

    /// Takes the events that a turn is done with, and moves those that stay in the queue.
    pub(super) fn take_turn(&mut self, turn: &Turn) {
        for pos in &turn.taken {
            self.inbox.remove(pos);
        }
        for moved in &turn.queue {
            let at = self.queue.remove(&(moved.from.clone(), moved.pos)).map(|(at, _)| at);
            match (&moved.to, at) {
                (Some(event), Some(at)) => {
                    self.queue.insert((Spot::of(event), moved.pos), (at, event.clone()));
                }
                (Some(_), None) => {}
                (None, _) => self.free_key(moved),
            }
        }
        self.keys.retain(|_, pos| *pos > turn.keys_until);
        if !turn.lifecycle.is_empty() {
            self.absolve();
        }
    }

    /// Releases the dedup key of an event that is done, unless another event has the key by now.
    fn free_key(&mut self, moved: &Moved) {
        if let Some(key) = &moved.key
            && self.keys.get(key) == Some(&moved.pos)
        {
            self.keys.remove(key);
        }
    }

    pub(super) fn enter(&mut self, state: &NewState, epoch: Epoch) {
        let instance = &mut self.instance;
        instance.status = state.status;
        instance.outcome.clone_from(&state.outcome);
        instance.note.clone_from(&state.note);
        instance.owner = Epoch(0);
        if state.status == Status::Running {
            instance.started_at.get_or_insert(state.at);
        }
        if state.status.is_ended() {
            instance.ended_at = Some(state.at);
            self.inbox.clear();
            self.queue.clear();
        } else if state.is_owned && state.status != Status::Stuck {
            instance.owner = epoch;
        }
    }
}

/// Returns `true` if the entries of a commit are numbered without gaps from `seq_before + 1`.
pub(super) fn is_dense(commit: &Commit) -> bool {
    (1..).zip(&commit.entries).all(|(nth, entry)| commit.seq_before.checked_add(nth) == Some(entry.seq))
}
