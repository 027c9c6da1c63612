//! The machine's clock jumps an hour ahead and back under an executor: what is due then happens, nothing happens early by that
//! clock, and nothing stands still until the clock has caught up.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::job::{Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive::{StatusKind, Workflow};

use crate::tools::real::stage::{Process, Role, Stage, until};

const NAP: Workflow<u64, bool> = Workflow::new("nap");
const REMIND: Task<u64, bool> = Task::new("remind");
const PACED: WorkerPool<u64> = WorkerPool::new("paced");
/// Where Debian's package `faketime` puts it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Sleeps for so many minutes, and returns whether as much time has passed by the clock of the engine.
async fn nap(ctx: Ctx, minutes: u64) -> Result<bool> {
    let (length, before) = (Duration::from_secs(minutes * 60), ctx.now());
    ctx.sleep(length).await?;
    Ok(ctx.now().since(before) >= length)
}

async fn plan(ctx: TaskCtx<u64, bool>, minutes: u64) -> Result<()> {
    Ok(ctx.schedule_in(Duration::from_secs(minutes * 60))?)
}

async fn remind(ctx: TaskCtx<u64, bool>) -> Result<()> {
    ctx.set_state(true);
    Ok(())
}

async fn work(_: WorkerPoolCtx<u64>, _: u64) -> Result<()> {
    Ok(())
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let engine = Engine::open(role.store())
        .workflow("nap", nap)
        .job(REMIND.on_event(plan).execute(remind))
        .job(PACED.concurrency(4).rate(5, "1 second").execute(work));
    let _engine = engine.start().await?;
    role.ready().await;
    Ok(())
}

/// The clock of the executor.
struct FakeClock {
    library: PathBuf,
    offset: PathBuf,
}

impl FakeClock {
    /// `None` if the library is not installed.
    fn at(folder: &Path) -> Option<Self> {
        let library = LIBRARIES.iter().map(PathBuf::from).find(|path| path.exists())?;
        Some(Self { library, offset: folder.join("offset") })
    }

    /// Sets it so many seconds ahead of the real one.
    fn set(&self, ahead: i64) -> Result<(), BoxError> {
        let new = self.offset.with_extension("new");
        fs::write(&new, format!("{ahead:+}s\n"))?;
        Ok(fs::rename(new, &self.offset)?)
    }

    fn process(&self, stage: &Stage) -> Result<Process, BoxError> {
        stage.process_with("clocks", |command| {
            command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", &self.offset);
            // Looked up each time; what measures durations in the process is left alone, as a step of the clock leaves it.
            command
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        })
    }
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let Some(clock) = FakeClock::at(stage.folder()) else {
        return Ok("skipped: libfaketime is not there (apt-get install faketime)".to_owned());
    };
    let (client, rounds) = (stage.client()?, stage.amount(2, 10));
    for round in 0..rounds {
        clock.set(0)?;
        let process = clock.process(stage)?;
        let far = client.start(NAP, &30).id(&format!("far-{round}")).await?;
        let task = format!("t{round}");
        client.job(REMIND).send(&task, &40).await?;
        until("a run sleeps, and a task waits for its wake", async || {
            let (run, next) = (far.status().await?, client.job(REMIND).status(&task).await?.next_run);
            let is_asleep = run.kind() == StatusKind::Sleeping && next.is_some();
            Ok(if is_asleep { Ok(()) } else { Err(format!("the run is {run}, the task wakes at {next:?}")) })
        })
        .await?;
        clock.set(3_600)?;
        if !far.result().await? {
            return Err("a sleep ended before its time when the clock jumped ahead".into());
        }
        until("the task that became due by the jump is reminded", async || {
            let is_reminded = client.job(REMIND).state(&task).await? == Some(true);
            Ok(if is_reminded { Ok(()) } else { Err("it is not".to_owned()) })
        })
        .await?;
        // Some are handled before the clock is set back, the rest must not wait for an hour.
        for n in 0..20 {
            client.job(PACED).push(&n).await?;
        }
        clock.set(0)?;
        let near = client.start(NAP, &0).id(&format!("near-{round}")).await?;
        near.result().await?;
        idle(&client, "after the clock was set back").await?;
        process.kill()?;
        clock.set(-3_600)?;
        let _process = clock.process(stage)?;
        client.job(PACED).push(&99).await?;
        client.start(NAP, &0).id(&format!("back-{round}")).await?.result().await?;
        idle(&client, "in a process whose clock is an hour behind the one before").await?;
    }
    Ok(format!("{rounds} jumps of an hour ahead, back and behind: nothing early, nothing stood still"))
}

async fn idle(client: &outlive::Client, when: &str) -> Result<(), BoxError> {
    until(&format!("the pool has handled all, {when}"), async || {
        let status = client.job(PACED).status().await?;
        let left = status.ready + status.running + status.delayed;
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} events are left")) })
    })
    .await
}
