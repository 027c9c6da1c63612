//! The children of a run that have not ended, and what they are sent when it does.

use std::collections::BTreeMap;

use crate::checksum::Sum;
use crate::id::Name;
use crate::journal::{Entry, EntryKind, SentTo};
use crate::message::Message;
use crate::store::commit::{SendWrite, Write};
use crate::time::Timestamp;

use super::parsed::{ParsedIdentity, unescaped};

/// The children that were started and have not ended, as far as their parent knows.
#[derive(Default)]
pub struct LiveChildren {
    /// Whether each is detached, by id.
    by_id: BTreeMap<Box<str>, bool>,
}

impl LiveChildren {
    /// Returns the children that a run took along when it restarted.
    pub(super) fn carried(children: BTreeMap<String, bool>) -> Self {
        Self { by_id: children.into_iter().map(|(id, is_detached)| (id.into(), is_detached)).collect() }
    }

    /// Returns what the run takes along when it restarts.
    pub(super) fn to_carry(&self) -> BTreeMap<String, bool> {
        self.by_id.iter().map(|(id, is_detached)| (id.to_string(), *is_detached)).collect()
    }

    /// Returns the ids of the children.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(|id| &**id)
    }

    /// Notes what an entry says about children.
    pub(super) fn follow(&mut self, entry: &Entry) -> Result<(), String> {
        match (entry.kind, &entry.payload) {
            (EntryKind::Sent, Some(payload)) => {
                self.started(&SentTo::from_payload(payload)?);
            }
            (EntryKind::ChildEnded, _) => self.ended(&unescaped(ParsedIdentity::of(&entry.op).name)),
            _ => {}
        }
        Ok(())
    }

    /// Adds the child that an entry starts, if it does. The entry is durable: a child that could not be started is not
    /// ours, and another run may have its id.
    pub(super) fn started_by(&mut self, entry: &Entry) {
        let sent_to = entry.sent_to().filter(|_| entry.kind == EntryKind::Sent);
        sent_to.into_iter().for_each(|to| self.started(&to));
    }

    fn started(&mut self, to: &SentTo) {
        if let Some(is_detached) = to.detached {
            self.by_id.insert(to.id.as_str().into(), is_detached);
        }
    }

    /// Removes a child that has ended.
    pub(super) fn ended(&mut self, id: &str) {
        self.by_id.remove(id);
    }

    /// Returns the messages that end the attached children, because entry `seq` of the run or what follows it does.
    pub(super) fn end_all(&self, message: &Message, seed: u64, seq: u64, at: Timestamp) -> Vec<Write> {
        let attached = self.by_id.iter().filter(|(_, is_detached)| !**is_detached);
        let write = |id: &str| {
            let token = Sum::new().number(seed).text(id).number(seq).whole();
            let (id, message) = (Name::recorded(id), message.clone());
            Write::Message(SendWrite { id, num: None, message, at, dedup: None, token })
        };
        attached.map(|(id, _)| write(id)).collect()
    }
}
