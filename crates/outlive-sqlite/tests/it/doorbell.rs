//! The doorbell notifies an executor of foreign writes without polling; without one the executor polls.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::store::Store;
use outlive_core::store::commit::Write;
use outlive_core::store::query::Query;
use outlive_sqlite::{Options, SqliteStore};
use tokio::time::timeout;

use crate::support::{Place, at, driven, signal, start, started, until, write};

/// Far longer than any of these tests takes. The executor never polls within this time.
const NEVER: Duration = Duration::from_secs(120);

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::default().net(2 * NEVER)).unwrap()
}

fn bell_of(place: &Place) -> PathBuf {
    place.folder.path().join("runs.db.wake")
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Returns `true` if the executor is notified of a foreign write.
async fn is_notified(executor: &SqliteStore, place: &Place, id: &str) -> bool {
    let changed = executor.changed();
    started(&place.open(), start(id)).await;
    timeout(NEVER, changed).await.is_ok()
}

/// What broke: an idle executor polled for foreign writes a hundred times a second.
#[tokio::test]
async fn executor_with_a_doorbell_does_not_poll() {
    let place = Place::new();
    let executor = open(&place.file());
    let epoch = executor.lease(at(0)).await.unwrap();
    driven(&executor, "a", epoch).await;
    for nth in 1..=20 {
        let (client, changed) = (place.open(), executor.changed());
        write(&client, Write::Message(signal("a", nth))).await;
        timeout(NEVER, changed).await.unwrap();
        assert_eq!(executor.looks(), 0);
    }
}

#[tokio::test]
async fn client_polls_only_while_something_waits() {
    let place = Place::new();
    let client = place.open();
    assert!(!client.is_looking());
    let changed = client.changed();
    assert!(client.is_looking());
    drop(changed);
    until(|| !client.is_looking()).await;
    // It starts polling again, and sees what was written in between.
    started(&place.open(), start("a")).await;
    timeout(NEVER, client.changed()).await.unwrap();
}

#[tokio::test]
async fn doorbell_has_the_mode_of_the_store_and_lives_with_the_lease() {
    let place = Place::new();
    let executor = open(&place.file());
    assert!(!bell_of(&place).exists(), "there is no executor");
    for mode in [0o600, 0o660] {
        fs::set_permissions(place.file(), fs::Permissions::from_mode(mode)).unwrap();
        let epoch = executor.lease(at(0)).await.unwrap();
        assert!(is_socket(&bell_of(&place)));
        assert_eq!(fs::metadata(bell_of(&place)).unwrap().permissions().mode() & 0o777, mode);
        executor.release(epoch).await.unwrap();
        assert!(!bell_of(&place).exists());
    }
    executor.lease(at(0)).await.unwrap();
    drop(executor);
    assert!(!bell_of(&place).exists());
}

#[tokio::test]
async fn doorbell_of_a_dead_process_is_replaced() {
    let place = Place::new();
    drop(UnixDatagram::bind(bell_of(&place)).unwrap());
    started(&place.open(), start("a")).await;
    let executor = open(&place.file());
    executor.lease(at(0)).await.unwrap();
    assert!(is_notified(&executor, &place, "b").await);
}

/// A link in place of the doorbell and its target stay untouched, and the executor polls instead.
#[tokio::test]
async fn symlinked_doorbell_is_neither_rung_nor_removed() {
    let place = Place::new();
    let (letters, other) = (place.folder.path().join("letters.txt"), place.folder.path().join("other"));
    fs::write(&letters, "dear ada").unwrap();
    let stranger = UnixDatagram::bind(&other).unwrap();
    stranger.set_nonblocking(true).unwrap();
    for (nth, target) in [&letters, &other].into_iter().enumerate() {
        symlink(target, bell_of(&place)).unwrap();
        let executor = open(&place.file());
        executor.lease(at(0)).await.unwrap();
        assert!(is_notified(&executor, &place, &format!("a{nth}")).await);
        drop(executor);
        assert!(bell_of(&place).is_symlink());
        fs::remove_file(bell_of(&place)).unwrap();
    }
    assert!(stranger.recv(&mut [0]).is_err(), "it was rung");
    assert_eq!(fs::read_to_string(&letters).unwrap(), "dear ada");
}

/// The executor polls instead.
#[tokio::test]
async fn file_in_place_of_the_doorbell_is_kept() {
    let place = Place::new();
    fs::write(bell_of(&place), "dear ada").unwrap();
    let executor = open(&place.file());
    executor.lease(at(0)).await.unwrap();
    assert!(is_notified(&executor, &place, "a").await);
    drop(executor);
    assert_eq!(fs::read_to_string(bell_of(&place)).unwrap(), "dear ada");
}

/// Socket paths are limited to about a hundred bytes; file paths are not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn store_with_a_long_path_has_a_doorbell() {
    let place = Place::new();
    let folder = place.folder.path().join("f".repeat(200));
    fs::create_dir(&folder).unwrap();
    let (file, bell) = (folder.join("runs.db"), folder.join("runs.db.wake"));
    let executor = open(&file);
    executor.lease(at(0)).await.unwrap();
    assert!(is_socket(&bell));
    let changed = executor.changed();
    started(&open(&file), start("a")).await;
    timeout(NEVER, changed).await.unwrap();
    assert_eq!(executor.looks(), 0);
    drop(executor);
    assert!(!bell.exists());
}

/// A full socket buffer counts as a ring.
#[tokio::test]
async fn client_never_blocks_on_the_doorbell() {
    let place = Place::new();
    let _full = UnixDatagram::bind(bell_of(&place)).unwrap();
    let client = place.open();
    for nth in 0..50 {
        started(&client, start(&format!("a{nth}"))).await;
    }
}

/// What broke: the WAL was merged only when the last handle was dropped, so a copy of the file lacked what was in it.
#[tokio::test]
async fn released_store_is_a_single_file() {
    let place = Place::new();
    let executor = open(&place.file());
    let epoch = executor.lease(at(0)).await.unwrap();
    started(&executor, start("a")).await;
    executor.release(epoch).await.unwrap();
    let copy = place.folder.path().join("copy.db");
    fs::copy(place.file(), &copy).unwrap();
    assert!(open(&copy).instance(&outlive_core::id::Name::recorded("a")).await.unwrap().is_some());
}
