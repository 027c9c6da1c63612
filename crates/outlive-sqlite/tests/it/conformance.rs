//! Runs the conformance suite, and compares this store with the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive_core::store::memory::MemoryStore;
use outlive_sqlite::doctor::{self, FindingKind};
use outlive_testkit::conformance::{Home, Opening, differential, run_all};

use crate::support::Place;

impl Home for Place {
    fn open(&self) -> Opening<'_> {
        Box::pin(async move {
            let store = self.try_open().map_err(|e| e.to_string())?;
            Ok(Arc::new(store) as _)
        })
    }
}

#[tokio::test]
async fn store_passes_the_conformance_suite() {
    run_all(|| Box::new(Place::new())).await;
}

#[tokio::test]
async fn random_writes_match_the_memory_store() {
    for seed in 1..=8 {
        let place = Place::new();
        let store = Arc::new(place.try_open().unwrap());
        differential(store, Arc::new(MemoryStore::new()), seed, 150).await.unwrap();
        assert_whole(&place, seed);
    }
}

/// Random writes combine any status with any journal, but the rows must still be consistent with each other.
fn assert_whole(place: &Place, seed: u64) {
    let rows = [
        FindingKind::File,
        FindingKind::Mark,
        FindingKind::Counter,
        FindingKind::Feed,
        FindingKind::Orphan,
        FindingKind::Tag,
    ];
    let mut findings = doctor::examine(&place.file()).unwrap().findings;
    findings.retain(|finding| rows.contains(&finding.kind));
    assert!(findings.is_empty(), "seed {seed}: {findings:#?}");
}

#[tokio::test]
async fn concurrent_foreign_writes_change_no_result() {
    let place = Place::new();
    let store = Arc::new(place.try_open().unwrap());
    let (sql, is_over) = (place.sql(), Arc::new(AtomicBool::new(false)));
    let other = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            while !is_over.load(Ordering::Relaxed) {
                sql.execute_batch("UPDATE meta SET value = value WHERE key = 'schema'").unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let found = differential(store, Arc::new(MemoryStore::new()), 77, 200).await;
    is_over.store(true, Ordering::Relaxed);
    other.join().unwrap();
    found.unwrap();
}
