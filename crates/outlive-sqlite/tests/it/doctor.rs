//! The doctor finds and locates each kind of damage, and finds none in a sound store.

use outlive_core::id::InstanceNum;
use outlive_core::journal::EntryKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Commit, Epoch, NewState, SendWrite, StartWrite, Write};
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::SqliteStore;
use outlive_sqlite::doctor::{self, Diagnosis, FindingKind};

use crate::support::{
    Place, assert_done, at, commit, driven, ended, json, name, reopen, signal, start, started, state, write,
};

async fn committed(store: &SqliteStore, commit: Commit) {
    assert_done(&write(store, Write::Commit(commit)).await);
}

fn idle(num: InstanceNum, epoch: Epoch, status: Status) -> Commit {
    let state = NewState { wake: status.until(), ..state(status) };
    Commit { state: Some(state), ..commit(num, epoch, 0) }
}

/// Takes the signal at `pos` in entry 1, then waits.
fn taking(num: InstanceNum, epoch: Epoch, pos: i64) -> Commit {
    let mut commit = Commit { taken: vec![pos.cast_unsigned()], ..idle(num, epoch, Status::Waiting { until: None }) };
    commit.entries[0].kind = EntryKind::SignalTaken;
    commit.entries[0].due = Some(at(pos));
    commit
}

/// A store with an instance of every status, messages, tokens and a dedup key, left behind by a process that died.
pub(crate) async fn sound() -> Place {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let tags = [("shop".to_owned(), "paris".to_owned())].into();
    started(&store, StartWrite { tags, ..start("pending") }).await;
    let running = driven(&store, "running", epoch).await;
    committed(&store, commit(running, epoch, 0)).await;
    committed(&store, commit(running, epoch, 1)).await;
    let asleep = driven(&store, "asleep", epoch).await;
    committed(&store, idle(asleep, epoch, Status::Sleeping { until: at(9_000) })).await;
    let waiting = driven(&store, "waiting", epoch).await;
    write(&store, Write::Message(SendWrite { dedup: Some(name("key")), ..signal("waiting", 1) })).await;
    committed(&store, taking(waiting, epoch, 1)).await;
    write(&store, Write::Message(signal("waiting", 2))).await;
    let stuck = driven(&store, "stuck", epoch).await;
    let why = NewState { note: Some("the code has changed".to_owned()), ..state(Status::Stuck) };
    committed(&store, Commit { state: Some(why), ..commit(stuck, epoch, 0) }).await;
    for (id, status) in [("completed", Status::Completed), ("failed", Status::Failed), ("cancelled", Status::Cancelled)]
    {
        let num = driven(&store, id, epoch).await;
        let outcome = (status != Status::Cancelled).then(|| Payload::recorded("{}"));
        let end = NewState { outcome, ..state(status) };
        committed(&store, Commit { state: Some(end), ..commit(num, epoch, 0) }).await;
    }
    place
}

pub(crate) fn examine(place: &Place) -> Diagnosis {
    doctor::examine(&place.file()).unwrap()
}

#[tokio::test]
async fn sound_store_has_no_findings_in_any_instance_status() {
    let place = sound().await;
    let report = examine(&place);
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((report.instances, report.entries, report.messages), (8, 8, 1));
}

#[tokio::test]
async fn store_stays_sound_through_takeover_release_reopen_and_purge() {
    let place = sound().await;
    for again in 0..2 {
        let store = place.open();
        let epoch = store.lease(at(100)).await.unwrap();
        assert!(examine(&place).is_sound(), "{:#?}", examine(&place).findings);
        if again == 0 {
            assert_done(&write(&store, reopen("stuck")).await);
            assert_done(&write(&store, reopen("failed")).await);
            assert_done(&write(&store, Write::Purge(name("completed"), None)).await);
            let cancel = Message::Cancel { reason: "no".to_owned() };
            for (token, id) in (10..).zip(["pending", "asleep", "waiting", "running"]) {
                write(&store, Write::Message(SendWrite { message: cancel.clone(), ..signal(id, token) })).await;
            }
        }
        assert!(examine(&place).is_sound(), "{:#?}", examine(&place).findings);
        store.release(epoch).await.unwrap();
    }
    assert!(examine(&place).is_sound(), "{:#?}", examine(&place).findings);
}

