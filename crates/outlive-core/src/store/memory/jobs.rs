//! Job writes and reads of the in-memory store: pushes, turns, dead letters, queues and the feed.

use std::collections::BTreeSet;

use crate::id::{InstanceNum, Name};
use crate::kind::Kinds;
use crate::payload::Payload;
use crate::queue::{
    Dead, Depth, PushTarget, PushWrite, QueuePage, QueueRead, Queued, ResolveDeadLetters, Spot, WhichDeadLetters,
    take_turns,
};
use crate::status::Status;
use crate::store::commit::{Age, Answer, Epoch, Refusal, StartWrite, Trim, Turn};
use crate::store::page;
use crate::store::query::{FeedContent, FeedItem, Urgency, Wake};
use crate::time::Timestamp;

use super::rows::{Rows, set_wake};

/// The maximum number of dead letters that one write retries or discards.
const RESOLVE_MAX: usize = 1_000;

impl Rows {
    pub(super) fn push(&mut self, push: &PushWrite) -> Answer {
        if let Some(answer) = self.pushed.get(&push.token) {
            return answer.clone();
        }
        let answer = self.push_anew(push);
        if matches!(answer, Answer::Pushed { .. }) {
            self.pushed.insert(push.token, answer.clone());
        }
        answer
    }

    /// Stores events without looking up their token.
    fn push_anew(&mut self, push: &PushWrite) -> Answer {
        let found = self.ids.get(&push.id).copied();
        let held = found.and_then(|num| self.instances.get(&num)).map(|row| &row.instance);
        if let Some(held) = held.filter(|held| held.workflow != push.job) {
            return Answer::Refused(Refusal::Conflict { workflow: held.workflow.clone() });
        }
        if let Some(held) = held.filter(|held| held.status.is_ended()) {
            return Answer::Refused(Refusal::Status(held.status));
        }
        let created = found.is_none();
        let num = found.unwrap_or_else(|| self.create(&StartWrite::of_push(push)));
        let Some(row) = self.instances.get_mut(&num) else {
            return Answer::Refused(Refusal::NotFound);
        };
        // Only the inbox is checked for gaps in its positions, not the queue.
        let before = row.inbox.keys().next_back().filter(|_| push.place == PushTarget::Inbox).copied().unwrap_or(0);
        let mut positions = Vec::with_capacity(push.events.len());
        for event in &push.events {
            let is_kept = row.keep(self.pos_last + 1, push.at, event, push.place);
            self.pos_last += u64::from(is_kept);
            positions.push(if is_kept { self.pos_last } else { 0 });
        }
        let answer = Answer::Pushed { num, created, positions, before };
        let is_undriven = row.is_open() && row.instance.owner == Epoch(0);
        if is_undriven && answer.reaches(num) {
            let due = Wake::by_message(row.instance.wake, self.pos_last, Urgency::Low);
            set_wake(&mut self.wakes, &mut row.instance, Some(due));
        }
        answer
    }

    pub(super) fn turn(&mut self, turn: &Turn) -> Answer {
        if self.lease != Some(turn.epoch) {
            return Answer::Fenced;
        }
        let after = turn.before + turn.lifecycle.iter().map(|record| record.kind.count()).sum::<u64>();
        let Some(row) = self.instances.get_mut(&turn.num) else {
            let is_done = turn.is_removed && self.gone.get(&turn.num) == Some(&after);
            return if is_done { self.send_again(&turn.writes) } else { Answer::Fenced };
        };
        let reported = row.instance.reported;
        if after > turn.before && reported == after {
            return self.send_again(&turn.writes);
        }
        if !row.is_open() || reported != turn.before {
            return Answer::Fenced;
        }
        let unseen = row.unseen_by(turn.state.as_ref(), &turn.taken);
        if !unseen.is_empty() {
            return Answer::Unseen(unseen);
        }
        let whole = (turn.is_removed && !turn.writes.is_empty()).then(|| self.clone());
        if turn.is_removed {
            // What the turn sends to its own id creates a new instance.
            self.take_turn(turn, None);
        }
        let answers = match self.send_all(&turn.writes, |rows| turn.is_removed || rows.is_open(turn.num)) {
            Ok(answers) => answers,
            Err(against) => {
                whole.into_iter().for_each(|whole| *self = whole);
                return against;
            }
        };
        if !turn.is_removed {
            let reaches_itself = answers.iter().any(|answer| answer.reaches(turn.num));
            self.take_turn(turn, reaches_itself.then_some(Timestamp::AT_ONCE));
        }
        Answer::DoneWith(answers)
    }

