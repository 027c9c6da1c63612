//! Many client processes act on the same ids while the executor is killed over and over: everything acknowledged
//! happens, once.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use outlive::job::{Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive::{Client, OnConflict, Workflow};
use outlive_sqlite::doctor;

use crate::tools::real::stage::{Process, Role, Stage, until};

const TALLY: Task<String, Vec<String>> = Task::new("tally");
const MAIL: WorkerPool<String> = WorkerPool::new("mail");
const GATHER: Workflow<(), Vec<String>> = Workflow::new("gather");
const CHURN: Workflow<u64, u64> = Workflow::new("churn");
/// Number of ids of each kind that all clients share.
const IDS: u64 = 4;
/// Errors a call may return when others act on the same id.
const EXPECTED: [&str; 3] = ["not_found", "status", "conflict"];

/// Gathers signals until one says stop.
async fn gather(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let mut gathered = Vec::new();
    loop {
        match ctx.wait::<String>("note").await? {
            stop if stop == "stop" => return Ok(gathered),
            note => gathered.push(note),
        }
    }
}

/// Fails for odd numbers once a signal has arrived, so that there is something to retry.
async fn churn(ctx: Ctx, n: u64) -> Result<u64> {
    ctx.step("begin", || async { outlive::Ok(n) }).await?;
    ctx.wait::<String>("go").timeout("2 seconds").await.ok();
    if n % 2 == 1 { Err("an odd one".into()) } else { Ok(n) }
}

async fn count(ctx: TaskCtx<String, Vec<String>>, event: String) -> Result<usize> {
    ctx.update_state(|seen| seen.push(event));
    Ok(ctx.state().map_or(0, |seen| seen.len()))
}

async fn deliver(ctx: WorkerPoolCtx<String>, event: String) -> Result<()> {
    note(ctx.get::<Ledger>().0.as_path(), &event)?;
    Ok(())
}

/// The file in which the executor records each mail it has handled.
struct Ledger(std::path::PathBuf);

fn note(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    match role.name.split_once('-') {
        Some((_, number)) => act(role, number.parse()?).await,
        None => {
            let engine = Engine::open(role.store())
                .workflow("gather", gather)
                .workflow("churn", churn)
                .job(TALLY.on_event(count).execute(|_: TaskCtx<String, Vec<String>>| async { outlive::Ok(()) }))
                .job(MAIL.concurrency(8).execute(deliver))
                .provide(Ledger(role.folder.join("mails")))
                .wait_for_lock("30 seconds");
            let _engine = engine.start().await?;
            role.ready().await;
            Ok(())
        }
    }
}

/// Runs a client, which acts a number of times on ids that it shares with others. Each acknowledged action is recorded.
async fn act(role: &Role, number: u64) -> Result<(), BoxError> {
    let client = Client::open(role.store())?;
    let rounds: u64 = fs::read_to_string(role.folder.join("rounds"))?.parse()?;
    let acknowledged = role.folder.join(format!("acknowledged-{number}"));
    role.say("ready");
    let mut chance = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for round in 0..rounds {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let (id, token) = (chance % IDS, format!("{number}.{round}"));
        let kind = match chance >> 32 & 7 {
            0 | 1 => {
                let run = client.get_run::<Vec<String>>(&format!("gather-{id}")).await?;
                run.signal("note", token.as_str()).dedup_key(&token).await?;
                format!("gather-{id}")
            }
            2 => {
                client.job(TALLY).send(&id.to_string(), &token).dedup_key(&token).await?;
                format!("tally-{id}")
            }
            3 => {
                let _: usize = client.job(TALLY).ask(&id.to_string(), &token).await?;
                format!("tally-{id}")
            }
            4 => {
                client.job(MAIL).push(&token.clone()).dedup_key(&token).await?;
                "mails".into()
            }
            _ => {
                stir(&client, id, chance).await?;
                continue;
            }
        };
        note(&acknowledged, &format!("{kind} {token}"))?;
    }
    role.say("done");
    Ok(())
}

