//! Tracks what was acknowledged; the plan says what was requested.

use std::collections::BTreeMap;

use super::plan::{self, Input, Op, Progress};

/// Everything acknowledged about one run.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) input: Input,
    /// Number of signals acknowledged.
    pub(super) signals: u64,
    /// The result of the cancel, if there was one: "taken", or "ended" with a status.
    pub(super) cancel: Option<String>,
}

/// Everything acknowledged, by run.
pub(super) type Promises = BTreeMap<String, Promise>;

/// Number of acknowledgements of each kind.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Acks {
    pub(super) starts: u64,
    pub(super) signals: u64,
    pub(super) cancels: u64,
    /// Calls that the store did not accept and that were repeated.
    pub(super) troubles: u64,
}

impl Acks {
    /// Returns the total number of acknowledgements.
    pub(super) fn all(self) -> u64 {
        self.starts + self.signals + self.cancels
    }
}

/// The progress of one client in its plan.
pub(super) struct Tally {
    seed: u64,
    client: usize,
    pub(super) progress: Progress,
    ops: Vec<Op>,
}

impl Tally {
    pub(super) fn new(seed: u64, client: usize) -> Self {
        Self { seed, client, progress: Progress::default(), ops: plan::block(seed, client, 0) }
    }

    /// Returns the next operation to request.
    pub(super) fn next(&self) -> Option<&Op> {
        self.ops.get(self.progress.index)
    }

    /// Records the result of the next operation.
    pub(super) fn acknowledged(
        &mut self,
        answer: &str,
        promises: &mut Promises,
        acks: &mut Acks,
    ) -> Result<(), String> {
        let op = self.next().ok_or("more results than operations")?.clone();
        match &op {
            Op::Start { id, input } => {
                acks.starts += 1;
                promises.insert(id.clone(), Promise { input: *input, signals: 0, cancel: None });
            }
            Op::Signal { id, .. } | Op::Cancel { id } => {
                let promise =
                    promises.get_mut(id).ok_or_else(|| format!("{id} got a message before it was started"))?;
                match (&op, answer) {
                    (Op::Signal { .. }, "sent") => {
                        acks.signals += 1;
                        promise.signals += 1;
                    }
                    // A signal to a run that has ended has no effect; the verdict checks why it had ended.
                    (Op::Signal { .. }, refused) if refused.starts_with("refused ") => {}
                    (Op::Cancel { .. }, answer) if answer == "taken" || answer.starts_with("ended ") => {
                        acks.cancels += 1;
                        promise.cancel = Some(answer.to_owned());
                    }
                    (op, answer) => return Err(format!("{op:?} returned {answer:?}")),
                }
            }
        }
        self.progress.index += 1;
        if self.progress.index == self.ops.len() {
            self.progress = Progress { block: self.progress.block + 1, index: 0 };
            self.ops = plan::block(self.seed, self.client, self.progress.block);
        }
        Ok(())
    }
}
