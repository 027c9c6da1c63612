//! A check never calls a deploy fine if it would repeat a step, and gives no harmful advice.

use std::sync::Arc;

use outlive::Builder;
use outlive::check::Report;
use outlive::prelude::*;
use outlive_testkit::{TestEngine, check};
use serde::Serialize;
use serde::de::DeserializeOwned;

type Setup = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn text() -> Result<String> {
    Ok("done".to_owned())
}

fn version<F, Fut, O>(workflow: F) -> Setup
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    Arc::new(move |engine| engine.workflow("w", workflow.clone()))
}

async fn begun(setup: &Setup) -> TestEngine {
    let setup = setup.clone();
    let test = TestEngine::new(move |engine| setup(engine)).await;
    test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    test
}

async fn deploy(test: &mut TestEngine, setup: &Setup) -> Status {
    let setup = setup.clone();
    test.deploy(move |engine| setup(engine)).await;
    test.skip_time().await;
    test.get_run::<serde_json::Value>("r").await.unwrap().status().await.unwrap()
}

async fn checked(test: &TestEngine, setup: &Setup) -> Report {
    check(test, |engine| setup(engine)).await
}

fn old() -> Setup {
    version(|ctx: Ctx, (): ()| async move {
        ctx.step("charge", text).await?;
        ctx.step("label", text).await?;
        Ok(ctx.sleep("1 hour").await?)
    })
}

/// Versions that charge the card again.
fn repeating() -> Vec<(&'static str, Setup)> {
    [hidden(), renamed()].into_iter().flatten().collect()
}

