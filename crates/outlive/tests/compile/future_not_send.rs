//! A run may go on in another thread after each `.await`.

use std::rc::Rc;

use outlive::prelude::*;

async fn checkout(ctx: Ctx, cents: u32) -> Result<u32> {
    let shared = Rc::new(cents);
    ctx.sleep("1 hour").await?;
    Ok(*shared)
}

fn main() {
    let _ = Engine::open("memory:").workflow("checkout", checkout);
}
