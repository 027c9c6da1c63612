//! The body of a step is an async closure.

use outlive::prelude::*;

async fn checkout(ctx: Ctx, cents: u32) -> Result<u32> {
    Ok(ctx.step("charge", || cents + 1).await?)
}

fn main() {
    let _ = checkout;
}
