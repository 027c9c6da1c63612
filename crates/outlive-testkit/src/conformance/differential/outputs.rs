//! Random outputs of runs, for differential testing: with a commit, and on their own.

use outlive_core::id::InstanceNum;
use outlive_core::output::{AppendedBy, OutputContent, OutputWrite};
use outlive_core::store::commit::Write;

use super::Author;
use crate::conformance::world::{json, name};

impl Author {
    /// Returns an output of a run whose last entry is `seq`.
    pub(super) fn output(&mut self, num: InstanceNum, seq: u64) -> Write {
        let stream = name(self.random.pick(&["one", "two", "ü"]));
        let payload = self.random.pick(&[json("1"), json("\"ü\"")]);
        let origin = AppendedBy { op: "step:say".into(), attempt: u32::from(self.random.is(2)) + 1 };
        let content = match self.random.below(5) {
            0 => OutputContent::Value { name: stream, version: seq, payload },
            1 => OutputContent::Answer { question: seq, payload },
            2 => OutputContent::AttemptEnd { origin, is_kept: self.random.is(2) },
            _ => {
                let origin = self.random.maybe(origin);
                OutputContent::Item { name: stream, payload, origin, max_items: 4 }
            }
        };
        let (epoch, at, token) = (self.epoch, self.moment(), self.random.next());
        Write::Output(OutputWrite { num, epoch, content, at, token }.into())
    }

    /// Returns an output that an attempt writes on its own, sometimes under a lease that is not held.
    pub(super) fn lone_output(&mut self) -> Write {
        let held = self.any_held().map(|held| (held.instance.num, held.seq_last));
        let (num, seq) = held.unwrap_or_else(|| (self.any_num(), 0));
        let mut write = self.output(num, seq);
        if let Write::Output(output) = &mut write {
            output.epoch = self.epoch_or_not(10);
        }
        write
    }
}
