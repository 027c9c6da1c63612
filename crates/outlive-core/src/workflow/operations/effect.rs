//! Effects: they end when they begin, because they happen in the commit of their entry, unless the store refuses them.

use crate::id::Name;
use crate::journal::{EntryKind, SentTo};
use crate::store::commit::{Refusal, Write};
use crate::workflow::effect::{self, EffectSource, EffectSpec, RefusedEffect, StartEffect};
use crate::workflow::op::OpPhase;
use crate::workflow::recorder::Outgoing;
use crate::workflow::spec::{Outcome, Spec};

use super::cursor::OpCursor;
use super::{Operations, output};

/// Records an effect and sends it with the next commit.
pub(super) fn begin(op: &mut OpCursor<'_>) {
    let (seed, seq, run_number) = (op.ops.seed, op.ops.recorder.seq() + 1, op.ops.past.run_number);
    let Some((key, Spec::Effect(effect))) = op.get().and_then(|op| Some((&op.key, op.spec.as_ref()?))) else { return };
    // A child that was undone and is started again cannot have the id of the first.
    let round = op.ops.undos.round(key).map(|round| format!("{key}{round}"));
    let (op_text, rewinds) = (round.as_deref().unwrap_or(key), op.ops.rewinds());
    let (write, to) = effect.to_write(&EffectSource { seed, op: op_text, seq, run_number, now: op.now, rewinds });
    let (kind, outcome) = match &**effect {
        EffectSpec::Output(content) => output::recorded(content),
        _ => (EntryKind::Sent, Outcome::Sent(to.into())),
    };
    op.settle(kind, outcome);
    op.ops.recorder.send([write]);
}

impl Operations {
    /// Changes what was handed out because the store refused one of its writes. Returns what to hand out instead: the
    /// operation fails, or a child that we named gets another name.
    pub(in crate::workflow) fn refused(&mut self, index: usize, refusal: Refusal) -> Option<Outgoing> {
        let Self { recorder, table, .. } = self;
        let outgoing = recorder.sending_mut()?;
        let seq = *outgoing.write_seqs.get(index)?;
        let entry = outgoing.entries.iter_mut().find(|entry| entry.seq == seq)?;
        debug_assert!(matches!(entry.kind, EntryKind::Sent | EntryKind::Appended), "only effects can be refused");
        let op = table.settled_as(entry.seq);
        let (to, refused_as) = match &outgoing.writes[index] {
            Write::Output(output) => {
                (SentTo { id: output.content.stream().to_owned(), detached: None }, EntryKind::AppendRefused)
            }
            _ => (SentTo::from_payload(entry.payload.as_ref()?).ok()?, EntryKind::SendRefused),
        };
        let spec = op.as_ref().and_then(|op| op.spec.as_ref());
        let outcome = match other_id(&mut outgoing.writes[index], spec) {
            Some(id) => {
                let to = SentTo { id: id.to_string(), ..to };
                entry.payload = Some(to.to_payload());
                Outcome::Sent(to.into())
            }
            None => {
                let refused = RefusedEffect { id: to.id, refusal };
                entry.kind = refused_as;
                entry.payload = Some(refused.to_payload());
                outgoing.writes.remove(index);
                outgoing.write_seqs.remove(index);
                Outcome::Refused(refused.into())
            }
        };
        if let Some(OpPhase::Settled { outcome: recorded, .. }) = op.map(|op| &mut op.phase) {
            *recorded = outcome;
        }
        Some(outgoing.clone())
    }
}

/// Gives a child that we named another id, once: the first one may belong to a child of an earlier run with the same id
/// as its parent.
fn other_id(write: &mut Write, spec: Option<&Spec>) -> Option<Name> {
    let Some(Spec::Effect(effect)) = spec else { return None };
    let EffectSpec::Start(StartEffect { id: None, parent: Some(parent), .. }) = &**effect else { return None };
    let Write::Start(start) = write else { return None };
    let id = effect::renamed(&start.id, parent)?;
    start.id = id.clone();
    Some(id)
}
