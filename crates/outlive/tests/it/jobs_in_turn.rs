//! Instances of jobs that may have taken the process down are brought back in turn, and whoever waits for one gets an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

const ORDERS: Task<u32, u32> = Task::new("orders");

/// Whether a handler comes to its end.
type Ends = Arc<AtomicBool>;

async fn handle(ctx: TaskCtx<u32, u32>, n: u32) -> Result<u32> {
    if ctx.instance_id() == "a" || !ctx.get::<Ends>().load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    Ok(n * 2)
}

async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

/// Two instances were in their handlers when the process died, twice: one is watched, the other waits for its turn. Whoever
/// asked that one was sent to the store for the answer, where nobody said that it had come.
#[tokio::test]
async fn whoever_asks_an_instance_that_waits_for_its_turn_gets_an_answer() {
    let ends = Ends::default();
    let provided = ends.clone();
    let setup = move |engine: outlive::Builder| {
        engine.job(ORDERS.on_event(handle).execute(nothing)).provide(provided.clone())
    };
    let mut test = TestEngine::new(setup).patience(std::time::Duration::ZERO).await;
    for id in ["a", "b"] {
        test.job(ORDERS).send(id, &1).await.unwrap();
    }
    for _ in 0..2 {
        test.settle().await;
        test.crash().await;
    }
    ends.store(true, Ordering::Relaxed);
    test.settle().await;
    let client = test.client();
    let asked = tokio::spawn(async move { client.job(ORDERS).ask::<u32>("b", &21).await });
    test.settle().await;
    for _ in 0..5 {
        test.advance("1 minute").await;
    }
    assert!(asked.is_finished(), "it is answered as soon as its turn comes");
    assert_eq!(asked.await.unwrap().unwrap(), 42);
}
