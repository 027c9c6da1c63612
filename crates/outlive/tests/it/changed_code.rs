//! Deploys of changed code while runs are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::clock::Clock;
use outlive::prelude::*;
use outlive::{Builder, Jitter, Strict};
use outlive_testkit::TestEngine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn fail<T>(message: &str) -> Result<T> {
    Err(message.into())
}

/// Registers one version of the workflow "w".
fn version<F, Fut, O>(workflow: F) -> impl Fn(Builder) -> Builder + Send + Sync + 'static
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    move |engine| engine.workflow("w", workflow.clone())
}

fn strict_version<F, Fut, O>(workflow: F) -> impl Fn(Builder) -> Builder + Send + Sync + 'static
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    move |engine| engine.workflow("w", Strict(workflow.clone()))
}

/// An engine on which the first version has started its run "r".
async fn begun(setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> TestEngine {
    let test = TestEngine::new(setup).await;
    test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    test
}

/// Crashes the process and settles the next one.
async fn restart(test: &mut TestEngine) {
    test.crash().await;
    test.settle().await;
}

/// Crashes the process and settles one with other code.
async fn deploy(test: &mut TestEngine, setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) {
    test.deploy(setup).await;
    test.settle().await;
}

async fn find<O: DeserializeOwned>(test: &TestEngine) -> Run<O> {
    test.get_run("r").await.unwrap()
}

async fn result<O: DeserializeOwned>(test: &TestEngine) -> Result<O, Error> {
    test.result(&find::<O>(test).await).await
}

/// Returns why the run is stuck.
async fn note(test: &TestEngine) -> String {
    let info = find::<serde_json::Value>(test).await.info().await.unwrap();
    assert_eq!(info.status, Status::Stuck, "{info:?}");
    info.note.unwrap()
}

async fn a_then_b(ctx: Ctx, (): ()) -> Result<String> {
    let a = ctx.step("a", || ok("a1".to_owned())).await?;
    let b = ctx.step("b", || ok("b1".to_owned())).await?;
    ctx.sleep("1 hour").await?;
    Ok(a + &b)
}

// ---- order ----

#[tokio::test]
async fn reordered_steps_keep_their_values() {
    let mut test = begun(version(a_then_b)).await;
    let reordered = version(|ctx: Ctx, (): ()| async move {
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        let a = ctx.step("a", || ok("a2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(a + &b)
    });
    deploy(&mut test, reordered).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
    assert_eq!((test.executions("a"), test.executions("b")), (1, 1));
}

#[tokio::test]
async fn inserted_steps_run_and_recorded_steps_do_not() {
    let mut test = begun(version(a_then_b)).await;
    let inserted = version(|ctx: Ctx, (): ()| async move {
        let zero = ctx.step("zero", || ok("0".to_owned())).await?;
        let a = ctx.step("a", || ok("a2".to_owned())).await?;
        let new = ctx.step("new", || ok("n".to_owned())).await?;
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(zero + &a + &new + &b)
    });
    deploy(&mut test, inserted).await;
    for _ in 0..2 {
        restart(&mut test).await;
    }
    assert_eq!(result::<String>(&test).await.unwrap(), "0a1nb1");
    let executions = ["zero", "a", "new", "b"].map(|step| test.executions(step));
    assert_eq!(executions, [1, 1, 1, 1]);
}

#[tokio::test]
async fn step_inserted_before_a_sleep_does_not_move_its_end() {
    let mut test = begun(version(a_then_b)).await;
    let start = test.clock().now();
    test.advance("20 minutes").await;
    let inserted = version(|ctx: Ctx, (): ()| async move {
        ctx.step("new", || ok(())).await?;
        ctx.sleep("1 hour").await?;
        Ok(String::new())
    });
    deploy(&mut test, inserted).await;
    result::<String>(&test).await.unwrap();
    assert_eq!(test.clock().now().since(start), Duration::from_secs(3600));
}

#[tokio::test]
async fn removed_step_is_not_an_error() {
    let mut test = begun(version(a_then_b)).await;
    let removed = version(|ctx: Ctx, (): ()| async move {
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(b)
    });
    deploy(&mut test, removed).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "b1");
    assert_eq!(
        find::<String>(&test).await.completed_steps().await.unwrap(),
        ["a", "b"],
        "completed steps stay recorded"
    );
}

#[tokio::test]
async fn removed_sleep_does_not_hold_up_the_run() {
    let mut test = begun(version(a_then_b)).await;
    deploy(&mut test, version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("a", || ok(String::new())).await?) })).await;
    test.advance("1 hour").await;
    assert_eq!(find::<String>(&test).await.status().await.unwrap(), Status::Completed);
}