#[tokio::test]
async fn wal_left_by_a_killed_process_is_examined() {
    let place = sound().await;
    let store = place.open();
    started(&store, start("in the log")).await;
    let copy = Place::new();
    // The state after a kill: a file and its WAL, with no open handles.
    for end in ["", "-wal"] {
        let name = |place: &Place| place.folder.path().join(format!("runs.db{end}"));
        std::fs::copy(name(&place), name(&copy)).unwrap();
    }
    let report = examine(&copy);
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!(report.instances, 9);
}

/// The damage to a sound store, the expected kind of finding, the instance it names, and part of its text.
const DAMAGE: [(&str, FindingKind, Option<&str>, &str); 37] = [
    ("DELETE FROM tag", FindingKind::Tag, Some("pending"), "is not in the tag index"),
    ("UPDATE tag SET num = 2", FindingKind::Tag, Some("running"), "which is not its tag"),
    ("UPDATE instance SET input = '1' WHERE id = 'asleep'", FindingKind::Row, Some("asleep"), "checksum"),
    ("UPDATE instance SET status = 77 WHERE id = 'asleep'", FindingKind::Row, Some("asleep"), "is unknown"),
    ("UPDATE instance SET wake = NULL WHERE id = 'pending'", FindingKind::NoWake, Some("pending"), "it is pending"),
    ("UPDATE instance SET wake = NULL WHERE id = 'asleep'", FindingKind::NoWake, Some("asleep"), "it is sleeping"),
    ("UPDATE instance SET owner = 0 WHERE id = 'running'", FindingKind::NoWake, Some("running"), "it is running"),
    (
        "UPDATE instance SET until = 9, wake = NULL WHERE id = 'waiting'",
        FindingKind::NoWake,
        Some("waiting"),
        "it is waiting",
    ),
    ("UPDATE instance SET owner = 2 WHERE id = 'running'", FindingKind::Owner, Some("running"), "under lease 2"),
    ("UPDATE instance SET owner = 1 WHERE id = 'pending'", FindingKind::Owner, Some("pending"), "status is 0"),
    ("UPDATE instance SET owner = 1 WHERE id = 'failed'", FindingKind::Owner, Some("failed"), "status is 5"),
    ("UPDATE instance SET wake = 7 WHERE id = 'completed'", FindingKind::Owner, Some("completed"), "to wake at 7"),
    ("UPDATE instance SET wake = 7 WHERE id = 'stuck'", FindingKind::Owner, Some("stuck"), "to wake at 7"),
    ("UPDATE instance SET until = NULL WHERE id = 'asleep'", FindingKind::Status, Some("asleep"), "when it resumes"),
    ("UPDATE instance SET until = 3 WHERE id = 'running'", FindingKind::Status, Some("running"), "it resumes at 3"),
    ("UPDATE instance SET ended_at = NULL WHERE id = 'failed'", FindingKind::Status, Some("failed"), "ended at NULL"),
    ("UPDATE instance SET ended_at = 5 WHERE id = 'running'", FindingKind::Status, Some("running"), "ended at 5"),
    ("UPDATE instance SET outcome = NULL WHERE id = 'completed'", FindingKind::Status, Some("completed"), "no outcome"),
    ("UPDATE instance SET outcome = '1' WHERE id = 'running'", FindingKind::Status, Some("running"), "an outcome"),
    ("UPDATE instance SET note = NULL WHERE id = 'stuck'", FindingKind::Status, Some("stuck"), "nothing says why"),
    ("UPDATE instance SET started_at = NULL WHERE id = 'waiting'", FindingKind::Status, Some("waiting"), "never began"),
    ("UPDATE instance SET recoveries = -1 WHERE id = 'waiting'", FindingKind::Status, Some("waiting"), "-1 times"),
    (
        "UPDATE instance SET blamed = 1 WHERE id = 'waiting'",
        FindingKind::Status,
        Some("waiting"),
        "blamed for 1 of 0 crashes",
    ),
    (
        "DELETE FROM entry WHERE seq = 1 AND op = 'step:charge#1' AND instance = 2",
        FindingKind::Journal,
        Some("running"),
        "entry 1 is missing",
    ),
    ("UPDATE entry SET payload = '2' WHERE instance = 3", FindingKind::Journal, Some("asleep"), "checksum"),
    ("UPDATE entry SET kind = 99 WHERE instance = 3", FindingKind::Journal, Some("asleep"), "kind 99"),
    (
        "UPDATE entry SET pos = 99 WHERE instance = 2 AND seq = 1",
        FindingKind::Journal,
        Some("running"),
        "is stored before entry 1",
    ),
    ("UPDATE inbox SET payload = '2'", FindingKind::Inbox, Some("waiting"), "checksum"),
    ("UPDATE inbox SET kind = 9", FindingKind::Inbox, Some("waiting"), "kind 9"),
    (
        "INSERT INTO inbox SELECT instance, 0, '', 1, at, kind, text, payload, sum FROM inbox",
        FindingKind::Inbox,
        Some("waiting"),
        "taken by entry 1",
    ),
    ("DELETE FROM sent WHERE pos = 2", FindingKind::Token, Some("waiting"), "message 2 has no token"),
    ("DELETE FROM sent WHERE pos = 1", FindingKind::Token, Some("waiting"), "message 1, which nobody sent"),
    ("INSERT INTO sent VALUES (2, 5, 2)", FindingKind::Token, Some("waiting"), "2 messages share position 2"),
    ("UPDATE meta SET value = 3 WHERE key = 'num'", FindingKind::Mark, None, "\"num\" is 3, but 8 is in use"),
    ("UPDATE meta SET value = 0 WHERE key = 'pos'", FindingKind::Mark, None, "\"pos\" is 0, but 2 is in use"),
    ("DELETE FROM meta WHERE key = 'epoch'", FindingKind::Mark, None, "\"epoch\" is missing"),
    (
        "UPDATE counter SET n = n + 1 WHERE status = 4",
        FindingKind::Counter,
        None,
        "1 instances of status 4, but 2 are counted",
    ),
];

