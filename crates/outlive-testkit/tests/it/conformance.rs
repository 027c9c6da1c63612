//! The suite on the store in memory, and on stores that break a promise.

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
async fn the_store_in_memory_keeps_every_promise() {
    let report = run_all(|| Box::new(Memory::default())).await;
    assert_eq!(report.passed, cases().len());
}

#[test]
fn no_two_promises_have_the_same_name() {
    let mut names: Vec<&str> = cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[tokio::test]
async fn two_stores_in_memory_do_not_differ() {
    for seed in 0..20 {
        let (a, b) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        differential(a, b, seed, 300).await.expect("no difference");
    }
}

#[tokio::test]
async fn a_store_that_forgets_at_a_crash_breaks_a_promise() {
    let promise = "acknowledged_writes_survive_a_crash";
    let case = cases().into_iter().find(|case| case.name == promise).expect("the suite has it");
    assert!(case.run(Box::new(Forgetful)).await.is_err());
    assert!(case.run(Box::new(Memory::default())).await.is_ok());
}

#[tokio::test]
async fn a_store_that_held_something_before_differs() {
    let (a, b) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    differential(b.clone(), Arc::new(MemoryStore::new()), 1, 20).await.expect("no difference");
    assert!(differential(a, b, 2, 20).await.is_err());
}
