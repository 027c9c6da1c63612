//! The input of a run is kept as JSON, so it must be written and read.

use outlive::prelude::*;

struct Order {
    cents: u32,
}

async fn checkout(_: Ctx, order: Order) -> Result<u32> {
    Ok(order.cents)
}

fn main() {
    let _ = Engine::open("memory:").workflow("checkout", checkout);
}
