//! Checks predict what a deploy of the new code does, and change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::check::{Report, Verdict};
use outlive::prelude::*;
use outlive::{Builder, Strict};
use outlive_testkit::{TestEngine, check};
use serde::Serialize;
use serde::de::DeserializeOwned;

type Setup = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

fn version<F, Fut, O>(workflow: F) -> Setup
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    Arc::new(move |engine| engine.workflow("w", workflow.clone()))
}

fn strict_version<F, Fut, O>(workflow: F) -> Setup
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    Arc::new(move |engine| engine.workflow("w", Strict(workflow.clone())))
}

/// An engine on which the old code has started its run "r".
async fn begun(setup: &Setup) -> TestEngine {
    let setup = setup.clone();
    let test = TestEngine::new(move |engine| setup(engine)).await;
    test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    test
}

async fn deploy(test: &mut TestEngine, setup: &Setup) {
    let setup = setup.clone();
    test.deploy(move |engine| setup(engine)).await;
    test.settle().await;
}

/// Returns everything a store holds.
async fn content(test: &TestEngine) -> String {
    let mut file = Vec::new();
    outlive::export::write(test, Filter::runs(), &mut file, |_| {}).await.unwrap();
    let text = String::from_utf8(file).unwrap();
    text.split_once('\n').unwrap().1.to_owned()
}

/// Checks the code, and asserts that the check wrote nothing.
async fn foresee(test: &TestEngine, setup: &Setup) -> Report {
    let before = content(test).await;
    let report = check(test, |engine| setup(engine)).await;
    assert_eq!(content(test).await, before, "a check writes nothing");
    report
}

fn verdict(report: &Report) -> Verdict {
    assert_eq!(report.runs().len(), 1, "{report}");
    assert_eq!((report.runs()[0].id.as_str(), report.runs()[0].workflow.as_str()), ("r", "w"));
    report.runs()[0].verdict.clone()
}

async fn a_then_b(ctx: Ctx, (): ()) -> Result<String> {
    let a = ctx.step("a", || ok("a1".to_owned())).await?;
    let b = ctx.step("b", || ok("b1".to_owned())).await?;
    ctx.sleep("1 hour").await?;
    Ok(a + &b)
}

/// One way to change the code.
struct Change {
    what: &'static str,
    code: Setup,
    foreseen: &'static str,
}

fn change(what: &'static str, foreseen: &'static str, code: Setup) -> Change {
    Change { what, code, foreseen }
}

/// Changes to the order of operations.
fn moved() -> Vec<Change> {
    vec![
        change("nothing", "fine", version(a_then_b)),
        change("nothing, strictly", "fine", strict_version(a_then_b)),
        change(
            "swapped",
            "fine",
            version(|ctx: Ctx, (): ()| async move {
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                let a = ctx.step("a", || ok("a2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "joined",
            "fine",
            version(|ctx: Ctx, (): ()| async move {
                let (b, a) =
                    tokio::try_join!(ctx.step("b", || ok("b2".to_owned())), ctx.step("a", || ok("a2".to_owned())),)?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
    ]
}

/// Operations added or removed.
fn more_and_less() -> Vec<Change> {
    vec![
        change(
            "inserted before",
            "cannot tell",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("zero", || ok("0".to_owned())).await?;
                let a = ctx.step("a", || ok("a2".to_owned())).await?;
                ctx.step("new", || ok("n".to_owned())).await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "inserted at the end",
            "new steps",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("a", || ok("a2".to_owned())).await?;
                ctx.step("b", || ok("b2".to_owned())).await?;
                tokio::try_join!(ctx.sleep("1 hour"), ctx.step("new", || ok(())))?;
                Ok(())
            }),
        ),
        change(
            "deleted",
            "orphaned",
            version(|ctx: Ctx, (): ()| async move {
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(b)
            }),
        ),
        change(
            "ends earlier",
            "orphaned",
            version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("a", || ok(String::new())).await?) }),
        ),
        change(
            "another branch",
            "cannot tell",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("a", || ok("a2".to_owned())).await?;
                if a == "a1" {
                    ctx.step("count", || ok(7_u32)).await?;
                    return Ok(String::new());
                }
                Ok(ctx.step("b", || ok("b2".to_owned())).await?)
            }),
        ),
    ]
}

