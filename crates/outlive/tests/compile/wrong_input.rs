//! What a run takes is known from its workflow.

use outlive::prelude::*;

async fn checkout(_: Ctx, cents: u32) -> Result<u32> {
    Ok(cents)
}

async fn wrong(engine: &Engine) -> Result<u32> {
    let run = engine.start(checkout, "500").await?;
    Ok(run.result().await?)
}

fn main() {
    let _ = wrong;
}
