//! The doctor accepts everything jobs store in a file, and finds each kind of damage to it.

use outlive_core::event::Event;
use outlive_core::id::InstanceNum;
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::message::Message;
use outlive_core::queue::{Dead, Moved, PushTarget as Where, PushWrite, ResolveDeadLetters, Spot, WhichDeadLetters};
use outlive_core::status::Status;
use outlive_core::store::Store;
use outlive_core::store::commit::{Answer, Epoch, NewState, Trim, Turn, Write};
use outlive_core::time::Timestamp;
use outlive_sqlite::SqliteStore;
use outlive_sqlite::doctor::{self, FindingKind};

use crate::doctor::{examine, sound};
use crate::support::{Place, assert_done, at, claim, claimed, json, name, reopen, signal, state, write};

pub(crate) const POOL: &str = "pool:mail:main";
pub(crate) const TASK: &str = "task:orders:42";

pub(crate) fn push(id: &str, events: Vec<Event>, token: u64) -> PushWrite {
    let job = name(&id.split(':').take(2).collect::<Vec<_>>().join(":"));
    let place = if id.starts_with("pool") { Where::Queue } else { Where::Inbox };
    PushWrite { id: name(id), job, events, place, at: at(50), seed: 1, token }
}

fn trim(before: Timestamp) -> Write {
    Write::Trim(Trim { before, now: Timestamp::MAX })
}

pub(crate) async fn pushed(store: &SqliteStore, push: PushWrite) -> (InstanceNum, Vec<u64>) {
    match write(store, Write::Push(push)).await {
        Answer::Pushed { num, positions, .. } => (num, positions),
        other => panic!("not pushed: {other:?}"),
    }
}

async fn turned(store: &SqliteStore, turn: Turn) {
    let answer = write(store, Write::Turn(Box::new(turn))).await;
    assert!(matches!(answer, Answer::DoneWith(_)), "not turned: {answer:?}");
}

fn turn(num: InstanceNum, epoch: Epoch, before: u64) -> Turn {
    Turn {
        lifecycle: vec![LifecycleRecord::new(LifecycleRecordKind::JobExecuted, at(60))],
        ..Turn::new(num, epoch, before)
    }
}

pub(crate) fn event(text: &str) -> Event {
    Event::new(json(text))
}

fn letter(pos: u64, event: Event) -> Dead {
    let (job, id, failure) = (name("pool:mail"), name(POOL), json("no"));
    Dead { pos, job, id, at: at(70), attempts: 3, failure, event, place: Where::Queue }
}

/// Creates everything jobs store in a file: a record, an inbox, a queue, keys, dead letters, replies, and the lifecycle
/// records of removed instances.
pub(crate) async fn with_jobs() -> Place {
    let place = sound().await;
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let keyed = Event { dedup: Some(name("k")), ..event("keyed") };
    let urgent = Event { priority: 9, key: Some(name("ada")), ..event("urgent") };
    let later = Event { due: Some(at(9_000)), ..event("later") };
    let (pool, p) = pushed(&store, push(POOL, vec![keyed.clone(), urgent, later, event("dead")], 1)).await;
    claimed(write(&store, claim(&[pool], epoch)).await);
    let idle = NewState { outcome: Some(json("3")), ..state(Status::Waiting { until: None }) };
    let gone = Moved { pos: p[3], from: Spot::of(&event("dead")), key: None, to: None };
    let (dead, replies) = (vec![letter(p[3], event("dead"))], vec![(p[3], json("no"))]);
    turned(&store, Turn { queue: vec![gone], dead, replies, state: Some(idle.clone()), ..turn(pool, epoch, 0) }).await;
    let (task, t) = pushed(&store, push(TASK, vec![keyed, event("two")], 2)).await;
    write(&store, Write::Message(signal(TASK, 77))).await;
    claimed(write(&store, claim(&[task], epoch)).await);
    turned(&store, turn(task, epoch, 0)).await;
    turned(&store, Turn { taken: vec![t[0]], state: Some(idle), ..turn(task, epoch, 1) }).await;
    let (removed, _) = pushed(&store, push("pool:mail:gone", vec![event("x")], 3)).await;
    claimed(write(&store, claim(&[removed], epoch)).await);
    turned(&store, Turn { is_removed: true, ..turn(removed, epoch, 0) }).await;
    place
}

