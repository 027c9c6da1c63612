//! What comes into memory again is what it was before.

use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn ship(ctx: Ctx, _: ()) -> Result<u32> {
    let n: u32 = ctx.wait("go").await?;
    Ok(ctx.step("ship", || async { outlive::Ok(n * 2) }).await?)
}

/// A message has a paused run claimed and loaded. It must not continue because of that, whatever the message is.
#[tokio::test]
async fn run_paused_by_hand_stays_paused_when_a_message_loads_it() {
    let mut test = TestEngine::new(|engine| engine.workflow("ship", ship)).await;
    let run = test.start(ship, &()).await.unwrap();
    test.settle().await;
    run.pause().await.unwrap();
    test.settle().await;
    test.crash().await;
    let run: Run<u32> = test.get_run(run.id()).await.unwrap();
    run.signal("go", &21).await.unwrap();
    test.advance("1 day").await;
    assert_eq!((run.status().await.unwrap(), test.executions("ship")), (Status::Paused, 0));
    run.resume().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 42);
}
