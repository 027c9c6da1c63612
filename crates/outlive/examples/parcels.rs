//! An order that ships each of its items in a child, and reports to the run of its customer. Kill it while the parcels
//! are on their way and start it again: nothing is packed or reported twice.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use outlive::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    /// The id of the customer's run.
    customer: String,
    items: Vec<String>,
}

/// Ships all items at once, ten at a time, and signals the customer. An item that cannot be shipped does not stop the
/// others.
async fn order(ctx: Ctx, order: Order) -> Result<Vec<String>> {
    let parcels = ctx
        .map(
            &order.items,
            |item| item.to_string(),
            |ctx, item| async move {
                match ctx.run(ship, item).await {
                    Err(Error::Child { failure, .. }) => Ok(format!("a refund, because {failure}")),
                    shipped => shipped,
                }
            },
        )
        .concurrency(10)
        .await?;
    ctx.signal(&order.customer, "delivered", &parcels).await?; // exactly once
    Ok(parcels)
}

/// Ships one item. It is a run of its own, with its own journal and its own retries.
async fn ship(ctx: Ctx, item: String) -> Result<String> {
    let parcel = ctx.step("pack", || pack(&item)).retry(Retry::times(2).constant("100 ms")).await?;
    ctx.sleep("2 seconds").await?; // on its way
    Ok(parcel)
}

async fn pack(item: &str) -> Result<String> {
    match item {
        "a lamp" => Err("there is no lamp in stock".into()),
        item => Ok(format!("a parcel with {item}")),
    }
}

/// Lives as long as the customer does, and hears from all orders.
async fn customer(ctx: Ctx, name: String) -> Result<String> {
    let parcels: Vec<String> = ctx.wait("delivered").await?;
    Ok(format!("{name} has received {}", parcels.join(", ")))
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("parcels.db")
        .workflow("order", order)
        .workflow("ship", ship)
        .workflow("customer", customer)
        .start()
        .await?;
    let ada = engine.start(customer, &"Ada".to_string()).id("ada").await?;
    let items = ["a tent", "a lamp", "a stove"].map(String::from).to_vec();
    let run = engine.start(order, &Order { customer: "ada".into(), items }).id("order-42").await?;
    run.result().await?;
    for child in run.children().await?.runs {
        println!("{}: {}", child.id, child.status); // outlive tree parcels.db order-42
    }
    println!("{}", ada.result().await?);
    Ok(engine.shutdown().await?)
}