    /// Applies a turn that passed all checks. `wake` is set if the turn sent something to its own instance, which its
    /// owner has not seen.
    fn take_turn(&mut self, turn: &Turn, wake: Option<Timestamp>) {
        turn.lifecycle.iter().for_each(|record| self.report(turn.num, record.clone()));
        self.dead.extend(turn.dead.iter().map(|dead| (dead.pos, dead.clone())));
        self.replies.extend(turn.replies.iter().cloned());
        let Some(row) = self.instances.get_mut(&turn.num) else { return };
        row.take_turn(turn);
        if turn.is_removed {
            let id = row.instance.id.clone();
            return self.remove(&id);
        }
        if let Some(state) = &turn.state {
            row.enter(state, turn.epoch);
            // Queued events set a wake, whatever the owner has seen of them.
            let is_left = !state.is_owned && state.status != Status::Paused;
            let queued = row.queue.keys().next().filter(|_| is_left).map(|(spot, _)| spot.wake());
            let wake = wake.filter(|_| !state.is_owned);
            let wake = [wake, state.wake, queued].into_iter().flatten().min().filter(|_| row.is_open());
            set_wake(&mut self.wakes, &mut row.instance, wake);
        }
    }

    pub(super) fn resolve(&mut self, resolve: &ResolveDeadLetters) -> Answer {
        let is_meant = |dead: &&Dead| dead.job == resolve.job && resolve.which.has(dead.pos);
        let meant: Vec<Dead> = self.dead.values().filter(is_meant).take(RESOLVE_MAX).cloned().collect();
        if meant.is_empty() && resolve.which != WhichDeadLetters::All {
            return Answer::Refused(Refusal::NotFound);
        }
        let mut nums = Vec::new();
        let mut count = 0;
        for dead in &meant {
            if resolve.is_retry {
                let Some(num) = self.revive(dead, resolve.at) else { continue };
                nums.push(num);
            }
            count += 1;
            self.dead.remove(&dead.pos);
        }
        nums.sort_unstable();
        nums.dedup();
        Answer::DeadLettersResolved { count, nums }
    }

    /// Pushes a dead letter to its instance again. Returns `None` if the instance refuses it or has another event with
    /// its dedup key.
    fn revive(&mut self, dead: &Dead, at: Timestamp) -> Option<InstanceNum> {
        let row = self.ids.get(&dead.id).and_then(|num| self.instances.get_mut(num));
        if let (Some(key), Some(row)) = (&dead.event.dedup, row)
            && row.keys.get(key) == Some(&dead.pos)
        {
            // The key belongs to this event and must not make it a duplicate.
            row.keys.remove(key);
        }
        let push = PushWrite {
            id: dead.id.clone(),
            job: dead.job.clone(),
            events: vec![dead.event.clone().anew()],
            place: dead.place,
            at,
            seed: dead.pos,
            // The same write removes the dead letter, so it cannot be retried twice and the token is never looked up.
            token: dead.pos,
        };
        match self.push_anew(&push) {
            Answer::Pushed { num, positions, .. } if positions != [0] => Some(num),
            _ => None,
        }
    }

    pub(super) fn set_mark(&mut self, name: &Name, value: u64) -> Answer {
        self.marks.insert(name.clone(), value);
        Answer::Done
    }

