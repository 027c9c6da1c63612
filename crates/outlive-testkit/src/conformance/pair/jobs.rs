//! Compares what two stores hold about jobs.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::queue::{Dead, QueuePage, QueueRead, Queued, ResolveDeadLetters, WhichDeadLetters};
use outlive_core::store::Store;
use outlive_core::store::commit::{Answer, Turn, Write};
use outlive_core::store::query::FeedContent;
use outlive_core::time::Timestamp;

use super::Pair;
use crate::conformance::world::{Checked, at, ensure, in_words, name, same};

/// A feed event without its position.
type Said = (InstanceNum, Name, Name, u64, FeedContent);

impl Pair {
    /// Compares a queue: all of it, and pages that begin after a lane. Returns all of it.
    pub(super) async fn compare_queue(&mut self, num: InstanceNum) -> Checked<Vec<Queued>> {
        let all = QueueRead { now: Timestamp::MAX, after: None, limit: 1_000 };
        let first = in_words(self.first.queue(num, all.clone()).await)?.events;
        let second = in_words(self.second.queue(self.num_second(num), all).await)?.events;
        let num_second = self.num_second(num);
        for (one, other) in first.iter().zip(&second) {
            self.positions.learn((num, one.pos), (num_second, other.pos));
        }
        for limit in 0..4 {
            let after = [None, Some("x"), Some(""), Some("zz")][limit].map(ToOwned::to_owned);
            let read = QueueRead { now: at(10), after, limit: limit + 1 };
            let page = in_words(self.first.queue(num, read.clone()).await)?;
            let other = in_words(self.second.queue(num_second, read).await)?;
            same(&self.page(num_second, other), &page)?;
        }
        let second = QueuePage { events: second, next_due: None };
        same(&self.page(num_second, second).events, &first)?;
        Ok(first)
    }

    fn page(&self, num_second: InstanceNum, second: QueuePage) -> QueuePage {
        let placed = |queued: Queued| Queued { pos: self.pos(num_second, queued.pos), ..queued };
        QueuePage { events: second.events.into_iter().map(placed).collect(), ..second }
    }

    /// Compares counts and dead letters of jobs, the feed and its marks. Returns the positions of the dead letters.
    pub(super) async fn compare_jobs(&self) -> Checked<Vec<u64>> {
        let mut dead_letters = Vec::new();
        for job in ["task:a", "pool:b"].map(name) {
            let depth = in_words(self.first.depth(&job, at(10)).await)?;
            same(&(&job, in_words(self.second.depth(&job, at(10)).await)?), &(&job, depth))?;
            let first = in_words(self.first.dead(&job, 0, 1_000).await)?;
            let second = in_words(self.second.dead(&job, 0, 1_000).await)?;
            let placed = |dead: Dead| Dead { pos: self.letter(dead.pos), ..dead };
            same(&second.into_iter().map(placed).collect(), &first)?;
            same(&depth.dead, &(first.len() as u64))?;
            dead_letters.extend(first.iter().map(|dead| dead.pos));
        }
        let (first, second) = (feed(&*self.first, |num| num).await?, feed(&*self.second, |num| self.num(num)).await?);
        first.iter().zip(&second).try_for_each(|(one, other)| same(other, one))?;
        same(&second.len(), &first.len())?;
        let mark = Some(name("sink"));
        same(&in_words(self.second.mark(mark.as_ref()).await)?, &in_words(self.first.mark(mark.as_ref()).await)?)?;
        Ok(dead_letters)
    }

    /// Compares the replies that a turn gave to events.
    pub(super) async fn compare_replies(&self, write: &Write) -> Checked {
        let Write::Turn(turn) = write else { return Ok(()) };
        for (pos, _) in &turn.replies {
            let second = in_words(self.second.reply(self.pos_second(turn.num, *pos)).await)?;
            same(&second, &in_words(self.first.reply(*pos).await)?)?;
        }
        Ok(())
    }

    /// Learns whose dead letters a turn creates: their positions belong to its instance.
    pub(super) fn learn_dead_letters(&mut self, write: &Write) {
        let Write::Turn(turn) = write else { return };
        for dead in &turn.dead {
            self.dead_letters.learn(dead.pos, self.pos_second(turn.num, dead.pos));
        }
    }

