//! Counts the rows that progress writes: a commit with one entry writes one row.

use outlive_core::status::Status;
use outlive_core::store::Store;
use outlive_core::store::commit::{Commit, Write};
use outlive_core::store::query::Query;

use crate::support::{Place, assert_done, at, claim, claimed, commit, driven, name, state, write};

const TABLES: [&str; 8] = ["meta", "instance", "entry", "lifecycle", "inbox", "sent", "dedup", "counter"];

/// Adds triggers that log which tables are written.
fn watch(place: &Place) {
    let sql = place.sql();
    sql.execute_batch("CREATE TABLE written (what TEXT)").unwrap();
    for table in TABLES {
        for event in ["INSERT", "UPDATE", "DELETE"] {
            let body = format!("INSERT INTO written VALUES ('{event} {table}')");
            let trigger = format!("CREATE TRIGGER {event}_{table} AFTER {event} ON {table} BEGIN {body}; END");
            sql.execute_batch(&trigger).unwrap();
        }
    }
}

/// The first batch after a foreign write reserves feed positions, once for many batches.
const FEED_AFTER_OTHERS: &str = "UPDATE meta";

fn written(place: &Place) -> Vec<String> {
    let sql = place.sql();
    let mut statement = sql.prepare("DELETE FROM written RETURNING what").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn commit_with_one_entry_writes_one_row() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    watch(&place);
    assert_done(&write(&store, Write::Commit(commit(num, epoch, 0))).await);
    assert_done(&write(&store, Write::Commit(commit(num, epoch, 1))).await);
    assert_eq!(written(&place), ["INSERT entry", FEED_AFTER_OTHERS, "INSERT entry"]);
}

#[tokio::test]
async fn only_the_first_entry_after_a_recovery_updates_the_instance() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    let epoch = store.lease(at(5)).await.unwrap();
    let taken = claimed(write(&store, claim(&[num], epoch)).await);
    assert_eq!(taken[0].instance.recoveries, 1);
    watch(&place);
    assert_done(&write(&store, Write::Commit(commit(num, epoch, 0))).await);
    assert_eq!(written(&place), ["INSERT entry", "UPDATE instance", FEED_AFTER_OTHERS]);
    assert_eq!(store.instance(&name("a")).await.unwrap().unwrap().recoveries, 0);
    assert_done(&write(&store, Write::Commit(commit(num, epoch, 1))).await);
    assert_eq!(written(&place), ["INSERT entry", FEED_AFTER_OTHERS]);
}

#[tokio::test]
async fn end_writes_only_instance_lifecycle_and_counters() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    watch(&place);
    let mut end = state(Status::Completed);
    end.seen = Some(0);
    let end = Commit { entries: vec![], state: Some(end), ..commit(num, epoch, 0) };
    assert_done(&write(&store, Write::Commit(end)).await);
    // Completed is counted for the first time, Running is decremented.
    assert_eq!(
        written(&place),
        ["INSERT lifecycle", "UPDATE instance", "UPDATE counter", "INSERT counter", FEED_AFTER_OTHERS]
    );
}
