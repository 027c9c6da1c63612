//! One process executes a store while others read, start and send on the same file.

use std::time::Duration;

use outlive_core::message::Message;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::query::{Query, Wake};
use outlive_core::store::{ErrorKind, Store};
use outlive_sqlite::Executor;
use tokio::time::timeout;

use crate::support::{Place, assert_done, at, claim, claimed, commit, driven, name, signal, start, started, write};

const SOON: Duration = Duration::from_secs(120);

#[tokio::test]
async fn second_lease_is_refused_with_the_pid_of_the_holder() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    first.lease(at(0)).await.unwrap();
    let error = second.lease(at(0)).await.unwrap_err();
    let pid = std::process::id();
    assert_eq!(error.kind, ErrorKind::Locked { pid: Some(pid) });
    assert!(
        error.message.contains(&format!("is executed by process {pid}; stop it, or use `Client::open`")),
        "{error}"
    );
}

#[tokio::test]
async fn lock_is_freed_when_the_lease_is_released_or_dropped() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let epoch = first.lease(at(0)).await.unwrap();
    first.release(epoch).await.unwrap();
    assert_eq!(second.lease(at(0)).await.unwrap(), Epoch(2));
    drop(second);
    assert_eq!(first.lease(at(0)).await.unwrap(), Epoch(3));
}

#[tokio::test]
async fn previous_holder_is_fenced_by_the_epoch_in_the_file() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let old = first.lease(at(0)).await.unwrap();
    let num = driven(&first, "a", old).await;
    // The first handle loses its lock, as on a network disk whose server forgot it.
    std::fs::remove_file(place.folder.path().join("runs.db.lock")).unwrap();
    let new = second.lease(at(5)).await.unwrap();
    assert!(matches!(write(&first, Write::Commit(commit(num, old, 0))).await, Answer::Fenced));
    assert!(matches!(write(&first, claim(&[num], old)).await, Answer::Fenced));
    let taken = claimed(write(&second, claim(&[num], new)).await);
    assert_eq!((taken[0].instance.recoveries, taken[0].is_first), (1, false));
    assert_done(&write(&second, Write::Commit(commit(num, new, 0))).await);
}

#[tokio::test]
async fn epoch_is_not_valid_on_another_handle() {
    let place = Place::new();
    let (executor, client) = (place.open(), place.open());
    let epoch = executor.lease(at(0)).await.unwrap();
    let num = driven(&executor, "a", epoch).await;
    assert!(matches!(write(&client, Write::Commit(commit(num, epoch, 0))).await, Answer::Fenced));
    let by_client = driven(&client, "b", epoch).await;
    assert_eq!(client.instance(&name("b")).await.unwrap().unwrap().status, Status::Pending);
    assert_eq!(executor.wakes(at(100), 9).await.unwrap()[0].num, by_client);
}

#[tokio::test]
async fn executor_is_notified_of_client_messages_and_finds_them_due() {
    let place = Place::new();
    let (executor, client) = (place.open(), place.open());
    let epoch = executor.lease(at(0)).await.unwrap();
    let num = driven(&executor, "a", epoch).await;
    assert_eq!(executor.wakes(at(100), 9).await.unwrap(), []);

    assert!(matches!(write(&client, Write::Message(signal("a", 1))).await, Answer::Sent { is_new: true, .. }));
    timeout(SOON, executor.changed()).await.unwrap();
    let wakes = executor.wakes(at(100), 9).await.unwrap();
    assert_eq!(wakes.iter().map(|wake| (wake.num, wake.due)).collect::<Vec<_>>(), [(num, Wake::of_message(1))]);
    let inbox = executor.inbox(num, 0, usize::MAX).await.unwrap();
    assert!(matches!(inbox[0].message, Message::Signal { .. }));

    // The run is driven and stays due. The next message is found after the first.
    assert!(matches!(write(&client, Write::Message(signal("a", 2))).await, Answer::Sent { is_new: true, .. }));
    let later = executor.wakes_after(wakes[0], Wake::PAST_MESSAGES.due, 9).await.unwrap();
    assert_eq!(later, [Wake { num, due: Wake::of_message(2) }]);
}

