//! Every point at which a run of a script can stop, and stores in which a run has stopped there.

use std::sync::Arc;
use std::time::Duration;

use outlive::clock::Clock as _;
use outlive::store::Store;
use outlive::{Entry, EntryKind, Payload, Status, Timestamp};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::message::Message;
use outlive_core::store::commit::{Commit, NewState, OnConflict, SendWrite, StartWrite, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::Instance;

use super::perform::{NAME, Stage, value};
use super::script::{Base, Kind, Line, ops};
use crate::TestEngine;

/// A signal's name and value.
pub(super) type Signal = (String, serde_json::Value);

/// The run's id.
pub(super) const ID: &str = "r";

/// A run that was recorded to its end.
pub(super) struct Recorded {
    instance: Instance,
    journal: Vec<Entry>,
    /// All signals that were sent, in order.
    signals: Vec<Signal>,
    is_early: bool,
    pub(super) is_strict: bool,
    /// Points where nothing moved without time or a message: the number of entries, and when.
    rests: Vec<(usize, Status, Timestamp)>,
}

/// A point at which a run stops, after some number of entries: at rest, or because the process died.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stop {
    pub(super) entries: usize,
    rest: Option<(Status, Timestamp)>,
}

/// Creates an engine that executes a script on a store.
pub(super) async fn engine(stage: &Stage, store: Arc<dyn Store>, now: Option<Timestamp>) -> TestEngine {
    let stage = stage.clone();
    let clock = crate::TestClock::new();
    if let Some(now) = now {
        clock.set(now);
    }
    TestEngine::new(move |engine| stage.register(engine))
        .store(store)
        .clock(clock)
        .paranoid(false)
        .patience(Duration::ZERO)
        .await
}

/// Returns the signals that a script waits for, in order, with the types it expects.
pub(super) fn signals(lines: &[Line]) -> Vec<Signal> {
    let waits = ops(lines).into_iter().filter(|(op, _)| op.kind == Kind::Wait);
    waits.map(|(op, _)| (op.name.clone(), value((op.what, 0), op.is_number))).collect()
}

/// Drives a run to its end by moving time and sending what it waits for. Returns its final status, or the one it hangs
/// in.
pub(super) async fn finish(
    test: &TestEngine,
    mut signals: impl Iterator<Item = Signal>,
    mut at_rest: impl AsyncFnMut(Status),
) -> Result<Status, outlive::Error> {
    let run = test.get_run::<serde_json::Value>(ID).await?;
    loop {
        test.settle().await;
        let status = run.status().await?;
        if status.is_ended() || status == Status::Stuck {
            return Ok(status);
        }
        at_rest(status).await;
        if let Some(due) = test.next_due().await {
            test.move_to(due).await;
            continue;
        }
        let Some((name, value)) = signals.next() else { return Ok(status) };
        run.signal(&name, &value).await?;
    }
}

impl Recorded {
    /// Runs the first version to its end.
    pub(super) async fn of(base: &Base) -> Result<Self, outlive::Error> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let test = engine(&Stage::new(&base.lines, base.is_strict), store.clone(), None).await;
        let run = test.start_json(NAME, "null").id(ID).await?;
        let signals = signals(&base.lines);
        let mut later = signals.clone();
        if base.is_early {
            for (name, value) in std::mem::take(&mut later) {
                run.signal(&name, &value).await?;
            }
        }
        let mut rests = Vec::new();
        let name = Name::recorded(ID);
        let is_ended = finish(&test, later.into_iter(), async |status| {
            if let Ok(Some(instance)) = store.instance(&name).await
                && let Ok(journal) = store.journal(instance.num, 0, usize::MAX).await
                && status.is_idle()
            {
                rests.push((journal.len(), status, test.clock().now()));
            }
        })
        .await?;
        assert_eq!(is_ended, Status::Completed, "the first version of {:?} completes", base.name);
        let instance = store.instance(&name).await?.expect("the run was started");
        let journal = store.journal(instance.num, 0, usize::MAX).await?;
        let Base { is_early, is_strict, .. } = *base;
        Ok(Self { instance, journal, signals, is_early, is_strict, rests })
    }

    /// Returns each point at which the run can stop before its end.
    pub(super) fn stops(&self) -> Vec<Stop> {
        let crashes = (0..self.journal.len()).map(|entries| Stop { entries, rest: None });
        let rests =
            self.rests.iter().map(|(entries, status, at)| Stop { entries: *entries, rest: Some((*status, *at)) });
        crashes.chain(rests).collect()
    }

    /// Returns what is recorded at a stop.
    pub(super) fn journal(&self, stop: Stop) -> &[Entry] {
        &self.journal[..stop.entries]
    }

    /// Returns when a run stops there.
    pub(super) fn time(&self, stop: Stop) -> Timestamp {
        let last = self.journal(stop).last().map_or(self.instance.created_at, |entry| entry.at);
        stop.rest.map_or(last, |(_, at)| at)
    }

    /// Creates a store in which the run has stopped there.
    pub(super) async fn store(&self, stop: Stop) -> Result<Arc<dyn Store>, outlive::Error> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (at, entries) = (self.instance.created_at, self.journal(stop).to_vec());
        let epoch = store.lease(at).await?;
        let (workflow, input) = (self.instance.workflow.clone(), self.instance.input.clone());
        let (id, tags, on_conflict, seed) =
            (self.instance.id.clone(), Default::default(), OnConflict::Join, self.instance.seed);
        let start = StartWrite {
            deadline: None,
            parent: None,
            id,
            workflow,
            input,
            origin: None,
            seed,
            tags,
            at,
            due: at,
            on_conflict,
            token: 1,
            owner: epoch,
        };
        let is_taken = |entry: &&Entry| entry.kind == EntryKind::SignalTaken;
        let taken: Vec<u64> = entries.iter().filter(is_taken).filter_map(position).collect();
        let sent = if self.is_early { self.signals.len() } else { taken.len() };
        let sends = self.signals[..sent].iter().zip(2..).map(|((name, value), token)| {
            let message =
                Message::Signal { name: Name::recorded(name), payload: Payload::recorded(&value.to_string()) };
            Write::Message(SendWrite { id: Name::recorded(ID), num: None, message, at, dedup: None, token })
        });
        let state = stop.rest.map(|(status, at)| {
            let wake = status.until();
            NewState { status, wake, is_owned: false, seen: None, outcome: None, note: None, at }
        });
        let commit = Commit {
            writes: Vec::new(),
            num: InstanceNum(self.instance.num.0),
            epoch,
            seq_before: 0,
            entries,
            taken,
            state,
        };
        let writes = [Write::Start(start)].into_iter().chain(sends).chain([Write::Commit(commit)]).collect::<Vec<_>>();
        store.write(Arc::new(writes)).await?;
        Ok(store)
    }
}

/// Returns the inbox position of the signal that an entry took.
fn position(entry: &Entry) -> Option<u64> {
    u64::try_from(entry.due?.as_millis()).ok()
}
