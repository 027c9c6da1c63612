//! Many handles on one file: handles of one process share a connection, and processes wait for their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use outlive_core::store::commit::Write;
use outlive_core::store::query::{Filter, Query};
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::{Durability, Options, SqliteStore};
use tokio::time::timeout;

use crate::support::{Place, at, name, start, started, until};

/// Far longer than any of these tests takes.
const NEVER: Duration = Duration::from_secs(120);

fn shared(place: &Place) -> SqliteStore {
    SqliteStore::shared(&place.file(), Options::default()).unwrap()
}

#[tokio::test]
async fn handles_on_the_same_file_share_a_connection() {
    let place = Place::new();
    let (first, second) = (shared(&place), shared(&place));
    assert!(first.is_shared_with(&second));
    assert!(first.is_shared_with(&SqliteStore::shared(&place.file(), Options::default().existing()).unwrap()));
    let relaxed = Options::default().durability(Durability::Relaxed);
    assert!(!first.is_shared_with(&SqliteStore::shared(&place.file(), relaxed).unwrap()));
    assert!(!first.is_shared_with(&place.open()), "it can execute");
    started(&first, start("a")).await;
    drop(first);
    assert!(second.instance(&name("a")).await.unwrap().is_some(), "the other handles keep working");

    std::fs::rename(place.file(), place.folder.path().join("away.db")).unwrap();
    let third = shared(&place);
    assert!(!second.is_shared_with(&third));
    assert!(third.instance(&name("a")).await.unwrap().is_none());
}

#[tokio::test]
async fn shared_handle_cannot_take_the_lease() {
    let place = Place::new();
    let error = shared(&place).lease(at(0)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Open);
    assert!(error.message.contains("use `SqliteStore::open`"), "{error}");
    place.open().lease(at(0)).await.unwrap();
}

#[tokio::test]
async fn handle_is_notified_of_writes_by_others_on_its_connection() {
    let place = Place::new();
    let (first, second) = (shared(&place), shared(&place));
    let mut by_first = first.changed();
    started(&first, start("a")).await;
    timeout(NEVER, second.changed()).await.unwrap();
    assert!(futures_are_pending(&mut by_first), "it is its own write");
    started(&second, start("b")).await;
    timeout(NEVER, by_first).await.unwrap();
    // All handles are notified of a foreign write.
    started(&place.open(), start("c")).await;
    for handle in [&first, &second] {
        timeout(NEVER, handle.changed()).await.unwrap();
    }
}

fn futures_are_pending(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut cx).is_pending()
}

/// What broke: each handle had its own connection, and newcomers overtook handles that had been waiting.
#[tokio::test]
async fn concurrent_writers_all_get_their_turn() {
    let place = Place::new();
    let handles: Vec<_> = (0..100).map(|_| Arc::new(shared(&place))).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for (n, handle) in handles.into_iter().enumerate() {
        tasks.spawn(async move {
            for nth in 0..10 {
                handle.write(vec![Write::Start(start(&format!("{n}-{nth}")))].into()).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(place.open().count(&Filter::runs()).await.unwrap().total(), 1_000);
}

/// Runs foreign transactions back to back until `is_over`. Returns once the first has begun.
fn crowd(place: &Place, is_over: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (sql, is_over) = (place.sql(), is_over.clone());
    let (begun, is_begun) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        sql.execute_batch(
            "PRAGMA synchronous = off; BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE key = 'pos'",
        )
        .unwrap();
        begun.send(()).unwrap();
        while !is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(3));
            let next = "COMMIT; BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE key = 'pos'";
            sql.execute_batch(next).unwrap();
        }
        sql.execute_batch("COMMIT").unwrap();
    });
    is_begun.recv().unwrap();
    thread
}

/// What broke: a writer gave up while others made progress, and its error blamed a transaction that did not exist.
#[tokio::test]
async fn write_waits_longer_while_others_make_progress() {
    let place = Place::new();
    let options = Options::default().patience(Duration::from_millis(500));
    let stores = [0; 4].map(|_| Arc::new(SqliteStore::open(&place.file(), options.clone()).unwrap()));
    let is_over = Arc::new(AtomicBool::new(false));
    let others = crowd(&place, &is_over);
    let mut tasks = tokio::task::JoinSet::new();
    for (n, store) in stores.iter().cloned().enumerate() {
        tasks.spawn(async move { store.write(vec![Write::Start(start(&format!("a{n}")))].into()).await });
    }
    while let Some(done) = tasks.join_next().await {
        // A writer that never gets its turn must report the right cause.
        if let Err(error) = done.unwrap() {
            assert!(error.message.contains("too many processes write to"), "{error}");
            assert!(error.message.contains("got no turn for 6s; let fewer processes write"), "{error}");
        }
    }
    is_over.store(true, Ordering::SeqCst);
    others.join().unwrap();
    let [store, ..] = &stores;

    // A transaction that stays open is a different error.
    let sql = place.sql();
    sql.execute_batch("BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE key = 'pos'").unwrap();
    let error = store.write(vec![Write::Start(start("b"))].into()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("has held a transaction open"), "{error}");
    assert!(error.message.contains("end that transaction"), "{error}");
    sql.execute_batch("COMMIT").unwrap();
    started(store, start("b")).await;
}

/// A handle dropped during a notification does not block the others.
#[tokio::test]
async fn handles_can_be_opened_and_dropped_during_writes() {
    let place = Place::new();
    let writer = shared(&place);
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, file) = (is_over.clone(), place.file());
    let coming = tokio::task::spawn_blocking(move || {
        while !over.load(Ordering::SeqCst) {
            drop(SqliteStore::shared(&file, Options::default()).unwrap());
        }
    });
    for nth in 0..200 {
        started(&writer, start(&format!("a{nth}"))).await;
    }
    is_over.store(true, Ordering::SeqCst);
    coming.await.unwrap();
    until(|| !writer.is_looking()).await;
}

/// What broke: one waiter was woken, and the other waited for the next write.
#[tokio::test]
async fn all_waiters_on_a_handle_are_notified_of_a_foreign_write() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    let both = async { tokio::join!(store.changed(), store.changed()) };
    let writes = async {
        tokio::task::yield_now().await;
        started(&other, start("a")).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        heard = timeout(NEVER, both) => assert!(heard.is_ok(), "one of them was not notified"),
        () = writes => {}
    }
}
