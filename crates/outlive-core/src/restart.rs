//! Restarts: a run continues under its id with a new input and a fresh journal, and takes along what it still needs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::journal::{Entry, EntryKind};
use crate::payload::Payload;
use crate::time::Timestamp;

/// What a run takes along when it restarts, recorded in the entry that begins its next journal.
#[derive(Clone, PartialEq, Debug)]
pub struct RestartRecord {
    /// The input of the next run.
    pub input: Payload,
    /// The signals that the journal took from the inbox and no code has consumed, by their inbox position.
    pub signals: Vec<CarriedSignal>,
    /// The children that have not ended, by id, and whether each is detached.
    pub children: BTreeMap<String, bool>,
    /// The entries that refused a signal which was not discarded: the dead letters of the run.
    pub dead: Vec<Entry>,
}

/// A signal that waits for the next run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CarriedSignal {
    /// Its position in the inbox.
    pub pos: u64,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Payload,
}

#[derive(Serialize, Deserialize)]
struct RestartWire<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    signals: Vec<WireSignal<'a>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    children: BTreeMap<String, bool>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    dead: Vec<WireDead<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WireSignal<'a> {
    pos: u64,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Serialize, Deserialize)]
struct WireDead<'a> {
    seq: u64,
    at: i64,
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow)]
    refused: &'a RawValue,
}

impl RestartRecord {
    /// Returns the restart with this input and nothing to take along.
    #[must_use]
    pub fn new(input: Payload) -> Self {
        Self { input, signals: Vec::new(), children: BTreeMap::new(), dead: Vec::new() }
    }

    /// Returns the entry that begins the journal of run number `run_number`.
    #[must_use]
    pub fn to_entry(&self, seq: u64, at: Timestamp, run_number: u32) -> Entry {
        let payload = Some(self.to_payload());
        Entry { attempt: run_number, payload, ..Entry::of_run(seq, at, EntryKind::Restarted) }
    }

    /// Returns what the entry that begins a journal says; `None` if it is another kind of entry.
    ///
    /// # Errors
    /// Returns a description of the problem if the entry is damaged.
    pub fn of_entry(entry: &Entry) -> Option<Result<Self, String>> {
        let is_one = entry.kind == EntryKind::Restarted;
        is_one.then(|| Self::from_payload(entry.payload.as_ref().ok_or("it has no input")?))
    }

    fn to_payload(&self) -> Payload {
        let raw = |payload: &Payload| RawValue::from_string(payload.as_str().to_owned()).unwrap_or_default();
        let input = raw(&self.input);
        let values: Vec<_> = self.signals.iter().map(|signal| raw(&signal.value)).collect();
        let refused: Vec<_> =
            self.dead.iter().map(|entry| raw(entry.payload.as_ref().unwrap_or(&self.input))).collect();
        let signals = self.signals.iter().zip(&values);
        let dead = self.dead.iter().zip(&refused);
        let wire = RestartWire {
            input: &input,
            signals: signals
                .map(|(signal, value)| WireSignal { pos: signal.pos, name: (&*signal.name).into(), value })
                .collect(),
            children: self.children.clone(),
            dead: dead
                .map(|(entry, refused)| WireDead {
                    seq: entry.seq,
                    at: entry.at.as_millis(),
                    op: (&*entry.op).into(),
                    refused,
                })
                .collect(),
        };
        Payload::encode(&wire).unwrap_or_else(|_| Payload::recorded("{}"))
    }

    fn from_payload(payload: &Payload) -> Result<Self, String> {
        let recorded = |raw: &RawValue| Payload::recorded(raw.get());
        let wire: RestartWire<'_> =
            serde_json::from_str(payload.as_str()).map_err(|error| format!("not a restart: {error}"))?;
        let signal = |signal: WireSignal<'_>| CarriedSignal {
            pos: signal.pos,
            name: signal.name.into_owned(),
            value: recorded(signal.value),
        };
        let dead = |dead: WireDead<'_>| Entry {
            op: Arc::from(&*dead.op),
            payload: Some(recorded(dead.refused)),
            ..Entry::of_run(dead.seq, Timestamp::from_millis(dead.at), EntryKind::SignalRefused)
        };
        Ok(Self {
            input: recorded(wire.input),
            signals: wire.signals.into_iter().map(signal).collect(),
            children: wire.children,
            dead: wire.dead.into_iter().map(dead).collect(),
        })
    }
}

/// Returns when the journal of a run that has restarted began.
pub(crate) fn began_at(journal: &[Entry]) -> Option<Timestamp> {
    journal.first().filter(|first| first.kind == EntryKind::Restarted).map(|first| first.at)
}

/// Returns the dead letters of a run with this journal: the entries that refused a signal which was not discarded, with
/// those that it took along when it restarted.
#[must_use]
pub fn dead_letters(journal: &[Entry]) -> Vec<Entry> {
    let carried = journal.first().and_then(RestartRecord::of_entry).and_then(Result::ok).map(|restart| restart.dead);
    let refused = journal.iter().filter(|entry| entry.kind == EntryKind::SignalRefused).cloned();
    let discarded: Vec<u64> = journal.iter().filter_map(Entry::discarded).collect();
    let dead = carried.unwrap_or_default().into_iter().chain(refused);
    dead.filter(|entry| !discarded.contains(&entry.seq)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_is_read_as_it_was_written() {
        let dead = Entry {
            op: "wait:n".into(),
            payload: Some(Payload::recorded("{\"value\":1,\"problem\":\"no\"}")),
            ..Entry::of_run(4, Timestamp::from_millis(9), EntryKind::SignalRefused)
        };
        let restart = RestartRecord {
            input: Payload::recorded("1.50"),
            signals: vec![CarriedSignal { pos: 3, name: "a \"b\"".to_owned(), value: Payload::recorded("null") }],
            children: [("shop/1".to_owned(), true)].into(),
            dead: vec![dead],
        };
        let entry = restart.to_entry(7, Timestamp::from_millis(5), 2);
        assert_eq!(RestartRecord::of_entry(&entry), Some(Ok(restart)));
        assert_eq!((entry.seq, entry.attempt), (7, 2));
    }
}
