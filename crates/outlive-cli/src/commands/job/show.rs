//! `outlive job`: shows an instance of a job and its pending messages.

use std::process::ExitCode;

use comfy_table::Cell;
use outlive::Payload;
use outlive::job::{JobInfo, JobKind, Waiting, WorkerPoolStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::CliError;
use crate::open::{InstanceArgs, NOBODY, OpenedInstance};
use crate::output::job_json::{InstanceJson, PoolJson};
use crate::output::json::raw;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

#[derive(clap::Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

/// Everything shown about an instance.
struct JobDetails {
    name: String,
    info: JobInfo,
    state: Option<Payload>,
    inbox: Vec<Waiting>,
    pool: Option<WorkerPoolStatus>,
}

#[derive(Serialize)]
struct JobDetailsJson<'a> {
    #[serde(flatten)]
    instance: InstanceJson<'a>,
    state: Option<Box<RawValue>>,
    inbox: Vec<WaitingJson>,
    pool: Option<PoolJson>,
}

#[derive(Serialize)]
struct WaitingJson {
    number: u64,
    what: &'static str,
    at: String,
    event: Option<Box<RawValue>>,
    failed: u32,
}

pub(crate) async fn run(args: &JobArgs, out: Printer) -> Result<ExitCode, CliError> {
    let opened = args.instance.read()?;
    let details = match look(&opened).await {
        Ok(details) => details,
        Err(error) => return Err(opened.explain(error).await),
    };
    if out.is_json() {
        out.json(&details.to_json())?;
    } else {
        let fit = if args.full { Fit::All } else { Fit::Terminal };
        out.line(details.table(fit))?;
        out.line(details.inbox(fit))?;
        if args.instance.store.is_executed() == Some(false) {
            out.line(format!("\n{NOBODY}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn look(opened: &OpenedInstance) -> Result<JobDetails, outlive::Error> {
    let (job, id) = (&opened.job, opened.id.as_str());
    let pool = match job.kind() {
        JobKind::Pool => Some(job.status().await?),
        _ => None,
    };
    let inbox = job.inbox(id).await?;
    let (info, state) = job.look(id).await?;
    Ok(JobDetails { name: opened.name(), info, state, inbox, pool })
}

impl JobDetails {
    fn to_json(&self) -> JobDetailsJson<'_> {
        let waiting = |one: &Waiting| WaitingJson {
            number: one.number,
            what: one.what,
            at: one.at.to_string(),
            event: one.event.as_ref().map(raw),
            failed: one.failed,
        };
        JobDetailsJson {
            instance: InstanceJson::new(&self.name, &self.info),
            state: self.state.as_ref().map(raw),
            inbox: self.inbox.iter().map(waiting).collect(),
            pool: self.pool.map(Into::into),
        }
    }

    fn table(&self, fit: Fit) -> String {
        let (info, now) = (&self.info, time::now());
        let queue = self.pool.map(|pool| {
            let WorkerPoolStatus { ready, running, delayed, dead, .. } = pool;
            format!("{ready} ready, {running} running, {delayed} delayed, {dead} dead")
        });
        let own = |count: u64| Some(count.to_string()).filter(|_| self.pool.is_none());
        let moment = |at| format!("{} UTC", time::moment(at));
        let lines = [
            ("job", Some(self.name.clone())),
            ("status", Some(String::new())),
            ("note", info.note.clone()),
            ("created", info.created_at.map(moment)),
            ("runs", own(info.run_count)),
            ("events", own(info.event_count)),
            ("queue", queue),
            ("next run", info.next_run.map(|at| format!("{} UTC", time::clock(at, now)))),
            ("attempt", Some(format!("{}, after {} failed", info.failed + 1, info.failed)).filter(|_| info.failed > 0)),
            ("last error", info.last_error.clone()),
            ("state", self.state.as_ref().map(ToString::to_string)),
        ];
        let mut grid = Grid::new(fit);
        for (name, value) in lines {
            if let Some(value) = value {
                let value = if name == "status" { table::job_status(info.status) } else { table::text(&value, fit) };
                grid.row(vec![name.into(), value]);
            }
        }
        grid.lay_out().0
    }

    fn inbox(&self, fit: Fit) -> String {
        if self.inbox.is_empty() {
            return "\nno pending messages".into();
        }
        let now = time::now();
        let mut grid = Grid::new(fit).header(&["number", "time", "kind", "failed", "event"]);
        for one in &self.inbox {
            grid.row(vec![
                Cell::new(one.number),
                Cell::new(time::exact(one.at, now)),
                Cell::new(one.what),
                Cell::new(if one.failed > 0 { one.failed.to_string() } else { String::new() }),
                table::text(&one.event.as_ref().map(ToString::to_string).unwrap_or_default(), fit),
            ]);
        }
        format!("\n{}", grid.lay_out().0)
    }
}
