//! Control messages of a run: cancel, pause, resume and discard.

use crate::journal::EntryKind;
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Timestamp;

use super::Machine;
use super::op::{Op, OpPhase};
use super::spec::Outcome;

impl Machine {
    /// Takes the control messages in order of arrival, as [`act`](Self::act) does.
    pub fn take_controls(&mut self, now: Timestamp) {
        while let Some((pos, message)) = self.inbox.as_mut().and_then(|inbox| inbox.controls.pop_front()) {
            let has_next = self.has_next();
            let inbox = self.inbox_mut();
            match message {
                Message::Cancel { reason } if inbox.cancel.is_none() => {
                    inbox.is_held = false;
                    if has_next {
                        // Recorded outcomes are delivered first; then the cancel is taken.
                        inbox.controls.push_front((pos, Message::Cancel { reason }));
                        return;
                    }
                    self.recorder.take_message(pos);
                    self.take_cancel(reason, now);
                    continue;
                }
                Message::Discard { seq } => {
                    self.recorder.take_message(pos);
                    let entry = self.recorder.push_of_run(EntryKind::SignalDiscarded, now);
                    entry.due = Some(Timestamp::from_millis(i64::try_from(seq).unwrap_or(i64::MAX)));
                    continue;
                }
                Message::Pause => inbox.is_held = true,
                Message::Resume => inbox.is_held = false,
                _ => {}
            }
            inbox.controls_done.push(pos);
        }
    }

    /// Cancels every polled operation without an outcome, in order of identity. Steps that begin later can clean up.
    fn take_cancel(&mut self, reason: String, now: Timestamp) {
        self.recorder.push_of_run(EntryKind::CancelTaken, now).payload = Payload::encode(&reason).ok();
        self.inbox_mut().cancel = Some(reason);
        let open = |op: &Op| {
            !matches!(
                op.phase,
                OpPhase::Called | OpPhase::Settled { .. } | OpPhase::Delivered { .. } | OpPhase::Refused
            )
        };
        let open_ops = self.ops.iter().filter(|(_, op)| open(op));
        let mut outstanding: Vec<_> = open_ops.map(|(slot, op)| (op.key.clone(), slot)).collect();
        outstanding.sort();
        for (_, slot) in outstanding {
            self.drop_body(slot);
            self.settle(slot, EntryKind::OpCancelled, Outcome::Cancelled, now);
        }
        self.frontier.idle.clear();
        self.frontier.starting.clear();
    }
}