/// Changes to names, keys, scopes and kinds.
fn renamed() -> Vec<Change> {
    vec![
        change(
            "renamed",
            "looks renamed",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("first", || ok("a2".to_owned())).await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "renamed, and says so",
            "fine",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("first", || ok("a2".to_owned())).was("a").await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "another key",
            "looks renamed",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("a", || ok("a2".to_owned())).key(1).await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "another scope",
            "looks renamed",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.scope("left").step("a", || ok("a2".to_owned())).await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "a sleep with a key",
            "looks renamed",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("a", || ok("a2".to_owned())).await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").key("nap").await?;
                Ok(a + &b)
            }),
        ),
        change(
            "another kind",
            "cannot tell",
            version(|ctx: Ctx, (): ()| async move { Ok(ctx.wait::<String>("a").await?) }),
        ),
        change("moved to another function", "fine", version(|ctx: Ctx, (): ()| async move { a_then_b(ctx, ()).await })),
    ]
}

/// Changes to types.
fn retyped() -> Vec<Change> {
    vec![
        change(
            "retyped",
            "type changed",
            version(|ctx: Ctx, (): ()| async move {
                let a: u32 = ctx.step("a", || ok(5)).await?;
                ctx.sleep("1 hour").await?;
                Ok(a)
            }),
        ),
        change(
            "another input",
            "type changed",
            Arc::new(|engine| engine.workflow("w", |_: Ctx, n: Vec<u32>| async move { Ok::<_, BoxError>(n) })),
        ),
    ]
}

/// Changes after which the run cannot continue for other reasons.
fn fatal() -> Vec<Change> {
    vec![
        change("not registered", "would be stuck", Arc::new(|engine| engine)),
        change(
            "strict, and one is gone",
            "would be stuck",
            strict_version(|ctx: Ctx, (): ()| async move {
                ctx.step("new", || ok("n".to_owned())).await?;
                let b = ctx.step("b", || ok("b2".to_owned())).await?;
                ctx.sleep("1 hour").await?;
                Ok(b)
            }),
        ),
        change(
            "strict, and it ends earlier",
            "would be stuck",
            strict_version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("a", || ok(String::new())).await?) }),
        ),
        change(
            "it panics",
            "would be stuck",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("a", || ok(String::new())).await?;
                assert_eq!(a, "a2", "only a2 will do");
                Ok(a)
            }),
        ),
        change(
            "it needs a value that is not provided",
            "would be stuck",
            version(|ctx: Ctx, (): ()| async move { Ok(*ctx.get::<u64>()) }),
        ),
        change(
            "two of one name at once",
            "would be stuck",
            version(|ctx: Ctx, (): ()| async move {
                let twice = || ctx.step("twice", || ok(()));
                tokio::try_join!(twice(), twice())?;
                Ok(())
            }),
        ),
        change(
            "it fails at once",
            "would fail",
            version(|ctx: Ctx, (): ()| async move {
                let a = ctx.step("a", || ok(String::new())).await?;
                Err::<(), _>(format!("{a} is no good").into())
            }),
        ),
    ]
}

/// Asserts that a deploy did what the check predicted.
async fn compare(what: &str, verdict: &Verdict, test: &TestEngine) {
    test.skip_time().await;
    let info = test.get_run::<serde_json::Value>("r").await.unwrap().info().await.unwrap();
    let note = info.note.clone().unwrap_or_default();
    match verdict {
        Verdict::Fine => assert_eq!((info.status, note.as_str()), (Status::Completed, ""), "{what}: {info:?}"),
        Verdict::NewSteps { asked, .. } => {
            assert_eq!(info.status, Status::Completed, "{what}: {info:?}");
            for step in asked.iter().filter_map(|asked| asked.name.strip_prefix("step:")) {
                assert_eq!(test.executions(step), 1, "{what}: {step}");
            }
        }
        Verdict::Orphaned { recorded } => {
            assert_eq!(info.status, Status::Completed, "{what}: {info:?}");
            assert!(recorded.iter().all(|orphan| note.contains(&orphan.to_string())), "{what}: {note}");
        }
        Verdict::NewBeforeRecorded { asked, .. } => {
            // A new wait waits; everything else runs.
            let is_wait = asked.iter().any(|asked| asked.name.starts_with("wait:"));
            assert_eq!(info.status.is_ended(), !is_wait, "{what}: {info:?}");
        }
        Verdict::Renamed { renames } => {
            assert_eq!(info.status, Status::Completed, "{what}: {info:?}");
            assert!(renames.iter().all(|rename| note.contains(&rename.from.to_string())), "{what}: {note}");
        }
        Verdict::TypeChanged { sentence, .. } | Verdict::Stuck { sentence } => {
            assert_eq!((info.status, &note), (Status::Stuck, sentence), "{what}");
        }
        Verdict::Fails { failure } => {
            assert_eq!(info.status, Status::Failed, "{what}: {info:?}");
            assert_eq!(info.failure.unwrap().message, *failure, "{what}");
        }
        other => panic!("{what}: {other}"),
    }
}