    pub(super) fn trim(&mut self, trim: &Trim) -> Answer {
        let count = self.feed.len();
        let ages = self.feed.values().filter_map(|item| match &item.content {
            FeedContent::Lifecycle(record) => Some((item.pos, trim.age(record.at))),
            FeedContent::Entry(_) => None,
        });
        let last = ages.take_while(|(_, age)| *age != Age::Kept).filter(|(_, age)| *age == Age::Old).last();
        let last = last.map_or(0, |(pos, _)| pos);
        self.feed.retain(|pos, item| *pos > last || matches!(item.content, FeedContent::Entry(_)));
        self.trim_past(trim);
        Answer::Trimmed((count - self.feed.len()) as u64)
    }

    /// Removes the entries of journals that ended with a restart before the retention period.
    fn trim_past(&mut self, trim: &Trim) {
        let Self { past, feed, .. } = self;
        past.retain(|_, past| {
            let is_old = trim.age(past.at) == Age::Old;
            if is_old {
                let is_its = |item: &FeedItem| {
                    item.num == past.num && matches!(&item.content, FeedContent::Entry(entry) if entry.seq < past.until)
                };
                feed.retain(|_, item| !is_its(item));
            }
            !is_old
        });
    }

    pub(super) fn queue(&self, num: InstanceNum, read: &QueueRead) -> QueuePage {
        let Some(row) = self.instances.get(&num) else { return QueuePage::default() };
        let queued = |((spot, pos), (at, event)): (&(Spot, u64), &(Timestamp, crate::event::Event))| Queued {
            pos: *pos,
            spot: spot.clone(),
            at: *at,
            event: Ok(event.clone()),
        };
        let now = Spot::delayed_until(read.now);
        let is_delayed = |spot: &Spot| spot.rank == Spot::DELAYED;
        // Delayed events that are due come first: they are older than their position in the queue suggests.
        let due = row.queue.iter().filter(|((spot, _), _)| is_delayed(spot) && *spot <= now);
        let ready = due.chain(row.queue.iter().filter(|((spot, _), _)| !is_delayed(spot))).map(queued).collect();
        let next_due = row.queue.keys().find(|(spot, _)| is_delayed(spot) && *spot > now).map(|(spot, _)| spot.due());
        QueuePage { events: take_turns(ready, read.after.as_deref(), read.limit, Queued::turn), next_due }
    }

    pub(super) fn depth(&self, job: &Name, now: Timestamp) -> Depth {
        let now = Spot::delayed_until(now);
        let mut depth =
            Depth { dead: self.dead.values().filter(|dead| dead.job == *job).count() as u64, ..Depth::default() };
        for row in self.instances.values().filter(|row| row.instance.workflow == *job) {
            depth.queued += row.queue.len() as u64;
            depth.delayed +=
                row.queue.keys().filter(|(spot, _)| *spot > now && spot.rank == Spot::DELAYED).count() as u64;
        }
        depth
    }

    pub(super) fn dead(&self, job: &Name, after: u64, limit: usize) -> Vec<Dead> {
        page::fill(self.dead.values().filter(|dead| dead.job == *job && dead.pos > after).cloned(), limit)
    }

    pub(super) fn jobs(&self) -> Vec<Name> {
        let of_instances = self.instances.values().map(|row| &row.instance.workflow);
        let of_letters = self.dead.values().map(|dead| &dead.job);
        let jobs: BTreeSet<&Name> = of_instances.chain(of_letters).filter(|name| Kinds::Jobs.has(name)).collect();
        jobs.into_iter().cloned().collect()
    }

    pub(super) fn feed_after(&self, after: u64, limit: usize) -> Vec<FeedItem> {
        page::fill(self.feed.range(after.saturating_add(1)..).map(|(_, reported)| reported.clone()), limit)
    }

    pub(super) fn mark(&self, name: Option<&Name>) -> Option<u64> {
        match name {
            Some(name) => self.marks.get(name).copied(),
            None => Some(self.feed_last),
        }
    }

    pub(super) fn reply(&self, pos: u64) -> Option<Payload> {
        self.replies.get(&pos).cloned()
    }
}
