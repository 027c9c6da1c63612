//! Stores without write permission: read by another user, in a read-only folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::shop::{OUTLIVE, Shop, Told};

/// A user that owns nothing, for tests that run as root.
const NOBODY: u32 = 65_534;

const READS: [&[&str]; 8] = [
    &["ps"],
    &["ps", "-o", "json"],
    &["show", "order-1"],
    &["jobs"],
    &["events"],
    &["export"],
    &["doctor"],
    &["dead", "list", "order-1"],
];

/// Read-only files of a store, and the program in a world-readable folder.
struct Copy {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Copy {
    /// Copies the store files with these suffixes.
    fn of(file: &Path, suffixes: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("outlive");
        fs::copy(OUTLIVE, &program).unwrap();
        set_mode(&program, 0o555);
        let store = folder.path().join("store");
        fs::create_dir(&store).unwrap();
        for suffix in suffixes {
            let copy = store.join(format!("shop.db{suffix}"));
            fs::copy(format!("{}{suffix}", file.display()), &copy).unwrap();
            set_mode(&copy, 0o444);
        }
        set_mode(&store, 0o555);
        set_mode(folder.path(), 0o755);
        Self { folder, program }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    async fn tell(&self, words: &[&str]) -> Told {
        let file = self.store().join("shop.db");
        let at = if words[0] == "dead" { 2 } else { 1 };
        let mut command = Command::new(&self.program);
        command.args(&words[..at]).arg(file).args(&words[at..]).stdin(Stdio::null());
        if fs::metadata(self.folder.path()).unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        loop {
            match command.output().await {
                // A process that another test has just forked still holds the copied program open for writing.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => tokio::task::yield_now().await,
                output => return output.unwrap().into(),
            }
        }
    }

    async fn assert_readable_and_unchanged(&self) {
        let before = listing(&self.store());
        for words in READS {
            let out = self.tell(words).await.well();
            let is_there = out.contains("order-1") || matches!(words[0], "jobs" | "doctor");
            assert!(is_there, "{words:?}: {out}");
        }
        let error = self.tell(&["cancel", "order-1"]).await.error();
        assert!(error.contains("shop.db is read-only; make it writable"), "{error}");
        assert_eq!(listing(&self.store()), before);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries.map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect();
    files.sort();
    files
}

impl Drop for Copy {
    fn drop(&mut self) {
        set_mode(&self.store(), 0o755);
    }
}

/// What broke: every command but `export` and `doctor` opened the store for writing, and these two could not read in a
/// folder where SQLite cannot create its WAL.
#[tokio::test]
async fn closed_store_can_be_read_in_a_read_only_folder() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let shop = shop.stop().await;
    // The last handle to close the file merges the WAL and removes it.
    let log = format!("{}-wal", shop.file().display());
    let closed = async {
        while Path::new(&log).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), closed).await.unwrap();
    Copy::of(&shop.file(), &[""]).assert_readable_and_unchanged().await;
}

/// As with a disk snapshot, or a store that another user is executing.
#[tokio::test]
async fn store_with_its_wal_can_be_read_in_a_read_only_folder() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    Copy::of(&shop.file(), &["", "-wal", "-shm"]).assert_readable_and_unchanged().await;
}

#[tokio::test]
async fn unreadable_wal_is_an_error() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let copy = Copy::of(&shop.file(), &["", "-wal"]);
    for words in READS {
        let error = copy.tell(words).await.error();
        assert!(error.contains("shop.db-wal") && error.contains("read the copy"), "{words:?}: {error}");
    }
}

#[tokio::test]
async fn live_store_can_be_read_without_write_permission() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let copy = Copy::of(&shop.file(), &[]);
    let told = {
        let mut command = Command::new(&copy.program);
        command.arg("ps").arg(shop.file());
        let folder = shop.file().parent().unwrap().to_owned();
        for (path, mode) in [(folder.clone(), 0o755), (shop.file(), 0o644), (folder.join("shop.db-wal"), 0o644)] {
            set_mode(&path, mode);
        }
        set_mode(&folder.join("shop.db-shm"), 0o644);
        if fs::metadata(&folder).unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        Told::from(command.output().await.unwrap())
    };
    assert!(told.well().contains("order-1"));
}
