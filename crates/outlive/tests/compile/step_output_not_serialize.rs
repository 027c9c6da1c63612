//! The value of a step is kept as JSON, so it must be written and read.

use outlive::prelude::*;

struct Payment;

async fn charge() -> Result<Payment> {
    Ok(Payment)
}

async fn checkout(ctx: Ctx, _: u32) -> Result<u32> {
    let _payment = ctx.step("charge", || charge()).await?;
    Ok(1)
}

fn main() {
    let _ = checkout;
}
