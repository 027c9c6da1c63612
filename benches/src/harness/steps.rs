//! The workflows that most workloads consist of: steps that do no work of their own.

use outlive::prelude::*;

/// Number of steps in a run of [`ten_steps`].
pub(crate) const STEPS: u64 = 10;

/// About 50 bytes of JSON.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Receipt {
    id: u64,
    step: u64,
    note: String,
}

pub(crate) async fn ten_steps(ctx: Ctx, id: u64) -> Result<u64> {
    take(&ctx, id, STEPS).await
}

/// Takes as many steps as its input says.
pub(crate) async fn many_steps(ctx: Ctx, (id, steps): (u64, u64)) -> Result<u64> {
    take(&ctx, id, steps).await
}

/// Ends immediately.
pub(crate) async fn no_step(_: Ctx, id: u64) -> Result<u64> {
    Ok(id)
}

async fn take(ctx: &Ctx, id: u64, steps: u64) -> Result<u64> {
    let mut sum = 0;
    for step in 0..steps {
        let receipt = ctx.step("work", || work(id, step)).await?;
        sum += receipt.step + receipt.note.len() as u64;
    }
    Ok(sum)
}

/// The body of every step.
pub(crate) async fn work(id: u64, step: u64) -> Result<Receipt> {
    Ok(Receipt { id, step, note: "about fifty bytes of it".into() })
}
