//! The executor as a separate process: when it is killed, another one takes over at once.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use outlive_core::store::commit::Epoch;
use outlive_core::store::query::Query;
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::{Options, SqliteStore};

use crate::support::{Place, at, claim, claimed, driven, name, start, started, until, write};

const FILE: &str = "OUTLIVE_TEST_FILE";

/// The child process of the tests below, selected by the environment variable. Does nothing without it.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "signals the test that it is ready")]
async fn holds_the_lease_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE).map(PathBuf::from) else { return };
    let store = SqliteStore::open(&file, Options::default()).unwrap();
    let epoch = store.lease(at(0)).await.unwrap();
    driven(&store, "a", epoch).await;
    // As an engine does: from here on the store checks its files.
    drop(store.changed());
    println!("\nready");
    std::thread::park();
}

fn executor(place: &Place) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "process::holds_the_lease_until_it_is_killed"])
        .env(FILE, place.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the other process has ended");
    child
}

#[tokio::test]
async fn runs_of_a_killed_process_are_due_for_the_next_at_once() {
    let place = Place::new();
    let mut child = executor(&place);
    let store = place.open();
    let error = store.lease(at(50)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Locked { pid: Some(child.id()) });
    assert!(store.instance(&name("a")).await.unwrap().is_some(), "reading needs no lease");

    child.kill().unwrap();
    child.wait().unwrap();
    let epoch = store.lease(at(60)).await.unwrap();
    assert_eq!(epoch, Epoch(2));
    let wakes = store.wakes(at(60), 9).await.unwrap();
    assert_eq!((wakes.len(), wakes[0].due), (1, at(60)));
    let claimed = claimed(write(&store, claim(&[wakes[0].num], epoch)).await);
    assert_eq!(claimed[0].instance.recoveries, 1);
}

/// What broke: under another name of the file, or without its lock file, two processes executed it at the same time.
#[cfg(unix)]
#[tokio::test]
async fn second_process_is_refused_under_any_name_of_the_file() {
    let place = Place::new();
    let mut child = executor(&place);
    let held = ErrorKind::Locked { pid: Some(child.id()) };
    let link = place.folder.path().join("link.db");
    std::os::unix::fs::symlink(place.file(), &link).unwrap();
    let by_link = SqliteStore::open(&link, Options::default()).unwrap();
    assert_eq!(by_link.lease(at(50)).await.unwrap_err().kind, held);

    let lock = place.folder.path().join("runs.db.lock");
    std::fs::remove_file(&lock).unwrap();
    let pid = format!("{}\n", child.id());
    until(|| std::fs::read_to_string(&lock).is_ok_and(|text| text.starts_with(&pid))).await;
    assert_eq!(by_link.lease(at(50)).await.unwrap_err().kind, held);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(by_link.lease(at(60)).await.unwrap(), Epoch(2));
}

/// What broke: the lock and the WAL are found by file name, so a store renamed under its executor was executed by a
/// second process, and damaged when it was moved back.
#[cfg(unix)]
#[tokio::test]
async fn store_renamed_while_executed_is_refused_under_its_new_name() {
    let place = Place::new();
    drop(place.open());
    let mut child = executor(&place);
    let elsewhere = tempfile::tempdir_in(place.folder.path()).unwrap();
    for away in [place.folder.path().join("away.db"), elsewhere.path().join("runs.db")] {
        std::fs::rename(place.file(), &away).unwrap();
        let errors = [
            SqliteStore::open(&away, Options::default()).unwrap_err(),
            SqliteStore::open(&away, Options::default().existing()).unwrap_err(),
            outlive_sqlite::SqliteReader::open(&away).unwrap_err(),
            outlive_sqlite::doctor::examine(&away).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind, ErrorKind::Locked { pid: Some(child.id()) }, "{error}");
            let path = place.file().canonicalize().unwrap_or_else(|_| place.file());
            let way_out =
                format!("as {}, and opening it under a second name would damage it; move it back", path.display());
            assert!(error.message.contains(&way_out), "{error}");
        }
        std::fs::rename(&away, place.file()).unwrap();
    }
    started(&place.open(), start("b")).await;

    // A copy is a different file, and so is a restored backup.
    let copy = place.folder.path().join("copy.db");
    std::fs::copy(place.file(), &copy).unwrap();
    SqliteStore::open(&copy, Options::default()).unwrap().lease(at(60)).await.unwrap();

    // Once it is no longer executed it can be moved, even if its executor died.
    child.kill().unwrap();
    child.wait().unwrap();
    drop(place.open());
    let away = place.folder.path().join("away.db");
    std::fs::rename(place.file(), &away).unwrap();
    let moved = SqliteStore::open(&away, Options::default()).unwrap();
    moved.lease(at(60)).await.unwrap();
    for id in ["a", "b"] {
        assert!(moved.instance(&name(id)).await.unwrap().is_some());
    }
    assert!(outlive_sqlite::doctor::examine(&away).unwrap().is_sound());
}

/// Returns `true` if the kernel lists a lock on the file. The list can miss a lock while others come and go but never
/// invents one, so it is read more than once.
#[cfg(target_os = "linux")]
fn is_locked(place: &Place) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(place.file()).unwrap().ino();
    let mark = format!(":{inode} ");
    (0..200).any(|_| std::fs::read_to_string("/proc/locks").unwrap().lines().any(|line| line.contains(&mark)))
}

/// What would break: opening and closing the file other than through SQLite frees all locks of this process on it. The
/// next process to close its handle may then believe it is the last, and remove the WAL under the others.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn second_handle_keeps_the_locks_of_the_first() {
    let place = Place::new();
    let _first = place.open();
    assert!(is_locked(&place));
    drop(place.open());
    assert!(is_locked(&place));
}
