//! The failures that user code has seen, to know which of them made a run fail.

use std::collections::VecDeque;

use crate::child::ChildOutcome;
use crate::failure::Failure;

use super::spec::{OpKind, Outcome};

/// How many failures are remembered.
const SEEN_MAX: usize = 16;

/// The last failures that user code has seen, each with its entry and its message.
#[derive(Default)]
pub(super) struct SeenFailures(VecDeque<(u64, Box<str>)>);

impl SeenFailures {
    /// Remembers an outcome if it is a failure.
    pub(super) fn see(&mut self, seq: u64, outcome: &Outcome, kind: Option<OpKind>) {
        if kind == Some(OpKind::Undo) {
            return; // The run is stuck with it, and does not fail because of it.
        }
        let message = match outcome {
            Outcome::Failed(failed) => failed.failure.message.as_str().into(),
            Outcome::TimedOut | Outcome::Refused(_) => Box::default(),
            Outcome::Signal { payload, .. } if kind == Some(OpKind::Result) => {
                match ChildOutcome::from_payload(payload).ok().and_then(ChildOutcome::into_failure) {
                    Some(failure) => failure.message.into(),
                    None => return,
                }
            }
            _ => return,
        };
        if self.0.len() == SEEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((seq, message));
    }

    /// Returns the entry of the failure that made a run fail with `failure`: the last one whose message is part of it, or
    /// else the last one.
    pub(super) fn cause_of(&self, failure: &Failure) -> Option<u64> {
        let texts = || std::iter::once(&failure.message).chain(&failure.causes);
        let is_part = |message: &str| !message.is_empty() && texts().any(|text| text.contains(message));
        let named = self.0.iter().rev().find(|(_, message)| is_part(message));
        named.or(self.0.back()).map(|(seq, _)| *seq)
    }
}
