//! Sends messages from another process to thousands of runs in long steps: starts and sleeps must not wait for them.

use std::time::Duration;

use outlive::Workflow;
use outlive::prelude::*;

use crate::tools::real::stage::{Role, Stage, for_each, until};

const BUSY: Workflow<(), ()> = Workflow::new("busy");
const QUICK: Workflow<(), ()> = Workflow::new("quick");
const NAP: Workflow<(), ()> = Workflow::new("nap");

async fn busy(ctx: Ctx, _: ()) -> Result<()> {
    let work = async || {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Ok::<_, BoxError>(())
    };
    ctx.step("work", work).await?;
    Ok(ctx.wait("note").await?)
}

async fn quick(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.step("work", async || Ok::<_, BoxError>(())).await?)
}

async fn nap(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("2 seconds").await?)
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let builder = Engine::open(role.store()).workflow("busy", busy).workflow("quick", quick).workflow("nap", nap);
    let _engine = builder.start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let (client, runs) = (stage.client()?, stage.amount(5_000, 20_000));
    let _process = stage.process("all")?;
    for_each(runs, |n| {
        let client = client.clone();
        async move {
            client.start(BUSY, &()).id(&format!("busy-{n}")).await?;
            Ok(())
        }
    })
    .await?;
    until("all runs are in their long step", async || {
        let running = client.count(Filter::runs().status(StatusKind::Running)).await?.total();
        Ok(if running == runs { Ok(()) } else { Err(format!("{running} of {runs} are")) })
    })
    .await?;
    let napping = client.start(NAP, &()).await?;
    for_each(runs, |n| {
        let client = client.clone();
        async move {
            let run: Run<()> = client.get_run(&format!("busy-{n}")).await?;
            run.signal("note", &()).await?;
            Ok(())
        }
    })
    .await?;
    let mut quick_ones = Vec::new();
    for _ in 0..10 {
        quick_ones.push(client.start(QUICK, &()).await?);
    }
    until("runs started after the messages end, and so does a sleep", async || {
        let mut left = Vec::new();
        for run in quick_ones.iter().chain([&napping]) {
            let info = run.info().await?;
            if info.status != Status::Completed {
                left.push(format!("{} is {}", info.workflow, info.status));
            }
        }
        Ok(if left.is_empty() { Ok(()) } else { Err(left.join(", ")) })
    })
    .await?;
    Ok(format!("{runs} runs in long steps got a message each; 10 starts and a sleep were not held up"))
}