#[track_caller]
fn assert_sound(place: &Place) {
    let report = examine(place);
    assert!(report.is_sound(), "{:#?}", report.findings);
}

#[tokio::test]
async fn store_with_jobs_is_sound_whatever_they_do() {
    let place = with_jobs().await;
    assert_sound(&place);
    let store = place.open();
    let epoch = store.lease(at(100)).await.unwrap();
    assert_sound(&place);
    let retry =
        ResolveDeadLetters { job: name("pool:mail"), which: WhichDeadLetters::All, is_retry: true, at: at(110) };
    write(&store, Write::ResolveDeadLetters(retry)).await;
    assert_sound(&place);
    let num = store_num(&place, TASK);
    claimed(write(&store, claim(&[num], epoch)).await);
    let why = NewState { note: Some("undecodable".to_owned()), outcome: Some(json("4")), ..state(Status::Stuck) };
    turned(&store, Turn { state: Some(why), keys_until: 99, ..turn(num, epoch, 2) }).await;
    assert_sound(&place);
    assert_done(&write(&store, reopen(TASK)).await);
    assert_sound(&place);
    assert_done(&write(&store, trim(at(45))).await);
    assert_sound(&place);
    let num = store_num(&place, POOL);
    claimed(write(&store, claim(&[num], epoch)).await);
    turned(&store, Turn { state: Some(state(Status::Cancelled)), ..turn(num, epoch, 1) }).await;
    assert_sound(&place);
    assert_done(&write(&store, Write::Purge(name(POOL), None)).await);
    assert_done(&write(&store, trim(at(i64::MAX))).await);
    assert_sound(&place);
}

fn store_num(place: &Place, id: &str) -> InstanceNum {
    let num = place.number(&format!("SELECT num FROM instance WHERE id = '{id}'"));
    InstanceNum(num.cast_unsigned())
}

#[tokio::test]
async fn cancelling_a_stuck_job_leaves_a_sound_store() {
    let place = with_jobs().await;
    let store = place.open();
    let epoch = store.lease(at(100)).await.unwrap();
    let num = store_num(&place, POOL);
    claimed(write(&store, claim(&[num], epoch)).await);
    let why = NewState { note: Some("why".to_owned()), outcome: Some(json("4")), ..state(Status::Stuck) };
    turned(&store, Turn { state: Some(why), ..turn(num, epoch, 1) }).await;
    let message = Message::Cancel { reason: "enough".to_owned() };
    write(&store, Write::Message(outlive_core::store::commit::SendWrite { message, ..signal(POOL, 78) })).await;
    assert_sound(&place);
}

