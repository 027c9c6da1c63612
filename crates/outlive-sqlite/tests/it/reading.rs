//! A read-only handle changes nothing in the file, executed or not.

use std::fs;
use std::time::Duration;

use outlive_core::store::commit::Write;
use outlive_core::store::query::{Filter, Query};
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::SqliteReader;

use crate::support::{Place, at, driven, name, start, started};

#[tokio::test]
async fn reader_sees_executor_writes_without_disturbing_it() {
    let place = Place::new();
    let store = place.open();
    let reader = SqliteReader::open(&place.file()).unwrap();
    assert_eq!(reader.count(&Filter::runs()).await.unwrap().total(), 0);
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    let seen = reader.instance(&name("a")).await.unwrap().unwrap();
    assert_eq!((seen.num, seen.owner), (num, epoch));
    assert_eq!(reader.list(&Filter::runs(), None, 9).await.unwrap().instances, [seen]);
    drop(reader);
    started(&store, start("b")).await;
    assert_eq!(store.count(&Filter::runs()).await.unwrap().total(), 2);
}

#[tokio::test]
async fn reading_a_closed_file_changes_no_byte() {
    let place = Place::new();
    let store = place.open();
    started(&store, start("a")).await;
    drop(store);
    let before = fs::read(place.file()).unwrap();
    let reader = SqliteReader::open(&place.file()).unwrap();
    assert!(reader.instance(&name("a")).await.unwrap().is_some());
    drop(reader);
    assert_eq!(fs::read(place.file()).unwrap(), before);
    assert!(!place.folder.path().join("runs.db.lock").exists(), "no lease was taken");
    assert_eq!(place.open().count(&Filter::runs()).await.unwrap().total(), 1);
}

/// What would break: a writable connection merges the WAL into the file when it is the last to close.
#[tokio::test]
async fn wal_of_a_dead_process_is_read_and_kept() {
    let place = Place::new();
    let store = place.open();
    started(&store, start("a")).await;
    let copy = Place::new();
    for suffix in ["", "-wal"] {
        // In another process: closing one of the store's files here would free its locks.
        let (from, to) = (format!("{}{suffix}", place.file().display()), format!("{}{suffix}", copy.file().display()));
        assert!(std::process::Command::new("cp").args([from, to]).status().unwrap().success());
    }
    let files = |suffix: &str| fs::read(format!("{}{suffix}", copy.file().display())).unwrap();
    let before = (files(""), files("-wal"));
    let reader = SqliteReader::open(&copy.file()).unwrap();
    assert!(reader.instance(&name("a")).await.unwrap().is_some(), "it is only in the WAL");
    drop(reader);
    assert!((files(""), files("-wal")) == before);
}

#[test]
fn non_store_file_is_refused_and_unchanged() {
    let place = Place::new();
    let refused = |content: Option<&[u8]>, says: &str| {
        if let Some(content) = content {
            fs::write(place.file(), content).unwrap();
        }
        let error = SqliteReader::open(&place.file()).unwrap_err();
        assert!(error.kind == ErrorKind::Open && error.message.contains(says), "{error}");
        assert_eq!(fs::read(place.file()).ok().as_deref(), content);
    };
    refused(None, "does not exist");
    refused(Some(b""), "is empty");
    refused(Some(&[b'x'; 4096]), "is not a SQLite database");
    fs::remove_file(place.file()).unwrap();
    place.sql().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let theirs = fs::read(place.file()).unwrap();
    refused(Some(&theirs), "of another application");
    assert!(SqliteReader::is_database(&place.file()).unwrap());
}

#[tokio::test]
async fn reader_is_notified_of_changes_and_refuses_writes() {
    let place = Place::new();
    let store = place.open();
    let reader = SqliteReader::open(&place.file()).unwrap();
    let error = reader.lease(at(0)).await.unwrap_err();
    assert!(error.kind == ErrorKind::Open && error.message.contains("is open read-only"), "{error}");
    assert!(reader.write(vec![Write::Start(start("a"))].into()).await.is_err());
    assert_eq!(store.count(&Filter::runs()).await.unwrap().total(), 0);
    let (changed, writes) = (reader.changed(), async {
        // It is only notified of what is written after it starts listening, so keep writing.
        for n in 0.. {
            started(&store, start(&format!("r{n}"))).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    tokio::select! {
        () = changed => {}
        () = writes => {}
        () = tokio::time::sleep(Duration::from_secs(120)) => panic!("not notified of a change"),
    }
}

/// What broke: a write after the first read, but before the reader started watching, was never reported.
#[tokio::test]
async fn reader_that_starts_watching_reports_a_change_once() {
    let place = Place::new();
    let _store = place.open();
    let reader = SqliteReader::open(&place.file()).unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(120), reader.changed()).await;
    assert!(heard.is_ok(), "it is waiting for another write");
}
