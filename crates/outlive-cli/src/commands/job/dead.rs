//! `outlive dead`: lists, retries or discards dead letters of jobs and runs.

mod resolution;
mod signals;

use std::process::ExitCode;

use comfy_table::Cell;
use outlive::Client;
use outlive::job::{AnyJob, DeadLetter};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use self::resolution::Resolution;
use crate::error::CliError;
use crate::open::{self, AnyRun, StoreArgs};
use crate::output::json::raw;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

#[derive(clap::Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters, oldest first
    List(DeadListArgs),
    /// Retry dead letters
    Retry(DeadLetterArgs),
    /// Discard dead letters
    Discard(DeadLetterArgs),
}

#[derive(clap::Args)]
pub(crate) struct DeadOwnerArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Job, such as pool:mail, or the id of a run
    #[arg(value_name = "KIND:NAME|ID")]
    owner: String,
}

#[derive(clap::Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    owner: DeadOwnerArgs,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

#[derive(clap::Args)]
pub(crate) struct DeadLetterArgs {
    #[command(flatten)]
    owner: DeadOwnerArgs,
    /// Number of the dead letter, as shown by `outlive dead list`
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    number: Option<u64>,
    /// All dead letters
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct DeadLetterJson<'a> {
    number: u64,
    instance: &'a str,
    events: u64,
    attempts: u32,
    at: String,
    failure: Box<RawValue>,
    event: Box<RawValue>,
}

type Letter = DeadLetter<serde_json::Value>;

pub(crate) async fn run(command: &DeadCommand, out: Printer) -> Result<ExitCode, CliError> {
    match command {
        DeadCommand::List(args) => list(args, out).await?,
        DeadCommand::Retry(args) => resolve(args, Resolution::Retry, out).await?,
        DeadCommand::Discard(args) => resolve(args, Resolution::Discard, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}

impl DeadOwnerArgs {
    /// Returns the run if the argument is a run id rather than a job.
    async fn run(&self, client: &Client) -> Result<Option<AnyRun>, CliError> {
        Ok(if open::kind(&self.owner).is_some() { None } else { Some(client.get_run(&self.owner).await?) })
    }
}

async fn list(args: &DeadListArgs, out: Printer) -> Result<(), CliError> {
    let client = args.owner.store.read()?;
    if let Some(run) = args.owner.run(&client).await? {
        let fit = if args.full { Fit::All } else { Fit::Terminal };
        return signals::list(&run, fit, out).await;
    }
    let job = client.job_by_name(&args.owner.owner)?;
    let letters = job.dead().await?;
    if letters.is_empty() {
        known(&client, &job).await?;
    }
    if out.is_json() {
        return out.json(&json!({ "dead": letters.iter().map(DeadLetterJson::of).collect::<Vec<_>>() }));
    }
    if letters.is_empty() {
        return out.line(format!("job {:?} has no dead letters", job.name()));
    }
    let (fit, now) = (if args.full { Fit::All } else { Fit::Terminal }, time::now());
    let mut grid = Grid::new(fit).header(&["number", "time", "instance", "attempts", "event", "failure"]);
    for letter in &letters {
        grid.row(vec![
            Cell::new(letter.number),
            Cell::new(time::clock(letter.at, now)),
            table::text(&letter.instance, fit),
            Cell::new(letter.attempts),
            table::text(letter.json.as_str(), fit),
            table::text(&letter.failure.to_string(), fit),
        ]);
    }
    out.line(grid.lay_out().0)
}

async fn resolve(args: &DeadLetterArgs, resolution: Resolution, out: Printer) -> Result<(), CliError> {
    let client = args.owner.store.open()?;
    if let Some(run) = args.owner.run(&client).await? {
        return signals::resolve(&run, args.number, resolution, out).await;
    }
    let job = client.job_by_name(&args.owner.owner)?;
    let resolving = match resolution {
        Resolution::Retry => job.retry_dead(),
        Resolution::Discard => job.discard_dead(),
    };
    let done = match args.number {
        Some(number) => resolving.only(number).await,
        None => resolving.await,
    };
    let count = match (done, args.number) {
        (Err(error), Some(number)) if error.is_not_found() => {
            known(&client, &job).await?;
            let way_out = "`outlive dead list` lists them";
            return Err(CliError::message(format!("job {:?} has no dead letter {number}; {way_out}", job.name())));
        }
        (done, _) => done?,
    };
    if count == 0 {
        known(&client, &job).await?;
    }
    let words = if count == 1 { "1 dead letter".into() } else { format!("{count} dead letters") };
    out.result(
        format!("{words} of {:?} {}", job.name(), resolution.done()),
        &json!({ "job": job.name(), "count": count }),
    )
}

/// Returns an error if the store has no such job.
async fn known(client: &Client, job: &AnyJob) -> Result<(), CliError> {
    match client.jobs().await?.iter().any(|known| known.job == job.name()) {
        true => Ok(()),
        false => Err(open::explain(client, job, outlive::Error::NotFound { id: job.name().to_owned() }).await),
    }
}

impl<'a> DeadLetterJson<'a> {
    fn of(letter: &'a Letter) -> Self {
        Self {
            number: letter.number,
            instance: &letter.instance,
            events: letter.events,
            attempts: letter.attempts,
            at: letter.at.to_string(),
            failure: raw(&letter.failure.to_payload()),
            event: raw(&letter.json),
        }
    }
}
