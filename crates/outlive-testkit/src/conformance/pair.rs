//! A pair of stores that get the same writes and must return the same results, except for the numbers they choose
//! themselves.

mod jobs;

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::child::Parent;
use outlive_core::id::InstanceNum;
use outlive_core::message::Inbound;
use outlive_core::output::Output;
use outlive_core::queue::Queued;
use outlive_core::status::StatusKind;
use outlive_core::store::Store;
use outlive_core::store::commit::{Answer, Claimed, Epoch, Write};
use outlive_core::store::page::whole_outputs;
use outlive_core::store::query::{Filter, Instance, Wake};
use outlive_core::time::Timestamp;

use super::world::{Checked, at, in_words, same};

/// The pair. All input and output uses the first store's numbers.
pub(crate) struct Pair {
    first: Arc<dyn Store>,
    second: Arc<dyn Store>,
    /// The lease of the first store.
    pub(crate) epoch: Epoch,
    epoch_second: Epoch,
    /// The second store's number for each of the first's.
    nums: Both<InstanceNum>,
    /// The same for positions, which may be counted per instance.
    positions: Both<(InstanceNum, u64)>,
    /// The same for dead letters, which outlive their instance.
    dead_letters: Both<u64>,
}

/// An instance as both stores have it.
pub(crate) struct Held {
    pub(crate) instance: Instance,
    pub(crate) seq_last: u64,
    pub(crate) positions: Vec<u64>,
    pub(crate) queue: Vec<Queued>,
}

/// A two-way mapping.
struct Both<T> {
    to_second: BTreeMap<T, T>,
    to_first: BTreeMap<T, T>,
}

impl<T: Ord + Copy> Both<T> {
    fn new() -> Self {
        Self { to_second: BTreeMap::new(), to_first: BTreeMap::new() }
    }

    /// The first mapping wins; a contradiction shows up when it is translated.
    fn learn(&mut self, first: T, second: T) {
        self.to_second.entry(first).or_insert(second);
        self.to_first.entry(second).or_insert(first);
    }
}

impl Pair {
    pub(crate) async fn new(first: Arc<dyn Store>, second: Arc<dyn Store>) -> Checked<Self> {
        let epoch = in_words(first.lease(at(0)).await)?;
        let epoch_second = in_words(second.lease(at(0)).await)?;
        let (nums, positions, dead_letters) = (Both::new(), Both::new(), Both::new());
        Ok(Self { first, second, epoch, epoch_second, nums, positions, dead_letters })
    }

    pub(crate) async fn release(&self) -> Checked {
        in_words(self.first.release(self.epoch).await)?;
        in_words(self.second.release(self.epoch_second).await)
    }

    pub(crate) async fn lease(&mut self, now: Timestamp) -> Checked {
        self.epoch = in_words(self.first.lease(now).await)?;
        self.epoch_second = in_words(self.second.lease(now).await)?;
        Ok(())
    }

    /// Writes the batch to both stores and compares each result.
    pub(crate) async fn write(&mut self, batch: &[Write]) -> Checked {
        batch.iter().for_each(|write| self.learn_dead_letters(write));
        let for_second = batch.iter().map(|write| self.write_for_second(write)).collect();
        let first = in_words(self.first.write(Arc::new(batch.to_vec())).await)?;
        let second = in_words(self.second.write(Arc::new(for_second)).await)?;
        same(&(first.len(), second.len()), &(batch.len(), batch.len()))?;
        for ((write, first), second) in batch.iter().zip(first).zip(second) {
            let (first, second) = self.comparable(write, first, second);
            same(&second, &first).map_err(|found| format!("{found}\n    for {write:?}"))?;
            self.compare_replies(write).await?;
            self.learn_reached(&first).await?;
        }
        Ok(())
    }