#[tokio::test]
async fn each_kind_of_damage_is_found_and_located() {
    for (damage, problem, whose, says) in DAMAGE {
        let place = sound().await;
        let changed = place.sql().execute(damage, []).unwrap();
        assert!(changed > 0, "{damage}");
        let report = examine(&place);
        let is_it = |finding: &&doctor::Finding| finding.kind == problem && finding.found.contains(says);
        let found = report.findings.iter().find(is_it).unwrap_or_else(|| panic!("{damage}: {report:#?}"));
        assert_eq!(found.id.as_deref(), whose, "{damage}");
        assert!(!found.holds.is_empty() && !found.remedy.is_empty());
    }
}

#[tokio::test]
async fn orphaned_rows_are_found_in_every_table() {
    let place = sound().await;
    place.sql().execute_batch("DELETE FROM instance WHERE id = 'waiting'").unwrap();
    let report = examine(&place);
    let orphans: Vec<_> = report.findings.iter().filter(|finding| finding.kind == FindingKind::Orphan).collect();
    let said: Vec<_> = orphans.iter().map(|finding| finding.found.as_str()).collect();
    let left = ["1 journal entries are left", "1 rows are left in inbox", "2 rows are left in sent"];
    let last = ["1 rows are left in dedup", "2 lifecycle events are left, but its name is gone"];
    assert_eq!(said, [left[0], left[1], left[2], last[0], last[1]]);
    assert!(orphans.iter().all(|finding| finding.num == Some(InstanceNum(4)) && finding.id.is_none()));
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::Counter));
}

#[tokio::test]
async fn terminate_without_a_wake_is_found() {
    for (id, wake) in [("pending", "20"), ("asleep", "9000"), ("asleep", "NULL"), ("waiting", "NULL")] {
        let place = sound().await;
        let message = Message::Terminate { reason: "enough".to_owned() };
        write(&place.open(), Write::Message(SendWrite { message, ..signal(id, 9) })).await;
        assert!(examine(&place).is_sound(), "{id}");
        place.sql().execute_batch(&format!("UPDATE instance SET wake = {wake} WHERE id = '{id}'")).unwrap();
        let report = examine(&place);
        let unheard = report.findings.iter().find(|finding| finding.kind == FindingKind::Unheard).unwrap();
        assert_eq!(unheard.id.as_deref(), Some(id));
        assert!(unheard.found.contains("(terminate) is not taken"), "{}", unheard.found);
    }
}