// ---- names ----

#[tokio::test]
async fn renamed_step_with_was_keeps_its_value() {
    let mut test = begun(version(a_then_b)).await;
    let renamed = version(|ctx: Ctx, (): ()| async move {
        let a = ctx.step("first", || ok("a2".to_owned())).was("a").await?;
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(a + &b)
    });
    deploy(&mut test, renamed).await;
    restart(&mut test).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
    assert_eq!((test.executions("first"), test.executions("a")), (0, 1));
}

/// Both steps recorded the end of "a", which made the journal unreadable: the run was lost at the next restart.
#[tokio::test]
async fn new_step_with_the_old_name_of_a_renamed_step_is_refused() {
    let mut test = begun(version(a_then_b)).await;
    let reused = version(|ctx: Ctx, (): ()| async move {
        let first = ctx.step("first", || ok("a2".to_owned())).was("a").await?;
        let a = ctx.step("a", || ok("new".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        ctx.wait::<String>("go").await?;
        Ok(first + &a)
    });
    deploy(&mut test, reused).await;
    test.advance("1 hour").await;
    restart(&mut test).await;
    let said = note(&test).await;
    assert!(said.starts_with("step:a (") && said.contains("was the name of another step in this run"), "{said}");
    let fixed = version(|ctx: Ctx, (): ()| async move {
        let first = ctx.step("first", || ok("a2".to_owned())).was("a").await?;
        let second = ctx.step("second", || ok("new".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(first + &second)
    });
    deploy(&mut test, fixed).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1new");
}

#[tokio::test]
async fn renamed_step_without_was_runs_as_a_new_step() {
    let mut test = begun(version(a_then_b)).await;
    let renamed = version(|ctx: Ctx, (): ()| async move {
        let a = ctx.step("first", || ok("a2".to_owned())).await?;
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(a + &b)
    });
    deploy(&mut test, renamed).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a2b1");
    assert_eq!((test.executions("first"), test.executions("b")), (1, 1));
}

#[tokio::test]
async fn new_run_records_a_renamed_step_under_its_new_name() {
    let renamed = version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("first", || ok(1)).was("a").await?) });
    let test = begun(renamed).await;
    assert_eq!(find::<u32>(&test).await.completed_steps().await.unwrap(), ["first"]);
}

#[tokio::test]
async fn occurrences_of_a_renamed_step_keep_their_values() {
    let three = |name: &'static str, old: &'static str, from: u32| {
        version(move |ctx: Ctx, (): ()| async move {
            let mut all = Vec::new();
            for n in from..from + 3 {
                all.push(ctx.step(name, || ok(n)).was(old).await?);
            }
            ctx.sleep("1 hour").await?;
            Ok(all)
        })
    };
    let mut test = begun(three("old", "older", 0)).await;
    deploy(&mut test, three("new", "old", 10)).await;
    assert_eq!(result::<Vec<u32>>(&test).await.unwrap(), [0, 1, 2]);
    assert_eq!(test.executions("new"), 0);
}

#[tokio::test]
async fn renamed_step_keeps_its_attempts_and_due_time() {
    let flaky = |name: &'static str, old: &'static str| {
        version(move |ctx: Ctx, (): ()| async move {
            let body = |attempt: Attempt| async move {
                if attempt.number < 3 {
                    fail("no").await
                } else {
                    ok((attempt.number, attempt.idempotency_key().to_owned())).await
                }
            };
            let retry = Retry::times(2).constant("1 hour").jitter(Jitter::none());
            Ok(ctx.step(name, body).was(old).retry(retry).await?)
        })
    };
    let mut test = begun(flaky("old", "older")).await;
    let start = test.clock().now();
    test.advance("30 minutes").await;
    deploy(&mut test, flaky("new", "old")).await;
    let (number, key) = result::<(u32, String)>(&test).await.unwrap();
    assert_eq!((number, test.clock().now().since(start)), (3, Duration::from_secs(7200)));
    assert!(key.ends_with("step:old"), "external services know the step by that key: {key}");
}

#[tokio::test]
async fn was_and_key_can_be_called_in_either_order() {
    let keyed = version(|ctx: Ctx, (): ()| async move {
        for n in 0..2 {
            ctx.step("old", || ok(n)).key(n).await?;
        }
        ctx.sleep("1 hour").await?;
        Ok((0, 0))
    });
    let mut test = begun(keyed).await;
    let renamed = version(|ctx: Ctx, (): ()| async move {
        let zero = ctx.step("new", || ok(10)).key(0).was("old").await?;
        let one = ctx.step("new", || ok(11)).was("old").key(1).await?;
        ctx.sleep("1 hour").await?;
        Ok((zero, one))
    });
    deploy(&mut test, renamed).await;
    assert_eq!(result::<(u32, u32)>(&test).await.unwrap(), (0, 1));
    assert_eq!(test.executions("new"), 0);
}

#[tokio::test]
async fn keyed_loop_that_skips_an_item_keeps_the_other_values() {
    let items = |items: &'static [&'static str], suffix: &'static str| {
        version(move |ctx: Ctx, (): ()| async move {
            let mut all = Vec::new();
            for item in items {
                all.push(ctx.step("ship", || ok(format!("{item}{suffix}"))).key(item).await?);
            }
            ctx.sleep("1 hour").await?;
            Ok(all)
        })
    };
    let mut test = begun(items(&["tea", "cup", "pot"], "1")).await;
    deploy(&mut test, items(&["tea", "pot", "jar"], "2")).await;
    assert_eq!(result::<Vec<String>>(&test).await.unwrap(), ["tea1", "pot1", "jar2"]);
    assert_eq!(test.executions("ship"), 4);
}

