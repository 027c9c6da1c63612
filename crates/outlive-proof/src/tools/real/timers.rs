//! Timers that came due while no process was running: they end in the order in which they were due.

use std::sync::Mutex;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{EntryKind, Workflow};

use crate::tools::real::stage::{Role, Stage, until};

const NAPS: Workflow<(), Vec<u64>> = Workflow::new("naps");
/// How long no process is running; all naps are over by then.
const AWAY: Duration = Duration::from_secs(5);

/// Takes three naps at once, and returns the order in which they ended.
async fn naps(ctx: Ctx, _: ()) -> Result<Vec<u64>> {
    let ended = Mutex::new(Vec::new());
    let nap = async |seconds: u64| {
        ctx.sleep(Duration::from_secs(seconds)).key(seconds).await?;
        if let Ok(mut ended) = ended.lock() {
            ended.push(seconds);
        }
        Ok::<_, Error>(())
    };
    tokio::try_join!(nap(3), nap(1), nap(2))?;
    Ok(ended.into_inner().unwrap_or_default())
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let _engine = Engine::open(role.store()).workflow("naps", naps).start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let (client, runs) = (stage.client()?, stage.amount(20, 200));
    let process = stage.process("naps")?;
    let mut started = Vec::new();
    for n in 0..runs {
        started.push(client.start(NAPS, &()).id(&format!("naps-{n}")).await?);
    }
    for run in &started {
        until("three naps are recorded", async || {
            let journal = run.journal().await?;
            let asleep = journal.iter().filter(|entry| entry.kind == EntryKind::SleepSet).count();
            Ok(if asleep == 3 { Ok(()) } else { Err(format!("{asleep} are recorded")) })
        })
        .await?;
    }
    process.kill()?;
    tokio::time::sleep(AWAY).await;
    let _process = stage.process("naps")?;
    for run in &started {
        let ended = run.result().await?;
        if ended != [1, 2, 3] {
            return Err(format!("naps of 3, 1 and 2 s due during downtime ended as {ended:?} in {}", run.id()).into());
        }
    }
    Ok(format!("{runs} runs whose naps came due during downtime saw them end in due order"))
}
