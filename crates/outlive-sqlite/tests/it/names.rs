//! One file under several names: its executor is found under each of them, and no other file is changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use outlive_core::store::commit::Write;
use outlive_core::store::query::Query;
use outlive_core::store::{Error, ErrorKind, Store};
use outlive_sqlite::{Options, SqliteReader, SqliteStore, doctor};

use crate::support::{Place, assert_done, at, commit, driven, name, start, until, write};

fn open(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, Options::default())
}

fn lock_of(place: &Place) -> PathBuf {
    place.folder.path().join("runs.db.lock")
}

#[track_caller]
fn assert_refused(error: &Error, parts: &[&str]) {
    assert_eq!(error.kind, ErrorKind::Open, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part:?} is not in {:?}", error.message);
    }
}

/// What broke: the lock was next to the link, so a second executor started on the same file.
#[tokio::test]
async fn symlinked_store_uses_the_lock_of_its_target() {
    let place = Place::new();
    let store = place.open();
    store.lease(at(0)).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (link, folder) = (elsewhere.path().join("link.db"), elsewhere.path().join("folder"));
    symlink(place.file(), &link).unwrap();
    symlink(place.folder.path(), &folder).unwrap();
    for path in [link, folder.join("runs.db")] {
        let second = open(&path).unwrap();
        assert_eq!(second.path(), store.path());
        let error = second.lease(at(1)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Locked { pid: Some(std::process::id()) }, "{error}");
    }
    assert!(!elsewhere.path().join("link.db.lock").exists());
}

#[test]
fn dangling_store_symlink_is_refused() {
    let place = Place::new();
    symlink("nowhere.db", place.file()).unwrap();
    assert_refused(&place.try_open().unwrap_err(), &["runs.db is a symbolic link", "does not exist"]);
    assert!(!place.folder.path().join("nowhere.db").exists());
}

/// What broke: SQLite keeps a WAL next to each name of a file, and two executors with a WAL each corrupted it.
#[test]
fn file_with_two_hard_links_is_refused_under_both_names() {
    let place = Place::new();
    drop(place.open());
    let other = place.folder.path().join("other.db");
    fs::hard_link(place.file(), &other).unwrap();
    for path in [&place.file(), &other] {
        let parts = [path.to_str().unwrap(), "has 2 hard links", "find / -xdev -samefile"];
        assert_refused(&open(path).unwrap_err(), &parts);
        assert_refused(&SqliteReader::open(path).unwrap_err(), &parts);
        assert_refused(&doctor::examine(path).unwrap_err(), &parts);
    }
    fs::remove_file(&other).unwrap();
    place.open();
}

/// What broke: the next executor created a new lock file, which was not held.
#[tokio::test]
async fn removed_lock_file_is_recreated_and_locked() {
    let place = Place::new();
    let store = place.open();
    store.lease(at(0)).await.unwrap();
    // As an engine does: from here on the store checks its files.
    drop(store.changed());
    for _ in 0..3 {
        fs::remove_file(lock_of(&place)).unwrap();
        until(|| lock_of(&place).exists()).await;
        let error = place.open().lease(at(1)).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Locked { .. }), "{error}");
    }
    let pid = format!("{}\n", std::process::id());
    until(|| fs::read_to_string(lock_of(&place)).unwrap().starts_with(&pid)).await;
}

/// What broke: the target of the link was truncated and the pid was written into it.
#[tokio::test]
async fn linked_lock_file_is_neither_locked_nor_written() {
    let place = Place::new();
    let (store, letters) = (place.open(), place.folder.path().join("letters.txt"));
    fs::write(&letters, "dear ada").unwrap();
    let link: [fn(&Path, &Path) -> std::io::Result<()>; 2] =
        [|from, to| symlink(from, to), |from, to| fs::hard_link(from, to)];
    for link in link {
        link(&letters, &lock_of(&place)).unwrap();
        let error = store.lease(at(0)).await.unwrap_err();
        assert_refused(&error, &["runs.db.lock is a link", "remove it"]);
        assert_eq!(fs::read_to_string(&letters).unwrap(), "dear ada");
        fs::remove_file(lock_of(&place)).unwrap();
    }
    store.lease(at(0)).await.unwrap();
}

#[tokio::test]
async fn dangling_lock_symlink_creates_no_file() {
    let place = Place::new();
    let target = place.folder.path().join("target");
    symlink(&target, lock_of(&place)).unwrap();
    assert_refused(&place.open().lease(at(0)).await.unwrap_err(), &["runs.db.lock is a link"]);
    assert!(!target.exists());
}

/// What broke: a fenced executor that shut down cleanly released the runs its successor was driving.
#[tokio::test]
async fn release_of_a_fenced_holder_keeps_its_successors_runs() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let old = first.lease(at(0)).await.unwrap();
    fs::remove_file(lock_of(&place)).unwrap();
    let new = second.lease(at(1)).await.unwrap();
    let num = driven(&second, "a", new).await;
    first.release(old).await.unwrap();
    assert_eq!(second.instance(&name("a")).await.unwrap().unwrap().owner, new);
    assert_done(&write(&second, Write::Commit(commit(num, new, 0))).await);
}

/// What broke: writes to a file that had been moved away were acknowledged and then could not be found.
#[tokio::test]
async fn writes_to_a_moved_file_are_not_acknowledged() {
    let place = Place::new();
    let (store, away) = (place.open(), place.folder.path().join("away.db"));
    drop(store.changed());
    fs::rename(place.file(), &away).unwrap();
    let mut error = None;
    for n in 0..20_000 {
        error = store.write(vec![Write::Start(start(&format!("a{n}")))].into()).await.err();
        if error.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("runs.db was moved, removed or replaced while in use"), "{error}");

    fs::rename(&away, place.file()).unwrap();
    store.write(vec![Write::Start(start("b"))].into()).await.unwrap();
    assert!(store.instance(&name("b")).await.unwrap().is_some());
}
