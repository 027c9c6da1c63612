//! A damaged row affects its own instance and no other.

use outlive_core::event::Event;
use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::queue::{PushTarget as Lying, PushWrite};
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Commit, Epoch, Turn, Write};
use outlive_core::store::query::{Filter, Query};
use outlive_core::store::{ErrorKind, Store};
use outlive_core::time::Timestamp;
use outlive_sqlite::SqliteStore;

use crate::support::{
    Place, assert_done, at, claim, claimed, commit, driven, ended, name, signal, start, started, state, write,
};

/// Creates two instances that are not driven, with two entries and a message each, then applies `damage` to the first.
async fn after(damage: &str) -> (Place, InstanceNum, InstanceNum) {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let a = driven(&store, "a", epoch).await;
    let b = driven(&store, "b", epoch).await;
    for (token, (id, num)) in (1..).zip([("a", a), ("b", b)]) {
        assert_done(&write(&store, Write::Commit(commit(num, epoch, 0))).await);
        assert_done(&write(&store, Write::Commit(commit(num, epoch, 1))).await);
        write(&store, Write::Message(signal(id, token))).await;
    }
    store.release(epoch).await.unwrap();
    drop(store);
    let sql = place.sql();
    sql.execute_batch("PRAGMA ignore_check_constraints = on").unwrap();
    let changed = sql.execute(damage, [a.0.cast_signed()]).unwrap();
    assert_eq!(changed, 1, "{damage}");
    (place, a, b)
}

#[tokio::test]
async fn claim_reports_a_damaged_entry_only_for_its_instance() {
    for (damage, says) in [
        (
            "UPDATE entry SET payload = '\"dune\"' WHERE instance = ?1 AND seq = 2",
            "entry 2 does not match its checksum",
        ),
        ("UPDATE entry SET payload = NULL WHERE instance = ?1 AND seq = 2", "entry 2 does not match its checksum"),
        ("UPDATE entry SET at = at + 1 WHERE instance = ?1 AND seq = 1", "entry 1 does not match its checksum"),
        ("UPDATE entry SET due = 0 WHERE instance = ?1 AND seq = 1", "entry 1 does not match its checksum"),
        ("UPDATE entry SET attempt = -1 WHERE instance = ?1 AND seq = 1", "entry 1 does not match its checksum"),
        (
            "UPDATE entry SET op = CAST(x'ff' AS TEXT) WHERE instance = ?1 AND seq = 2",
            "entry 2 does not match its checksum",
        ),
        ("UPDATE entry SET sum = -1 WHERE instance = ?1 AND seq = 2", "entry 2 does not match its checksum"),
        ("UPDATE entry SET kind = 99 WHERE instance = ?1 AND seq = 1", "entry 1 has kind 99"),
        ("UPDATE entry SET seq = 7 WHERE instance = ?1 AND seq = 2", "entry 2 is missing, 7 comes next"),
        ("DELETE FROM entry WHERE instance = ?1 AND seq = 1", "entry 1 is missing, 2 comes next"),
        ("UPDATE instance SET input = '\"imput\"' WHERE num = ?1", "instance \"a\" does not match its checksum"),
        (
            "UPDATE instance SET workflow = CAST(x'ff' AS TEXT) WHERE num = ?1",
            "instance \"a\" does not match its checksum",
        ),
        ("UPDATE instance SET status = 77 WHERE num = ?1", "status of instance \"a\" is unknown"),
    ] {
        let (place, a, b) = after(damage).await;
        let store = place.open();
        let epoch = store.lease(at(60)).await.unwrap();
        let claimed = claimed(write(&store, claim(&[a, b], epoch)).await);
        assert_eq!(claimed.len(), 2, "{damage}");
        let found = claimed[0].journal.as_ref().unwrap_err();
        assert!(found.contains(says), "{damage}: {found}");
        assert_eq!(claimed[1].journal.as_ref().unwrap().len(), 2, "{damage}");
        assert_done(&write(&store, Write::Commit(commit(b, epoch, 2))).await);
        assert_becomes_stuck(&place, &store, a, epoch).await;
    }
}