#[tokio::test]
async fn check_predicts_what_a_deploy_of_each_change_does() {
    let old = version(a_then_b);
    let all = [moved(), more_and_less(), renamed(), retyped(), fatal()];
    for Change { what, code, foreseen } in all.into_iter().flatten() {
        let mut test = begun(&old).await;
        let verdict = verdict(&foresee(&test, &code).await);
        assert_eq!(verdict.word(), foreseen, "{what}: {verdict}");
        deploy(&mut test, &code).await;
        compare(what, &verdict, &test).await;
    }
}

#[tokio::test]
async fn check_says_whether_the_code_heals_a_stuck_run() {
    let old = version(a_then_b);
    let stuck = retyped().into_iter().chain(fatal()).filter(|change| change.foreseen != "would fail");
    for Change { what, code, foreseen } in stuck {
        let mut test = begun(&old).await;
        deploy(&mut test, &code).await;
        assert_eq!(verdict(&foresee(&test, &code).await).word(), foreseen, "{what}: it stays stuck");
        let healed = verdict(&foresee(&test, &old).await);
        assert_eq!(healed, Verdict::Fine, "{what}");
        deploy(&mut test, &old).await;
        compare(what, &healed, &test).await;
    }
}

#[tokio::test]
async fn suggested_was_keeps_the_values_of_renamed_steps() {
    let old = version(a_then_b);
    let both = |first: Option<&'static str>, second: Option<&'static str>| {
        version(move |ctx: Ctx, (): ()| async move {
            let step = ctx.step("first", || ok("a2".to_owned()));
            let a = if let Some(was) = first { step.was(was).await? } else { step.await? };
            let step = ctx.step("second", || ok("b2".to_owned()));
            let b = if let Some(was) = second { step.was(was).await? } else { step.await? };
            ctx.sleep("1 hour").await?;
            Ok(a + &b)
        })
    };
    let mut test = begun(&old).await;
    let Verdict::Renamed { renames } = verdict(&foresee(&test, &both(None, None)).await) else { panic!() };
    let said: Vec<_> = renames.iter().map(|rename| (rename.to.name.as_str(), rename.was.as_deref())).collect();
    assert_eq!(said, [("step:first", Some("a")), ("step:second", Some("b"))]);
    let fixed = both(Some("a"), Some("b"));
    assert_eq!(verdict(&foresee(&test, &fixed).await), Verdict::Fine);
    deploy(&mut test, &fixed).await;
    test.skip_time().await;
    assert_eq!(test.get_run::<String>("r").await.unwrap().result().await.unwrap(), "a1b1");
    assert_eq!((test.executions("first"), test.executions("second")), (0, 0));
}

#[tokio::test]
async fn occurrences_of_a_renamed_step_are_one_rename() {
    let loops = |name: &'static str| {
        version(move |ctx: Ctx, (): ()| async move {
            for n in 0..40 {
                ctx.step(name, || ok(n)).await?;
            }
            Ok(ctx.sleep("1 hour").await?)
        })
    };
    let test = begun(&loops("old")).await;
    let Verdict::Renamed { renames } = verdict(&foresee(&test, &loops("new")).await) else { panic!() };
    assert_eq!((renames.len(), renames[0].was.as_deref()), (1, Some("old")));
}

#[tokio::test]
async fn step_of_another_type_is_not_reported_as_renamed() {
    let test = begun(&version(a_then_b)).await;
    let replaced = version(|ctx: Ctx, (): ()| async move {
        ctx.step("count", || ok(7_u32)).await?;
        ctx.step("b", || ok("b2".to_owned())).await?;
        Ok(ctx.sleep("1 hour").await?)
    });
    assert_eq!(verdict(&foresee(&test, &replaced).await).word(), "cannot tell");
}

