//! Creates a run with the journal of another one up to a point.

use outlive_core::id::InstanceNum;
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_core::message::Inbound;
use outlive_core::store::commit::{Answer, ForkWrite, Refusal};

use super::batch::Batch;
use super::{inbox, start};

pub(super) fn apply(batch: &mut Batch<'_>, fork: &ForkWrite) -> rusqlite::Result<Answer> {
    let Some(InstanceNum(num)) = start::create(batch, &fork.start)? else {
        return Ok(match start::num_of(batch.connection, &fork.start)? {
            Some(num) => Answer::Started { num, created: true, is_driven: false },
            None => Answer::Refused(Refusal::Taken),
        });
    };
    // A job reports for itself.
    let is_run = JobKind::of(&fork.start.workflow).is_none();
    let reported = if is_run { LifecycleRecordKind::RunQueued.count() } else { 0 };
    for entry in &fork.entries {
        batch.append(num, entry, reported)?;
    }
    for inbound in &fork.inbox {
        inbox::insert(batch, num, inbound, None)?;
    }
    for message in &fork.arriving {
        batch.cache.marks.pos += 1;
        let inbound = Inbound { pos: batch.cache.marks.pos, at: fork.start.at, message: message.clone() };
        inbox::insert(batch, num, &inbound, None)?;
    }
    Ok(Answer::Started { num: InstanceNum(num), created: true, is_driven: false })
}
