//! Jobs, their instances and pools as JSON for programs. The field names are a stable interface.

use outlive::Timestamp;
use outlive::job::{JobInfo, JobSummary, WorkerPoolStatus};
use serde::Serialize;

/// A job as JSON.
#[derive(Serialize)]
pub(crate) struct JobJson<'a> {
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
pub(crate) struct InstanceJson<'a> {
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

/// The counts of a pool.
#[derive(Serialize)]
pub(crate) struct PoolJson {
    ready: u64,
    running: u64,
    delayed: u64,
    dead: u64,
    #[serde(rename = "paused")]
    is_paused: bool,
}

impl<'a> JobJson<'a> {
    pub(crate) fn of(job: &'a JobSummary) -> Self {
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

impl<'a> InstanceJson<'a> {
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

impl From<WorkerPoolStatus> for PoolJson {
    fn from(pool: WorkerPoolStatus) -> Self {
        let WorkerPoolStatus { ready, running, delayed, dead, is_paused, .. } = pool;
        Self { ready, running, delayed, dead, is_paused }
    }
}
