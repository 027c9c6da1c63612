//! `outlive queue`: pauses or resumes the queue of a pool, or waits until it is idle.

use std::process::ExitCode;
use std::time::Duration;

use outlive::IntoDuration as _;
use outlive::job::WorkerPoolStatus;
use serde_json::json;
use tokio::time::Instant;

use crate::error::CliError;
use crate::open::{NOBODY, OpenedInstance, StoreArgs, open_instance};
use crate::output::job_json::PoolJson;
use crate::output::printer::Printer;
use crate::output::progress;
use crate::output::time;

/// How often the queue is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(clap::Subcommand)]
pub(crate) enum QueueCommand {
    /// Start no more events until resumed; those in progress finish
    Pause(QueueArgs),
    /// Resume a paused queue
    Resume(QueueArgs),
    /// Wait until every event is handled or given up
    WaitIdle(WaitIdleArgs),
}

#[derive(clap::Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Pool, such as mail or pool:mail
    #[arg(value_name = "NAME")]
    pool: String,
}

#[derive(clap::Args)]
pub(crate) struct WaitIdleArgs {
    #[command(flatten)]
    queue: QueueArgs,
    /// Give up after this time, such as "30 s"; by default, wait as long as it takes
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

pub(crate) async fn run(command: &QueueCommand, out: Printer) -> Result<ExitCode, CliError> {
    let args = match command {
        QueueCommand::Pause(args) | QueueCommand::Resume(args) => args,
        QueueCommand::WaitIdle(args) => return wait_idle(args, out).await,
    };
    let opened = args.open()?;
    let (done, what) = match command {
        QueueCommand::Pause(_) => (opened.job.pause().await, "it starts no more events until it is resumed"),
        _ => (opened.job.resume().await, "it resumes"),
    };
    if let Err(error) = done {
        return Err(opened.explain(error).await);
    }
    let name = opened.job.name();
    out.result(format!("{name:?}: {}", args.store.outlook(what, what)), &json!({ "job": name, "taken": true }))?;
    Ok(ExitCode::SUCCESS)
}

impl QueueArgs {
    fn open(&self) -> Result<OpenedInstance, CliError> {
        open_instance(self.store.open()?, &self.name())
    }

    fn name(&self) -> String {
        if self.pool.contains(':') { self.pool.clone() } else { format!("pool:{}", self.pool) }
    }
}

async fn wait_idle(args: &WaitIdleArgs, out: Printer) -> Result<ExitCode, CliError> {
    let timeout = args.timeout.as_deref().map(|text| text.into_duration()).transpose();
    let timeout = timeout.map_err(outlive::Error::from)?;
    let opened = open_instance(args.queue.store.read()?, &args.queue.name())?;
    let (begun, bar) = (Instant::now(), progress::of_events());
    let (mut most, mut is_noted) = (0, false);
    let status = loop {
        let status = match opened.job.status().await {
            Ok(status) => status,
            Err(error) => return Err(opened.explain(error).await),
        };
        let left = left(&status);
        most = most.max(left);
        bar.set_length(most);
        bar.set_position(most - left);
        if left == 0 {
            break status;
        }
        if !is_noted && args.queue.store.is_executed() == Some(false) {
            is_noted = true;
            out.note(&format!("{NOBODY}, so nothing is handled until one does"));
        }
        if let Some(error) = refusal(opened.job.name(), &status, timeout.filter(|most| begun.elapsed() >= *most)) {
            bar.finish_and_clear();
            return Err(error);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    bar.finish_and_clear();
    let sentence = format!("{:?} is idle; {}", opened.job.name(), count(status.dead, "dead letter"));
    out.result(sentence, &json!({ "job": opened.job.name(), "pool": PoolJson::from(status) }))?;
    Ok(ExitCode::SUCCESS)
}

fn left(status: &WorkerPoolStatus) -> u64 {
    status.ready + status.running + status.delayed
}

fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Returns why to stop waiting, if there is a reason.
fn refusal(job: &str, status: &WorkerPoolStatus, too_long: Option<Duration>) -> Option<CliError> {
    let left = count(left(status), "event");
    if status.is_paused {
        let way_out = "resume it with `outlive queue resume`";
        return Some(CliError::message(format!("{job:?} is paused with {left} in it; {way_out}")));
    }
    let too_long = too_long?;
    let way_out = "check that a program executes the store, or use a longer --timeout";
    Some(CliError::message(format!("{job:?} has {left} left after {}; {way_out}", time::length(too_long))))
}