// ---- types ----

#[tokio::test]
async fn value_that_does_not_read_as_the_new_type_makes_the_run_stuck_until_fixed() {
    let mut test = begun(version(a_then_b)).await;
    let changed = version(|ctx: Ctx, (): ()| async move {
        let a: u32 = ctx.step("a", || ok(5)).await?;
        ctx.sleep("1 hour").await?;
        Ok(a)
    });
    deploy(&mut test, changed).await;
    test.advance("1 hour").await;
    let note = note(&test).await;
    assert!(note.contains("step \"a\"") && note.contains("u32") && note.contains("\"a1\""), "{note}");
    assert_eq!(test.executions("a"), 1, "nothing runs again on a guess");
    deploy(&mut test, version(a_then_b)).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
    assert_eq!((test.executions("a"), test.executions("b")), (1, 1));
}

#[tokio::test]
async fn new_type_that_reads_the_recorded_value_is_fine() {
    #[derive(Serialize, Deserialize)]
    struct Old {
        cents: u32,
    }
    #[derive(Serialize, Deserialize)]
    struct New {
        cents: u64,
        #[serde(default)]
        currency: Option<String>,
    }
    let old = version(|ctx: Ctx, (): ()| async move {
        let paid = ctx.step("pay", || ok(Old { cents: 7 })).await?;
        ctx.sleep("1 hour").await?;
        Ok(u64::from(paid.cents))
    });
    let mut test = begun(old).await;
    let new = version(|ctx: Ctx, (): ()| async move {
        let paid = ctx.step("pay", || ok(New { cents: 8, currency: Some("EUR".into()) })).await?;
        ctx.sleep("1 hour").await?;
        Ok(paid.cents + u64::from(paid.currency.is_some()))
    });
    deploy(&mut test, new).await;
    assert_eq!(result::<u64>(&test).await.unwrap(), 7);
}