    fn letter(&self, second: u64) -> u64 {
        self.dead_letters.to_first.get(&second).copied().unwrap_or(u64::MAX)
    }

    pub(super) fn turn_for_second(&self, turn: &mut Turn) {
        let num = turn.num;
        let of = |pos: &mut u64| *pos = self.pos_second(num, *pos);
        turn.num = self.num_second(num);
        turn.epoch = self.epoch_second(turn.epoch);
        turn.taken.iter_mut().for_each(of);
        turn.queue.iter_mut().for_each(|moved| of(&mut moved.pos));
        turn.dead.iter_mut().for_each(|dead| of(&mut dead.pos));
        turn.replies.iter_mut().for_each(|(pos, _)| of(pos));
        of(&mut turn.keys_until);
        turn.writes.iter_mut().for_each(|write| *write = self.write_for_second(write));
        if let Some(seen) = turn.state.as_mut().and_then(|state| state.seen.as_mut()) {
            of(seen);
        }
    }

    pub(super) fn resolve_for_second(&self, resolve: &mut ResolveDeadLetters) {
        if let WhichDeadLetters::One(pos) = &mut resolve.which {
            *pos = self.dead_letters.to_second.get(pos).copied().unwrap_or(*pos);
        }
    }

    /// Learns from two results of one push. What came before matters only to the owner of the instance.
    pub(super) fn comparable_pushed(&mut self, first: Answer, second: Answer) -> (Answer, Answer) {
        let (
            Answer::Pushed { num, created, positions, .. },
            Answer::Pushed { num: num_second, created: created_second, positions: positions_second, .. },
        ) = (&first, &second)
        else {
            return (first, second);
        };
        self.nums.learn(*num, *num_second);
        for (one, other) in positions.iter().zip(positions_second).filter(|(one, _)| **one > 0) {
            self.positions.learn((*num, *one), (*num_second, *other));
        }
        let placed = |pos: &u64| if *pos == 0 { 0 } else { self.pos(*num_second, *pos) };
        let of = |num, created, positions| Answer::Pushed { num, created, positions, before: 0 };
        let second = of(self.num(*num_second), *created_second, positions_second.iter().map(placed).collect());
        (of(*num, *created, positions.clone()), second)
    }

    /// Translates what a commit or turn sent into the same numbers.
    pub(super) fn comparable_carried(&mut self, writes: &[Write], first: Answer, second: Answer) -> (Answer, Answer) {
        let (Answer::DoneWith(first), Answer::DoneWith(second)) = (first.clone(), second.clone()) else {
            return (first, second);
        };
        let answers = writes.iter().zip(first).zip(second);
        let (first, second) = answers.map(|((write, one), other)| self.comparable(write, one, other)).unzip();
        (Answer::DoneWith(first), Answer::DoneWith(second))
    }

    /// Instances recreated by dead letters have no known number yet.
    pub(super) fn comparable_resolved(&mut self, first: Answer, second: Answer) -> (Answer, Answer) {
        let (Answer::DeadLettersResolved { nums, .. }, Answer::DeadLettersResolved { count, nums: nums_second }) =
            (&first, &second)
        else {
            return (first, second);
        };
        nums.iter().zip(nums_second).for_each(|(one, other)| self.nums.learn(*one, *other));
        let mut nums: Vec<_> = nums_second.iter().map(|num| self.num(*num)).collect();
        nums.sort_unstable();
        let second = Answer::DeadLettersResolved { count: *count, nums };
        (first, second)
    }
}

/// Returns the whole feed, instance by instance: how the events of one batch interleave is up to the store.
async fn feed(store: &dyn Store, num: impl Fn(InstanceNum) -> InstanceNum) -> Checked<Vec<Said>> {
    let item = in_words(store.feed(0, 1_000_000).await)?;
    ensure(item.is_sorted_by(|one, next| one.pos < next.pos), || format!("the feed is out of order: {item:?}"))?;
    let mut said: Vec<Said> =
        item.into_iter().map(|item| (num(item.num), item.id, item.workflow, item.number, item.content)).collect();
    said.sort_by_key(|line| line.0);
    Ok(said)
}
