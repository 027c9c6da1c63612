//! Values that are created when the engine starts, and not in a check.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::check::Allow;
use outlive::prelude::*;
use outlive_testkit::{TestEngine, check};

struct Bank(u32);

async fn in_a_step(ctx: Ctx, (): ()) -> Result<u32> {
    ctx.step("first", || async { Ok::<_, BoxError>(1) }).await?;
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("charge", || async { Ok::<_, BoxError>(ctx.get::<Bank>().0) }).await?)
}

async fn outside(ctx: Ctx, (): ()) -> Result<u32> {
    let bank = ctx.get::<Bank>().0;
    ctx.step("first", || async { Ok::<_, BoxError>(1) }).await?;
    ctx.sleep("1 hour").await?;
    Ok(bank)
}

async fn outside_if_any(ctx: Ctx, (): ()) -> Result<u32> {
    if ctx.try_get::<Bank>().is_ok() {
        ctx.step("first", || async { Ok::<_, BoxError>(1) }).await?;
    }
    ctx.sleep("1 hour").await?;
    Ok(1)
}

#[tokio::test]
async fn provided_value_is_created_once_at_startup_and_not_in_a_check() {
    let made = Arc::new(AtomicU32::new(0));
    let counter = made.clone();
    let bank = move || {
        let made = counter.clone();
        async move { Ok::<_, BoxError>(Bank(41 + made.fetch_add(1, Ordering::Relaxed) + 1)) }
    };
    let setup = bank.clone();
    let test = TestEngine::new(move |engine| engine.workflow("w", in_a_step).provide_with(setup.clone())).await;
    assert_eq!(made.load(Ordering::Relaxed), 1, "before any run has begun");
    let run = test.start(in_a_step, &()).id("r").await.unwrap();
    test.settle().await;
    check(&test, |engine| engine.workflow("w", in_a_step).provide_with(bank)).await.assert_fine();
    assert_eq!(made.load(Ordering::Relaxed), 1, "a check creates nothing");
    assert_eq!(test.result(&run).await.unwrap(), 42);
}

#[tokio::test]
async fn value_that_cannot_be_created_keeps_the_engine_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let broken = || async { Err::<Bank, BoxError>("the bank is closed".into()) };
    let error = Engine::open(&file).provide_with(broken).start().await.unwrap_err();
    assert!(matches!(&error, Error::Provide { type_name, .. } if type_name.ends_with("Bank")), "{error:?}");
    assert!(error.code() == "provide" && error.to_string().contains("the bank is closed"), "{error}");
    assert!(!file.exists(), "the store is not touched");
}

/// What would be wrong: replaying without the value, and blaming the run for what is only the missing value.
#[tokio::test]
async fn check_cannot_replay_a_run_that_uses_the_value_outside_a_step() {
    let bank = || async { Ok::<_, BoxError>(Bank(42)) };
    let test = TestEngine::new(move |engine| engine.workflow("w", outside).provide_with(bank)).await;
    test.start(outside, &()).id("r").await.unwrap();
    test.settle().await;
    let lacking = [
        check(&test, |engine| engine.workflow("w", outside).provide_with(bank)).await,
        check(&test, |engine| engine.workflow("w", outside_if_any).provide_with(bank)).await,
    ];
    for report in lacking {
        let report = report.allow(Allow::NewBeforeRecorded);
        assert_eq!((report.exit_code(), report.count("needs a value")), (1, 1), "{report}");
        assert!(report.to_string().contains("inside the step"), "{report}");
    }
    check(&test, |engine| engine.workflow("w", outside).provide(Bank(1))).await.assert_fine();
}