/// The renamed step comes after something else.
fn hidden() -> Vec<(&'static str, Setup)> {
    vec![
        (
            "behind a new step",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("greet", text).await?;
                ctx.step("charge card", text).await?;
                ctx.step("label", text).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        (
            "behind a new sleep",
            version(|ctx: Ctx, (): ()| async move {
                ctx.sleep("1 minute").key("moment").await?;
                ctx.step("charge card", text).await?;
                ctx.step("label", text).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        (
            "behind a step of another order",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("label", text).await?;
                ctx.step("greet", || ok(7)).await?;
                ctx.step("charge card", text).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
    ]
}

/// The name of the step is not all that changed.
fn renamed() -> Vec<(&'static str, Setup)> {
    vec![
        (
            "and an earlier end",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("charge card", text).await?;
                Ok(())
            }),
        ),
        (
            "and another type behind it",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("charge card", text).await?;
                ctx.step("label", || ok(7_u32)).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        (
            "name and scope",
            version(|ctx: Ctx, (): ()| async move {
                ctx.scope("shop").step("charge card", text).await?;
                ctx.step("label", text).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        (
            "name and key",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("charge card", text).key(42).await?;
                ctx.step("label", text).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        (
            "a second new name that says the first alone",
            version(|ctx: Ctx, (): ()| async move {
                ctx.step("charge card", text).was("pay").await?;
                ctx.step("label", text).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
    ]
}

/// What broke: for most of these, a check reported "new steps" with exit code 0, and the card was charged again.
#[tokio::test]
async fn version_that_repeats_a_step_is_never_fine() {
    let mut called_fine = Vec::new();
    for (what, code) in repeating() {
        let mut test = begun(&old()).await;
        let report = checked(&test, &code).await;
        if report.exit_code() == 0 {
            called_fine.push(what);
        }
        deploy(&mut test, &code).await;
        assert_eq!(test.executions("charge card"), 1, "{what}: the card is charged again");
    }
    assert!(called_fine.is_empty(), "{called_fine:?}");
}

#[tokio::test]
async fn ambiguous_finding_names_both_possibilities() {
    for (what, code) in repeating() {
        let said = checked(&begun(&old()).await, &code).await.to_string();
        assert!(said.contains("step:charge (") && said.contains("tests/it/checking_repeats.rs:"), "{what}: {said}");
        let sides = ["under a new name", "if it is new, it comes first", "if it is another"];
        let is_named = sides.map(|side| said.contains(side));
        assert!(is_named[0] && (is_named[1] || is_named[2]), "{what}: {said}");
    }
}

/// What broke: a step could name only its last old name, so runs that had recorded an earlier one were charged again.
#[tokio::test]
async fn step_renamed_twice_can_name_both_and_is_not_repeated() {
    let named = |name: &'static str, was: &'static [&'static str]| {
        version(move |ctx: Ctx, (): ()| async move {
            was.iter().fold(ctx.step(name, text), |step, was| step.was(was)).await?;
            Ok(ctx.sleep("1 hour").await?)
        })
    };
    let renamed = named("charge the card", &["charge card", "charge"]);
    for (first, was) in [("charge", &[][..]), ("charge card", &["charge"])] {
        let mut test = begun(&named(first, was)).await;
        checked(&test, &renamed).await.assert_fine();
        assert_eq!(deploy(&mut test, &renamed).await, Status::Completed);
        assert_eq!((test.executions(first), test.executions("charge the card")), (1, 0));
    }
}

/// What broke: the first of two inserted steps was reported as "looks like step:charge; add `.was("charge")`".
/// Following that advice gave a run that was stuck at the second `charge`, or one that never charged.
#[tokio::test]
async fn inserted_steps_are_not_reported_as_renamed() {
    let inserted = version(|ctx: Ctx, (): ()| async move {
        ctx.step("look for fraud", text).await?;
        ctx.step("reserve", text).await?;
        ctx.step("charge", text).await?;
        ctx.step("label", text).await?;
        Ok(ctx.sleep("1 hour").await?)
    });
    let mut test = begun(&old()).await;
    let report = checked(&test, &inserted).await;
    let said = report.to_string();
    assert!(report.exit_code() == 1 && !said.contains(".was(\""), "{said}");
    assert!(said.contains("if it is new, it comes first"), "{said}");
    assert_eq!(deploy(&mut test, &inserted).await, Status::Completed);
    assert_eq!(test.executions("charge"), 1);
}

/// What would harm: `charge` was removed and `label` was renamed; suggesting that the new step was `charge` would be
/// wrong.
#[tokio::test]
async fn old_name_is_suggested_only_if_it_is_unambiguous() {
    let shorter = version(|ctx: Ctx, (): ()| async move {
        ctx.step("print label", text).await?; // `charge` is gone, and this was `label`
        Ok(ctx.sleep("1 hour").await?)
    });
    let test = begun(&old()).await;
    let report = checked(&test, &shorter).await;
    assert!(report.exit_code() == 1 && !report.to_string().contains(".was(\""), "{report}");
}

/// One more step before a sleep is the most common change, and a harmless one.
#[tokio::test]
async fn new_step_before_a_recorded_sleep_is_fine() {
    let inserted = version(|ctx: Ctx, (): ()| async move {
        ctx.step("charge", text).await?;
        ctx.step("label", text).await?;
        ctx.step("greet", text).await?;
        Ok(ctx.sleep("1 hour").await?)
    });
    let mut test = begun(&old()).await;
    let report = checked(&test, &inserted).await;
    assert_eq!((report.exit_code(), report.count("new steps")), (0, 1), "{report}");
    assert_eq!(deploy(&mut test, &inserted).await, Status::Completed);
}

/// What broke: the check stopped at a sleep, so a step that moved behind it was reported as orphaned, and a name that
/// two steps claim was reported as fine.
#[tokio::test]
async fn check_looks_past_the_sleep_a_run_is_in() {
    let moved = version(|ctx: Ctx, (): ()| async move {
        ctx.step("charge", text).await?;
        ctx.sleep("1 hour").await?;
        Ok(ctx.step("label", text).await?)
    });
    let claimed = version(|ctx: Ctx, (): ()| async move {
        ctx.step("charge card", text).was("charge").await?;
        ctx.step("label", text).await?;
        ctx.sleep("1 hour").await?;
        Ok(ctx.step("charge", text).await?)
    });
    for (code, word, status) in [(moved, "fine", Status::Completed), (claimed, "would be stuck", Status::Stuck)] {
        let mut test = begun(&old()).await;
        let report = checked(&test, &code).await;
        assert_eq!(report.count(word), 1, "{report}");
        assert_eq!(deploy(&mut test, &code).await, status);
        assert_eq!((test.executions("charge"), test.executions("label")), (1, 1));
    }
}

/// What broke: a signal that arrived before its wait was not checked.
#[tokio::test]
async fn waiting_signal_is_checked_against_the_type_of_its_wait() {
    let waits = |is_text: bool, naps: u32| {
        version(move |ctx: Ctx, (): ()| async move {
            for nap in 0..naps {
                ctx.sleep("1 hour").key(nap).await?;
            }
            if is_text {
                ctx.wait::<String>("name").await?;
            } else {
                ctx.wait::<u32>("name").await?;
            }
            Ok(())
        })
    };
    let test = begun(&waits(true, 1)).await;
    test.get_run::<()>("r").await.unwrap().signal("name", "ada").await.unwrap();
    checked(&test, &waits(true, 1)).await.assert_fine();
    for naps in [0, 1, 2] {
        let report = checked(&test, &waits(false, naps)).await;
        assert_eq!((report.exit_code(), report.count("type changed")), (1, 1), "{naps}: {report}");
        assert!(report.to_string().contains("signal \"name\" does not read as u32"), "{report}");
    }
}

/// The guide's rollback: v1, then v2, then v1 again.
#[tokio::test]
async fn rollback_is_checked_like_any_deploy() {
    let named = |name: &'static str, was: Option<&'static str>| {
        version(move |ctx: Ctx, (): ()| async move {
            was.into_iter().fold(ctx.step(name, text), |step, was| step.was(was)).await?;
            Ok(ctx.sleep("1 hour").await?)
        })
    };
    let (one, two) = (named("charge", None), named("charge card", Some("charge")));
    // A run of v1 keeps the old name under v2, and v1 finds it again.
    let mut test = begun(&one).await;
    let setup = two.clone();
    test.deploy(move |engine| setup(engine)).await;
    test.settle().await;
    checked(&test, &one).await.assert_fine();
    assert_eq!(deploy(&mut test, &one).await, Status::Completed);
    assert_eq!((test.executions("charge"), test.executions("charge card")), (1, 0));
    // A run of v2 has the new name: v1 as it was would charge again, and v1 with `.was` does not.
    let mut test = begun(&two).await;
    assert_eq!(checked(&test, &one).await.exit_code(), 1);
    let one_again = named("charge", Some("charge card"));
    checked(&test, &one_again).await.assert_fine();
    assert_eq!(deploy(&mut test, &one_again).await, Status::Completed);
    assert_eq!((test.executions("charge"), test.executions("charge card")), (0, 1));
}
