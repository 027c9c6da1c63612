//! `outlive jobs`: lists the jobs of a store, or the instances of one job.

use std::process::ExitCode;

use comfy_table::Cell;
use outlive::job::{AnyJob, JobInstance, JobSummary};
use outlive::{Client, Filter};

use crate::error::CliError;
use crate::open::{self, NOBODY, StoreArgs};
use crate::output::job_json::{InstanceJson, JobJson};
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

#[derive(clap::Args)]
pub(crate) struct JobsArgs {
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

pub(crate) async fn run(args: &JobsArgs, out: Printer) -> Result<ExitCode, CliError> {
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

fn list_jobs(jobs: &[JobSummary], fit: Fit, out: Printer) -> Result<(), CliError> {
    if out.is_json() {
        return out.json(&serde_json::json!({ "jobs": jobs.iter().map(JobJson::of).collect::<Vec<_>>() }));
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

async fn instances(client: &Client, job: &AnyJob, limit: usize) -> Result<Vec<JobInstance>, CliError> {
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
        return Err(open::explain(client, job, error).await);
    }
    found.truncate(limit);
    Ok(found)
}

fn list_instances(found: &[JobInstance], fit: Fit, out: Printer) -> Result<(), CliError> {
    if out.is_json() {
        let listed: Vec<_> = found.iter().map(|one| InstanceJson::new(&one.instance, &one.info)).collect();
        return out.json(&serde_json::json!({ "instances": listed }));
    }
    let now = time::now();
    let mut grid = Grid::new(fit).header(&["instance", "status", "runs", "events", "next run (UTC)", "note"]);
    for JobInstance { instance, info, .. } in found {
        grid.row(vec![
            table::text(instance, fit),
            table::job_status(info.status),
            Cell::new(info.run_count),
            Cell::new(info.event_count),
            Cell::new(time::when(info.next_run, now)),
            table::text(info.note.as_deref().or(info.last_error.as_deref()).unwrap_or_default(), fit),
        ]);
    }
    out.line(grid.lay_out().0)
}
