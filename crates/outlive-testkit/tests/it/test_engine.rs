//! The test engine reports steps that may change with the iteration order of a map.

use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn polls(ctx: Ctx, times: u32) -> Result<()> {
    for n in 0..times {
        ctx.step("poll", || async { Ok::<_, BoxError>(()) }).await?;
        ctx.step("keyed", || async { Ok::<_, BoxError>(()) }).key(n).await?;
        ctx.sleep("1 minute").await?;
    }
    Ok(())
}

#[tokio::test]
async fn call_site_that_repeats_a_step_without_a_key_is_reported_once() {
    for (is_paranoid, times, count) in [(true, 1, 0), (true, 4, 1), (false, 4, 0)] {
        let test = TestEngine::new(|engine| engine.workflow("polls", polls)).paranoid(is_paranoid).await;
        let run = test.start(polls, &times).await.unwrap();
        test.result(&run).await.unwrap();
        let warnings = test.warnings();
        assert_eq!(warnings.len(), count, "{warnings:?}");
        let place = "step \"poll\" (crates/outlive-testkit/tests/it/test_engine.rs:";
        assert!(warnings.iter().all(|warning| warning.starts_with(place)), "{warnings:?}");
    }
}