/// Starts, replaces, signals, cancels, retries or purges a run that others act on as well.
async fn stir(client: &Client, id: u64, chance: u64) -> Result<(), BoxError> {
    let name = format!("churn-{id}");
    let done = match chance >> 40 & 7 {
        0..=2 => client.start(CHURN, &(chance % 100)).id(&name).on_conflict(OnConflict::Replace).await.map(drop),
        act => match client.get_run::<u64>(&name).await {
            Err(error) => Err(error),
            Ok(run) => match act {
                3 => run.signal("go", "go").await.map(drop),
                4 => run.cancel("not wanted").await.map(drop),
                5 => run.purge().await,
                6 => run.retry().await,
                _ => run.status().await.map(drop),
            },
        },
    };
    match done {
        Err(error) if !EXPECTED.contains(&error.code()) => Err(error.into()),
        _ => Ok(()),
    }
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let (clients, rounds) = (stage.amount(4, 8), stage.amount(1_500, 20_000));
    fs::write(stage.folder().join("rounds"), rounds.to_string())?;
    let client = stage.client()?;
    for id in 0..IDS {
        client.start(GATHER, &()).id(&format!("gather-{id}")).await?;
    }
    let mut executor = stage.process("executor")?;
    let (mut acting, mut kills) = (Vec::new(), 0);
    for number in 1..=clients {
        acting.push(stage.process(&format!("client-{number}"))?);
    }
    while !all_done(&mut acting)? {
        tokio::time::sleep(Duration::from_millis(300)).await;
        executor.kill()?;
        kills += 1;
        executor = stage.process("executor")?;
    }
    let acknowledged = acknowledged(stage, clients)?;
    check_tallies(&client, &acknowledged).await?;
    check_mails(stage, &client, &acknowledged).await?;
    check_notes(&client, &acknowledged).await?;
    executor.kill()?;
    if let Some(found) = doctor::examine(&stage.store())?.findings.first() {
        return Err(format!("the doctor found {found:?}").into());
    }
    let acts: usize = acknowledged.values().map(Vec::len).sum();
    Ok(format!("{clients} clients, {kills} kills of the executor: all {acts} acknowledged actions happened, each once"))
}

/// Whether every client has finished successfully.
fn all_done(acting: &mut Vec<Process>) -> Result<bool, BoxError> {
    let mut left = Vec::new();
    for mut process in acting.drain(..) {
        if process.has_ended()? {
            let last = process.line()?;
            if last != "done" {
                return Err(format!("a client printed {last:?} instead of finishing").into());
            }
        } else {
            left.push(process);
        }
    }
    *acting = left;
    Ok(acting.is_empty())
}

/// Returns everything that was acknowledged to clients, by where it must turn up.
fn acknowledged(stage: &Stage, clients: u64) -> Result<BTreeMap<String, Vec<String>>, BoxError> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for number in 1..=clients {
        for line in fs::read_to_string(stage.folder().join(format!("acknowledged-{number}")))?.lines() {
            let (place, token) = line.split_once(' ').ok_or("a line without a token")?;
            all.entry(place.to_owned()).or_default().push(token.to_owned());
        }
    }
    Ok(all)
}

/// Returns a token that was not seen exactly once, if there is one.
fn missing(wanted: &[String], seen: &[String]) -> Option<String> {
    let count = |token: &String| seen.iter().filter(|other| *other == token).count();
    let wrong = wanted.iter().find(|token| count(token) != 1)?;
    Some(format!("{wrong} was seen {} times", count(wrong)))
}

async fn check_tallies(client: &Client, acknowledged: &BTreeMap<String, Vec<String>>) -> Result<(), BoxError> {
    for id in 0..IDS {
        let wanted = acknowledged.get(&format!("tally-{id}")).map_or(&[][..], Vec::as_slice);
        until("a task has seen each event once", async || {
            let seen = client.job(TALLY).state(&id.to_string()).await?.unwrap_or_default();
            Ok(missing(wanted, &seen).map_or(Ok(()), Err))
        })
        .await?;
    }
    Ok(())
}

async fn check_mails(
    stage: &Stage,
    client: &Client,
    acknowledged: &BTreeMap<String, Vec<String>>,
) -> Result<(), BoxError> {
    until("the pool is empty", async || {
        let status = client.job(MAIL).status().await?;
        let is_empty = status.ready == 0 && status.running == 0 && status.delayed == 0;
        Ok(if is_empty { Ok(()) } else { Err(format!("{status:?}")) })
    })
    .await?;
    let dead = client.job(MAIL).dead().await?.len();
    let handled = fs::read_to_string(stage.folder().join("mails")).unwrap_or_default();
    let handled: Vec<&str> = handled.lines().collect();
    let wanted = acknowledged.get("mails").map_or(&[][..], Vec::as_slice);
    match wanted.iter().find(|token| !handled.contains(&token.as_str())) {
        Some(lost) => Err(format!("mail {lost} was accepted, but never handled").into()),
        None if dead > 0 => Err(format!("{dead} mails are dead letters, but none failed").into()),
        None => Ok(()),
    }
}

async fn check_notes(client: &Client, acknowledged: &BTreeMap<String, Vec<String>>) -> Result<(), BoxError> {
    for id in 0..IDS {
        let name = format!("gather-{id}");
        let run = client.get_run::<Vec<String>>(&name).await?;
        run.signal("note", "stop").await?;
        let seen = run.result().await?;
        let wanted = acknowledged.get(&name).map_or(&[][..], Vec::as_slice);
        if let Some(problem) = missing(wanted, &seen) {
            return Err(format!("signals to {name}: {problem}").into());
        }
    }
    Ok(())
}
