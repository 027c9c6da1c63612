//! The WAL is reused, however many readers and writers there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::store::Store;
use outlive_core::store::commit::{Commit, Epoch, Write};

use crate::support::{Place, assert_done, at, commit, driven};

/// Number of WAL pages that triggers a checkpoint; the same value as in the writer.
const CHECKPOINT_PAGES: u64 = 4_000;

fn large(num: InstanceNum, epoch: Epoch, seq: u64) -> Write {
    let mut commit: Commit = commit(num, epoch, seq);
    commit.entries[0].payload = Some(Payload::encode(&"x".repeat(400_000)).unwrap());
    Write::Commit(commit)
}

/// Runs short overlapping reads.
fn read_on(place: &Place, is_over: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (readers, is_over) = ([place.sql(), place.sql()], is_over.clone());
    let begin = "BEGIN; SELECT count(*) FROM instance";
    thread::spawn(move || {
        readers[0].execute_batch(begin).unwrap();
        for nth in 1.. {
            readers[nth % 2].execute_batch(begin).unwrap();
            readers[(nth + 1) % 2].execute_batch("COMMIT").unwrap();
            thread::sleep(Duration::from_millis(4));
            if is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    })
}

/// What broke: a WAL that was checkpointed while a reader still used it was not reused, and the next try came only
/// after it had grown by as much again. Under constant reads and writes it grew until it filled the disk, and nothing
/// freed it.
#[tokio::test]
async fn wal_is_reused_despite_constant_readers() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = read_on(&place, &is_over);
    for seq in 0..200 {
        let answers = store.write(Arc::new(vec![large(num, epoch, seq)])).await.unwrap();
        assert_done(&answers[0]);
    }
    is_over.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    let log = std::fs::metadata(place.folder.path().join("runs.db-wal")).unwrap().len() / 4_096;
    assert!(log < 4 * CHECKPOINT_PAGES, "the WAL has grown to {log} pages");
}

/// What broke: the WAL kept the size it had reached during a long read, wasting 174 MB of disk.
#[tokio::test]
async fn wal_grown_by_a_reader_is_truncated_once_it_is_gone() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let num = driven(&store, "a", epoch).await;
    let reader = place.sql();
    reader.execute_batch("BEGIN; SELECT count(*) FROM instance").unwrap();
    let len = || std::fs::metadata(place.folder.path().join("runs.db-wal")).unwrap().len();
    let mut seq = 0;
    while len() < 20 << 20 {
        assert_done(&store.write(Arc::new(vec![large(num, epoch, seq)])).await.unwrap()[0]);
        seq += 1;
    }
    reader.execute_batch("COMMIT").unwrap();
    for seq in seq..seq + 20 {
        assert_done(&store.write(Arc::new(vec![large(num, epoch, seq)])).await.unwrap()[0]);
    }
    assert!(len() <= 16 << 20, "the WAL has {} bytes", len());
}
