//! Recovers runs in long steps after kills, with one among them that crashes the process: all others come back, and
//! none is blamed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::Workflow;
use outlive::prelude::*;

use crate::tools::real::stage::{Process, Role, Stage, for_each, until};

const LONG: Workflow<(), ()> = Workflow::new("long");
const DEADLY: Workflow<(), ()> = Workflow::new("deadly");
/// How many processes the deadly run may crash before it must have been found.
const LIVES_MAX: usize = 40;

/// The file in which bodies record that they have begun, one per process.
struct Begun(PathBuf);

async fn long(ctx: Ctx, _: ()) -> Result<()> {
    let work = async || {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&ctx.get::<Begun>().0)?;
        file.write_all(format!("{}\n", ctx.info().id).as_bytes())?;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Ok::<_, BoxError>(())
    };
    Ok(ctx.step("work", work).await?)
}

async fn deadly(ctx: Ctx, _: ()) -> Result<()> {
    let work = async || {
        // Long enough to run together with the others.
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::process::abort();
        #[expect(unreachable_code, reason = "gives the body its type")]
        Ok::<_, BoxError>(())
    };
    Ok(ctx.step("die", work).await?)
}

fn file_of(folder: &Path, life: &str) -> PathBuf {
    folder.join(format!("begun-{life}"))
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let begun = Begun(file_of(&role.folder, &role.name));
    let builder = Engine::open(role.store()).workflow("long", long).workflow("deadly", deadly).provide(begun);
    let _engine = builder.start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let (client, runs) = (stage.client()?, stage.amount(16, 10_000));
    let mut process = stage.process("0")?;
    for_each(runs, |n| {
        let client = client.clone();
        async move {
            client.start(LONG, &()).id(&format!("long-{n}")).await?;
            Ok(())
        }
    })
    .await?;
    for life in 0..2 {
        all_begun(stage, &life.to_string(), runs, &mut process).await?;
        process.kill()?;
        process = stage.process(&(life + 1).to_string())?;
    }
    all_begun(stage, "2", runs, &mut process).await?;

    let culprit = client.start(DEADLY, &()).id("culprit").await?;
    let mut lives = 3;
    while culprit.status().await? != Status::Stuck {
        if process.has_ended()? {
            if lives > LIVES_MAX {
                return Err(format!("the run that crashes the process was not found after {lives} processes").into());
            }
            process = stage.process(&lives.to_string())?;
            lives += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    all_begun(stage, &(lives - 1).to_string(), runs, &mut process).await?;
    let stuck = client.count(Filter::runs().workflow("long").status(StatusKind::Stuck)).await?.total();
    match stuck {
        0 => Ok(format!("{runs} runs in long steps were back after 2 kills and a deadly run, in {lives} processes")),
        _ => Err(format!("{stuck} of {runs} innocent runs are stuck").into()),
    }
}

/// Waits until the bodies of all runs have begun in this process.
async fn all_begun(stage: &Stage, life: &str, runs: u64, process: &mut Process) -> Result<(), BoxError> {
    let file = file_of(stage.folder(), life);
    until(&format!("all bodies run in process {life}"), async || {
        if process.has_ended()? {
            return Err(format!("process {life} has ended").into());
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let begun = text.lines().collect::<BTreeSet<_>>().len() as u64;
        Ok(if begun == runs { Ok(()) } else { Err(format!("{begun} of {runs} do")) })
    })
    .await
}
