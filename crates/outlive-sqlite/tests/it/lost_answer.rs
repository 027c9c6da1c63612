//! A failed COMMIT may still have been durable: retrying the batch returns what the first try should have returned.

use std::sync::Arc;

use outlive_core::id::InstanceNum;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Write};
use outlive_core::store::query::Query;
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::SqliteStore;

use crate::support::{
    Place, assert_done, at, claim, claimed, commit, driven, ended, name, reopen, signal, start, started, write,
};

/// Makes the next COMMITs fail: deferred foreign keys are only checked there.
fn break_commits(place: &Place) {
    let sql = "CREATE TABLE good (id INTEGER PRIMARY KEY);
        CREATE TABLE broken (id INTEGER REFERENCES good DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER break_instance AFTER UPDATE ON instance BEGIN INSERT INTO broken VALUES (1); END;
        CREATE TRIGGER break_start AFTER INSERT ON instance BEGIN INSERT INTO broken VALUES (1); END;
        CREATE TRIGGER break_purge AFTER DELETE ON instance BEGIN INSERT INTO broken VALUES (1); END;
        CREATE TRIGGER break_dead AFTER DELETE ON dead BEGIN INSERT INTO broken VALUES (1); END;
        CREATE TRIGGER break_entry AFTER INSERT ON entry BEGIN INSERT INTO broken VALUES (1); END;";
    place.sql().execute_batch(sql).unwrap();
}

fn repair_commits(place: &Place) {
    place
        .sql()
        .execute_batch(
            "DROP TABLE broken; DROP TRIGGER break_instance; DROP TRIGGER break_start;
        DROP TRIGGER break_purge; DROP TRIGGER break_dead; DROP TRIGGER break_entry;",
        )
        .unwrap();
}

/// Writes a batch whose COMMIT fails.
pub(crate) async fn write_unknown(place: &Place, store: &SqliteStore, batch: &Arc<Vec<Write>>) {
    break_commits(place);
    let error = store.write(batch.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unknown, "{error}");
    assert!(error.message.contains("may or may not hold the last batch"), "{error}");
    repair_commits(place);
}

/// Creates a failed, a completed, a waiting and a driven run. Returns the last two.
async fn runs(store: &SqliteStore) -> (InstanceNum, InstanceNum) {
    let epoch = store.lease(at(0)).await.unwrap();
    let failed = driven(store, "failed", epoch).await;
    let old = driven(store, "old", epoch).await;
    assert_done(&write(store, Write::Commit(ended(commit(failed, epoch, 0), Status::Failed))).await);
    assert_done(&write(store, Write::Commit(ended(commit(old, epoch, 0), Status::Completed))).await);
    (started(store, start("waiting")).await, driven(store, "driven", epoch).await)
}

async fn batch(store: &SqliteStore) -> Arc<Vec<Write>> {
    let (waiting, driven) = runs(store).await;
    let epoch = outlive_core::store::commit::Epoch(1);
    Arc::new(vec![
        claim(&[waiting], epoch),
        reopen("failed"),
        Write::Purge(name("old"), None),
        Write::Start(start("new")),
        Write::Message(signal("driven", 7)),
        Write::Commit(commit(driven, epoch, 0)),
    ])
}

#[track_caller]
fn assert_answers(answers: Vec<Answer>) {
    let mut answers = answers.into_iter();
    let claimed = claimed(answers.next().unwrap());
    assert_eq!((claimed.len(), claimed[0].is_first), (1, true));
    assert_done(&answers.next().unwrap());
    assert_done(&answers.next().unwrap());
    assert!(matches!(answers.next(), Some(Answer::Started { created: true, .. })));
    assert!(matches!(answers.next(), Some(Answer::Sent { is_new: true, .. })));
    assert_done(&answers.next().unwrap());
}

#[tokio::test]
async fn batch_that_was_not_durable_is_written_on_retry() {
    let place = Place::new();
    let store = place.open();
    let batch = batch(&store).await;
    write_unknown(&place, &store, &batch).await;
    assert!(store.instance(&name("new")).await.unwrap().is_none());
    assert_answers(store.write(batch).await.unwrap());
}

#[tokio::test]
async fn batch_in_doubt_stays_so_until_a_retry_succeeds() {
    let place = Place::new();
    let store = place.open();
    let batch = batch(&store).await;
    write_unknown(&place, &store, &batch).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON entry BEGIN SELECT raise(abort, 'no'); END";
    place.sql().execute_batch(refuse).unwrap();
    // This write has certainly failed, but that does not settle the first one.
    assert_eq!(store.write(batch.clone()).await.unwrap_err().kind, ErrorKind::Unknown);
    let other = store.write(Arc::new(batch.to_vec())).await.unwrap_err();
    assert_eq!(other.kind, ErrorKind::Corrupt);
    place.sql().execute_batch("DROP TRIGGER refuse").unwrap();
    assert_answers(store.write(batch).await.unwrap());
}

#[tokio::test]
async fn retrying_a_durable_batch_returns_the_same_results() {
    let place = Place::new();
    let store = place.open();
    let batch = batch(&store).await;
    write_unknown(&place, &store, &batch).await;
    // The writer treats an equal batch as a different one, so this stands in for the first try's COMMIT.
    assert_answers(store.write(Arc::new(batch.to_vec())).await.unwrap());
    let before = everything(&store).await;
    assert_answers(store.write(batch).await.unwrap());
    assert_eq!(everything(&store).await, before, "nothing changed");
}

async fn everything(store: &SqliteStore) -> String {
    let page = store.list(&Default::default(), None, 99).await.unwrap();
    let mut all = format!("{page:?} {:?}", store.count(&Default::default()).await.unwrap());
    for instance in page.instances {
        let (journal, inbox) =
            (store.journal(instance.num, 0, 99).await, store.inbox(instance.num, 0, usize::MAX).await);
        all.push_str(&format!("{:?} {:?}", journal.unwrap(), inbox.unwrap()));
    }
    all
}
