//! Tracks which job events the store has accepted, from any sender.

use std::collections::{BTreeMap, BTreeSet};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::payload::Payload;
use outlive_core::queue::{PushTarget, PushWrite};
use outlive_core::store::commit::{Answer, Write};

/// An event that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) id: Name,
    pub(super) num: InstanceNum,
    pub(super) payload: Payload,
}

/// Everything that was accepted in a world.
#[derive(Default)]
pub(super) struct Acceptance {
    /// Accepted events by position.
    pub(super) events: BTreeMap<u64, Accepted>,
    /// Number of times an instance was created under each id.
    pub(super) started: BTreeMap<Name, usize>,
    /// Tokens of writes seen so far: a repeated write gets the same result as before.
    tokens: BTreeSet<u64>,
    /// Events that wait in a queue with a dedup key.
    waiting: BTreeMap<(InstanceNum, Name), u64>,
    /// Jobs whose dead letters were retried, which restores their keys.
    pub(super) retried: BTreeSet<Name>,
}

impl Acceptance {
    /// Records durable writes. Returns an error if one must not have been accepted.
    pub(super) fn written(&mut self, batch: &[Write], answers: &[Answer]) -> Result<(), String> {
        for (write, answer) in batch.iter().zip(answers) {
            match (write, answer) {
                (Write::Push(push), Answer::Pushed { num, positions, .. }) if self.tokens.insert(push.token) => {
                    self.pushed(push, *num, positions)?;
                }
                (Write::Start(start), Answer::Started { created: true, .. }) if self.tokens.insert(start.token) => {
                    *self.started.entry(start.id.clone()).or_default() += 1;
                }
                (Write::Turn(turn), Answer::DoneWith(answers)) => {
                    for moved in turn.queue.iter().filter(|moved| moved.to.is_none()) {
                        if let Some(key) = &moved.key {
                            let place = (turn.num, key.clone());
                            // A turn may repeat after its reply was lost, and another event may hold the key by now.
                            self.waiting
                                .remove(&place)
                                .filter(|pos| *pos != moved.pos)
                                .map(|pos| self.waiting.insert(place, pos));
                        }
                    }
                    self.written(&turn.writes, answers)?;
                }
                (Write::Commit(commit), Answer::DoneWith(answers)) => self.written(&commit.writes, answers)?,
                (Write::ResolveDeadLetters(resolve), Answer::DeadLettersResolved { count, .. }) => {
                    self.retried.extend((resolve.is_retry && *count > 0).then(|| resolve.job.clone()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn pushed(&mut self, push: &PushWrite, num: InstanceNum, positions: &[u64]) -> Result<(), String> {
        for (event, pos) in push.events.iter().zip(positions.iter().copied()) {
            if let Some(key) = event.dedup.as_ref().filter(|_| push.place == PushTarget::Queue) {
                let place = (num, key.clone());
                match (self.waiting.get(&place).copied(), pos) {
                    (Some(other), 1..) => {
                        return Err(format!("events {other} and {pos} of {} wait with the same key, {key:?}", push.id));
                    }
                    (None, 0) if !self.retried.contains(&push.job) => {
                        return Err(format!(
                            "an event of {} was deduplicated, but no other has its key {key:?}",
                            push.id
                        ));
                    }
                    (None, 1..) => drop(self.waiting.insert(place, pos)),
                    _ => {}
                }
            }
            if pos > 0 {
                let accepted = Accepted { id: push.id.clone(), num, payload: event.payload.clone() };
                self.events.insert(pos, accepted);
            }
        }
        Ok(())
    }
}
