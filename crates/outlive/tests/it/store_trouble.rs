//! A store that replies late, not at all, with a refusal or with garbage: nothing acknowledged is lost, and the engine
//! continues.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlive::prelude::*;
use outlive::store::ErrorKind;
use outlive::{CancelOutcome, EntryKind};
use outlive_core::store::memory::MemoryStore;
use outlive_sqlite::{Options, SqliteStore};
use outlive_testkit::{Fault, Faults, TestClock, TestEngine};

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// A step, a sleep, a wait, a retried step, and an at-most-once step.
async fn mixed(ctx: Ctx, n: u32) -> Result<u32> {
    let a = ctx.step("a", || ok(n)).await?;
    ctx.sleep("1 hour").await?;
    let b: u32 = ctx.wait("b").timeout("1 day").await?;
    let c = ctx.step("c", || ok(1_u32)).retry(3).await?;
    let d = ctx.step("d", || ok(1_u32)).at_most_once().await?;
    Ok(a + b + c + d)
}

/// The outcome of a `mixed` run.
#[derive(PartialEq, Debug)]
struct Story {
    result: std::result::Result<u32, String>,
    journal: Vec<(EntryKind, String)>,
    executions: [u64; 4],
}

async fn faulty() -> (TestEngine, Arc<Faults>) {
    let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
    let test = TestEngine::new(|engine| engine.workflow("mixed", mixed)).store(faults.clone()).await;
    (test, faults)
}

/// The engine waits in real time before it asks the store again; tokio's clock is paused, so this takes no time.
async fn calm(test: &TestEngine) {
    test.settle().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    test.settle().await;
}

