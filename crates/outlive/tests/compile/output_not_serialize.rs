//! The result of a run is kept as JSON, so it must be written and read.

use outlive::prelude::*;

struct Receipt;

async fn checkout(_: Ctx, _: u32) -> Result<Receipt> {
    Ok(Receipt)
}

fn main() {
    let _ = Engine::open("memory:").workflow("checkout", checkout);
}
