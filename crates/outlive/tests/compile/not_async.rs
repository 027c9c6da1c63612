//! A workflow is an async function.

use outlive::prelude::*;

fn checkout(_: Ctx, cents: u32) -> Result<u32> {
    Ok(cents)
}

fn main() {
    let _ = Engine::open("memory:").workflow("checkout", checkout);
}