/// The damage to a sound store with jobs, the expected kind of finding, the instance it names, and part of its text.
const DAMAGE: [(&str, FindingKind, Option<&str>, &str); 22] = [
    (
        "UPDATE counter SET n = n + 1 WHERE status = 20",
        FindingKind::Counter,
        None,
        "job \"pool:mail\" has 3 queued events, but 4 are counted",
    ),
    ("DELETE FROM counter WHERE status = 21", FindingKind::Counter, None, "1 dead letters, but 0 are counted"),
    ("DELETE FROM dead", FindingKind::Counter, None, "0 dead letters, but 1 are counted"),
    (
        "DELETE FROM inbox WHERE rank > 0 AND text IS NULL OR lane = 'ada'",
        FindingKind::Counter,
        None,
        "2 queued events",
    ),
    ("UPDATE inbox SET rank = rank - 1 WHERE lane = 'ada'", FindingKind::Inbox, Some(POOL), "is at rank"),
    ("UPDATE inbox SET lane = 'bob' WHERE lane = 'ada'", FindingKind::Inbox, Some(POOL), "in lane \"bob\""),
    ("UPDATE inbox SET lane = 'x' WHERE rank = 0 AND kind = 6", FindingKind::Inbox, Some(TASK), "in lane \"x\""),
    ("UPDATE inbox SET rank = 5 WHERE kind = 1 AND instance = 4", FindingKind::Inbox, Some("waiting"), "is not a job"),
    ("UPDATE inbox SET rank = 5 WHERE kind = 1 AND instance = 10", FindingKind::Inbox, Some(TASK), "is at rank 5"),
    ("UPDATE inbox SET payload = '1' WHERE lane = 'ada'", FindingKind::Inbox, Some(POOL), "checksum"),
    (
        "INSERT INTO inbox SELECT instance, 77, lane, pos, at, kind, text, payload, sum FROM inbox WHERE lane = 'ada'",
        FindingKind::Token,
        Some(POOL),
        "2 messages share position",
    ),
    ("UPDATE dedup SET pos = 1 WHERE instance = 9", FindingKind::Token, Some(POOL), "the dedup key \"k\" of event"),
    ("DELETE FROM sent WHERE instance = 10", FindingKind::Token, Some(TASK), "has no token"),
    (
        "UPDATE lifecycle SET number = 3 WHERE instance = 10 AND number = 2",
        FindingKind::Feed,
        Some(TASK),
        "number 3 follows number 1",
    ),
    (
        "UPDATE lifecycle SET number = 1 WHERE instance = 10 AND number = 2",
        FindingKind::Feed,
        Some(TASK),
        "number 1 follows number 1",
    ),
    (
        "DELETE FROM lifecycle WHERE instance = 10 AND number = 1",
        FindingKind::Feed,
        Some(TASK),
        "number 2 follows number 0",
    ),
    (
        "DELETE FROM lifecycle WHERE instance = 10 AND number = 2",
        FindingKind::Feed,
        Some(TASK),
        "its last feed number is 1, but should be 2",
    ),
    (
        "UPDATE instance SET reported = 1 WHERE num = 10",
        FindingKind::Feed,
        Some(TASK),
        "its last feed number is 2, but should be 1",
    ),
    ("DELETE FROM gone", FindingKind::Orphan, None, "1 lifecycle events are left"),
    (
        "INSERT INTO gone SELECT num, 1, reported, id, workflow FROM instance WHERE num = 10",
        FindingKind::Orphan,
        Some(TASK),
        "it exists, but was removed at position 1",
    ),
    (
        "UPDATE gone SET pos = 1",
        FindingKind::Orphan,
        None,
        "removed at position 1 of the feed, but has later lifecycle events",
    ),
    ("UPDATE meta SET value = 1 WHERE key = 'feed'", FindingKind::Mark, None, "\"feed\" is 1, but"),
];

#[tokio::test]
async fn each_kind_of_damage_to_jobs_is_found_and_located() {
    for (damage, problem, whose, says) in DAMAGE {
        let place = with_jobs().await;
        let changed = place.sql().execute(damage, []).unwrap();
        assert!(changed > 0, "{damage}");
        let report = examine(&place);
        let is_it = |finding: &&doctor::Finding| finding.kind == problem && finding.found.contains(says);
        let found = report.findings.iter().find(is_it).unwrap_or_else(|| panic!("{damage}: {report:#?}"));
        assert_eq!(found.id.as_deref(), whose, "{damage}");
    }
}

#[tokio::test]
async fn gap_in_the_feed_after_a_trim_is_found() {
    let place = with_jobs().await;
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    assert_done(&write(&store, trim(at(61))).await);
    let task = store_num(&place, TASK);
    claimed(write(&store, claim(&[task], epoch)).await);
    for before in 2..5 {
        turned(&store, turn(task, epoch, before)).await;
    }
    assert_sound(&place);
    place.sql().execute_batch("DELETE FROM lifecycle WHERE number = 4").unwrap();
    let report = examine(&place);
    assert_eq!((report.findings_count, report.findings[0].kind), (1, FindingKind::Feed));
    assert_eq!(report.findings[0].found, "number 5 follows number 3");
}