#[tokio::test]
async fn retyped_signal_that_was_already_taken_is_predicted() {
    let takes = |is_text: bool| {
        version(move |ctx: Ctx, (): ()| async move {
            if is_text {
                ctx.wait::<String>("name").await?;
            } else {
                ctx.wait::<u32>("name").await?;
            }
            Ok(ctx.sleep("1 hour").await?)
        })
    };
    let mut test = begun(&takes(true)).await;
    test.get_run::<()>("r").await.unwrap().signal("name", "ada").await.unwrap();
    test.settle().await;
    let verdict = verdict(&foresee(&test, &takes(false)).await);
    assert_eq!(verdict.word(), "type changed", "{verdict}");
    deploy(&mut test, &takes(false)).await;
    compare("retyped signal", &verdict, &test).await;
}

#[tokio::test]
async fn workflow_that_awaits_a_foreign_future_is_predicted_stuck() {
    let test = begun(&version(a_then_b)).await;
    let foreign = version(|ctx: Ctx, (): ()| async move {
        ctx.step("a", || ok(String::new())).await?;
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        Ok(())
    });
    let verdict = verdict(&foresee(&test, &foreign).await);
    assert!(verdict.to_string().contains("waits for a future that is not part of it (last operation awaited: step:a"));
}

#[tokio::test]
async fn workflow_that_wakes_itself_forever_does_not_hang_a_check() {
    let test = begun(&version(a_then_b)).await;
    let restless = version(|_: Ctx, (): ()| async move {
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        })
        .await;
        Ok(())
    });
    assert_eq!(verdict(&foresee(&test, &restless).await).word(), "would be stuck");
}

#[tokio::test]
async fn delayed_runs_are_checked_and_ended_runs_are_not() {
    let setup = version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("a", || ok(1)).await?) });
    let test = begun(&setup).await;
    test.start_json("w", "null").id("later").delay("1 day").await.unwrap();
    let report = foresee(&test, &(Arc::new(|engine| engine) as Setup)).await;
    assert_eq!(report.runs().iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["later"]);
    foresee(&test, &setup).await.assert_fine();
}

/// What would break: a writable connection checkpoints the WAL into the file when it is the last to close.
#[tokio::test]
async fn check_does_not_change_a_byte_of_a_crashed_file() {
    let folder = tempfile::tempdir().unwrap();
    let (live, copy) = (folder.path().join("live.db"), folder.path().join("copy.db"));
    let engine = Engine::open(&live).workflow("w", a_then_b).start().await.unwrap();
    let run = engine.start(a_then_b, &()).id("r").await.unwrap();
    while run.status().await.unwrap().kind() != StatusKind::Sleeping {
        tokio::task::yield_now().await;
    }
    for suffix in ["", "-wal"] {
        // Copied by another process: closing a file of the store here would release its locks.
        let files = [&live, &copy].map(|file| format!("{}{suffix}", file.display()));
        assert!(std::process::Command::new("cp").args(files).status().unwrap().success());
    }
    let bytes = || ["", "-wal"].map(|suffix| std::fs::read(format!("{}{suffix}", copy.display())).unwrap());
    let before = bytes();
    check(&copy, |engine| engine.workflow("w", a_then_b)).await.assert_fine();
    assert_eq!(verdict(&check(&copy, |engine| engine).await).word(), "would be stuck");
    assert!(bytes() == before);
    assert!(!folder.path().join("copy.db.lock").exists(), "the check took no lock");
    check(&live, |engine| engine.workflow("w", a_then_b)).await.assert_fine();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn check_runs_no_step_body() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    async fn body() -> Result<u32> {
        RAN.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }
    let test = begun(&version(a_then_b)).await;
    let new = version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("new", body).await?) });
    assert_eq!(verdict(&foresee(&test, &new).await).word(), "cannot tell");
    // A run that has not started has no entries, so its first step could begin at once.
    test.start_json("w", "null").id("later").delay("1 day").await.unwrap();
    assert_eq!(foresee(&test, &new).await.count("fine"), 1);
    assert_eq!(RAN.load(Ordering::Relaxed), 0);
}

#[tokio::test]
#[should_panic(expected = "looks renamed  step:first")]
async fn assert_fine_panics_with_a_table_of_findings() {
    let test = begun(&version(a_then_b)).await;
    let renamed = version(|ctx: Ctx, (): ()| async move {
        ctx.step("first", || ok("a2".to_owned())).await?;
        ctx.step("b", || ok("b2".to_owned())).await?;
        Ok(ctx.sleep("1 hour").await?)
    });
    foresee(&test, &renamed).await.assert_fine();
}
