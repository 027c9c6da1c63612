//! The rules by which jobs change their rows in memory: pushes, turns and dead letters.

use std::collections::BTreeSet;

use crate::commit::{Answer, Epoch, OnConflict, Refusal, Start, Turn};
use crate::id::{InstanceNum, Name};
use crate::kind::Kinds;
use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;
use crate::query::{Line, Told};
use crate::queue::{Bury, Dead, Depth, Letters, Push, QueuePage, QueueRead, Queued, Spot, take_turns};
use crate::status::{Pause, Status};
use crate::time::Timestamp;

use super::rows::{Rows, set_wake};

/// The most dead letters that are dealt with in one write.
const BURY_MAX: usize = 1_000;

impl Rows {
    pub(super) fn push(&mut self, push: &Push) -> Answer {
        if let Some(answer) = self.pushed.get(&push.token).filter(|_| !is_on(Mutant::RepeatKeptTwice)) {
            return answer.clone();
        }
        let found = self.ids.get(&push.id).copied();
        let status = found.and_then(|num| self.instances.get(&num)).map(|row| row.instance.status);
        if let Some(status) = status.filter(|status| status.is_ended()) {
            return Answer::Refused(Refusal::Status(status));
        }
        let created = found.is_none();
        let num = found.unwrap_or_else(|| self.create_for(push));
        let Some(row) = self.instances.get_mut(&num) else {
            return Answer::Refused(Refusal::NotFound);
        };
        let before = row.inbox.keys().next_back().copied().unwrap_or(0);
        let mut positions = Vec::with_capacity(push.events.len());
        for event in &push.events {
            let is_kept = row.keep(self.pos_last + 1, push.at, event, push.place);
            self.pos_last += u64::from(is_kept);
            positions.push(if is_kept { self.pos_last } else { 0 });
        }
        if row.is_open() && row.instance.owner == Epoch(0) && !is_on(Mutant::MessageWakesNobody) {
            set_wake(&mut self.wakes, &mut row.instance, Some(Timestamp::AT_ONCE));
        }
        let answer = Answer::Pushed { num, created, positions, before };
        self.pushed.insert(push.token, answer.clone());
        answer
    }

    fn create_for(&mut self, push: &Push) -> InstanceNum {
        self.create(&Start {
            id: push.id.clone(),
            workflow: push.job.clone(),
            input: Payload::recorded("null"),
            seed: push.seed,
            tags: Default::default(),
            at: push.at,
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Join,
            token: push.token,
            owner: Epoch(0),
        })
    }

    pub(super) fn turn(&mut self, turn: &Turn) -> Answer {
        if self.lease != Some(turn.epoch) && !is_on(Mutant::CommitUnfenced) {
            return Answer::Fenced;
        }
        let after = turn.before + turn.news.iter().map(|news| news.kind.count()).sum::<u64>();
        let Some(row) = self.instances.get_mut(&turn.num) else {
            let is_done = turn.is_removed && self.gone.get(&turn.num) == Some(&after);
            return if is_done { self.answer_again(turn) } else { Answer::Fenced };
        };
        let told = row.instance.news;
        if after > turn.before && told == after {
            return self.answer_again(turn);
        }
        if !row.is_open() || told != turn.before {
            return Answer::Fenced;
        }
        let unseen = row.unseen_by(turn.state.as_ref(), &turn.taken);
        if !unseen.is_empty() {
            return Answer::Unseen(unseen);
        }
        let whole = (!turn.writes.is_empty()).then(|| self.clone());
        let answers: Vec<Answer> = turn.writes.iter().map(|write| self.apply(write)).collect();
        if let Some(refused) = answers.iter().find(|answer| matches!(answer, Answer::Refused(_))) {
            let refused = refused.clone();
            whole.into_iter().for_each(|whole| *self = whole);
            return refused;
        }
        self.take_turn(turn);
        Answer::Turned(answers)
    }