#[tokio::test]
async fn signal_that_does_not_read_as_the_new_type_is_a_dead_letter() {
    async fn takes_text(ctx: Ctx, (): ()) -> Result<String> {
        ctx.sleep("1 hour").await?;
        Ok(ctx.wait::<String>("name").await?)
    }
    async fn takes_number(ctx: Ctx, (): ()) -> Result<u32> {
        ctx.sleep("1 hour").await?;
        Ok(ctx.wait::<u32>("name").await?)
    }
    let mut test = begun(version(takes_text)).await;
    find::<String>(&test).await.signal("name", "ada").await.unwrap();
    deploy(&mut test, version(takes_number)).await;
    test.advance("1 hour").await;
    let dead = find::<u32>(&test).await.dead_signals().await.unwrap().remove(0);
    assert!(dead.name == "name" && dead.value.as_str() == "\"ada\"" && dead.problem.contains("u32"), "{dead:?}");
    deploy(&mut test, version(takes_text)).await;
    find::<String>(&test).await.retry_dead_signal(dead.seq).await.unwrap();
    assert_eq!(result::<String>(&test).await.unwrap(), "ada");
}

#[tokio::test]
async fn input_that_does_not_read_as_the_new_type_makes_the_run_stuck_until_fixed() {
    async fn takes_number(ctx: Ctx, n: u32) -> Result<u32> {
        ctx.sleep("1 hour").await?;
        Ok(n)
    }
    async fn takes_list(ctx: Ctx, list: Vec<u32>) -> Result<u32> {
        ctx.sleep("1 hour").await?;
        Ok(list.len() as u32)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("w", takes_number)).await;
    test.start(takes_number, &7).id("r").await.unwrap();
    deploy(&mut test, |engine| engine.workflow("w", takes_list)).await;
    test.advance("1 hour").await;
    let note = note(&test).await;
    assert!(note.contains("input") && note.contains("invalid type: integer `7`"), "{note}");
    deploy(&mut test, |engine| engine.workflow("w", takes_number)).await;
    assert_eq!(result::<u32>(&test).await.unwrap(), 7);
}

#[tokio::test]
async fn recorded_step_is_not_mistaken_for_a_signal_of_the_same_name() {
    let mut test = begun(version(a_then_b)).await;
    let changed = version(|ctx: Ctx, (): ()| async move {
        let a: String = ctx.wait("a").await?;
        Ok(a)
    });
    deploy(&mut test, changed).await;
    let run = find::<String>(&test).await;
    test.advance("1 hour").await;
    assert!(matches!(run.status().await.unwrap(), Status::Waiting { .. }));
    run.signal("a", "signalled").await.unwrap();
    assert_eq!(result::<String>(&test).await.unwrap(), "signalled");
}

// ---- workflows ----

#[tokio::test]
async fn run_of_an_unregistered_workflow_is_stuck_until_it_is_registered_again() {
    let mut test = begun(version(a_then_b)).await;
    deploy(&mut test, |engine| engine).await;
    test.advance("2 hours").await;
    let note = note(&test).await;
    assert!(note.contains("workflow \"w\" is not registered"), "{note}");
    let listed = test.list(Filter::runs().status(StatusKind::Stuck)).await.unwrap();
    assert_eq!(listed.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["r"]);
    deploy(&mut test, version(a_then_b)).await;
    assert_eq!(find::<String>(&test).await.status().await.unwrap(), Status::Completed, "its sleep is over");
    assert_eq!((test.executions("a"), test.executions("b")), (1, 1));
}

