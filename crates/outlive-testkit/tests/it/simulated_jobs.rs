//! Tasks in worlds in which everything goes wrong: each event counts once, in order, and so does what it sends.

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use outlive_testkit::simulate;

const ORDERS: Task<u32, Vec<u32>> = Task::new("orders");
const LEDGER: Task<u32, Vec<u32>> = Task::new("ledger");

async fn keep(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|all| all.push(n));
    Ok(())
}

async fn nothing(_: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    Ok(())
}

async fn handle(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|all| all.push(n));
    ctx.send(LEDGER, "all", &n)?;
    ctx.schedule_in("1 minute")?;
    // What a failed call did does not count, also if it comes after all of it.
    if n.is_multiple_of(3) && ctx.attempt() < 3 { Err("not yet".into()) } else { Ok(()) }
}

async fn remind(ctx: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    ctx.update_state(|all| all.push(100));
    Ok(())
}

/// A task that was claimed once more while it was in memory: it took itself for released, and slept until a restart.
const CLAIMED_IN_MEMORY: u64 = 16_515;

#[test]
fn whatever_goes_wrong_each_event_counts_once_and_in_order() {
    simulate((0..400).chain([CLAIMED_IN_MEMORY]), |sim| {
        sim.engine(|engine| {
            let orders = ORDERS.on_event(handle).retry(Retry::times(5).constant("1 second")).execute(remind);
            engine.job(orders).job(LEDGER.on_event(keep).execute(nothing))
        });
        let orders = 1 + sim.below(2) as u32;
        for order in 0..orders {
            for n in 1..=4 {
                sim.send("task:orders", &order.to_string(), &(10 * order + n));
            }
        }
        // The ledger is sent something by people too, so that it is looked at in the end.
        sim.send("task:ledger", "all", &0);
        sim.check(move |end| {
            for order in 0..orders {
                let state: Vec<u32> = end.jobs[&format!("task:orders:{order}")].state().unwrap_or_default();
                let events: Vec<u32> = state.iter().copied().filter(|n| *n != 100).collect();
                let wanted: Vec<u32> = (1..=4).map(|n| 10 * order + n).collect();
                if events != wanted || state.last() != Some(&100) {
                    return Err(format!("order {order} has {state:?}"));
                }
            }
            let mut ledger: Vec<u32> = end.jobs["task:ledger:all"].state().unwrap_or_default();
            ledger.sort_unstable();
            let wanted: Vec<u32> =
                [0].into_iter().chain((0..orders).flat_map(|o| (1..=4).map(move |n| 10 * o + n))).collect();
            if ledger == wanted { Ok(()) } else { Err(format!("the ledger has {ledger:?}")) }
        });
    });
}
