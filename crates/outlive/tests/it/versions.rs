//! Versions: each run is stamped with the version of the code that started it.

use std::collections::BTreeMap;

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn approve(ctx: Ctx, _: ()) -> Result<Option<String>> {
    ctx.wait::<()>("go").await?;
    Ok(ctx.info().version().map(str::to_owned))
}

async fn parent(ctx: Ctx, _: ()) -> Result<Option<String>> {
    ctx.wait::<()>("go").await?;
    Ok(ctx.run(child, &()).await?)
}

async fn child(ctx: Ctx, _: ()) -> Result<Option<String>> {
    Ok(ctx.info().version().map(str::to_owned))
}

const STARTER: Task<u32, ()> = Task::new("starter");

async fn start_run(ctx: TaskCtx<u32, ()>, _: u32) -> Result<()> {
    Ok(ctx.start(child, &(), "from a handler")?)
}

async fn nothing(_: TaskCtx<u32, ()>) -> Result<()> {
    Ok(())
}

fn setup(engine: outlive::Builder) -> outlive::Builder {
    let starter = STARTER.on_event(start_run).execute(nothing);
    engine.workflow("approve", approve).workflow("parent", parent).workflow("child", child).job(starter)
}

async fn ids(engine: &TestEngine, filter: Filter) -> Vec<String> {
    let mut ids: Vec<String> = engine.list(filter).await.unwrap().runs.into_iter().map(|run| run.id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn run_keeps_the_version_that_started_it() {
    let mut test = TestEngine::new(|engine| setup(engine).version("2026-11-16")).await;
    test.start(approve, &()).id("old").await.unwrap();
    test.settle().await;
    test.deploy(|engine| setup(engine).version("2026-11-17")).await;
    test.start(approve, &()).id("new").await.unwrap();
    test.settle().await;
    assert_eq!(ids(&test, Filter::runs().version("2026-11-16")).await, ["old"]);
    assert_eq!(ids(&test, Filter::runs().version("2026-11-17")).await, ["new"]);
    assert_eq!(ids(&test, Filter::runs().version("2026-11")).await, [""; 0]);
    let old = test.get_run::<Option<String>>("old").await.unwrap();
    old.signal("go", &()).await.unwrap();
    assert_eq!(test.result(&old).await.unwrap().as_deref(), Some("2026-11-16"), "executed by the new version");
    assert_eq!(old.info().await.unwrap().version.as_deref(), Some("2026-11-16"));
}

#[tokio::test]
async fn child_has_the_version_that_started_it() {
    let mut test = TestEngine::new(|engine| setup(engine).version("1")).await;
    test.start(parent, &()).id("parent").await.unwrap();
    test.settle().await;
    test.deploy(|engine| setup(engine).version("2")).await;
    let run = test.get_run::<Option<String>>("parent").await.unwrap();
    run.signal("go", &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap().as_deref(), Some("2"));
}

#[tokio::test]
async fn run_started_by_a_handler_has_a_version() {
    let test = TestEngine::new(|engine| setup(engine).version("1")).await;
    test.job(STARTER).send("one", &1).await.unwrap();
    test.settle().await;
    assert_eq!(ids(&test, Filter::runs().version("1")).await, ["from a handler"]);
}

#[tokio::test]
async fn run_of_an_engine_without_a_version_has_none() {
    let test = TestEngine::new(setup).await;
    let run = test.start(child, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), None);
    assert_eq!(run.info().await.unwrap().version, None);
}

#[tokio::test]
async fn version_survives_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let engine = setup(Engine::open(&path)).version("ü 1.0").start().await.unwrap();
    let run = engine.start(child, &()).id("one").await.unwrap();
    run.result().await.unwrap();
    engine.shutdown().await.unwrap();
    let client = Client::open(&path).unwrap();
    assert_eq!(client.get_run::<()>("one").await.unwrap().info().await.unwrap().version.as_deref(), Some("ü 1.0"));
    assert_eq!(client.count(Filter::runs().version("ü 1.0")).await.unwrap().total(), 1);
}

#[tokio::test]
async fn text_that_is_no_version_is_refused() {
    let cases = [
        (String::new(), "version \"\" is empty; use 1 to 200 bytes"),
        ("a\nb".to_owned(), "version \"a\\nb\" contains the control character '\\n'; remove it"),
        ("x".repeat(201), "is 201 bytes long; use at most 200 bytes"),
    ];
    for (version, sentence) in cases {
        let error = Engine::open("memory:").version(&version).start().await.unwrap_err();
        assert!(matches!(error, Error::Name(_)), "{error:?}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
}

#[tokio::test]
async fn check_groups_its_verdicts_by_version() {
    let mut test = TestEngine::new(|engine| setup(engine).version("1")).await;
    test.start(approve, &()).await.unwrap();
    test.start(approve, &()).await.unwrap();
    test.settle().await;
    test.deploy(|engine| setup(engine).version("2")).await;
    test.start(parent, &()).await.unwrap();
    test.settle().await;
    let report = Engine::open("memory:").workflow("approve", approve).check(test.store()).await.unwrap();
    let groups: BTreeMap<_, _> =
        report.by_version().into_iter().map(|(name, report)| (name, report.counts())).collect();
    let expected = [(Some("1".to_owned()), vec![("fine", 2)]), (Some("2".to_owned()), vec![("would be stuck", 1)])];
    assert_eq!(groups, expected.into());
    let lines = ["version 1: 2 unfinished runs: 2 fine", "version 2: 1 unfinished run: 1 would be stuck"];
    assert!(report.to_string().ends_with(&lines.join("\n")), "{report}");
}

#[tokio::test]
async fn check_without_versions_says_nothing_about_them() {
    let test = TestEngine::new(setup).await;
    test.start(approve, &()).await.unwrap();
    test.settle().await;
    let report = setup(Engine::open("memory:")).check(test.store()).await.unwrap();
    assert_eq!(report.to_string(), "1 unfinished run: 1 fine");
}