#[tokio::test]
async fn message_to_an_ended_instance_is_found() {
    let place = sound().await;
    place.sql().execute_batch("UPDATE inbox SET instance = 6; UPDATE sent SET instance = 6 WHERE pos = 2").unwrap();
    let report = examine(&place);
    let found = report.findings.iter().find(|finding| finding.kind == FindingKind::Inbox).unwrap();
    assert_eq!(
        (found.id.as_deref(), found.found.as_str()),
        (Some("completed"), "its status is 4 but message 2 is in its inbox")
    );
}

#[tokio::test]
async fn journal_that_cannot_be_replayed_is_found() {
    let place = sound().await;
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "twice", epoch).await;
    let mut twice = commit(num, epoch, 0);
    twice.entries.push(outlive_core::journal::Entry { seq: 2, ..twice.entries[0].clone() });
    committed(&store, twice).await;
    let report = examine(&place);
    assert_eq!(report.findings_count, 1);
    assert_eq!((report.findings[0].kind, report.findings[0].id.as_deref()), (FindingKind::Journal, Some("twice")));
    assert!(report.findings[0].found.contains("step:charge#1 has already ended"), "{}", report.findings[0].found);
}

#[tokio::test]
async fn damaged_page_or_table_does_not_stop_the_examination() {
    let place = sound().await;
    place.sql().execute_batch("DROP TABLE dedup; UPDATE counter SET n = 9").unwrap();
    let report = examine(&place);
    let has = |problem| report.findings.iter().any(|finding| finding.kind == problem);
    assert!(has(FindingKind::File) && has(FindingKind::Counter), "{:#?}", report.findings);

    let place = sound().await;
    place.sql().execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    let root = place.number("SELECT rootpage FROM sqlite_schema WHERE name = 'entry'");
    let mut bytes = std::fs::read(place.file()).unwrap();
    let begin = usize::try_from((root - 1) * place.number("PRAGMA page_size")).unwrap();
    bytes[begin..begin + 100].fill(0xee);
    std::fs::write(place.file(), bytes).unwrap();
    let report = examine(&place);
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::File), "{:#?}", report.findings);
    assert_eq!(report.instances, 8);
}

#[tokio::test]
async fn findings_are_listed_up_to_1000_per_kind_and_all_counted() {
    let place = sound().await;
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
        INSERT INTO sent SELECT 1000 + i, 1, 1000 + i FROM n";
    place.sql().execute_batch(many).unwrap();
    place.sql().execute_batch("UPDATE meta SET value = 9999 WHERE key = 'pos'").unwrap();
    let report = examine(&place);
    assert_eq!((report.findings_count, report.findings.len()), (1500, 1000));
}

#[tokio::test]
async fn non_store_file_is_an_error_and_examining_changes_nothing() {
    let place = Place::new();
    std::fs::write(place.file(), "").unwrap();
    assert_eq!(doctor::examine(&place.file()).unwrap_err().kind, ErrorKind::Open);
    std::fs::write(place.file(), "this is a letter and not a database").unwrap();
    assert_eq!(doctor::examine(&place.file()).unwrap_err().kind, ErrorKind::Open);
    let place = sound().await;
    let before = std::fs::read(place.file()).unwrap();
    examine(&place);
    assert_eq!(std::fs::read(place.file()).unwrap(), before);
}

#[tokio::test]
async fn store_is_sound_at_every_moment_while_in_use() {
    let place = sound().await;
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let file = place.file();
    let doctor = tokio::task::spawn_blocking(move || {
        (0..50).map(|_| doctor::examine(&file).unwrap()).find(|report| !report.is_sound())
    });
    let mut nth = 0_u64;
    while !doctor.is_finished() {
        let id = format!("busy-{nth}");
        let num = driven(&store, &id, epoch).await;
        committed(&store, commit(num, epoch, 0)).await;
        write(&store, Write::Message(signal(&id, nth + 100))).await;
        let outcome = Some(json("done"));
        let end = NewState { outcome, ..state(Status::Completed) };
        committed(
            &store,
            Commit { entries: vec![], state: Some(end), ..ended(commit(num, epoch, 1), Status::Completed) },
        )
        .await;
        if nth.is_multiple_of(3) {
            assert_done(&write(&store, Write::Purge(name(&id), None)).await);
        }
        nth += 1;
    }
    let unsound = doctor.await.unwrap();
    assert!(unsound.is_none(), "{:#?}", unsound.unwrap().findings);
    assert!(nth > 0);
}
