//! Builders for the writes of these tests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{
    Answer, Claim, Claimed, Commit, Epoch, NewState, OnConflict, Reopen, SendWrite, StartWrite, Write,
};
use outlive_core::store::{Error, Store};
use outlive_core::time::Timestamp;
use outlive_sqlite::{Options, SqliteStore};
use tempfile::TempDir;

/// A folder for a store, removed when the test ends.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("runs.db")
    }

    pub(crate) fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<SqliteStore, Error> {
        SqliteStore::open(&self.file(), Options::default())
    }

    /// Opens a foreign connection.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }

    /// Returns the integer a query yields.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

pub(crate) fn json(value: &str) -> Payload {
    Payload::encode(value).unwrap()
}

/// A start of `id` at time 10, with a token derived from the id.
pub(crate) fn start(id: &str) -> StartWrite {
    StartWrite {
        deadline: None,
        parent: None,
        id: name(id),
        workflow: name("checkout"),
        input: json("input"),
        origin: None,
        seed: u64::MAX - 1,
        tags: BTreeMap::new(),
        at: at(10),
        due: at(10),
        on_conflict: OnConflict::Join,
        token: u64::MAX - id.bytes().map(u64::from).sum::<u64>(),
        owner: Epoch(0),
    }
}

pub(crate) fn signal(id: &str, token: u64) -> SendWrite {
    let message = Message::Signal { name: name("paid"), payload: json("yes") };
    SendWrite { id: name(id), num: None, message, at: at(20), dedup: None, token }
}

pub(crate) fn entry(seq: u64) -> Entry {
    let mut entry = Entry::of_run(seq, at(30), EntryKind::StepDone);
    entry.op = format!("step:charge#{seq}").into();
    entry.site = "src/shop.rs:31".into();
    entry.attempt = 1;
    entry.payload = Some(json("done"));
    entry
}

pub(crate) fn commit(num: InstanceNum, epoch: Epoch, seq_before: u64) -> Commit {
    Commit {
        writes: Vec::new(),
        num,
        epoch,
        seq_before,
        entries: vec![entry(seq_before + 1)],
        taken: vec![],
        state: None,
    }
}

pub(crate) fn state(status: Status) -> NewState {
    NewState { status, wake: None, is_owned: false, seen: None, outcome: None, note: None, at: at(40) }
}

pub(crate) fn ended(mut commit: Commit, status: Status) -> Commit {
    commit.state = Some(state(status));
    commit
}

pub(crate) fn claim(nums: &[InstanceNum], epoch: Epoch) -> Write {
    Write::Claim(Claim { nums: nums.to_vec(), epoch, at: at(25) })
}

pub(crate) fn reopen(id: &str) -> Write {
    Write::Reopen(Reopen { id: name(id), num: None, at: at(50) })
}

pub(crate) async fn write(store: &SqliteStore, write: Write) -> Answer {
    let answers = store.write(Arc::new(vec![write])).await.unwrap();
    answers.into_iter().next().unwrap()
}

/// Starts an instance and returns its number.
pub(crate) async fn started(store: &SqliteStore, start: StartWrite) -> InstanceNum {
    match write(store, Write::Start(start)).await {
        Answer::Started { num, .. } => num,
        other => panic!("not started: {other:?}"),
    }
}

/// Starts an instance that is driven from the start.
pub(crate) async fn driven(store: &SqliteStore, id: &str, epoch: Epoch) -> InstanceNum {
    started(store, StartWrite { owner: epoch, ..start(id) }).await
}

pub(crate) fn claimed(answer: Answer) -> Vec<Claimed> {
    match answer {
        Answer::Claimed(claimed) => claimed,
        other => panic!("not claimed: {other:?}"),
    }
}

pub(crate) fn assert_done(answer: &Answer) {
    assert!(matches!(answer, Answer::Done | Answer::Trimmed(_)), "not done: {answer:?}");
}

/// Waits until another thread makes the condition true.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the condition never became true");
}