/// Repeats a call until the store accepts it, and asserts that a refused call has written nothing.
async fn insist<T>(
    mut ask: impl AsyncFnMut() -> std::result::Result<T, Error>,
    mut is_absent: impl AsyncFnMut() -> bool,
) -> T {
    loop {
        match ask().await {
            Ok(done) => return done,
            Err(Error::Store(error)) => {
                assert_eq!(error.kind, ErrorKind::Unavailable);
                assert!(error.message.contains("no room"), "{error}");
                assert!(is_absent().await, "the call was refused, but was written");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn tell_story(test: &TestEngine) -> Story {
    test.fail_next("c", "the first time");
    let start = async || test.start(mixed, &1).id("r").on_conflict(OnConflict::Reject).await;
    let run = insist(start, async || test.get_run::<u32>("r").await.is_err()).await;
    calm(test).await;
    test.advance("1 hour").await;
    calm(test).await;
    let steps = run.journal().await.unwrap().len();
    let signal = async || run.signal("b", &10).await;
    insist(signal, async || {
        calm(test).await;
        run.journal().await.unwrap().len() == steps
    })
    .await;
    calm(test).await;
    test.advance("1 minute").await;
    calm(test).await;
    let result = match run.status().await.unwrap().is_ended() {
        true => run.result().await.map_err(|error| error.to_string()),
        false => Err(format!("{:?}", run.info().await.unwrap())),
    };
    let journal = run.journal().await.unwrap().into_iter().map(|entry| (entry.kind, entry.op.to_string())).collect();
    Story { result, journal, executions: ["a", "b", "c", "d"].map(|step| test.executions(step)) }
}

#[tokio::test(start_paused = true)]
async fn write_in_doubt_changes_nothing_at_any_write() {
    let (test, faults) = faulty().await;
    let expected = tell_story(&test).await;
    assert_eq!((&expected.result, expected.executions), (&Ok(13), [1, 0, 2, 1]));
    for n in 1..=faults.writes() {
        for fault in [Fault::UnknownAfter(n), Fault::UnknownBefore(n)] {
            let (test, faults) = faulty().await;
            faults.add(fault);
            assert_eq!(tell_story(&test).await, expected, "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn write_that_stays_in_doubt_for_long_changes_nothing() {
    let (test, faults) = faulty().await;
    let expected = tell_story(&test).await;
    for n in 1..=faults.writes() {
        let (test, faults) = faulty().await;
        (0..4).for_each(|more| faults.add(Fault::UnknownBefore(n + more)));
        faults.add(Fault::UnknownAfter(n + 4));
        faults.add(Fault::UnknownBefore(n + 5));
        assert_eq!(tell_story(&test).await, expected, "from write {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_write_is_an_error_for_clients_and_repeated_for_runs() {
    let (test, faults) = faulty().await;
    let expected = tell_story(&test).await;
    for n in 1..=faults.writes() {
        for times in [1, 3] {
            let (test, faults) = faulty().await;
            (0..times).for_each(|more| faults.add(Fault::Refuse(n + more)));
            assert_eq!(tell_story(&test).await, expected, "write {n}, {times} times");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_kinds_of_faults_together_change_nothing() {
    let (test, _) = faulty().await;
    let expected = tell_story(&test).await;
    for seed in 0..200_u64 {
        let (test, faults) = faulty().await;
        let mut dice = seed;
        for n in 1..60 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match dice >> 60 {
                0..4 => faults.add(Fault::Refuse(n)),
                4..6 => faults.add(Fault::UnknownBefore(n)),
                6..8 => faults.add(Fault::UnknownAfter(n)),
                _ => {}
            }
        }
        assert_eq!(tell_story(&test).await, expected, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_whose_write_is_in_doubt_returns_as_usual() {
    for fault in [Fault::UnknownAfter as fn(u64) -> Fault, Fault::UnknownBefore] {
        let (test, faults) = faulty().await;
        let next = |faults: &Faults| faults.add(fault(faults.writes() + 1));
        next(&faults);
        let run = test.start(mixed, &1).id("r").on_conflict(OnConflict::Reject).await.unwrap();
        calm(&test).await;
        next(&faults);
        let joined = test.start(mixed, &1).id("r").await.unwrap();
        assert_eq!(joined.status().await.unwrap(), run.status().await.unwrap());
        next(&faults);
        assert!(test.start(mixed, &2).id("r").await.unwrap_err().is_conflict());
        next(&faults);
        let run = test.start(mixed, &3).id("r").on_conflict(OnConflict::Replace).await.unwrap();
        assert_eq!(run.info().await.unwrap().input.as_str(), "3");
        calm(&test).await;
        next(&faults);
        run.pause().await.unwrap();
        calm(&test).await;
        next(&faults);
        run.resume().await.unwrap();
        calm(&test).await;
        next(&faults);
        run.signal("b", &1).dedup_key("key").await.unwrap();
        next(&faults);
        run.signal("b", &2).dedup_key("key").await.unwrap();
        calm(&test).await;
        next(&faults);
        assert_eq!(run.cancel("no").await.unwrap(), CancelOutcome::Taken);
        calm(&test).await;
        next(&faults);
        assert_eq!(run.cancel("no").await.unwrap(), CancelOutcome::Ended(Status::Cancelled));
    }
}

#[tokio::test(start_paused = true)]
async fn purge_whose_write_is_in_doubt_succeeds() {
    for fault in [Fault::UnknownAfter as fn(u64) -> Fault, Fault::UnknownBefore] {
        let (test, faults) = faulty().await;
        let run = test.start(mixed, &1).id("r").await.unwrap();
        run.cancel("no").await.unwrap();
        calm(&test).await;
        faults.add(fault(faults.writes() + 1));
        run.purge().await.unwrap();
        assert!(run.status().await.unwrap_err().is_not_found());
    }
}

#[tokio::test(start_paused = true)]
async fn retry_whose_write_is_in_doubt_succeeds() {
    for fault in [Fault::UnknownAfter as fn(u64) -> Fault, Fault::UnknownBefore] {
        let (test, faults) = faulty().await;
        let run = test.start(mixed, &1).id("r").await.unwrap();
        test.advance("1 hour").await;
        test.advance("1 day").await;
        assert_eq!(run.status().await.unwrap(), Status::Failed, "no signal was sent");
        faults.add(fault(faults.writes() + 1));
        run.retry().await.unwrap();
        calm(&test).await;
        let journal = run.journal().await.unwrap();
        assert_eq!(journal.iter().filter(|entry| entry.kind == EntryKind::Retried).count(), 1);
        run.signal("b", &1).await.unwrap();
        test.advance("1 minute").await;
        assert_eq!(run.result().await.unwrap(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn runs_in_one_batch_in_doubt_each_get_their_own_reply() {
    let (test, faults) = faulty().await;
    for n in 1..40 {
        faults.add(if n % 2 == 0 { Fault::UnknownAfter(3 * n) } else { Fault::UnknownBefore(3 * n) });
    }
    let starts = (0..100).map(|n| test.start(mixed, &n));
    let runs: Vec<_> = futures_util::future::join_all(starts).await.into_iter().map(|run| run.unwrap()).collect();
    calm(&test).await;
    test.advance("1 hour").await;
    calm(&test).await;
    let signals = runs.iter().map(|run| run.signal("b", &10));
    futures_util::future::join_all(signals).await.into_iter().for_each(|sent| assert!(sent.unwrap()));
    calm(&test).await;
    assert_eq!(test.count(Filter::runs()).await.unwrap().of(StatusKind::Completed), 100);
    for (run, n) in runs.iter().zip(0..) {
        assert_eq!(run.result().await.unwrap(), n + 12);
    }
    assert_eq!(["a", "c", "d"].map(|step| test.executions(step)), [100, 100, 100]);
}

/// Counts warnings.
struct Warnings(Arc<AtomicU64>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// What broke: a full disk logged a warning for every refused write, dozens of times a second.
#[tokio::test(start_paused = true)]
async fn store_that_stays_full_logs_a_warning_once_a_minute() {
    let (test, faults) = faulty().await;
    let warnings = Arc::new(AtomicU64::new(0));
    let _logged = tracing::subscriber::set_default(Warnings(warnings.clone()));
    (0..20_000).for_each(|more| faults.add(Fault::Refuse(faults.writes() + 2 + more)));
    let refused_from = faults.writes() + 1;
    test.start(mixed, &1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert!(faults.writes() - refused_from > 1_000, "the write is retried over and over");
    assert_eq!(warnings.load(Ordering::Relaxed), 3);
}

// ---- two processes on one file ----

#[tokio::test]
async fn locked_file_error_names_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let engine = Engine::open(&path).workflow("mixed", mixed).start().await.unwrap();
    let refused = Engine::open(&path).workflow("mixed", mixed).start().await;
    let error = refused.expect_err("the file is locked");
    assert!(matches!(&error, Error::Locked { pid: Some(pid), .. } if *pid == std::process::id()), "{error:?}");
    assert!(error.is_locked() && error.to_string().contains(&std::process::id().to_string()), "{error}");
    // The refused engine has not disturbed the first.
    let run = engine.start(mixed, &1).await.unwrap();
    assert!(!run.status().await.unwrap().is_ended());
}

#[tokio::test]
async fn locked_file_can_be_read_and_signalled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let engine = Engine::open(&path).workflow("mixed", mixed).start().await.unwrap();
    engine.start(mixed, &1).id("r").await.unwrap();
    let client = Client::open(&path).unwrap();
    let run: Run<u32> = client.get_run("r").await.unwrap();
    assert_eq!(client.list(Filter::runs()).await.unwrap().runs.len(), 1);
    run.signal("b", &1).await.unwrap();
    run.cancel("over").await.unwrap();
    let result = tokio::time::timeout(Duration::from_secs(120), run.result()).await.expect("the run ends");
    assert!(result.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn file_is_unlocked_after_a_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    for round in 0..3 {
        let engine = Engine::open(&path).workflow("mixed", mixed).start().await.unwrap();
        let run = engine.start(mixed, &1).id("r").await.unwrap();
        assert_eq!(run.info().await.unwrap().recoveries, 0, "round {round}");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn shutdown_ends_with_its_runs_and_not_with_the_grace_time() {
    for _ in 0..50 {
        let engine = Engine::open("memory:").workflow("mixed", mixed).grace("1 hour").start().await.unwrap();
        for n in 0..5 {
            engine.start(mixed, &n).await.unwrap();
        }
        tokio::time::timeout(Duration::from_secs(120), engine.shutdown()).await.expect("nothing is running").unwrap();
    }
}

// ---- a full disk ----

/// Stores large texts after a while.
async fn hoards(ctx: Ctx, bytes: usize) -> Result<usize> {
    ctx.sleep("1 hour").await?;
    let text = ctx.step("hoard", || ok("x".repeat(bytes))).await?;
    let more = ctx.step("hoard more", || ok("y".repeat(bytes))).await?;
    Ok(text.len() + more.len())
}

/// Has a large input.
async fn ballast(_: Ctx, text: String) -> Result<usize> {
    Ok(text.len())
}

/// An engine on a full disk.
struct Full {
    engine: Engine,
    path: std::path::PathBuf,
    /// Due, but without room to write.
    wanting: Vec<Run<usize>>,
    /// Ended, and taking up room.
    ended: Vec<Run<usize>>,
    _folder: tempfile::TempDir,
}

/// Waits for real time to pass: a thread that writes, a pause before the next try.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), waiting)
        .await
        .unwrap_or_else(|_| panic!("this takes too long: {what}"));
}

async fn full() -> Full {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path, Options::new().max_pages(200)).unwrap();
    let clock = TestClock::new();
    let engine = Engine::with_store(Arc::new(store)).clock(clock.clone());
    let engine = engine.workflow("hoards", hoards).workflow("ballast", ballast).start().await.unwrap();
    let mut wanting = Vec::new();
    for _ in 0..3 {
        wanting.push(engine.start(hoards, &40_000).await.unwrap());
    }
    let paused = async || engine.count(Filter::runs()).await.unwrap().of(StatusKind::Sleeping);
    until("they sleep", async || paused().await == 3).await;
    let mut ended = Vec::new();
    let error = loop {
        let run = match engine.start(ballast, &"z".repeat(20_000)).await {
            Ok(run) => run,
            Err(error) => break error,
        };
        // There may be room for its start, but not for its end.
        if tokio::time::timeout(Duration::from_millis(300), run.result()).await.is_ok() {
            ended.push(run);
        }
        assert!(ended.len() < 500, "the disk is never full");
    };
    assert!(matches!(&error, Error::Store(error) if error.kind == ErrorKind::Unavailable), "{error:?}");
    assert!(error.to_string().contains("is full; free some space"), "{error}");
    clock.advance(Duration::from_secs(3600));
    until("they want room", async || engine.count(Filter::runs()).await.unwrap().of(StatusKind::Running) > 0).await;
    Full { engine, path, wanting, ended, _folder: folder }
}

impl Full {
    async fn assert_continues(&self) {
        for run in &self.wanting {
            let result = tokio::time::timeout(Duration::from_secs(120), run.result()).await;
            assert_eq!(result.expect("the run continues").unwrap(), 80_000);
        }
        self.engine.start(ballast, &"small".to_string()).await.unwrap();
    }
}

#[tokio::test]
async fn full_disk_refuses_new_work_and_loses_nothing_acknowledged() {
    let full = full().await;
    // Their values cannot be written now; the engine neither forgets the runs nor fails them, and reads still work.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for run in &full.wanting {
        assert!(!run.status().await.unwrap().is_ended(), "{:?}", run.info().await);
    }
    for run in &full.ended {
        assert_eq!(run.result().await.unwrap(), 20_000);
    }
    let refused = full.engine.start(ballast, &"z".repeat(20_000)).id("refused").await.unwrap_err();
    assert!(matches!(&refused, Error::Store(_)), "{refused:?}");
    assert!(full.engine.get_run::<usize>("refused").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn engine_on_a_full_disk_resumes_by_itself_when_there_is_room() {
    let full = full().await;
    // Another client, which does not see the limit, frees space.
    let other = Client::open(&full.path).unwrap();
    for run in &full.ended {
        let run: Run<usize> = other.get_run(run.id()).await.unwrap();
        run.purge().await.unwrap();
    }
    full.assert_continues().await;
}

#[tokio::test]
async fn purge_works_through_the_engine_whose_disk_is_full() {
    // The writes of runs do not fit; a purge in the same queue does.
    let full = full().await;
    for run in &full.ended {
        until("the run is purged", async || run.purge().await.is_ok()).await;
    }
    full.assert_continues().await;
}

// ---- damage ----

async fn keepsake(ctx: Ctx, name: String) -> Result<String> {
    let kept = ctx.step("keep", || ok(format!("keepsake of {name}"))).await?;
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("show", || ok(kept.clone())).await?)
}

async fn keepsakes(path: &Path, clock: &TestClock) -> TestEngine {
    let store = SqliteStore::open(path, Options::default()).unwrap();
    TestEngine::new(|engine| engine.workflow("keepsake", keepsake)).store(Arc::new(store)).clock(clock.clone()).await
}

/// Closes the store: aborted tasks end when the runtime gets to them.
async fn close(test: TestEngine) {
    let store = Arc::downgrade(test.store());
    drop(test);
    until("the store is closed", async || store.strong_count() == 0).await;
}

/// Changes the file behind the store's back.
fn damage(path: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<_> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "the text is not in the file");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn damaged_entry_makes_only_its_run_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("s.db"), TestClock::new());
    let test = keepsakes(&path, &clock).await;
    for name in ["ada", "bob", "eve"] {
        test.start(keepsake, &name.to_string()).id(name).await.unwrap();
    }
    let paused = async || test.count(Filter::runs()).await.unwrap().of(StatusKind::Sleeping);
    until("they sleep", async || paused().await == 3).await;
    close(test).await;
    damage(&path, b"keepsake of bob", b"keepsake of ada");

    let test = keepsakes(&path, &clock).await;
    test.advance("1 hour").await;
    for name in ["ada", "eve"] {
        let run: Run<String> = test.get_run(name).await.unwrap();
        let result = tokio::time::timeout(Duration::from_secs(120), run.result()).await;
        assert_eq!(result.expect("the run ends").unwrap(), format!("keepsake of {name}"));
    }
    let bob: Run<String> = test.get_run("bob").await.unwrap();
    until("the run is stuck", async || bob.status().await.unwrap() == Status::Stuck).await;
    let error = bob.result().await.unwrap_err();
    assert!(error.is_stuck() && error.to_string().contains("damaged"), "{error}");
    let another = test.start(keepsake, &"joe".to_string()).await.unwrap();
    until("new work is accepted", async || another.journal().await.unwrap().len() == 2).await;
}
