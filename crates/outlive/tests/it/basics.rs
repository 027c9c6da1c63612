//! The plain path: steps, sleeps, waits, results.

use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn three(ctx: Ctx, n: u32) -> Result<u32> {
    let a = ctx.step("a", || ok(n + 1)).await?;
    ctx.sleep("1 hour").await?;
    let b: u32 = ctx.wait("b").timeout("1 day").await?;
    let c = ctx.step("c", || ok(a + b)).await?;
    Ok(c)
}

#[tokio::test]
async fn run_resumes_where_it_left_off_after_each_crash() {
    let mut test = TestEngine::new(|engine| engine.workflow("three", three)).await;
    let run = test.start(three, &1).id("r").await.unwrap();
    test.settle().await;
    assert!(run.status().await.unwrap().is_idle(), "{:?}", run.info().await);
    test.crash().await;
    test.advance("59 minutes").await;
    test.crash().await;
    let run: Run<u32> = test.get_run("r").await.unwrap();
    test.advance("1 minute").await;
    run.signal("b", &40).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 42);
    assert_eq!((test.executions("a"), test.executions("c")), (1, 1));
}

#[tokio::test]
async fn wait_times_out() {
    let test = TestEngine::new(|engine| engine.workflow("three", three)).await;
    let run = test.start(three, &1).id("r").await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("no signal \"b\" arrived within 1d"), "{error}");
    assert_eq!(run.status().await.unwrap(), Status::Failed);
}
