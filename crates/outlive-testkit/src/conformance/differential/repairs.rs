//! Random rewinds and forks.

use outlive_core::journal::{Entry, EntryKind};
use outlive_core::kind::JobKind;
use outlive_core::message::Inbound;
use outlive_core::store::commit::{Epoch, ForkWrite, KeptChild, OnConflict, RewindWrite, SendWrite, StartWrite, Write};

use super::super::world::{at, cancel, name, signal};
use super::Author;

impl Author {
    pub(super) fn rewind(&mut self) -> Write {
        let held = self.any_held().map(|held| (held.instance.clone(), held.seq_last, held.positions.clone()));
        let held = held.filter(|(instance, ..)| JobKind::of(&instance.workflow).is_none());
        let Some((instance, seq_last, mut positions)) = held else { return self.fork() };
        // Those that are taken in the same batch are given back.
        positions.retain(|_| self.random.is(2));
        let again = |pos| Inbound { pos, at: at(7), message: signal("again") };
        let returned = positions.into_iter().map(again).collect();
        let seq = if self.random.is(8) { seq_last + 2 } else { seq_last + 1 };
        let kept = self.random.next() % seq;
        let entry = Entry::rewound(seq, at(100 + self.ticks), kept, self.random.pick(&["", "ü"]).into());
        let children = (0..self.random.below(3)).map(|_| KeptChild { id: self.id(), outcome: self.some_payload() });
        let children = children.collect();
        let writes = (0..self.random.below(3)).map(|_| self.notice()).collect();
        let (id, num) = (instance.id, instance.num);
        Write::Rewind(Box::new(RewindWrite { id, num, entry, returned, children, writes }))
    }

    fn notice(&mut self) -> Write {
        let (message, token) = (cancel("rewound"), self.random.next());
        Write::Message(SendWrite { id: self.id(), num: None, message, at: self.moment(), dedup: None, token })
    }

    pub(super) fn fork(&mut self) -> Write {
        let start = StartWrite { on_conflict: OnConflict::Reject, owner: Epoch(0), parent: None, ..self.start() };
        let start = StartWrite { workflow: name("checkout"), ..start };
        let count = u64::try_from(self.random.below(3)).unwrap_or(0);
        let mut entries: Vec<_> = (1..=count).map(|seq| self.entry(seq)).collect();
        entries.push(Entry { kind: EntryKind::Forked, ..Entry::rewound(count + 1, start.at, count, "".into()) });
        let arriving = (0..self.random.below(3)).map(|_| signal("hello")).collect();
        Write::Fork(Box::new(ForkWrite { start, entries, inbox: Vec::new(), arriving }))
    }
}