    /// Learns the positions of messages that were sent because others were, which no result contains.
    async fn learn_reached(&mut self, answer: &Answer) -> Checked {
        let answers =
            if let Answer::DoneWith(answers) = answer { answers.as_slice() } else { std::slice::from_ref(answer) };
        for answer in answers {
            let Answer::Sent { reached, .. } = answer else { continue };
            for num in reached {
                let inbox = in_words(self.first.inbox(*num, 0, usize::MAX).await)?;
                let inbox_second = in_words(self.second.inbox(self.num_second(*num), 0, usize::MAX).await)?;
                self.learn_inbox(*num, &inbox, &inbox_second);
            }
        }
        Ok(())
    }

    /// Compares the contents of both stores, and returns them: instances, and positions of dead letters.
    pub(crate) async fn compare(&mut self) -> Checked<(Vec<Held>, Vec<u64>)> {
        let all = Filter::all();
        let first = in_words(self.first.list(&all, None, 1_000_000).await)?.instances;
        let second = in_words(self.second.list(&all, None, 1_000_000).await)?.instances;
        let second: Vec<Instance> = second.into_iter().map(|instance| self.instance(instance)).collect();
        same(&second, &first)?;
        let wakes = in_words(self.second.wakes(Timestamp::MAX, usize::MAX).await)?;
        let wakes: Vec<Wake> = wakes.iter().map(|wake| self.wake(*wake)).collect();
        same(&wakes, &in_words(self.first.wakes(Timestamp::MAX, usize::MAX).await)?)?;
        let mut held = Vec::new();
        for instance in first {
            held.push(self.compare_one(instance).await?);
        }
        Ok((held, self.compare_jobs().await?))
    }

    async fn compare_one(&mut self, instance: Instance) -> Checked<Held> {
        let (num, num_second) = (instance.num, self.num_second(instance.num));
        let by_id = in_words(self.second.instance(&instance.id).await)?.map(|found| self.instance(found));
        same(&by_id.as_ref(), &Some(&instance))?;
        let entries = in_words(self.first.journal(num, 0, usize::MAX).await)?;
        same(&in_words(self.second.journal(num_second, 0, usize::MAX).await)?, &entries)?;
        let inbox = in_words(self.first.inbox(num, 0, usize::MAX).await)?;
        let inbox_second = in_words(self.second.inbox(num_second, 0, usize::MAX).await)?;
        self.learn_inbox(num, &inbox, &inbox_second);
        same(&self.inbox(num, inbox_second), &inbox)?;
        let outputs = in_words(whole_outputs(&*self.first, num).await)?;
        let outputs_second = in_words(whole_outputs(&*self.second, num_second).await)?;
        same(&self.outputs(outputs_second), &outputs)?;
        let queue = self.compare_queue(num).await?;
        let positions = inbox.iter().map(|inbound| inbound.pos).collect();
        Ok(Held { instance, seq_last: entries.last().map_or(0, |entry| entry.seq), positions, queue })
    }

    /// Compares a page and the counts of what matches.
    pub(crate) async fn query(&self, filter: &Filter, before: Option<InstanceNum>, limit: usize) -> Checked {
        let first = in_words(self.first.list(filter, before, limit).await)?;
        let before = before.map(|num| self.num_second(num));
        let parent = filter.parent.map(|num| self.num_second(num));
        let filter_second = parent.map_or_else(|| filter.clone(), |num| filter.clone().children_of(num));
        let second = in_words(self.second.list(&filter_second, before, limit).await)?;
        let instances: Vec<Instance> = second.instances.into_iter().map(|instance| self.instance(instance)).collect();
        let next = second.next.map(|num| self.num(num));
        same(&(filter, instances, next), &(filter, first.instances, first.next))?;
        let (first, second) =
            (in_words(self.first.count(filter).await)?, in_words(self.second.count(&filter_second).await)?);
        same(&StatusKind::ALL.map(|kind| second.of(kind)), &StatusKind::ALL.map(|kind| first.of(kind)))
    }
}

/// Translation from the first store's numbers to the second's.
impl Pair {
    fn num_second(&self, num: InstanceNum) -> InstanceNum {
        self.nums.to_second.get(&num).copied().unwrap_or(num)
    }

    fn pos_second(&self, num: InstanceNum, pos: u64) -> u64 {
        self.positions.to_second.get(&(num, pos)).map_or(pos, |(_, pos)| *pos)
    }