#[tokio::test]
async fn signal_to_a_run_of_an_unregistered_workflow_is_kept() {
    async fn waits(ctx: Ctx, (): ()) -> Result<Vec<u32>> {
        Ok(vec![ctx.wait("n").await?, ctx.wait("n").await?])
    }
    let mut test = begun(version(waits)).await;
    deploy(&mut test, |engine| engine).await;
    let run = find::<Vec<u32>>(&test).await;
    run.signal("n", &1).await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
    run.signal("n", &2).await.unwrap();
    restart(&mut test).await;
    deploy(&mut test, version(waits)).await;
    assert_eq!(result::<Vec<u32>>(&test).await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn manually_paused_run_stays_paused_through_a_deploy() {
    let mut test = begun(version(a_then_b)).await;
    find::<String>(&test).await.pause().await.unwrap();
    test.settle().await;
    deploy(&mut test, |engine| engine).await;
    deploy(&mut test, version(a_then_b)).await;
    test.advance("2 hours").await;
    let run = find::<String>(&test).await;
    assert!(run.status().await.unwrap() == Status::Paused);
    run.resume().await.unwrap();
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
}

#[tokio::test]
async fn renamed_function_is_the_same_workflow() {
    async fn checkout(ctx: Ctx, (): ()) -> Result<String> {
        a_then_b(ctx, ()).await
    }
    let mut test = begun(version(a_then_b)).await;
    deploy(&mut test, version(checkout)).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
}

// ---- strict ----

#[tokio::test]
async fn strict_run_is_stuck_on_a_removed_step_before_anything_new_runs() {
    let mut test = begun(version(a_then_b)).await;
    let renamed = strict_version(|ctx: Ctx, (): ()| async move {
        let new = ctx.step("new", || ok("n".to_owned())).await?;
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(new + &b)
    });
    deploy(&mut test, renamed).await;
    test.advance("1 hour").await;
    let note = note(&test).await;
    assert!(
        note.contains("step:a") && note.contains("step:new") && note.contains("tests/it/changed_code.rs:"),
        "{note}"
    );
    assert_eq!(test.executions("new"), 0);
    deploy(&mut test, strict_version(a_then_b)).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
}

#[tokio::test]
async fn strict_run_does_not_end_with_unclaimed_entries() {
    let mut test = begun(version(a_then_b)).await;
    let shorter = strict_version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("a", || ok(String::new())).await?) });
    deploy(&mut test, shorter).await;
    test.advance("1 hour").await;
    let note = note(&test).await;
    assert!(note.contains("step:b"), "{note}");
}

#[tokio::test]
async fn strict_run_is_stuck_if_its_pending_sleep_was_removed() {
    let mut test = begun(version(a_then_b)).await;
    let awake = strict_version(|ctx: Ctx, (): ()| async move {
        let a = ctx.step("a", || ok(String::new())).await?;
        let b = ctx.step("b", || ok(String::new())).await?;
        ctx.step("new", || ok(())).await?;
        Ok(a + &b)
    });
    deploy(&mut test, awake).await;
    test.advance("1 hour").await;
    let note = note(&test).await;
    assert!(note.contains("sleep"), "{note}");
    assert_eq!(test.executions("new"), 0);
}

