//! `crash_everywhere` finds what is wrong with a workflow, and shows the smallest schedule in which it is.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outlive::prelude::*;
use outlive_testkit::crash_everywhere;
use outlive_testkit::crashes::{Broken, Ledger};

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// The world outside: counts what reaches it.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Vec<String>>>);

impl Bank {
    async fn pay(&self, key: &str) -> Result<u32> {
        self.0.lock().unwrap().push(key.to_owned());
        Ok(42)
    }

    fn payments(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// As a bank counts that drops a second request with the same key.
    fn distinct(&self) -> usize {
        self.0.lock().unwrap().iter().collect::<BTreeSet<_>>().len()
    }
}

fn at_most_one(count: usize, what: &str) -> Result<(), String> {
    if count <= 1 { Ok(()) } else { Err(format!("{count} {what}")) }
}

// ---- workflows that are right ----

async fn ten_steps(ctx: Ctx, _: ()) -> Result<u32> {
    let mut sum = 0;
    for n in 0..10_u32 {
        sum += ctx.step("add", || ok(n)).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn ten_steps_are_crashed_everywhere_in_well_under_a_second() {
    #[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
    let start = Instant::now();
    let report = crash_everywhere(ten_steps).run().await;
    let took = start.elapsed();
    eprintln!("took {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

async fn order(ctx: Ctx, _: ()) -> Result<String> {
    let bank = ctx.get::<Bank>();
    ctx.step("charge", |attempt: Attempt| async move { bank.pay(attempt.idempotency_key()).await }).await?;
    let by: String = ctx.wait("approval").timeout("1 day").await?;
    ctx.sleep("1 hour").await?;
    ctx.step("ship", || ok(7)).await?;
    Ok(by)
}

async fn sloppy(ctx: Ctx, _: ()) -> Result<String> {
    let bank = ctx.get::<Bank>();
    ctx.step("charge", || bank.pay("")).await?;
    let by: String = ctx.wait("approval").timeout("1 day").await?;
    ctx.sleep("1 hour").await?;
    ctx.step("ship", || ok(7)).await?;
    Ok(by)
}

#[tokio::test]
async fn show() {
    let report = crash_everywhere(order).world(Bank::default).signal_at("2 hours", "approval", "ada").run().await;
    eprintln!("{report}");
    let broken = crash_everywhere(sloppy)
        .world(Bank::default)
        .signal_at("2 hours", "approval", "ada")
        .invariant("one", |ledger| at_most_one(ledger.world::<Bank>().payments(), "payments"))
        .try_run()
        .await
        .unwrap_err();
    eprintln!("{broken}");
    panic!();
}
