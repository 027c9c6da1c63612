//! A trip of three bookings: if one cannot be made, those before it are cancelled, last first, even across crashes.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use outlive::prelude::*;

async fn travel(ctx: Ctx, days: u32) -> Result<String> {
    let flight = ctx
        .step("book flight", |attempt: Attempt| book("flight", days, attempt))
        .undo("cancel flight", cancel)
        .undo_retry(Retry::times(20).exponential("1 second").max_delay("1 hour"))
        .await?;
    let hotel =
        ctx.step("book hotel", |attempt: Attempt| book("hotel", days, attempt)).undo("cancel hotel", cancel).await?;
    let car = ctx.step("book car", |attempt: Attempt| book("car", days, attempt)).undo("cancel car", cancel).await?;
    Ok(format!("{flight}, {hotel}, {car}"))
}

/// Books something at an agency, which drops a repeated request by its key.
async fn book(what: &str, days: u32, attempt: Attempt) -> Result<String> {
    if what == "car" && days > 7 {
        return Err("no car is free for that long".into());
    }
    let booking = format!("{what} for {days} days");
    println!("booked the {booking} ({})", attempt.idempotency_key());
    Ok(booking)
}

/// Cancels a booking. It gets the value that was recorded for it, and a key of its own.
async fn cancel(booking: String, attempt: Attempt) -> Result<()> {
    println!("cancelled the {booking} ({})", attempt.idempotency_key());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("memory:").workflow("travel", travel).start().await?;
    let short = engine.start(travel, &3).id("weekend").await?;
    println!("weekend: {}\n", short.result().await?);
    let long = engine.start(travel, &14).id("holidays").await?;
    let error = long.result().await.err().map_or_else(String::new, |error| error.to_string());
    println!("holidays: {error}");
    Ok(engine.shutdown().await?)
}
