//! Long lives: limits on journals, files that stay small, and runs that are kept for a time.

use std::sync::Arc;

use outlive::prelude::*;
use outlive::{Builder, EntryKind, KeepRuns};
use outlive_sqlite::{Options, SqliteStore};
use outlive_testkit::TestEngine;

async fn count(ctx: Ctx, to: u32) -> Result<u32> {
    for n in 0..to {
        ctx.step("count", || async move { outlive::Ok(n) }).await?;
    }
    Ok(to)
}

async fn kinds_of(test: &TestEngine, id: &str) -> Vec<String> {
    let mut events = test.client().events().of(id).from_start().committed().await.unwrap();
    events.read(1_000).await.unwrap().iter().map(|event| event.kind.as_str().to_owned()).collect()
}

#[tokio::test]
async fn journal_that_is_nearly_full_is_reported_once() {
    let mut test = TestEngine::new(|engine| engine.workflow("count", count).max_entries(10)).await;
    for (id, steps) in [("short", 7), ("long", 9)] {
        let run = test.start(count, &steps).id(id).await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), steps);
    }
    test.crash().await;
    let reports = |kinds: Vec<String>| kinds.iter().filter(|kind| *kind == "journal.nearly_full").count();
    assert_eq!((reports(kinds_of(&test, "short").await), reports(kinds_of(&test, "long").await)), (0, 1));
}

#[tokio::test]
async fn run_over_the_limit_is_stuck_until_the_limit_is_raised() {
    let mut test = TestEngine::new(|engine| engine.workflow("count", count).max_entries(10)).await;
    let run = test.start(count, &20).id("r").await.unwrap();
    test.settle().await;
    let info = run.info().await.unwrap();
    assert_eq!(info.status, Status::Stuck);
    assert!(info.note.unwrap().contains("more than 10 entries"));
    let recorded = run.journal().await.unwrap().len();
    test.deploy(|engine| engine.workflow("count", count).max_entries(10)).await;
    test.settle().await;
    let run: Run<u32> = test.get_run("r").await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Stuck, "it does not get further step by step");
    let steps = run.journal().await.unwrap().iter().filter(|entry| entry.kind == EntryKind::StepDone).count();
    assert!(steps <= recorded && test.executions("count") as usize == steps);
    test.deploy(|engine| engine.workflow("count", count).max_entries(100)).await;
    let run: Run<u32> = test.get_run("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 20);
    assert_eq!(test.executions("count"), 20, "no step ran twice");
}

async fn lapping(ctx: Ctx, (laps, done): (u32, u32)) -> Result<u32> {
    for _ in 0..8 {
        ctx.step("lap", || async { outlive::Ok(()) }).await?;
    }
    if done + 1 == laps { Ok(laps) } else { Ok(ctx.restart(&(laps, done + 1)).await?) }
}

#[tokio::test]
async fn limit_counts_from_the_last_restart() {
    let test = TestEngine::new(|engine| engine.workflow("lapping", lapping).max_entries(12)).await;
    let run = test.start(lapping, &(20, 0)).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 20);
}

fn workflows(engine: Builder) -> Builder {
    engine.workflow("lapping", lapping).workflow("count", count)
}

/// An engine on a file, and the directory that holds it.
async fn on_a_file(setup: fn(Builder) -> Builder) -> (TestEngine, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&home.path().join("runs.db"), Options::default()).unwrap();
    (TestEngine::new(setup).store(Arc::new(store)).await, home)
}

