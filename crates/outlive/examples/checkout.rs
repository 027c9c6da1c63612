//! A checkout with its own types. Kill it while it sleeps and start it again: it resumes where it left off.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use outlive::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u32,
}

#[derive(Serialize, Deserialize)]
struct Approval {
    by: String,
}

#[derive(Serialize, Deserialize, Debug)]
struct Receipt {
    payment: String,
    label: String,
    invoice: String,
    by: String,
}

async fn checkout(ctx: Ctx, order: Order) -> Result<Receipt> {
    let payment = ctx
        .step("charge card", |attempt: Attempt| charge(&order, attempt))
        .timeout("30 seconds")
        .retry(Retry::times(5).exponential("1 second").max_delay("30 seconds"))
        .await?;
    let approval: Approval = ctx.wait("approval").timeout("3 days").await?;
    ctx.sleep("5 seconds").await?;
    let (label, invoice) = tokio::try_join!(
        ctx.step("print label", || write("label", &order.item)),
        ctx.step("write invoice", || write("invoice", &payment)),
    )?;
    Ok(Receipt { payment, label, invoice, by: approval.by })
}

async fn charge(order: &Order, attempt: Attempt) -> Result<String> {
    Ok(format!("payment {} of {} cents", attempt.idempotency_key(), order.cents))
}

async fn write(what: &str, about: &str) -> Result<String> {
    Ok(format!("{what} for {about}"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("shop.db").workflow("checkout", checkout).start().await?;
    let order = Order { item: "a tent".into(), cents: 12_900 };
    let run = engine.start(checkout, &order).id("order-42").await?;
    if !run.status().await?.is_ended() {
        run.signal("approval", &Approval { by: "ada".into() }).dedup_key("ada").await?; // an ended run accepts none
    }
    println!("{:#?}", run.result().await?);
    Ok(engine.shutdown().await?)
}
