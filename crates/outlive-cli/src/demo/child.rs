//! The process that is killed: an engine with the order workflow and the jobs.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use outlive::prelude::*;
use serde::{Deserialize, Serialize};

use super::execution_log::ExecutionLog;
use super::folder::{steps_in, store_in};
use super::jobs;
use super::snapshot::RUN_ID;
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct ChildArgs {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DemoOrder {
    pub(crate) item: String,
    pub(crate) cents: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Approval {
    pub(crate) by: String,
}

async fn order(ctx: Ctx, order: DemoOrder) -> Result<String> {
    let shop: &Shop = ctx.get();
    let payment = ctx.step("charge card", |attempt: Attempt| shop.charge(&order, attempt)).await?;
    let shelf = ctx
        .step("reserve stock", |attempt: Attempt| shop.reserve(&order, attempt))
        .retry(Retry::times(5).constant("400 ms"))
        .await?;
    ctx.sleep("2 seconds").await?;
    let approval: Approval = ctx.wait("approval").timeout("1 hour").await?;
    let parcel = ctx.step("ship", |attempt: Attempt| shop.ship(&order, attempt)).await?;
    Ok(format!("{payment}; {shelf}; approved by {}; {parcel}", approval.by))
}

/// The outside world. Every call to it is recorded in a log, so that calls can be counted.
struct Shop {
    log: ExecutionLog,
}

impl Shop {
    async fn charge(&self, order: &DemoOrder, attempt: Attempt) -> Result<String> {
        self.work("charge card", attempt.number, 500).await?;
        Ok(format!("paid {}.{:02}", order.cents / 100, order.cents % 100))
    }

    async fn reserve(&self, order: &DemoOrder, attempt: Attempt) -> Result<String> {
        self.work("reserve stock", attempt.number, 300).await?;
        if attempt.number <= 2 {
            return Err("the warehouse does not answer".into());
        }
        Ok(format!("{} reserved", order.item))
    }

    async fn ship(&self, order: &DemoOrder, attempt: Attempt) -> Result<String> {
        self.work("ship", attempt.number, 900).await?;
        Ok(format!("{} is on its way", order.item))
    }

    async fn work(&self, step: &str, attempt: u32, millis: u64) -> Result<()> {
        self.log.write(step, attempt)?;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok(())
    }
}

/// Executes the store until the order has ended and its jobs have nothing left to do.
pub(crate) async fn run(args: &ChildArgs) -> std::result::Result<ExitCode, CliError> {
    std::thread::spawn(end_with_parent);
    let shop = Shop { log: ExecutionLog::at(steps_in(&args.folder)) };
    let engine = Engine::open(store_in(&args.folder)).workflow("order", order).provide(shop);
    let engine = jobs::register(engine, &args.folder).start().await?;
    let ended = engine.get_run::<String>(RUN_ID).await?.result().await;
    jobs::settle(&engine).await?;
    engine.shutdown().await?;
    // The store says how the order ended; the exit code only says whether it completed.
    Ok(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Exits with the parent, which holds the other end of stdin: that is closed however the parent ends.
fn end_with_parent() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(1);
}
