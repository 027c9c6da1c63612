//! The README's program: a checkout of three steps that outlives the process.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use outlive::prelude::*;

async fn checkout(ctx: Ctx, order: String) -> Result<String> {
    let payment = ctx.step("charge card", || call("payment", &order)).timeout("30 seconds").retry(5).await?;
    let by: String = ctx.wait("approval").timeout("3 days").await?;
    ctx.sleep("5 seconds").await?;
    let (label, invoice) = tokio::try_join!(
        ctx.step("print label", || call("label", &order)),
        ctx.step("write invoice", || call("invoice", &payment)),
    )?;
    Ok(format!("{label}; {invoice}; approved by {by}"))
}

async fn call(service: &str, what: &str) -> Result<String> {
    Ok(format!("{service} for {what}"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("shop.db").workflow("checkout", checkout).start().await?;
    let run = engine.start(checkout, &"a tent".to_string()).id("order-42").await?;
    run.signal("approval", "ada").await?;
    println!("{}", run.result().await?);
    Ok(engine.shutdown().await?)
}
