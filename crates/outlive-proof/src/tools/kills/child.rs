//! The processes that are killed: a worker that executes the store, and clients that start, signal and cancel.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::{CancelOutcome, Client, Engine, Error};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::effects::Effects;
use super::plan::{self, Chance, Op};
use super::programs;

/// The environment variable that makes a process of this program a child, and says which.
pub(super) const ROLE: &str = "OUTLIVE_PROOF_KILLS_CHILD";

/// How long a client waits before it repeats an operation that the store did not accept.
const PATIENCE: Duration = Duration::from_millis(20);

/// The role of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Role {
    Worker { folder: PathBuf, generation: u64 },
    Client { folder: PathBuf, seed: u64, client: usize, block: u64, index: usize },
}

pub(super) fn store_in(folder: &Path) -> PathBuf {
    folder.join("runs.db")
}

/// Plays the role given by the environment variable, if this process is a child.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let told = std::env::var(ROLE).ok()?;
    let done = serde_json::from_str(&told).map_err(|e| e.to_string()).and_then(|role| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.map_err(|e| e.to_string())?.block_on(play(role))
    });
    match done {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(problem) => {
            say(&format!("broken {problem}"));
            Some(ExitCode::FAILURE)
        }
    }
}

async fn play(role: Role) -> Result<(), String> {
    let stop = Arc::new(Stop::default());
    std::thread::spawn({
        let stop = stop.clone();
        move || stop.listen()
    });
    match role {
        Role::Worker { folder, generation } => work(&folder, generation, &stop).await,
        Role::Client { folder, seed, client, block, index } => {
            let asked = Client::open(store_in(&folder)).map_err(|e| e.to_string())?;
            let mut progress = plan::Progress { block, index };
            while !stop.is_asked() || progress.index > 0 {
                ask_block(&asked, &plan::block(seed, client, progress.block), progress).await?;
                progress = plan::Progress { block: progress.block + 1, index: 0 };
            }
            Ok(())
        }
    }
}

/// Set when the parent sends "stop" on stdin; the process exits if the parent is gone.
#[derive(Default)]
struct Stop {
    is_asked: AtomicBool,
    told: Notify,
}

impl Stop {
    fn listen(&self) {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line == "stop" {
                self.is_asked.store(true, Ordering::Relaxed);
                self.told.notify_one();
            }
        }
        if !self.is_asked() {
            std::process::exit(1);
        }
    }

    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

async fn work(folder: &Path, generation: u64, stop: &Stop) -> Result<(), String> {
    let effects = Effects::open(folder, generation).map_err(|e| e.to_string())?;
    // Every kill is ours, so no run is to blame for it.
    let builder = Engine::open(store_in(folder)).max_recoveries(u32::MAX);
    let engine = programs::register(builder, effects).start().await.map_err(|e| e.to_string())?;
    say("up");
    stop.told.notified().await;
    engine.shutdown().await.map_err(|e| e.to_string())
}

/// Requests the operations of a block from the current position, each until it succeeds, and reports each result.
async fn ask_block(client: &Client, ops: &[Op], progress: plan::Progress) -> Result<(), String> {
    let mut chance = Chance(progress.block);
    for (index, op) in ops.iter().enumerate().skip(progress.index) {
        let answer = loop {
            match ask(client, op).await {
                Ok(answer) => break answer,
                Err(error) if error.kind() == outlive::ErrorKind::Store => {
                    say(&format!("trouble {error}"));
                    tokio::time::sleep(PATIENCE).await;
                }
                Err(error) => return Err(format!("{op:?}: {error}")),
            }
        };
        // A client killed here has its reply, but nobody else knows: the operation is requested again.
        tokio::time::sleep(Duration::from_millis(chance.below(6))).await;
        say(&format!("ack {} {index} {answer}", progress.block));
        tokio::time::sleep(Duration::from_millis(chance.below(6))).await;
    }
    Ok(())
}

/// Requests an operation, and returns the result in a form that the tally understands.
pub(super) async fn ask(client: &Client, op: &Op) -> Result<String, Error> {
    match op {
        Op::Start { id, input } => {
            let json = serde_json::to_string(input).unwrap_or_default();
            client.start_json(input.kind.workflow(), &json).id(id).await?;
            Ok("started".to_owned())
        }
        Op::Signal { id, nth, value } => {
            let run = client.get_run::<serde_json::Value>(id).await?;
            match run.signal("item", value).dedup_key(&format!("item-{nth}")).await {
                Ok(_) => Ok("sent".to_owned()),
                Err(Error::Status { status, .. }) => Ok(format!("refused {}", status.kind().as_str())),
                Err(error) => Err(error),
            }
        }
        Op::Cancel { id } => match client.get_run::<serde_json::Value>(id).await?.cancel("as planned").await? {
            CancelOutcome::Taken => Ok("taken".to_owned()),
            CancelOutcome::Ended(status) => Ok(format!("ended {}", status.kind().as_str())),
            other => Ok(format!("odd {other:?}")),
        },
    }
}

/// Sends a line to the parent in one write, so that a kill leaves a whole line or none.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // The parent may be gone.
    let _ = stdout.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes()).and_then(|()| stdout.flush());
}
