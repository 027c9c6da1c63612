//! On a full disk new work is refused, reading continues, and writing resumes once there is room.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, Write};
use outlive_core::store::query::{Filter, Query};
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::{Options, SqliteStore};

use crate::support::{Place, assert_done, at, commit, driven, ended, name, write};

fn large(mut commit: Commit) -> Write {
    commit.entries[0].payload = Some(Payload::encode(&"x".repeat(20_000)).unwrap());
    Write::Commit(commit)
}

#[tokio::test]
async fn full_disk_loses_nothing_and_is_recoverable() {
    let place = Place::new();
    let store = SqliteStore::open(&place.file(), Options::new().max_pages(120)).unwrap();
    let epoch = store.lease(at(0)).await.unwrap();
    let a = driven(&store, "a", epoch).await;
    let b = driven(&store, "b", epoch).await;

    let mut seq = 0;
    let error = loop {
        match store.write(Arc::new(vec![large(commit(a, epoch, seq)), large(commit(b, epoch, seq))])).await {
            Ok(answers) => answers.iter().for_each(assert_done),
            Err(error) => break error,
        }
        seq += 1;
        assert!(seq < 100, "the disk never fills up");
    };
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("disk of") && error.message.contains("is full; free some space"), "{error}");

    for num in [a, b] {
        assert_eq!(store.journal(num, 0, 999).await.unwrap().len() as u64, seq, "exactly what was acknowledged");
    }
    assert_eq!(store.count(&Filter::runs()).await.unwrap().of(Status::Running.kind()), 2);

    // Purging makes room; nothing has to be reopened.
    assert_done(
        &write(&store, Write::Commit(ended(Commit { entries: vec![], ..commit(b, epoch, seq) }, Status::Failed))).await,
    );
    assert_done(&write(&store, Write::Purge(name("b"), None)).await);
    assert_done(&write(&store, large(commit(a, epoch, seq))).await);
    assert!(matches!(write(&store, large(commit(b, epoch, seq))).await, Answer::Fenced));
    assert_eq!(store.journal(a, 0, 999).await.unwrap().len() as u64, seq + 1);
}

/// A real but small disk.
struct SmallDisk {
    place: Place,
}

impl SmallDisk {
    /// Returns `None` if this user cannot mount one.
    fn mount(size: &str) -> Option<Self> {
        let place = Place::new();
        let mut command = Command::new("mount");
        let command = command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(place.folder.path());
        let is_mounted = command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        is_mounted.then_some(Self { place })
    }

    fn fill(&self) {
        let mut file = File::create(self.place.folder.path().join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.place.folder.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.place.folder.path()).status();
    }
}

#[tokio::test]
async fn writing_resumes_when_disk_space_is_freed() {
    let Some(disk) = SmallDisk::mount("8m") else { return };
    let store = disk.place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let a = driven(&store, "a", epoch).await;
    disk.fill();
    let mut seq = 0;
    let error = loop {
        match store.write(Arc::new(vec![large(commit(a, epoch, seq))])).await {
            Ok(answers) => assert_done(&answers[0]),
            Err(error) => break error,
        }
        seq += 1;
        assert!(seq < 1_000, "the disk never fills up");
    };
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert_eq!(store.journal(a, 0, 9_999).await.unwrap().len() as u64, seq, "exactly what was acknowledged");
    disk.free();
    assert_done(&write(&store, large(commit(a, epoch, seq))).await);
    drop(store);
    assert_eq!(disk.place.open().journal(a, 0, 9_999).await.unwrap().len() as u64, seq + 1);
}
