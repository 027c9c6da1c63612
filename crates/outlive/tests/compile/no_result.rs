//! A workflow gives a `Result`.

use outlive::prelude::*;

async fn checkout(_: Ctx, cents: u32) -> u32 {
    cents
}

fn main() {
    let _ = Engine::open("memory:").workflow("checkout", checkout);
}
