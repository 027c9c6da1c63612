//! Random writes about jobs: pushes, turns, and dead letters.

use outlive_core::event::Event;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::queue::{Dead, Moved, PushTarget, PushWrite, Queued, ResolveDeadLetters, WhichDeadLetters};
use outlive_core::store::commit::{StartWrite, Trim, Turn, Write};

use super::Author;
use crate::conformance::pair::Held;
use crate::conformance::world::{at, json, name};

/// A few instances of a few jobs, so that writes collide.
pub(super) const IDS: [&str; 4] = ["task:a:1", "task:a:2", "pool:b:1", "pool:b:2"];

impl Author {
    pub(super) fn push(&mut self) -> PushWrite {
        let id = name(self.random.pick(&IDS));
        let count = self.random.below(4);
        PushWrite {
            job: job_of(&id),
            events: (0..count).map(|_| self.event()).collect(),
            place: self.random.pick(&[PushTarget::Inbox, PushTarget::Queue]),
            at: self.moment(),
            seed: self.random.next(),
            token: self.random.next(),
            id,
        }
    }

    fn event(&mut self) -> Event {
        let (key, dedup) = (self.random.pick(&["x", "y", "ü"]), self.random.pick(&["one", "two", "three", "four"]));
        let due = self.some_moment().filter(|_| self.random.is(2));
        Event {
            priority: self.random.pick(&[0, 0, 1, -1, i32::MAX, i32::MIN]),
            key: self.random.maybe(name(key)),
            due,
            dedup: self.random.maybe(name(dedup)),
            is_asking: self.random.is(4),
            ..Event::new(json(&self.ticks.to_string()))
        }
    }

    /// Returns a turn of an existing job, if there is one.
    pub(super) fn turn(&mut self) -> Write {
        let jobs: Vec<usize> = (0..self.held.len()).filter(|index| is_job(&self.held[*index])).collect();
        if jobs.is_empty() {
            return Write::Push(self.push());
        }
        let index = self.random.pick(&jobs);
        let (instance, positions) = (self.held[index].instance.clone(), self.held[index].positions.clone());
        let queue = self.held[index].queue.clone();
        let records = (0..self.random.below(3)).map(|_| self.records()).collect();
        let before = instance.reported + u64::from(self.random.is(12));
        let mut turn = Turn { lifecycle: records, ..Turn::new(instance.num, self.epoch_or_not(15), before) };
        turn.taken.clone_from(&positions);
        turn.taken.retain(|_| self.random.is(2));
        self.shift(&mut turn, queue, &instance.id);
        turn.replies = turn.taken.iter().filter(|pos| *pos % 2 == 0).map(|pos| (*pos, json("[1]"))).collect();
        turn.keys_until = if self.random.is(3) { self.random.pick(&[&[0], &positions[..]].concat()) } else { 0 };
        turn.writes = (0..self.random.below(3)).map(|_| self.nested()).collect();
        if self.random.is(2) {
            let mut state = self.state(&positions);
            state.outcome = self.some_payload();
            turn.state = Some(state);
        }
        turn.is_removed = self.random.is(6);
        Write::Turn(Box::new(turn))
    }

    fn records(&mut self) -> LifecycleRecord {
        let kind = self.random.pick(&[
            LifecycleRecordKind::JobExecuted,
            LifecycleRecordKind::JobFailed,
            LifecycleRecordKind::TaskScheduled,
        ]);
        LifecycleRecord { detail: self.some_payload(), attempt: 2, ..LifecycleRecord::new(kind, self.moment()) }
    }

    /// Finishes, gives up or retries some of the queued events.
    fn shift(&mut self, turn: &mut Turn, queue: Vec<Queued>, id: &Name) {
        for one in queue {
            let Ok(event) = one.event else { continue };
            if !self.random.is(3) {
                continue;
            }
            let later = Event { failed: event.failed + 1, due: self.some_moment(), ..event.clone() };
            let to = self.random.maybe(later);
            if to.is_none() && self.random.is(2) {
                turn.dead.push(self.letter(one.pos, id, event.clone()));
            }
            turn.queue.push(Moved { pos: one.pos, from: one.spot, key: event.dedup, to });
        }
    }

    fn letter(&mut self, pos: u64, id: &Name, event: Event) -> Dead {
        let place = self.random.pick(&[PushTarget::Inbox, PushTarget::Queue]);
        let (job, id, at) = (job_of(id), id.clone(), self.moment());
        Dead { pos, job, id, at, attempts: 3, failure: json("\"no\""), event, place }
    }

    /// Returns a write that a turn sends.
    pub(super) fn nested(&mut self) -> Write {
        match self.random.below(4) {
            0 => Write::Message(self.send()),
            1 => Write::Start(self.start()),
            _ => Write::Push(self.push()),
        }
    }

    pub(super) fn resolve(&mut self) -> ResolveDeadLetters {
        let job = name(self.random.pick(&["task:a", "pool:b"]));
        let known = if self.dead_letters.is_empty() { 0 } else { self.random.pick(&self.dead_letters) };
        let which =
            self.random.pick(&[WhichDeadLetters::All, WhichDeadLetters::One(known), WhichDeadLetters::One(1_000_000)]);
        ResolveDeadLetters { job, which, is_retry: self.random.is(2), at: self.moment() }
    }

    /// Gives a start whose id belongs to a job the name of that job, most of the time.
    pub(super) fn named(&mut self, start: StartWrite) -> StartWrite {
        let is_job = JobKind::of(&start.id).is_some() && !self.random.is(3);
        if is_job { StartWrite { workflow: job_of(&start.id), ..start } } else { start }
    }

    /// Returns a write that trims the feed or sets a mark.
    pub(super) fn of_feed(&mut self) -> Write {
        let mark = Write::Mark(name("sink"), self.random.next() >> 32);
        // Of everything: how the events of one batch interleave is up to the store, and decides what else is removed.
        let trim = Write::Trim(Trim { before: at(1_000), now: at(1_000) });
        self.random.pick(&[mark, trim])
    }
}

fn is_job(held: &Held) -> bool {
    held.instance.num != InstanceNum(0) && JobKind::of(&held.instance.workflow).is_some()
}

fn job_of(id: &Name) -> Name {
    name(&id.as_str().split(':').take(2).collect::<Vec<_>>().join(":"))
}