    /// The same turn again: what it sent is known by its tokens.
    fn answer_again(&mut self, turn: &Turn) -> Answer {
        Answer::Turned(turn.writes.iter().map(|write| self.apply(write)).collect())
    }

    fn take_turn(&mut self, turn: &Turn) {
        turn.news.iter().for_each(|news| self.tell(turn.num, news.clone()));
        self.dead.extend(turn.dead.iter().map(|dead| (dead.pos, dead.clone())));
        self.replies.extend(turn.replies.iter().cloned());
        let Some(row) = self.instances.get_mut(&turn.num) else { return };
        row.take_turn(turn);
        if turn.is_removed {
            let id = row.instance.id.clone();
            self.gone.insert(turn.num, row.instance.news);
            return self.remove(&id);
        }
        if let Some(state) = turn.state.as_ref().filter(|_| !is_on(Mutant::CommitHalved)) {
            row.enter(state, turn.epoch);
            // What lies in the queue is not forgotten, whatever the owner has seen of it.
            let is_left = !state.is_owned && !matches!(state.status, Status::Paused { why: Pause::Hand, .. });
            let queued = row.queue.keys().next().filter(|_| is_left).map(|(spot, _)| spot.wake());
            let wake = [state.wake, queued].into_iter().flatten().min().filter(|_| row.is_open());
            set_wake(&mut self.wakes, &mut row.instance, wake);
        }
    }

    pub(super) fn bury(&mut self, bury: &Bury) -> Answer {
        let is_meant = |dead: &&Dead| dead.job == bury.job && bury.letters.has(dead.pos);
        let meant: Vec<Dead> = self.dead.values().filter(is_meant).take(BURY_MAX).cloned().collect();
        if meant.is_empty() && bury.letters != Letters::All {
            return Answer::Refused(Refusal::NotFound);
        }
        let mut nums = Vec::new();
        for dead in &meant {
            if bury.is_retry {
                let Some(num) = self.revive(dead, bury.at) else { continue };
                nums.push(num);
            }
            self.dead.remove(&dead.pos);
        }
        nums.sort_unstable();
        nums.dedup();
        Answer::Buried { count: meant.len() as u64, nums }
    }

    /// Gives a dead letter to its instance again; `None` if that has ended otherwise.
    fn revive(&mut self, dead: &Dead, at: Timestamp) -> Option<InstanceNum> {
        let push = Push {
            id: dead.id.clone(),
            job: dead.job.clone(),
            events: vec![dead.event.clone().anew()],
            place: dead.place,
            at,
            seed: dead.pos,
            // It is removed in the same write, so that it cannot be revived twice.
            token: 0,
        };
        self.pushed.remove(&0);
        match self.push(&push) {
            Answer::Pushed { num, .. } => Some(num),
            _ => None,
        }
    }

    pub(super) fn set_mark(&mut self, name: &Name, value: u64) -> Answer {
        self.marks.insert(name.clone(), value);
        Answer::Done
    }

    pub(super) fn trim(&mut self, before: Timestamp) -> Answer {
        self.feed.retain(|_, told| !matches!(&told.line, Line::News(news) if news.at < before));
        Answer::Done
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
        // Those whose time has come go first: they are older than they look.
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
        self.dead.values().filter(|dead| dead.job == *job && dead.pos > after).take(limit).cloned().collect()
    }

    pub(super) fn jobs(&self) -> Vec<Name> {
        let of_instances = self.instances.values().map(|row| &row.instance.workflow);
        let of_letters = self.dead.values().map(|dead| &dead.job);
        let jobs: BTreeSet<&Name> = of_instances.chain(of_letters).filter(|name| Kinds::Jobs.has(name)).collect();
        jobs.into_iter().cloned().collect()
    }

    pub(super) fn feed_after(&self, after: u64, limit: usize) -> Vec<Told> {
        self.feed.range(after.saturating_add(1)..).map(|(_, told)| told.clone()).take(limit).collect()
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
