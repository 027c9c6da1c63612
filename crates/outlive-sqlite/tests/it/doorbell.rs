//! The doorbell: an executor hears of what others write without looking for it, and looks where it cannot be rung.

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

/// Far longer than anything here takes. The executor never looks by itself before it is over.
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

/// Whether the executor hears of a write by somebody else.
async fn hears(executor: &SqliteStore, place: &Place, id: &str) -> bool {
    let changed = executor.changed();
    started(&place.open(), start(id)).await;
    timeout(NEVER, changed).await.is_ok()
}

/// An idle executor looked a hundred times a second whether somebody else had written.
#[tokio::test]
async fn an_executor_with_a_doorbell_does_not_poll() {
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
async fn a_client_looks_only_while_somebody_waits() {
    let place = Place::new();
    let client = place.open();
    assert!(!client.is_looking());
    let changed = client.changed();
    assert!(client.is_looking());
    drop(changed);
    until(|| !client.is_looking()).await;
    // It begins anew, and hears of what was written meanwhile.
    started(&place.open(), start("a")).await;
    timeout(NEVER, client.changed()).await.unwrap();
}

#[tokio::test]
async fn the_doorbell_is_as_private_as_the_store_and_goes_with_the_lease() {
    let place = Place::new();
    let executor = open(&place.file());
    assert!(!bell_of(&place).exists(), "nobody executes");
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
async fn a_doorbell_that_a_dead_process_left_is_replaced() {
    let place = Place::new();
    drop(UnixDatagram::bind(bell_of(&place)).unwrap());
    started(&place.open(), start("a")).await;
    let executor = open(&place.file());
    executor.lease(at(0)).await.unwrap();
    assert!(hears(&executor, &place, "b").await);
}

/// Neither a link nor a file in its place is touched, and the executor looks by itself instead.
#[tokio::test]
async fn nothing_is_rung_or_removed_through_a_link() {
    let place = Place::new();
    let (letters, other) = (place.folder.path().join("letters.txt"), place.folder.path().join("other"));
    fs::write(&letters, "dear ada").unwrap();
    let stranger = UnixDatagram::bind(&other).unwrap();
    stranger.set_nonblocking(true).unwrap();
    for (nth, target) in [&letters, &other].into_iter().enumerate() {
        symlink(target, bell_of(&place)).unwrap();
        let executor = open(&place.file());
        executor.lease(at(0)).await.unwrap();
        assert!(hears(&executor, &place, &format!("a{nth}")).await);
        drop(executor);
        assert!(bell_of(&place).is_symlink());
        fs::remove_file(bell_of(&place)).unwrap();
    }
    assert!(stranger.recv(&mut [0]).is_err(), "it was rung");
    assert_eq!(fs::read_to_string(&letters).unwrap(), "dear ada");
}

/// A file in place of the doorbell stays, and the executor looks by itself.
#[tokio::test]
async fn a_file_in_place_of_the_doorbell_stays() {
    let place = Place::new();
    fs::write(bell_of(&place), "dear ada").unwrap();
    let executor = open(&place.file());
    executor.lease(at(0)).await.unwrap();
    assert!(hears(&executor, &place, "a").await);
    drop(executor);
    assert_eq!(fs::read_to_string(bell_of(&place)).unwrap(), "dear ada");
}

/// The names of sockets are at most some hundred bytes long, and those of files are not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_store_with_a_long_name_has_a_doorbell() {
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

/// More rings than the system keeps for a socket are as good as one.
#[tokio::test]
async fn a_client_never_waits_for_the_doorbell() {
    let place = Place::new();
    let _full = UnixDatagram::bind(bell_of(&place)).unwrap();
    let client = place.open();
    for nth in 0..50 {
        started(&client, start(&format!("a{nth}"))).await;
    }
}

/// A copy of the file lacked whatever was still in the log, which was merged only when the last handle was dropped.
#[tokio::test]
async fn a_released_store_is_one_file() {
    let place = Place::new();
    let executor = open(&place.file());
    let epoch = executor.lease(at(0)).await.unwrap();
    started(&executor, start("a")).await;
    executor.release(epoch).await.unwrap();
    let copy = place.folder.path().join("copy.db");
    fs::copy(place.file(), &copy).unwrap();
    assert!(open(&copy).instance(&outlive_core::id::Name::recorded("a")).await.unwrap().is_some());
}
