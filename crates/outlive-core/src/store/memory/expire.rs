//! Removes runs that ended long ago.

use crate::id::InstanceNum;
use crate::kind::JobKind;
use crate::restart::{self, dead_letters};
use crate::status::Status;
use crate::store::commit::Answer;
use crate::store::expire::{Expire, ExpireMark};
use crate::store::query::Instance;

use super::row::Row;
use super::rows::Rows;

impl Rows {
    pub(super) fn expire(&mut self, expire: &Expire) -> Answer {
        let ended = self.instances.values().filter(|row| JobKind::of(&row.instance.workflow).is_none());
        let mut marks: Vec<_> = ended.filter_map(|row| mark_of(&row.instance)).collect();
        marks.retain(|mark| expire.before(&mark.workflow, mark.status).is_some_and(|before| mark.ended_at < before));
        marks.retain(|mark| expire.after.as_ref().is_none_or(|after| mark > after));
        marks.sort();
        marks.truncate(expire.limit as usize);
        let mut removed = 0;
        for mark in &marks {
            if let Some(id) = self.expired(mark.num).map(|row| row.instance.id.clone()) {
                removed += 1;
                self.remove(&id);
            }
        }
        let is_full = marks.len() == expire.limit as usize;
        Answer::Expired { removed, next: marks.pop().filter(|_| is_full) }
    }

    /// Returns the row of an ended run, unless something still needs it.
    fn expired(&self, num: InstanceNum) -> Option<&Row> {
        let row = self.instances.get(&num)?;
        let parent = row.instance.parent.as_ref().and_then(|parent| self.instances.get(&parent.num));
        let is_needed = parent.is_some_and(|parent| {
            let began = restart::began_at(&parent.entries);
            let may_continue = !matches!(parent.instance.status, Status::Completed | Status::Cancelled);
            may_continue && began.is_none_or(|began| row.instance.created_at >= began)
        });
        (!is_needed && dead_letters(&row.entries).is_empty()).then_some(row)
    }
}

fn mark_of(instance: &Instance) -> Option<ExpireMark> {
    let ended_at = instance.ended_at.filter(|_| instance.status.is_ended())?;
    Some(ExpireMark {
        workflow: instance.workflow.clone(),
        status: instance.status.kind(),
        ended_at,
        num: instance.num,
    })
}
