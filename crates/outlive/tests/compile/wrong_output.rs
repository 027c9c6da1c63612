//! What a run gives is known from its workflow.

use outlive::prelude::*;

async fn checkout(_: Ctx, cents: u32) -> Result<String> {
    Ok(format!("paid {cents}"))
}

async fn wrong(engine: &Engine) -> Result<u32> {
    let run = engine.start(checkout, &500).await?;
    let receipt: u32 = run.result().await?;
    Ok(receipt)
}

fn main() {
    let _ = wrong;
}