/// Its driver, which could not read the end of the journal, makes it stuck; it is never due again.
async fn assert_becomes_stuck(place: &Place, store: &SqliteStore, num: InstanceNum, epoch: Epoch) {
    // Other writes in between don't repair it.
    write(&place.open(), Write::Start(start("c"))).await;
    let stuck_commit = Commit { entries: vec![], ..ended(commit(num, epoch, 0), Status::Stuck) };
    assert_done(&write(store, Write::Commit(stuck_commit.clone())).await);
    assert_done(&write(store, Write::Commit(stuck_commit)).await);
    assert!(store.wakes(Timestamp::MAX, 9).await.unwrap().iter().all(|wake| wake.num != num));
    assert!(matches!(write(store, Write::Commit(commit(num, epoch, 2))).await, Answer::Fenced));
    let stuck = store.list(&Filter::runs().status(StatusKind::Stuck), None, 9).await.unwrap().instances;
    assert_eq!(stuck.iter().map(|instance| instance.num).collect::<Vec<_>>(), [num]);
}

#[tokio::test]
async fn claim_reports_a_damaged_message_only_for_its_instance() {
    for (damage, says) in [
        ("UPDATE inbox SET payload = '1' WHERE instance = ?1", "does not match its checksum"),
        ("UPDATE inbox SET kind = 9 WHERE instance = ?1", "a message of kind 9"),
        ("UPDATE inbox SET text = NULL WHERE instance = ?1", "a message of kind 1"),
    ] {
        let (place, a, b) = after(damage).await;
        let store = place.open();
        let epoch = store.lease(at(60)).await.unwrap();
        let claimed = claimed(write(&store, claim(&[a, b], epoch)).await);
        assert!(claimed[0].inbox.as_ref().unwrap_err().contains(says), "{:?}", claimed[0].inbox);
        assert_eq!(claimed[1].inbox.as_ref().unwrap().len(), 1);
        assert_eq!(store.inbox(a, 0, usize::MAX).await.unwrap_err().kind, ErrorKind::Corrupt);
    }
}