#[tokio::test]
async fn handle_is_not_notified_of_its_own_writes() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let mut changed = store.changed();
    let num = driven(&store, "a", epoch).await;
    for seq in 0..20 {
        assert_done(&write(&store, Write::Commit(commit(num, epoch, seq))).await);
        store.instance(&name("a")).await.unwrap();
    }
    assert!(timeout(Duration::from_millis(100), &mut changed).await.is_err());
    write(&place.open(), Write::Message(signal("a", 1))).await;
    timeout(SOON, changed).await.unwrap();
}

#[tokio::test]
async fn change_between_two_waits_wakes_the_second() {
    let place = Place::new();
    let (executor, client) = (place.open(), place.open());
    drop(executor.changed());
    started(&client, start("a")).await;
    // The executor sees the change during its own write, while nothing is waiting.
    started(&executor, start("b")).await;
    timeout(SOON, executor.changed()).await.unwrap();
}

#[tokio::test]
async fn client_writes_invalidate_the_writer_cache() {
    let place = Place::new();
    let (executor, client) = (place.open(), place.open());
    let epoch = executor.lease(at(0)).await.unwrap();
    let num = driven(&executor, "a", epoch).await;
    let pos = match write(&client, Write::Message(signal("a", 1))).await {
        Answer::Sent { pos, .. } => pos,
        other => panic!("not sent: {other:?}"),
    };
    let mut pausing = commit(num, epoch, 0);
    let mut state = crate::support::state(Status::Completed);
    state.seen = Some(0);
    pausing.state = Some(state);
    match write(&executor, Write::Commit(pausing)).await {
        Answer::Unseen(messages) => assert_eq!(messages[0].pos, pos),
        other => panic!("an unseen message was skipped: {other:?}"),
    }
}

#[tokio::test]
async fn write_waits_for_a_foreign_transaction() {
    let place = Place::new();
    let store = place.open();
    let sql = place.sql();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        sql.execute_batch("COMMIT").unwrap();
    });
    started(&store, start("a")).await;
    holder.join().unwrap();
}

#[tokio::test]
async fn instance_numbers_are_never_reused() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let epoch = first.lease(at(0)).await.unwrap();
    let a = driven(&first, "a", epoch).await;
    let end = crate::support::ended(commit(a, epoch, 0), Status::Completed);
    assert_done(&write(&first, Write::Commit(end)).await);
    assert_done(&write(&second, Write::Purge(name("a"), None)).await);
    let b = started(&second, start("a")).await;
    let c = started(&first, start("c")).await;
    assert!(a < b && b < c, "{a} {b} {c}");
    assert_eq!(first.journal(b, 0, 9).await.unwrap(), []);
}

/// Querying the executor takes a shared lock for a moment. A lease must not mistake that for another executor.
#[test]
fn querying_the_executor_does_not_disturb_leases() {
    let place = Place::new();
    let store = place.open();
    let file = place.folder.path().join("runs.db");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ask = || {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::black_box(Executor::of(&file));
            }
        };
        scope.spawn(ask);
        scope.spawn(ask);
        let leases = async {
            for _ in 0..200 {
                let epoch = store.lease(at(0)).await?;
                let executor = Executor::of(&file);
                // A panic here would leave the querying threads running.
                if executor != (Executor::Process { pid: Some(std::process::id()) }) {
                    return Err(outlive_core::store::Error::new(ErrorKind::Unknown, format!("it is {executor:?}")));
                }
                store.release(epoch).await?;
            }
            Ok::<(), outlive_core::store::Error>(())
        };
        let leased = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(leases);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        leased.unwrap();
    });
    assert_eq!(Executor::of(&file), Executor::Nobody);
}