#[tokio::test]
async fn past_journals_leave_the_file_with_the_events_of_their_time() {
    let (test, home) = on_a_file(|engine| workflows(engine).keep_events("1 day")).await;
    let run = test.start(lapping, &(10, 0)).id("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 10);
    let path = home.path().join("runs.db");
    let entries = || {
        let file = rusqlite::Connection::open(&path).unwrap();
        file.query_row("SELECT count(*) FROM entry", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(entries(), 89);
    for _ in 0..26 {
        test.advance("1 hour").await;
    }
    assert_eq!(entries(), 9, "only the last journal is left");
    assert_eq!(run.journal().await.unwrap().len(), 9);
    drop(test);
    let report = outlive_sqlite::doctor::examine(&path).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

async fn patient(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("go").await?)
}

async fn parent(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.run(count, &1).id("child").await? + ctx.wait::<u32>("go").await?)
}

async fn failing(_: Ctx, _: ()) -> Result<()> {
    Err("no".into())
}

fn kept(engine: Builder) -> Builder {
    let engine = engine.workflow("count", count).workflow("patient", patient).workflow("parent", parent);
    engine.workflow("failing", failing).keep("7 days").keep_of("failing", KeepRuns::forever().completed("1 day"))
}

async fn ids(test: &TestEngine) -> Vec<String> {
    let page = test.list(Filter::runs()).await.unwrap();
    let mut ids: Vec<_> = page.runs.into_iter().map(|run| run.id).collect();
    ids.sort();
    ids
}

/// Waits until exactly these runs are left. The pace of the removal is that of the real clock.
async fn until_left(test: &TestEngine, expected: &[&str]) {
    while ids(test).await != expected {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn ended_runs_are_removed_after_their_time_and_others_never() {
    let (mut test, home) = on_a_file(kept).await;
    for n in 0..200 {
        let run = test.start(count, &1).id(&format!("c{n}")).await.unwrap();
        test.result(&run).await.unwrap();
    }
    test.start(patient, &()).id("waiting").await.unwrap();
    test.start(parent, &()).id("parent").await.unwrap();
    test.start(failing, &()).id("failed").await.unwrap();
    test.advance("6 days").await;
    assert_eq!(test.count(Filter::runs()).await.unwrap().total(), 204);
    test.advance("2 days").await;
    until_left(&test, &["child", "failed", "parent", "waiting"]).await;
    let run: Run<u32> = test.get_run("parent").await.unwrap();
    run.signal("go", &5).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 6);
    // The process is down when the rest expires.
    test.clock().advance(std::time::Duration::from_secs(8 * 86_400));
    test.crash().await;
    until_left(&test, &["failed", "waiting"]).await;
    let again = test.start(count, &2).id("c1").await.unwrap();
    assert_eq!(test.result(&again).await.unwrap(), 2, "the id can be used again");
    drop(test);
    let report = outlive_sqlite::doctor::examine(&home.path().join("runs.db")).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

#[tokio::test]
async fn durations_that_are_none_are_refused_when_the_engine_starts() {
    for engine in [
        Engine::open("memory:").keep("7 dayz"),
        Engine::open("memory:").keep(KeepRuns::forever().failed("soon")),
        Engine::open("memory:").keep_of("w", "never"),
    ] {
        assert!(engine.start().await.is_err());
    }
}

/// A long loop with restarts. It has a million iterations if `OUTLIVE_LONG_LOOP` is set, and then takes some minutes.
#[tokio::test]
async fn long_loop_with_restarts_stays_flat_on_disk() {
    let is_long = std::env::var_os("OUTLIVE_LONG_LOOP").is_some();
    let (laps, between) = if is_long { (125_000, 2_500) } else { (400, 50) };
    let (test, home) = on_a_file(|engine| workflows(engine).keep_events("1 day")).await;
    let run = test.start(lapping, &(laps, 0)).id("loop").await.unwrap();
    let mut sizes = Vec::new();
    for part in 1..=laps / between {
        while run.info().await.unwrap().run_number < part * between {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        // Everything so far is old now.
        for _ in 0..26 {
            test.advance("1 hour").await;
        }
        sizes.push(std::fs::metadata(home.path().join("runs.db")).unwrap().len());
        assert!(test.resident() <= 1);
    }
    assert_eq!(test.result(&run).await.unwrap(), laps);
    let (half, last) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    assert!(last < half + half / 4, "the file grows: {sizes:?}");
}