    /// 0 means no owner for both; other epochs have the same distance to the current one in both.
    fn epoch_second(&self, epoch: Epoch) -> Epoch {
        if epoch == Epoch(0) {
            return epoch;
        }
        Epoch((epoch.0 + self.epoch_second.0).saturating_sub(self.epoch.0))
    }

    fn write_for_second(&self, write: &Write) -> Write {
        let mut write = write.clone();
        match &mut write {
            Write::Start(start) => {
                start.owner = self.epoch_second(start.owner);
                start.parent.iter_mut().for_each(|parent| parent.num = self.num_second(parent.num));
            }
            Write::Message(send) => send.num = send.num.map(|num| self.num_second(num)),
            Write::Commit(commit) => {
                let num = commit.num;
                commit.num = self.num_second(num);
                commit.epoch = self.epoch_second(commit.epoch);
                commit.taken.iter_mut().for_each(|pos| *pos = self.pos_second(num, *pos));
                commit.writes.iter_mut().for_each(|write| *write = self.write_for_second(write));
                if let Some(state) = &mut commit.state {
                    state.seen = state.seen.map(|pos| self.pos_second(num, pos));
                }
            }
            Write::Claim(claim) => {
                claim.nums.iter_mut().for_each(|num| *num = self.num_second(*num));
                claim.epoch = self.epoch_second(claim.epoch);
            }
            Write::Absolve(absolve) => {
                absolve.nums.iter_mut().for_each(|num| *num = self.num_second(*num));
                absolve.epoch = self.epoch_second(absolve.epoch);
            }
            Write::Rewind(rewind) => {
                let num = rewind.num;
                rewind.num = self.num_second(num);
                rewind.returned.iter_mut().for_each(|inbound| inbound.pos = self.pos_second(num, inbound.pos));
                rewind.writes.iter_mut().for_each(|write| *write = self.write_for_second(write));
            }
            Write::Output(output) => {
                output.num = self.num_second(output.num);
                output.epoch = self.epoch_second(output.epoch);
            }
            Write::Turn(turn) => self.turn_for_second(turn),
            Write::ResolveDeadLetters(resolve) => self.resolve_for_second(resolve),
            _ => {}
        }
        write
    }
}

/// Translation from the second store's numbers to the first's.
impl Pair {
    fn num(&self, second: InstanceNum) -> InstanceNum {
        self.nums.to_first.get(&second).copied().unwrap_or(InstanceNum(u64::MAX))
    }

    fn pos(&self, num_second: InstanceNum, second: u64) -> u64 {
        self.positions.to_first.get(&(num_second, second)).map_or(u64::MAX, |(_, pos)| *pos)
    }

    fn wake(&self, second: Wake) -> Wake {
        let due = second.message().map(|pos| Wake::of_message(self.pos(second.num, pos)));
        Wake { num: self.num(second.num), due: due.unwrap_or(second.due) }
    }

    fn instance(&self, second: Instance) -> Instance {
        let owner = if second.owner == self.epoch_second { self.epoch } else { second.owner };
        // An instance recreated by a dead letter has the letter's number as its seed.
        let seed = self.dead_letters.to_first.get(&second.seed).copied().unwrap_or(second.seed);
        let wake = second.wake.map(|due| self.wake(Wake { due, num: second.num }).due);
        let parent = second.parent.map(|parent| Parent { num: self.parent(parent.num), ..parent });
        Instance { num: self.num(second.num), owner, seed, wake, parent, ..second }
    }

    /// A parent may never have existed, and then has the same number in both.
    fn parent(&self, second: InstanceNum) -> InstanceNum {
        self.nums.to_first.get(&second).copied().unwrap_or(second)
    }

    fn inbox(&self, num: InstanceNum, second: Vec<Inbound>) -> Vec<Inbound> {
        let num_second = self.num_second(num);
        second.into_iter().map(|inbound| Inbound { pos: self.pos(num_second, inbound.pos), ..inbound }).collect()
    }