#[tokio::test]
async fn reading_a_damaged_journal_names_the_instance_and_file() {
    let (place, a, b) = after("UPDATE entry SET site = '' WHERE instance = ?1 AND seq = 2").await;
    let store = place.open();
    assert_eq!(store.journal(a, 0, 1).await.unwrap().len(), 1);
    let error = store.journal(a, 0, 9).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.message.contains("instance 1 in ") && error.message.contains("runs.db: entry 2"), "{error}");
    assert_eq!(store.journal(b, 0, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn damaged_row_is_listed_with_its_problem() {
    let (place, a, _) = after("UPDATE instance SET status = 77 WHERE num = ?1").await;
    let store = place.open();
    let page = store.list(&Filter::runs(), None, 9).await.unwrap();
    assert_eq!(page.instances.len(), 2);
    assert_eq!((page.instances[1].num, page.instances[1].status), (a, Status::Stuck));
    assert!(page.instances[1].note.as_ref().unwrap().contains("is unknown"));
    let tags = Filter::runs().tag("shop", "paris");
    place.sql().execute_batch("UPDATE instance SET tags = '{bad'").unwrap();
    assert_eq!(store.list(&tags, None, 9).await.unwrap().instances, []);
    assert!(store.instance(&name("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn damaged_page_blocks_neither_open_nor_other_reads() {
    let (place, a, _) = after("UPDATE instance SET note = '' WHERE num = ?1").await;
    let root = place.number("SELECT rootpage FROM sqlite_schema WHERE name = 'entry'");
    let page = place.number("PRAGMA page_size");
    let mut bytes = std::fs::read(place.file()).unwrap();
    let begin = usize::try_from((root - 1) * page).unwrap();
    bytes[begin..begin + 100].fill(0xee);
    std::fs::write(place.file(), bytes).unwrap();

    let store = place.open();
    let epoch = store.lease(at(60)).await.unwrap();
    let claimed = claimed(write(&store, claim(&[a], epoch)).await);
    let damage = claimed[0].journal.as_ref().unwrap_err();
    assert!(damage.contains("entry 1 is on a damaged page"), "{damage}");
    assert_becomes_stuck(&place, &store, a, epoch).await;
    assert_eq!(store.list(&Filter::runs(), None, 9).await.unwrap().instances.len(), 3);
}

/// What broke: after a damaged entry, a page was filled up with later lifecycle events, so the sound entry between them
/// was skipped; and a page with only damaged entries looked like the end of the feed.
#[tokio::test]
async fn damaged_entry_hides_no_other_feed_item() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    for seq in 0..4 {
        assert_done(&write(&store, Write::Commit(commit(num, epoch, seq))).await);
    }
    started(&store, start("b")).await;
    started(&store, start("c")).await;
    place.sql().execute("UPDATE entry SET payload = 'x' WHERE seq IN (1, 3)", []).unwrap();
    let whole: Vec<u64> = store.feed(0, 100).await.unwrap().iter().map(|item| item.pos).collect();
    assert_eq!(whole.len(), 5, "{whole:?}");
    for limit in 1..6 {
        let (mut after, mut seen) = (0, Vec::new());
        while let Some(last) = store.feed(after, limit).await.unwrap().last() {
            seen.extend(store.feed(after, limit).await.unwrap().iter().map(|item| item.pos));
            after = last.pos;
        }
        assert_eq!(seen, whole, "in pages of {limit}");
    }
}

#[tokio::test]
async fn job_with_a_damaged_inbox_becomes_stuck_and_blocks_no_other() {
    let place = Place::new();
    let (a, b) = {
        let store = place.open();
        let epoch = store.lease(at(0)).await.unwrap();
        let mut nums = Vec::new();
        for id in ["task:orders:a", "task:orders:b"] {
            // Enough events that the inbox has leaf pages below its root.
            let events = (0..400).map(|_| Event::new(Payload::recorded(&format!("\"{}\"", "x".repeat(200))))).collect();
            let (id, job) = (name(id), name("task:orders"));
            let push =
                PushWrite { id, job, events, place: Lying::Inbox, at: at(1), seed: 1, token: nums.len() as u64 + 1 };
            let Answer::Pushed { num, .. } = write(&store, Write::Push(push)).await else { panic!("not pushed") };
            nums.push(num);
        }
        store.release(epoch).await.unwrap();
        (nums[0], nums[1])
    };
    let page = place.number("PRAGMA page_size");
    let leaves = {
        let sql = place.sql();
        let leaves = "SELECT pageno FROM dbstat WHERE name = 'inbox' AND pagetype = 'leaf' ORDER BY path";
        let mut statement = sql.prepare(leaves).unwrap();
        let leaves = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        leaves.map(Result::unwrap).collect::<Vec<_>>()
    };
    let mut bytes = std::fs::read(place.file()).unwrap();
    // All pages of the first inbox, and some of the second's.
    for leaf in &leaves[..=leaves.len() / 2] {
        let begin = usize::try_from((leaf - 1) * page).unwrap();
        bytes[begin..begin + 100].fill(0xee);
    }
    std::fs::write(place.file(), bytes).unwrap();

    let store = place.open();
    let epoch = store.lease(at(60)).await.unwrap();
    let claimed = claimed(write(&store, claim(&[a], epoch)).await);
    assert!(claimed[0].inbox.is_err(), "the page belongs to the first inbox");
    let mut stuck = state(Status::Stuck);
    stuck.note = Some("damaged".to_owned());
    let stuck_turn = Turn { state: Some(stuck), ..Turn::new(a, epoch, 0) };
    let other = claim(&[b], epoch);
    let answers = store.write(std::sync::Arc::new(vec![Write::Turn(Box::new(stuck_turn)), other])).await.unwrap();
    assert!(matches!(&answers[..], [Answer::DoneWith(_), Answer::Claimed(one)] if one.len() == 1), "{answers:?}");
    assert_eq!(store.instance(&name("task:orders:a")).await.unwrap().unwrap().status, Status::Stuck);
}
