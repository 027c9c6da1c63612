//! A workflow takes a context and an input.

use outlive::prelude::*;

async fn checkout(_: Ctx) -> Result<u32> {
    Ok(1)
}

fn main() {
    let _ = Engine::open("memory:").workflow("checkout", checkout);
}
