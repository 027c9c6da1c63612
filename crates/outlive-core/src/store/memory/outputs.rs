//! Outputs of runs in the in-memory store: latest values, streams and answers.

use std::ops::Bound;

use crate::id::{InstanceNum, Name};
use crate::output::{Output, OutputContent, OutputKey, OutputKind, OutputRead, OutputWrite};
use crate::store::commit::{Answer, Refusal};
use crate::store::page;

use super::row::Row;
use super::rows::Rows;

impl Rows {
    /// Stores an output that the attempt of a step wrote on its own.
    pub(super) fn give_fenced(&mut self, output: &OutputWrite) -> Answer {
        if self.lease != Some(output.epoch) || !self.is_open(output.num) {
            return Answer::Fenced;
        }
        self.give(output)
    }

    /// Stores an output that a commit carries, or that was checked before.
    pub(super) fn give(&mut self, output: &OutputWrite) -> Answer {
        let Some(row) = self.instances.get_mut(&output.num) else { return Answer::Fenced };
        let offset = match &output.content {
            OutputContent::Item { name, max_items, .. } => {
                if let Some(item) = row.items_by_token.get(&output.token).copied() {
                    return Answer::Given { num: output.num, item };
                }
                let offset = row.last(OutputKind::Item, name).map_or(0, |last| last.item + 1);
                if offset >= *max_items {
                    return Answer::Refused(Refusal::Full { max_items: *max_items });
                }
                row.items_by_token.insert(output.token, offset);
                offset
            }
            OutputContent::Value { name, version, .. } => {
                if let Some(last) = row.last(OutputKind::Value, name).cloned() {
                    if last.item > *version {
                        return Answer::Given { num: output.num, item: *version };
                    }
                    row.outputs.remove(&last);
                }
                0
            }
            OutputContent::Answer { .. } | OutputContent::AttemptEnd { .. } => 0,
        };
        let stored = output.to_row(offset);
        let item = stored.key.item;
        if !(matches!(output.content, OutputContent::Answer { .. }) && row.outputs.contains_key(&stored.key)) {
            row.outputs.insert(stored.key.clone(), stored);
        }
        Answer::Given { num: output.num, item }
    }

    pub(super) fn outputs(&self, num: InstanceNum, read: &OutputRead, limit: usize) -> Vec<Output> {
        let Some(row) = self.instances.get(&num) else { return Vec::new() };
        let found: Vec<_> = match read {
            OutputRead::Of { kind, name, from } => row.of(*kind, name, *from).take(limit).collect(),
            OutputRead::All { after } => {
                let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                row.outputs.range((after, Bound::Unbounded)).map(|(_, output)| output).take(limit).collect()
            }
        };
        page::fill(found.into_iter().map(|output| row.judged(output)), limit)
    }
}

impl Row {
    fn of(&self, kind: OutputKind, name: &Name, from: u64) -> impl DoubleEndedIterator<Item = &Output> {
        let key = |item| OutputKey { kind, name: name.clone(), item };
        self.outputs.range(key(from)..=key(u64::MAX)).map(|(_, output)| output)
    }

    /// Returns the place of the last output of this kind and name.
    fn last(&self, kind: OutputKind, name: &Name) -> Option<&OutputKey> {
        self.of(kind, name, 0).next_back().map(|output| &output.key)
    }

    /// Notes whether the attempt that appended an item has failed.
    fn judged(&self, output: &Output) -> Output {
        let end = output.origin.as_ref().and_then(|origin| {
            let name = Name::recorded(&origin.op);
            let key = OutputKey { kind: OutputKind::AttemptEnd, name, item: u64::from(origin.attempt) };
            self.outputs.get(&key).map(|end| (end.epoch, end.payload.as_str() == "true"))
        });
        output.clone().judged(end, self.instance.owner)
    }
}
