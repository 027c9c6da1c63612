//! What was acknowledged, as the plan says what was asked for.

use std::collections::BTreeMap;

use super::plan::{self, Input, Op, Progress};

/// What was acknowledged about one run, by whom the parent heard it from.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) input: Input,
    /// How many signals were acknowledged.
    pub(super) signals: u64,
    /// What was said to the cancel, if there was one: "taken", or "ended" with a status.
    pub(super) cancel: Option<String>,
}

/// What was acknowledged, by run.
pub(super) type Promises = BTreeMap<String, Promise>;

/// How many of each.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Acks {
    pub(super) starts: u64,
    pub(super) signals: u64,
    pub(super) cancels: u64,
    /// Calls that the store did not take, and that were made again.
    pub(super) troubles: u64,
}

impl Acks {
    /// All that was acknowledged.
    pub(super) fn all(self) -> u64 {
        self.starts + self.signals + self.cancels
    }
}

/// How far one client is in its plan.
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

    /// What is to be asked for next.
    pub(super) fn next(&self) -> Option<&Op> {
        self.ops.get(self.progress.index)
    }

    /// The next operation was answered.
    pub(super) fn acknowledged(
        &mut self,
        answer: &str,
        promises: &mut Promises,
        acks: &mut Acks,
    ) -> Result<(), String> {
        let op = self.next().ok_or("more answers than operations")?.clone();
        match &op {
            Op::Start { id, input } => {
                acks.starts += 1;
                promises.insert(id.clone(), Promise { input: *input, signals: 0, cancel: None });
            }
            Op::Signal { id, .. } | Op::Cancel { id } => {
                let promise = promises.get_mut(id).ok_or_else(|| format!("{id} was asked before it was started"))?;
                match (&op, answer) {
                    (Op::Signal { .. }, "sent") => {
                        acks.signals += 1;
                        promise.signals += 1;
                    }
                    // What a run that has ended was sent is of no use to it; the verdict sees why it had ended.
                    (Op::Signal { .. }, refused) if refused.starts_with("refused ") => {}
                    (Op::Cancel { .. }, answer) if answer == "taken" || answer.starts_with("ended ") => {
                        acks.cancels += 1;
                        promise.cancel = Some(answer.to_owned());
                    }
                    (op, answer) => return Err(format!("{op:?} was answered {answer:?}")),
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
