//! Opening: which files are accepted as a store, and the errors for the others.

use std::fs;

use outlive_core::store::query::{Filter, Query};
use outlive_core::store::{Error, ErrorKind, Store};
use outlive_sqlite::{Durability, Options, SqliteReader, SqliteStore};

use crate::support::{Place, at, driven, name, start, started};

fn refusal(place: &Place) -> Error {
    let error = place.try_open().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Open, "{error}");
    error
}

#[track_caller]
fn assert_says(error: &Error, parts: &[&str]) {
    for part in parts {
        assert!(error.message.contains(part), "{part:?} is not in {:?}", error.message);
    }
}

#[test]
fn new_file_is_in_wal_mode_and_syncs_every_commit() {
    let place = Place::new();
    let store = place.open();
    assert!(store.durability().ends_with("journal_mode=wal, synchronous=full"), "{}", store.durability());
    let mode: String = place.sql().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn relaxed_durability_is_visible() {
    let place = Place::new();
    let options = Options::new().durability(Durability::Relaxed);
    let store = SqliteStore::open(&place.file(), options).unwrap();
    assert!(store.durability().ends_with("synchronous=normal"), "{}", store.durability());
}

#[test]
fn wal_mode_is_restored_on_open() {
    let place = Place::new();
    drop(place.open());
    let sql = place.sql();
    let mode: String = sql.query_row("PRAGMA journal_mode = delete", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
    drop(sql);
    assert!(place.open().durability().contains("journal_mode=wal"));
}

#[cfg(unix)]
#[tokio::test]
async fn store_files_are_private_to_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let store = place.open();
    store.lease(at(0)).await.unwrap();
    started(&store, start("a")).await;
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let file = format!("{}{suffix}", place.file().display());
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file} has mode {mode:o}");
    }
}

#[test]
fn missing_folder_is_reported_with_the_mkdir_command() {
    let place = Place::new();
    let error = SqliteStore::open(&place.folder.path().join("no/runs.db"), Options::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Open);
    assert_says(&error, &["runs.db does not exist", "mkdir -p"]);
}

#[test]
fn opening_an_existing_store_never_creates_a_file() {
    let place = Place::new();
    let error = SqliteStore::open(&place.file(), Options::new().existing()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Open);
    assert_says(&error, &["runs.db does not exist", "check the path"]);
    assert!(!place.file().exists());
    drop(place.open());
    SqliteStore::open(&place.file(), Options::new().existing()).unwrap();
}

#[test]
fn folder_is_refused() {
    let place = Place::new();
    fs::create_dir(place.file()).unwrap();
    assert_says(&refusal(&place), &["runs.db is a directory"]);
}

#[test]
fn non_database_file_is_refused_and_unchanged() {
    let place = Place::new();
    let text = "dear diary, ".repeat(100);
    fs::write(place.file(), &text).unwrap();
    assert_says(&refusal(&place), &["is not a SQLite database", "another file"]);
    assert_eq!(fs::read_to_string(place.file()).unwrap(), text);
}

#[test]
fn database_of_another_application_is_refused_and_unchanged() {
    let place = Place::new();
    place.sql().execute_batch("CREATE TABLE customer (id INTEGER)").unwrap();
    assert_says(&refusal(&place), &["another application"]);
    let mode: String = place.sql().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
}

#[test]
fn file_of_a_newer_release_is_refused_with_both_schema_versions() {
    let place = Place::new();
    drop(place.open());
    place.sql().execute_batch("UPDATE meta SET value = 9 WHERE key = 'schema'").unwrap();
    assert_says(&refusal(&place), &["newer outlive", "schema 9", "knows 6"]);
}

#[test]
fn file_of_a_pre_release_is_refused_and_unchanged() {
    let place = Place::new();
    drop(place.open());
    place.sql().execute_batch("UPDATE meta SET value = 2 WHERE key = 'schema'").unwrap();
    assert_says(&refusal(&place), &["pre-release", "schema 2", "knows 6", "new file"]);
    assert_says(&SqliteReader::open(&place.file()).unwrap_err(), &["pre-release"]);
    assert_eq!(place.number("SELECT value FROM meta WHERE key = 'schema'"), 2);
}

#[test]
fn path_that_cannot_be_created_is_refused() {
    let error = SqliteStore::open("/proc/runs.db".as_ref(), Options::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Open);
    assert_says(&error, &["cannot create /proc/runs.db"]);
}

#[cfg(unix)]
#[test]
fn read_only_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    drop(place.open());
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o400)).unwrap();
    // The superuser can write it anyway; then there is nothing to refuse.
    if fs::OpenOptions::new().append(true).open(place.file()).is_err() {
        assert_says(&refusal(&place), &["is read-only", "make it writable"]);
    }
}

#[test]
fn same_file_can_be_created_concurrently() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| place.try_open().map(drop))).collect();
        for opened in opened {
            opened.join().unwrap().unwrap();
        }
    });
    assert_eq!(place.number("SELECT count(*) FROM meta"), 6);
}

#[tokio::test]
async fn closed_store_is_a_single_file_with_everything_acknowledged() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    driven(&store, "a", epoch).await;
    drop(store);
    assert!(!place.folder.path().join("runs.db-wal").exists());
    assert_eq!(place.number("SELECT count(*) FROM instance WHERE id = 'a'"), 1);
    let store = place.open();
    assert!(store.instance(&name("a")).await.unwrap().is_some());
    assert_eq!(store.count(&Filter::runs()).await.unwrap().total(), 1);
}
