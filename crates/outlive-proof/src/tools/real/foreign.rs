//! A workflow that sleeps on tokio's clock instead of ours, and its fix: the fixed program continues the run.

use std::time::Duration;

use outlive::Workflow;
use outlive::prelude::*;

use crate::tools::real::stage::{Role, Stage, until};

const ORDER: Workflow<(), u32> = Workflow::new("order");

async fn charge() -> Result<u32> {
    Ok(42)
}

async fn bad(ctx: Ctx, _: ()) -> Result<u32> {
    let paid = ctx.step("charge", charge).await?;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    ctx.step("ship", async || Ok::<_, BoxError>(())).await?;
    Ok(paid)
}

async fn fixed(ctx: Ctx, _: ()) -> Result<u32> {
    let paid = ctx.step("charge", charge).await?;
    ctx.sleep("100 ms").await?;
    ctx.step("ship", async || Ok::<_, BoxError>(())).await?;
    Ok(paid)
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let builder = Engine::open(role.store());
    let builder = if role.name == "bad" { builder.workflow("order", bad) } else { builder.workflow("order", fixed) };
    let _engine = builder.start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let client = stage.client()?;
    let process = stage.process("bad")?;
    let run = client.start(ORDER, &()).id("order").await?;
    until("a run that sleeps on a foreign clock is stuck, with a reason", async || {
        let info = run.info().await?;
        Ok(if info.status == Status::Stuck { Ok(()) } else { Err(format!("it is {} ({:?})", info.status, info.note)) })
    })
    .await?;
    process.kill()?;
    let _process = stage.process("fixed")?;
    until("the fixed program continues the run", async || {
        let info = run.info().await?;
        Ok(if info.status == Status::Completed {
            Ok(())
        } else {
            Err(format!("it is {} ({:?})", info.status, info.note))
        })
    })
    .await?;
    Ok("a run with a foreign sleep was stuck, and a fixed deploy completed it".to_owned())
}