#[tokio::test]
async fn strict_run_accepts_reordered_steps() {
    let mut test = begun(version(a_then_b)).await;
    let reordered = strict_version(|ctx: Ctx, (): ()| async move {
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        let a = ctx.step("a", || ok("a2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(a + &b)
    });
    deploy(&mut test, reordered).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
}

#[tokio::test]
async fn strict_run_accepts_a_renamed_step_with_was() {
    let mut test = begun(version(a_then_b)).await;
    let renamed = strict_version(|ctx: Ctx, (): ()| async move {
        let a = ctx.step("first", || ok("a2".to_owned())).was("a").await?;
        let b = ctx.step("b", || ok("b2".to_owned())).await?;
        ctx.sleep("1 hour").await?;
        Ok(a + &b)
    });
    deploy(&mut test, renamed).await;
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
}

#[tokio::test]
async fn strict_paused_run_does_not_count_unreplayed_entries_as_orphaned() {
    let setup = strict_version(a_then_b);
    let mut test = TestEngine::new(setup).paranoid(false).await;
    test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    find::<String>(&test).await.pause().await.unwrap();
    test.settle().await;
    restart(&mut test).await;
    let run = find::<String>(&test).await;
    run.signal("unasked", &1).await.unwrap();
    test.settle().await;
    assert!(run.status().await.unwrap() == Status::Paused, "{:?}", run.info().await);
    run.resume().await.unwrap();
    assert_eq!(result::<String>(&test).await.unwrap(), "a1b1");
}

#[tokio::test]
async fn strict_run_does_not_count_the_loser_of_a_race_as_orphaned() {
    async fn race(ctx: Ctx, (): ()) -> Result<u32> {
        let won = tokio::select! {
            biased;
            one = ctx.step("one", || ok(1)) => one?,
            two = ctx.step("two", || ok(2)) => two?,
        };
        ctx.sleep("1 hour").await?;
        Ok(won + ctx.step("after", || ok(10)).await?)
    }
    let mut test = begun(strict_version(race)).await;
    for _ in 0..3 {
        restart(&mut test).await;
    }
    assert_eq!(result::<u32>(&test).await.unwrap(), 11);
}

// ---- settings of steps ----

#[tokio::test]
async fn fallback_removed_while_it_ran_does_not_hang_the_run() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = is_up.clone();
    let with_fallback = version(move |ctx: Ctx, (): ()| {
        let up = up.clone();
        async move {
            let fallback =
                |_| async move { if up.load(Ordering::Relaxed) { Ok(1) } else { std::future::pending().await } };
            Ok(ctx.step("price", || fail::<u32>("no price")).fallback(fallback).await?)
        }
    });
    let mut test = begun(with_fallback).await;
    deploy(
        &mut test,
        version(|ctx: Ctx, (): ()| async move { Ok(ctx.step("price", || fail::<u32>("no price")).await?) }),
    )
    .await;
    let ended = result::<u32>(&test).await;
    let is_reported = matches!(&ended, Err(Error::Failed { .. } | Error::Stuck { .. }));
    assert!(is_reported && ended.as_ref().unwrap_err().to_string().contains("price"), "{ended:?}");
}

#[tokio::test]
async fn recorded_retry_keeps_its_due_time_under_a_new_policy() {
    let policy = |retry: fn() -> Retry| {
        version(move |ctx: Ctx, (): ()| async move {
            let body = |attempt: Attempt| async move {
                if attempt.number < 2 { fail("no").await } else { ok(attempt.number).await }
            };
            Ok(ctx.step("flaky", body).retry(retry()).await?)
        })
    };
    let mut test = begun(policy(|| Retry::times(5).constant("1 hour").jitter(Jitter::none()))).await;
    let start = test.clock().now();
    deploy(&mut test, policy(|| Retry::times(1).constant("1 second"))).await;
    assert_eq!(result::<u32>(&test).await.unwrap(), 2);
    assert_eq!(test.clock().now().since(start), Duration::from_secs(3600));
}

#[tokio::test]
async fn longer_sleep_in_new_code_does_not_move_a_pending_one() {
    let nap = |time: &'static str| version(move |ctx: Ctx, (): ()| async move { Ok(ctx.sleep(time).await?) });
    let mut test = begun(nap("1 hour")).await;
    let start = test.clock().now();
    deploy(&mut test, nap("3 hours")).await;
    result::<()>(&test).await.unwrap();
    assert_eq!(test.clock().now().since(start), Duration::from_secs(3600));
}
