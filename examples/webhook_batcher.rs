//! Handles webhooks in batches: five seconds after the first of them, or as soon as there are a hundred.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::{Arc, Mutex, PoisonError};

use outlive::job::{Debounce, DebounceCtx, FlushReason};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

const WEBHOOKS: Debounce<u32, Vec<u32>> = Debounce::new("webhook-batcher");

/// The batches that were written to the warehouse.
type Warehouse = Arc<Mutex<Vec<(usize, Option<FlushReason>)>>>;

async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, webhook: u32) -> Result<()> {
    ctx.update_state(|batch| batch.push(webhook));
    Ok(())
}

async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
    let batch = ctx.state().unwrap_or_default();
    println!("a batch of {:>3}, flushed because of {:?}", batch.len(), ctx.flush_reason());
    let warehouse: &Warehouse = ctx.get();
    warehouse.lock().unwrap_or_else(PoisonError::into_inner).push((batch.len(), ctx.flush_reason()));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let warehouse = Warehouse::default();
    let given = warehouse.clone();
    let mut test = TestEngine::new(move |engine| {
        let job = WEBHOOKS.flush_after("5 seconds").max_events(100).on_event(collect).execute(flush);
        engine.provide(given.clone()).job(job)
    })
    .await;

    for webhook in 0..3 {
        let added = test.job(WEBHOOKS).add("shop", &webhook).await?;
        println!("webhook {webhook}: {} in the batch", added.event_count);
    }
    test.advance("4 seconds").await;
    println!("the process dies after 4 seconds");
    test.crash().await;
    test.advance("1 second").await;

    for webhook in 0..250 {
        test.job(WEBHOOKS).add("shop", &webhook).await?;
    }
    test.settle().await;
    println!("250 more arrived at once");
    test.advance("5 seconds").await;

    let batches = warehouse.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sizes: Vec<usize> = batches.iter().map(|(size, _)| *size).collect();
    assert_eq!(sizes, [3, 100, 100, 50], "none is lost, none is handled twice");
    Ok(())
}
