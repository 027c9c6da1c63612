//! Control messages of a run: cancel, pause, resume and discard.

use crate::journal::{Entry, EntryKind};
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Timestamp;

use super::op::{Op, Outcome, Phase};
use super::{Machine, Slot};

impl Machine {
    /// Takes the control messages in order of arrival, as [`act`](Self::act) does.
    pub fn take_controls(&mut self, now: Timestamp) {
        while let Some((pos, message)) = self.controls.pop_front() {
            match message {
                Message::Cancel { reason } if self.cancel.is_none() => {
                    self.is_held = false;
                    if self.has_next() {
                        // Recorded outcomes are delivered first; then the cancel is taken.
                        self.controls.push_front((pos, Message::Cancel { reason }));
                        return;
                    }
                    self.outgoing.taken.push(pos);
                    self.take_cancel(reason, now);
                    continue;
                }
                Message::Discard { seq } => {
                    self.outgoing.taken.push(pos);
                    self.seq += 1;
                    let due = Some(Timestamp::from_millis(i64::try_from(seq).unwrap_or(i64::MAX)));
                    let entry = Entry { due, ..Entry::of_run(self.seq, now, EntryKind::SignalDiscarded) };
                    self.outgoing.entries.push(entry);
                    continue;
                }
                Message::Pause => self.is_held = true,
                Message::Resume => self.is_held = false,
                _ => {}
            }
            self.controls_done.push(pos);
        }
    }

    /// Cancels every polled operation without an outcome, in order of identity. Steps that begin later can clean up.
    fn take_cancel(&mut self, reason: String, now: Timestamp) {
        let payload = Payload::encode(&reason).ok();
        self.cancel = Some(reason);
        self.seq += 1;
        self.outgoing.entries.push(Entry { payload, ..Entry::of_run(self.seq, now, EntryKind::CancelTaken) });
        let open = |op: &Op| {
            !matches!(op.phase, Phase::Called | Phase::Settled { .. } | Phase::Delivered { .. } | Phase::Refused)
        };
        let mut outstanding: Vec<_> = (0..self.ops.len())
            .filter_map(|index| self.ops[index].as_ref().filter(|op| open(op)).map(|op| (op.key.clone(), Slot(index))))
            .collect();
        outstanding.sort();
        for (_, slot) in outstanding {
            self.drop_body(slot);
            self.settle(slot, EntryKind::OpCancelled, Outcome::Cancelled, now);
        }
        self.idle.clear();
        self.starting.clear();
    }
}
