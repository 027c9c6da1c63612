//! Orders as state machines: each waits for its payment, sends a reminder every day, and gives up after three days.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use outlive::job::{JobStatus, Task, TaskCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;
use serde::{Deserialize, Serialize};

const ORDERS: Task<Event, Order> = Task::new("order-processor");

#[derive(Serialize, Deserialize, Debug)]
enum Event {
    Placed { cents: u32 },
    Paid { cents: u32 },
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
struct Order {
    open_cents: u32,
    reminders: u32,
    is_shipped: bool,
}

/// Handles the events of an order, one after the other. Returns what is left to pay.
async fn handle(ctx: TaskCtx<Event, Order>, event: Event) -> Result<u32> {
    match event {
        Event::Placed { cents } => {
            ctx.update_state(|order| order.open_cents += cents);
            ctx.schedule_in("1 day")?;
        }
        Event::Paid { cents } => ctx.update_state(|order| order.open_cents = order.open_cents.saturating_sub(cents)),
    }
    let order = ctx.state().unwrap_or_default();
    if order.open_cents == 0 {
        ctx.update_state(|order| order.is_shipped = true);
        ctx.cancel_schedule();
    }
    Ok(order.open_cents)
}

/// Runs at the wake that an order has scheduled for itself.
async fn remind(ctx: TaskCtx<Event, Order>) -> Result<()> {
    let order = ctx.state().unwrap_or_default();
    if order.reminders == 2 {
        println!("order {} was never paid; giving up", ctx.instance_id());
        ctx.terminate("not paid");
        return Ok(());
    }
    println!("order {}: {} cents are due", ctx.instance_id(), order.open_cents);
    ctx.update_state(|order| order.reminders += 1);
    Ok(ctx.schedule_in("1 day")?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut test = TestEngine::new(|engine| engine.job(ORDERS.on_event(handle).execute(remind))).await;
    for id in ["42", "43"] {
        test.job(ORDERS).send(id, &Event::Placed { cents: 1_000 }).await?;
    }
    test.advance("1 day").await;

    // A hundred payments at once are a hundred calls, one after another.
    for _ in 0..99 {
        test.job(ORDERS).send("42", &Event::Paid { cents: 10 }).await?;
    }
    test.crash().await;
    let open: u32 = test.job(ORDERS).ask("42", &Event::Paid { cents: 10 }).await?;
    println!("order 42: {open} cents are due after 100 payments and a crash");

    test.advance("3 days").await;
    let paid = test.job(ORDERS).state("42").await?.unwrap_or_default();
    println!("order 42: {paid:?}");

    assert_eq!(paid, Order { open_cents: 0, reminders: 1, is_shipped: true });
    assert_eq!(test.job(ORDERS).status("42").await?.event_count, 101);
    assert_eq!(test.job(ORDERS).status("43").await?.status, JobStatus::NotFound);
    Ok(())
}
