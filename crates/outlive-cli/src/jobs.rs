//! `outlive jobs`: lists the jobs of a store, or the instances of one job.

use std::process::ExitCode;

use comfy_table::{Cell, Color};
use outlive::job::{AnyJob, JobInfo, JobInstance, JobStatus, JobSummary};
use outlive::{Client, Filter, Timestamp};
use serde::Serialize;

use crate::error::Error;
use crate::open::{self, NOBODY, StoreArgs};
use crate::out::Out;
use crate::table::{self, Fit, Grid};
use crate::time;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// List the instances of this job, such as task:orders
    #[arg(value_name = "KIND:NAME")]
    job: Option<String>,
    /// Maximum number of instances to list
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

/// A job as JSON.
#[derive(Serialize)]
struct JobFacts<'a> {
    job: &'a str,
    kind: &'static str,
    instances: u64,
    running: u64,
    scheduled: u64,
    idle: u64,
    stopped: u64,
    stuck: u64,
    queued: u64,
    dead: u64,
    next_run: Option<String>,
}

/// An instance of a job as JSON.
#[derive(Serialize)]
pub(crate) struct InstanceFacts<'a> {
    instance: &'a str,
    status: &'static str,
    run_count: u64,
    event_count: u64,
    next_run: Option<String>,
    failed: u32,
    created_at: Option<String>,
    last_error: Option<&'a str>,
    note: Option<&'a str>,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let client = args.store.read()?;
    let fit = if args.full { Fit::All } else { Fit::Terminal };
    match &args.job {
        Some(job) => {
            let job = client.job_by_name(job)?;
            let found = instances(&client, &job, args.limit).await?;
            list_instances(&found, fit, out)?;
        }
        None => list_jobs(&client.jobs().await?, fit, out)?,
    }
    if !out.is_json() && args.store.is_executed() == Some(false) {
        out.line(format!("\n{NOBODY}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list_jobs(jobs: &[JobSummary], fit: Fit, out: Out) -> Result<(), Error> {
    if out.is_json() {
        return out.json(&serde_json::json!({ "jobs": jobs.iter().map(JobFacts::of).collect::<Vec<_>>() }));
    }
    if jobs.is_empty() {
        return out.line("no jobs; `outlive ps` lists runs");
    }
    let now = time::now();
    let columns =
        ["job", "instances", "running", "scheduled", "idle", "stopped", "stuck", "queued", "dead", "next run (UTC)"];
    let mut grid = Grid::new(fit).header(&columns);
    for job in jobs {
        let counts =
            [job.instances, job.running, job.scheduled, job.idle, job.stopped, job.stuck, job.queued, job.dead];
        let mut cells = vec![table::text(&job.job, fit)];
        cells.extend(counts.map(|count| Cell::new(if count == 0 { "-".into() } else { count.to_string() })));
        cells.push(Cell::new(time::when(job.next_run, now)));
        grid.row(cells);
    }
    out.line(grid.lay_out().0)
}

async fn instances(client: &Client, job: &AnyJob, limit: usize) -> Result<Vec<JobInstance>, Error> {
    let (mut found, mut next) = (Vec::new(), None);
    loop {
        let page = client.job_instances(Filter::runs().workflow(job.name()), next).await?;
        found.extend(page.instances);
        next = page.next;
        if next.is_none() || found.len() >= limit {
            break;
        }
    }
    if found.is_empty() && !client.jobs().await?.iter().any(|known| known.job == job.name()) {
        let error = outlive::Error::NotFound { id: job.name().to_owned() };
        return Err(open::told(client, job, error).await);
    }
    found.truncate(limit);
    Ok(found)
}

fn list_instances(found: &[JobInstance], fit: Fit, out: Out) -> Result<(), Error> {
    if out.is_json() {
        let facts: Vec<_> = found.iter().map(|one| InstanceFacts::new(&one.instance, &one.info)).collect();
        return out.json(&serde_json::json!({ "instances": facts }));
    }
    let now = time::now();
    let mut grid = Grid::new(fit).header(&["instance", "status", "runs", "events", "next run (UTC)", "note"]);
    for JobInstance { instance, info, .. } in found {
        grid.row(vec![
            table::text(instance, fit),
            status(info.status),
            Cell::new(info.run_count),
            Cell::new(info.event_count),
            Cell::new(time::when(info.next_run, now)),
            table::text(info.note.as_deref().or(info.last_error.as_deref()).unwrap_or_default(), fit),
        ]);
    }
    out.line(grid.lay_out().0)
}

/// Returns a cell with the status of an instance.
pub(crate) fn status(status: JobStatus) -> Cell {
    let cell = Cell::new(status.as_str());
    match status {
        JobStatus::Running => cell.fg(Color::Cyan),
        JobStatus::Stopped => cell.fg(Color::Yellow),
        JobStatus::Stuck => cell.fg(Color::Red),
        _ => cell,
    }
}

impl<'a> JobFacts<'a> {
    fn of(job: &'a JobSummary) -> Self {
        Self {
            job: &job.job,
            kind: job.kind.as_str(),
            instances: job.instances,
            running: job.running,
            scheduled: job.scheduled,
            idle: job.idle,
            stopped: job.stopped,
            stuck: job.stuck,
            queued: job.queued,
            dead: job.dead,
            next_run: text(job.next_run),
        }
    }
}

impl<'a> InstanceFacts<'a> {
    pub(crate) fn new(instance: &'a str, info: &'a JobInfo) -> Self {
        Self {
            instance,
            status: info.status.as_str(),
            run_count: info.run_count,
            event_count: info.event_count,
            next_run: text(info.next_run),
            failed: info.failed,
            created_at: text(info.created_at),
            last_error: info.last_error.as_deref(),
            note: info.note.as_deref(),
        }
    }
}

fn text(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}
