//! Timeouts and retries of several seconds in CI, and of more than a minute by hand, across a kill: none ends before its time.

use std::time::Duration;

use outlive::prelude::*;
use outlive::{EntryKind, Jitter, Workflow};

use crate::tools::real::stage::{Role, Stage, until};

const SLOW_STEP: Workflow<u64, u32> = Workflow::new("slow step");
const SECOND_TRY: Workflow<u64, u32> = Workflow::new("second try");
const ENDLESS: Workflow<u64, String> = Workflow::new("endless");

/// A body that takes its time, and less of it than its timeout.
async fn slow_step(ctx: Ctx, seconds: u64) -> Result<u32> {
    let body = async |attempt: Attempt| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok::<_, BoxError>(attempt.number)
    };
    Ok(ctx.step("work", body).timeout(Duration::from_secs(seconds * 2)).await?)
}

/// A step that fails once, and is tried again much later.
async fn second_try(ctx: Ctx, seconds: u64) -> Result<u32> {
    let body = async |attempt: Attempt| match attempt.number {
        1 => Err("not yet"),
        number => Ok(number),
    };
    let retry = Retry::times(1).constant(Duration::from_secs(seconds)).jitter(Jitter::none());
    Ok(ctx.step("work", body).retry(retry).await?)
}

/// A body that never ends, and has to.
async fn endless(ctx: Ctx, seconds: u64) -> Result<String> {
    let body = || std::future::pending::<Result<(), BoxError>>();
    match ctx.step("work", body).timeout(Duration::from_secs(seconds)).await {
        Err(error) => Ok(error.code().to_owned()),
        Ok(()) => Err("it ended".into()),
    }
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let engine = Engine::open(role.store()).workflow("slow step", slow_step).workflow("second try", second_try);
    let _engine = engine.workflow("endless", endless).start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let (client, seconds) = (stage.client()?, stage.amount(7, 70));
    let process = stage.process("waits")?;
    let slow = client.start(SLOW_STEP, &seconds).id("slow").await?;
    let second = client.start(SECOND_TRY, &seconds).id("second").await?;
    let endless = client.start(ENDLESS, &seconds).id("endless").await?;
    until("the first attempt has failed", async || {
        let failed = second.journal().await?.iter().any(|entry| entry.kind == EntryKind::AttemptFailed);
        Ok(if failed { Ok(()) } else { Err("nothing is recorded of it".to_owned()) })
    })
    .await?;
    process.kill()?;
    let _process = stage.process("waits")?;
    let results = (slow.result().await?, second.result().await?, endless.result().await?);
    if results.0 > 2 || results.1 != 2 || results.2 != "timeout" {
        return Err(
            format!("attempts {} and {}, and {:?} instead of a timeout", results.0, results.1, results.2).into()
        );
    }
    for (run, of) in [("second", "the second attempt"), ("endless", "the timeout")] {
        let info = client.get_run::<serde_json::Value>(run).await?.info().await?;
        let took = info.ended_at.zip(info.started_at).map(|(ended, started)| ended.since(started)).unwrap_or_default();
        if took < Duration::from_secs(seconds) {
            return Err(format!("{of} came after {took:?}, {seconds} s were due").into());
        }
    }
    Ok(format!("a body, a retry and a timeout of {seconds} s across a kill: none ended early"))
}
