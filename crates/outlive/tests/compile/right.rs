//! A workflow as it should be: it compiles, and runs.

use outlive::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    cents: u32,
}

async fn charge(order: &Order) -> Result<String> {
    Ok(format!("paid {}", order.cents))
}

async fn checkout(ctx: Ctx, order: Order) -> Result<String> {
    Ok(ctx.step("charge", || charge(&order)).await?)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let engine = Engine::open("memory:").workflow("checkout", checkout).start().await?;
    let run = engine.start(checkout, &Order { cents: 500 }).await?;
    let receipt: String = run.result().await?;
    assert_eq!(receipt, "paid 500");
    Ok(())
}