    fn outputs(&self, second: Vec<Output>) -> Vec<Output> {
        let epoch = |epoch: Epoch| Epoch((epoch.0 + self.epoch.0).saturating_sub(self.epoch_second.0));
        second.into_iter().map(|output| Output { epoch: epoch(output.epoch), ..output }).collect()
    }

    /// Retried dead letters have a position that no write returned.
    fn learn_inbox(&mut self, num: InstanceNum, first: &[Inbound], second: &[Inbound]) {
        let num_second = self.num_second(num);
        for (one, other) in first.iter().zip(second) {
            self.positions.learn((num, one.pos), (num_second, other.pos));
        }
    }

    /// Learns from two results of one write, and translates them into the same numbers.
    fn comparable(&mut self, write: &Write, first: Answer, second: Answer) -> (Answer, Answer) {
        match (&first, second) {
            (Answer::Started { num, .. }, Answer::Started { num: num_second, created, is_driven }) => {
                self.nums.learn(*num, num_second);
                (first, Answer::Started { num: self.num(num_second), created, is_driven })
            }
            (_, Answer::Given { num, item }) => (first, Answer::Given { num: self.num(num), item }),
            (Answer::Sent { .. }, second @ Answer::Sent { .. }) => self.comparable_sent(first, second),
            (_, second @ Answer::Pushed { .. }) => self.comparable_pushed(first, second),
            (_, second @ Answer::DeadLettersResolved { .. }) => self.comparable_resolved(first, second),
            (Answer::Unseen(seen), Answer::Unseen(inbox)) => {
                let num = match write {
                    Write::Commit(commit) => commit.num,
                    Write::Turn(turn) => turn.num,
                    _ => return (first, Answer::Unseen(inbox)),
                };
                self.learn_inbox(num, seen, &inbox);
                (first, Answer::Unseen(self.inbox(num, inbox)))
            }
            (_, second @ Answer::DoneWith(_)) => match write {
                Write::Turn(turn) => self.comparable_carried(&turn.writes, first, second),
                Write::Commit(commit) => self.comparable_carried(&commit.writes, first, second),
                Write::Rewind(rewind) => self.comparable_carried(&rewind.writes, first, second),
                _ => (first, second),
            },
            (Answer::Claimed(ours), Answer::Claimed(claimed)) => {
                for (one, other) in ours.iter().zip(&claimed) {
                    if let (Ok(inbox), Ok(inbox_second)) = (&one.inbox, &other.inbox) {
                        self.learn_inbox(one.instance.num, inbox, inbox_second);
                    }
                }
                let claimed = claimed.into_iter().map(|one| self.claimed(one)).collect();
                (first, Answer::Claimed(claimed))
            }
            (_, second) => (first, second),
        }
    }

    fn comparable_sent(&mut self, first: Answer, second: Answer) -> (Answer, Answer) {
        let (
            Answer::Sent { num, pos, before: _, is_new, reached },
            Answer::Sent {
                num: num_second,
                pos: pos_second,
                before: _,
                is_new: is_new_second,
                reached: reached_second,
            },
        ) = (&first, &second)
        else {
            return (first, second);
        };
        let reached_second = reached_second.iter().map(|num| self.num(*num)).collect();
        let of = |num, pos, is_new, reached| Answer::Sent { num, pos, before: 0, is_new, reached };
        let num_of_second = self.num(*num_second);
        // A store may have forgotten the position of a message, and then returns 0.
        if *pos == 0 || *pos_second == 0 {
            let first = of(*num, 0, *is_new, reached.clone());
            return (first, of(num_of_second, 0, *is_new_second, reached_second));
        }
        self.positions.learn((*num, *pos), (*num_second, *pos_second));
        let placed = self.pos(*num_second, *pos_second);
        (of(*num, *pos, *is_new, reached.clone()), of(num_of_second, placed, *is_new_second, reached_second))
    }

    fn claimed(&self, second: Claimed) -> Claimed {
        let Claimed { is_first, had_paused, instance, journal, inbox } = second;
        let instance = self.instance(instance);
        let inbox = inbox.map(|inbox| self.inbox(instance.num, inbox));
        Claimed { is_first, had_paused, instance, journal, inbox }
    }
}
