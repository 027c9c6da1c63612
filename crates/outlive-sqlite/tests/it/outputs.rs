//! What runs give out, in a file: lost replies, damage, and what the doctor says about it.

use std::sync::Arc;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::output::{OutputContent, OutputKind, OutputRead, OutputWrite};
use outlive_core::payload::Payload;
use outlive_core::store::commit::{Answer, Commit, Epoch, Write};
use outlive_core::store::query::Query;
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::SqliteStore;
use outlive_sqlite::doctor::FindingKind;

use crate::doctor::examine;
use crate::lost_answer::write_unknown;
use crate::support::{Place, at, commit, driven, write};

fn item(num: InstanceNum, epoch: Epoch, token: u64) -> Write {
    let (name, payload) = (Name::recorded("log"), Payload::recorded("1"));
    let content = OutputContent::Item { name, payload, origin: None, max_items: 100 };
    Write::Output(OutputWrite { num, epoch, content, at: at(1), token }.into())
}

async fn items(store: &SqliteStore, num: InstanceNum) -> usize {
    let read = OutputRead::Of { kind: OutputKind::Item, name: Name::recorded("log"), from: 0 };
    store.outputs(num, read, 1_000).await.unwrap().len()
}

#[tokio::test]
async fn repeated_batch_after_a_lost_reply_appends_once() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    write(&store, item(num, epoch, 1)).await;
    // The first try was rolled back, or was durable: both give the same in the end.
    let batch = Arc::new(vec![item(num, epoch, 2), Write::Commit(commit(num, epoch, 0)), item(num, epoch, 3)]);
    write_unknown(&place, &store, &batch).await;
    let given =
        |answers: &[Answer]| matches!(answers, [Answer::Given { item: 1, .. }, _, Answer::Given { item: 2, .. }]);
    let answers = store.write(batch.clone()).await.unwrap();
    assert!(given(&answers), "{answers:?}");
    assert_eq!(items(&store, num).await, 3);
}

/// A driven run with two items and a value.
async fn giving(place: &Place) -> (SqliteStore, InstanceNum) {
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    for token in 1..=2 {
        write(&store, item(num, epoch, token)).await;
    }
    let (name, payload) = (Name::recorded("state"), Payload::recorded("1"));
    let content = OutputContent::Value { name, version: 1, payload };
    let value = OutputWrite { num, epoch, content, at: at(1), token: 3 };
    let mut entry = commit(num, epoch, 0);
    entry.entries[0].kind = outlive_core::journal::EntryKind::Published;
    entry.entries[0].payload = Some(Payload::recorded("1"));
    entry.entries[0].op = "publish:state".into();
    write(&store, Write::Commit(Commit { writes: vec![Write::Output(value.into())], ..entry })).await;
    (store, num)
}

#[tokio::test]
async fn damaged_outputs_are_found_and_sound_ones_are_not() {
    let damage = [
        ("UPDATE output SET payload = '2' WHERE kind = 2", FindingKind::Output, "checksum"),
        ("UPDATE output SET kind = 9 WHERE kind = 2", FindingKind::Output, "kind 9"),
        ("DELETE FROM output WHERE kind = 2 AND item = 0", FindingKind::Output, "1 items from 1 to 1"),
        ("UPDATE output SET item = 2 WHERE kind = 1", FindingKind::Output, "did not publish it"),
        (
            "INSERT INTO output SELECT 99, kind, name, item, at, epoch, token, attempt, op, payload, sum FROM output WHERE kind = 1",
            FindingKind::Orphan,
            "rows are left in output",
        ),
    ];
    for (damage, kind, says) in damage {
        let place = Place::new();
        let (_store, _) = giving(&place).await;
        let report = examine(&place);
        assert!(report.is_sound(), "{:#?}", report.findings);
        assert!(place.sql().execute(damage, []).unwrap() > 0, "{damage}");
        let report = examine(&place);
        let found = report.findings.iter().any(|finding| finding.kind == kind && finding.found.contains(says));
        assert!(found, "{damage}: {report:#?}");
    }
}

#[tokio::test]
async fn damaged_item_is_an_error_for_its_readers() {
    let place = Place::new();
    let (store, num) = giving(&place).await;
    place.sql().execute("UPDATE output SET payload = '7' WHERE kind = 2", []).unwrap();
    let read = OutputRead::Of { kind: OutputKind::Item, name: Name::recorded("log"), from: 0 };
    let error = store.outputs(num, read, 10).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.message.contains("output 0 of \"log\" does not match its checksum"), "{error}");
}
