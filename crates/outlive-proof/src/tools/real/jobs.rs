//! Jobs of all four kinds in real time, while their process is killed and stopped: nothing is early, lost or given up.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;

use crate::tools::real::stage::{Role, Stage, until};

const BEAT: Continuous<()> = Continuous::new("beat");
const BATCH: Debounce<String, Vec<String>> = Debounce::new("batch");
const REMIND: Task<String, Vec<String>> = Task::new("remind");
const SLOW: WorkerPool<String> = WorkerPool::new("slow");
/// Longer than the engine ever sleeps at a time, and shorter than the timeout.
const SLOWLY: Duration = Duration::from_secs(6);

/// The file in which handlers record what they did, one line each.
struct Ledger(PathBuf);

impl Ledger {
    fn note(&self, line: &str) -> std::io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

async fn beat(ctx: ContinuousCtx<()>) -> Result<()> {
    let due = ctx.scheduled_at().ok_or("the run has no scheduled time")?;
    let early = if ctx.started_at() < due { "early" } else { "in-time" };
    Ok(ctx.get::<Ledger>().note(&format!("beat {} {} {early}", ctx.idempotency_key(), due.as_millis()))?)
}

async fn collect(ctx: DebounceCtx<String, Vec<String>>, event: String) -> Result<()> {
    ctx.update_state(|batch| batch.push(event));
    Ok(())
}

async fn flush(ctx: DebounceCtx<String, Vec<String>>) -> Result<()> {
    for event in ctx.state().unwrap_or_default() {
        ctx.get::<Ledger>().note(&format!("batch {event}"))?;
    }
    Ok(())
}

async fn heed(ctx: TaskCtx<String, Vec<String>>, event: String) -> Result<()> {
    ctx.update_state(|seen| seen.push(event));
    Ok(ctx.schedule_in("1 second")?)
}

async fn remind(ctx: TaskCtx<String, Vec<String>>) -> Result<()> {
    Ok(ctx.get::<Ledger>().note(&format!("remind {}", ctx.state().map_or(0, |seen| seen.len())))?)
}

async fn work_slowly(ctx: WorkerPoolCtx<String>, event: String) -> Result<()> {
    tokio::time::sleep(SLOWLY).await;
    Ok(ctx.get::<Ledger>().note(&format!("slow {event}"))?)
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let engine = Engine::open(role.store())
        .job(BEAT.every("1 second").execute(beat))
        .job(BATCH.flush_after("2 seconds").on_event(collect).execute(flush))
        .job(REMIND.on_event(heed).execute(remind))
        .job(SLOW.concurrency(8).timeout("30 seconds").execute(work_slowly))
        .provide(Ledger(role.folder.join("ledger")));
    let _engine = engine.start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let (client, kills) = (stage.client()?, stage.amount(4, 60));
    client.job(BEAT).start("b", &()).await?;
    let mut sent = Vec::new();
    for life in 0..kills {
        let process = stage.process("jobs")?;
        for n in 0..6 {
            let token = format!("{life}.{n}");
            client.job(BATCH).add("b", &token).await?;
            client.job(REMIND).send("r", &token).await?;
            sent.push(token);
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        if life % 2 == 1 {
            process.send_signal("STOP")?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            process.send_signal("CONT")?;
        }
        process.kill()?;
    }
    let _process = stage.process("jobs")?;
    for n in 0..8 {
        client.job(SLOW).push(&n.to_string()).await?;
    }
    until("everything accepted is handled", async || {
        let ledger = read(stage)?;
        let lost = sent.iter().find(|token| !has(&ledger, "batch", token));
        let slow = (0..8).find(|n| !has(&ledger, "slow", &n.to_string()));
        let all = sent.len().to_string();
        Ok(match (lost, slow) {
            (Some(lost), _) => Err(format!("event {lost} was not flushed")),
            (_, Some(slow)) => Err(format!("the slow event {slow} was not handled")),
            _ if !has(&ledger, "remind", &all) => Err(format!("the task did not see all {all} events")),
            _ => Ok(()),
        })
    })
    .await?;
    let ticks = check_ticks(&read(stage)?)?;
    let dead = client.job(BATCH).dead().await?.len() + client.job(SLOW).dead().await?.len();
    if dead > 0 {
        return Err(format!("{dead} events were given up, but no handler failed").into());
    }
    Ok(format!(
        "{kills} kills: {} events flushed, {ticks} ticks, 8 handlers of 6 s; none early or given up",
        sent.len()
    ))
}

fn read(stage: &Stage) -> Result<Vec<Vec<String>>, BoxError> {
    let text = fs::read_to_string(stage.folder().join("ledger")).unwrap_or_default();
    Ok(text.lines().map(|line| line.split(' ').map(ToOwned::to_owned).collect()).collect())
}

fn has(ledger: &[Vec<String>], kind: &str, what: &str) -> bool {
    ledger.iter().any(|line| line[0] == kind && line[1] == what)
}

/// Checks that a tick has one key however often it runs, that no two ticks share one, and that none is early. Returns
/// how many there were.
fn check_ticks(ledger: &[Vec<String>]) -> Result<usize, BoxError> {
    let (mut due_of, mut key_of) = (BTreeMap::new(), BTreeMap::new());
    for line in ledger.iter().filter(|line| line[0] == "beat") {
        let (key, due) = (&line[1], &line[2]);
        if line[3] == "early" {
            return Err(format!("the tick of {due} ran before its time").into());
        }
        if due_of.insert(key, due).is_some_and(|other| other != due) {
            return Err(format!("the key {key} was given to two ticks").into());
        }
        if key_of.insert(due, key).is_some_and(|other| other != key) {
            return Err(format!("the tick of {due} had two keys").into());
        }
    }
    Ok(key_of.len())
}
