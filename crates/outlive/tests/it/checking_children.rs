//! Checks of runs with children and effects: what would be started or sent again is never called fine.

use std::sync::Arc;

use outlive::check::Verdict;
use outlive::prelude::*;
use outlive::{Builder, IgnoredAny};
use outlive_testkit::{TestEngine, check};
use serde::Serialize;
use serde::de::DeserializeOwned;

type Setup = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

async fn ship(_: Ctx, _: ()) -> Result<u32> {
    Ok(7)
}

async fn patient(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.wait::<IgnoredAny>("go").await?;
    Ok(7)
}

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

fn version<F, Fut, O>(workflow: F) -> Setup
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    Arc::new(move |engine| {
        engine
            .workflow("w", workflow.clone())
            .workflow("ship", ship)
            .workflow("deliver", |ctx: Ctx, _: ()| ship(ctx, ()))
            .workflow("patient", patient)
    })
}

const DELIVER: Workflow<(), u32> = Workflow::new("deliver");
/// The same workflow with another type of result.
const SHIP_TEXT: Workflow<(), String> = Workflow::new("ship");
const PATIENT_TEXT: Workflow<(), String> = Workflow::new("patient");

/// An engine on which the old code has started its run "r".
async fn begun(setup: Setup) -> TestEngine {
    let test = TestEngine::new(move |engine| setup(engine)).await;
    test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    test
}

async fn foresee(test: &TestEngine, setup: &Setup) -> Verdict {
    let report = check(test, |engine| setup(engine)).await;
    report.runs().iter().find(|run| run.id == "r").unwrap().verdict.clone()
}

/// Runs a child, starts another run, makes a step and sleeps.
async fn old(ctx: Ctx, (): ()) -> Result<u32> {
    let parcel = ctx.run(ship, &()).await?;
    ctx.start(patient, &()).id("friend").await?;
    let invoice = ctx.step("invoice", || ok(1)).await?;
    ctx.sleep("1 hour").await?;
    Ok(parcel + invoice)
}

/// What follows the child in the old code.
async fn the_rest(ctx: Ctx) -> Result<()> {
    ctx.start(patient, &()).id("friend").await?;
    ctx.step("invoice", || ok(1)).await?;
    Ok(ctx.sleep("1 hour").await?)
}

/// A change of the code, and what a check says about it.
type Change = (&'static str, &'static str, Setup);

fn changes() -> Vec<Change> {
    vec![
        ("nothing", "fine", version(old)),
        (
            "another child in its place",
            "looks renamed",
            version(|ctx: Ctx, (): ()| async move {
                ctx.run(DELIVER, &()).await?;
                the_rest(ctx).await
            }),
        ),
        (
            "another id of the started run",
            "looks renamed",
            version(|ctx: Ctx, (): ()| async move {
                ctx.run(ship, &()).await?;
                ctx.start(patient, &()).id("enemy").await?;
                ctx.step("invoice", || ok(1)).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        (
            "an effect before what is recorded",
            "cannot tell",
            version(|ctx: Ctx, (): ()| async move {
                ctx.signal("friend", "hello", &1).await?;
                old(ctx, ()).await
            }),
        ),
        (
            "an effect after what is recorded",
            "new steps",
            version(|ctx: Ctx, (): ()| async move {
                ctx.run(ship, &()).await?;
                ctx.start(patient, &()).id("friend").await?;
                ctx.step("invoice", || ok(1)).await?;
                ctx.signal("friend", "hello", &1).await?;
                Ok(ctx.sleep("1 hour").await?)
            }),
        ),
        ("no child", "orphaned", version(|ctx: Ctx, (): ()| async move { the_rest(ctx).await })),
        (
            "another type of the child's result",
            "type changed",
            version(|ctx: Ctx, (): ()| async move {
                ctx.run(SHIP_TEXT, &()).await?;
                the_rest(ctx).await
            }),
        ),
    ]
}

#[tokio::test]
async fn changed_children_and_effects_are_judged_like_steps() {
    let test = begun(version(old)).await;
    for (what, foreseen, code) in changes() {
        let verdict = foresee(&test, &code).await;
        assert_eq!(verdict.word(), foreseen, "{what}: {verdict}");
        if !matches!(verdict, Verdict::Fine) {
            assert!(!verdict.details().contains(".was("), "only a step has old names, but: {verdict}");
        }
    }
}

async fn waiting(ctx: Ctx, (): ()) -> Result<u32> {
    Ok(ctx.run(patient, &()).await?)
}

/// What broke: the wait for a child leaves no record, and was taken for a new step.
#[tokio::test]
async fn run_that_waits_for_a_child_is_fine_unless_the_child_changes() {
    let test = begun(version(waiting)).await;
    assert_eq!(foresee(&test, &version(waiting)).await, Verdict::Fine);
    let other = version(|ctx: Ctx, (): ()| async move { Ok(ctx.run(DELIVER, &()).await?) });
    let verdict = foresee(&test, &other).await;
    assert_eq!(verdict.word(), "looks renamed", "{verdict}");
}

#[tokio::test]
async fn outcome_that_is_not_taken_yet_must_have_the_right_type() {
    let test = begun(version(waiting)).await;
    test.client().get_run::<u32>("r").await.unwrap().pause().await.unwrap();
    test.settle().await;
    test.client().get_run::<u32>("r/patient").await.unwrap().signal("go", &()).await.unwrap();
    test.settle().await;
    assert_eq!(foresee(&test, &version(waiting)).await, Verdict::Fine);
    let text = version(|ctx: Ctx, (): ()| async move { Ok(ctx.run(PATIENT_TEXT, &()).await?) });
    let verdict = foresee(&test, &text).await;
    assert!(matches!(&verdict, Verdict::TypeChanged { what, .. } if what.contains("r/patient")), "{verdict}");
}
