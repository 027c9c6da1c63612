//! Checks stored runs against the code of a test.

use outlive::check::Report;
use outlive::export::Source;
use outlive::{Builder, Engine};

use crate::engine::TestEngine;

/// Replays every unfinished run of a store, an export or a [`TestEngine`] with the workflows that `setup` registers,
/// with no side effects and no writes. See [`outlive::check`].
///
/// ```
/// # use outlive::prelude::*;
/// # async fn charge() -> Result<u32> { Ok(42) }
/// async fn old(ctx: Ctx, _: ()) -> Result<u32> {
///     let paid = ctx.step("charge", charge).await?;
///     ctx.sleep("1 day").await?;
///     Ok(paid)
/// }
/// async fn new(ctx: Ctx, _: ()) -> Result<u32> {
///     let paid = ctx.step("charge card", charge).was("charge").await?;
///     ctx.sleep("1 day").await?;
///     Ok(paid)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # use outlive_testkit::{TestEngine, check};
/// let test = TestEngine::new(|engine| engine.workflow("pay", old)).await;
/// test.start(old, &()).await?;
/// test.settle().await;
/// check(&test, |engine| engine.workflow("pay", new)).await.assert_fine();
/// # Ok(()) }
/// ```
///
/// # Panics
/// If the source cannot be read, or the setup is invalid.
pub async fn check(source: impl Into<Source>, setup: impl FnOnce(Builder) -> Builder) -> Report {
    match setup(Engine::open("memory:")).check(source).await {
        Ok(report) => report,
        Err(error) => panic!("failed to check the runs: {error}"),
    }
}

/// Checks the runs in the store of the test.
impl From<&TestEngine> for Source {
    fn from(test: &TestEngine) -> Self {
        Self::from(test.store())
    }
}
