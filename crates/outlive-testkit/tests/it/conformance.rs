//! Runs the suite on the memory store, and on stores that break a promise.

use std::sync::Arc;

use outlive_core::store::memory::MemoryStore;
use outlive_testkit::conformance::{Home, Opening, cases, differential, run_all};

#[derive(Default)]
struct Memory(Arc<MemoryStore>);

impl Home for Memory {
    fn open(&self) -> Opening<'_> {
        let store = self.0.clone();
        Box::pin(async move { Ok(store as _) })
    }
}

/// A store that is empty each time it is opened.
struct Forgetful;

impl Home for Forgetful {
    fn open(&self) -> Opening<'_> {
        Box::pin(async { Ok(Arc::new(MemoryStore::new()) as _) })
    }
}

#[tokio::test]
async fn memory_store_passes_the_conformance_suite() {
    let report = run_all(|| Box::new(Memory::default())).await;
    assert_eq!(report.passed, cases().len());
}

#[test]
fn case_names_are_unique() {
    let mut names: Vec<&str> = cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[tokio::test]
async fn two_memory_stores_do_not_differ() {
    for seed in 0..20 {
        let (a, b) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        differential(a, b, seed, 300).await.expect("no difference");
    }
}

#[tokio::test]
async fn store_that_loses_data_in_a_crash_fails_the_suite() {
    let promise = "acknowledged_writes_survive_a_crash";
    let case = cases().into_iter().find(|case| case.name == promise).expect("the suite has it");
    assert!(case.run(Box::new(Forgetful)).await.is_err());
    assert!(case.run(Box::new(Memory::default())).await.is_ok());
}

#[tokio::test]
async fn store_that_was_not_empty_differs() {
    let (a, b) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    differential(b.clone(), Arc::new(MemoryStore::new()), 1, 20).await.expect("no difference");
    assert!(differential(a, b, 2, 20).await.is_err());
}
