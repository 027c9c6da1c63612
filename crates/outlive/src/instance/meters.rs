//! Metrics, through the `metrics` facade. Without the feature `metrics`, every function here is empty.

#![cfg_attr(not(feature = "metrics"), expect(unused_variables, dead_code, reason = "nothing is measured"))]

use std::time::Duration;

use outlive_core::journal::Entry;
#[cfg(feature = "metrics")]
use outlive_core::journal::EntryKind;
use outlive_core::status::Status;
use outlive_core::time::Timestamp;
#[cfg(feature = "metrics")]
use outlive_core::workflow::ParsedIdentity;

use crate::instance::info::Info;

#[cfg(feature = "metrics")]
mod names {
    pub(super) const EXECUTIONS: &str = "outlive_executions_total";
    pub(super) const REPLAYS: &str = "outlive_replays_total";
    pub(super) const RUN: &str = "outlive_run_duration_seconds";
    pub(super) const STUCK: &str = "outlive_stuck_total";
    pub(super) const STEP: &str = "outlive_step_duration_seconds";
    pub(super) const HANDLER: &str = "outlive_handler_duration_seconds";
    pub(super) const COMMIT: &str = "outlive_commit_duration_seconds";
    pub(super) const BATCH: &str = "outlive_commit_batch_size";
    pub(super) const QUEUE: &str = "outlive_commit_queue_depth";
    pub(super) const DUE: &str = "outlive_due_instances";
    pub(super) const RUNNING: &str = "outlive_pool_running_events";
    pub(super) const LATENESS: &str = "outlive_wake_lateness_seconds";
    pub(super) const RESIDENT: &str = "outlive_resident_instances";
}

/// Describes every metric to the recorder, with its unit.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
        use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
        describe_counter!(names::EXECUTIONS, Unit::Count, "Executions of runs that began in this process");
        describe_counter!(names::REPLAYS, Unit::Count, "Executions that began with the replay of a journal");
        describe_histogram!(names::RUN, Unit::Seconds, "Time from the first execution of a run to its end");
        describe_counter!(names::STUCK, Unit::Count, "Instances that became stuck");
        describe_histogram!(names::STEP, Unit::Seconds, "Duration of an attempt of a step");
        describe_histogram!(names::HANDLER, Unit::Seconds, "Duration of a call of a job's handler");
        describe_histogram!(names::COMMIT, Unit::Seconds, "Time the store takes to make a batch of writes durable");
        describe_histogram!(names::BATCH, Unit::Count, "Writes in a batch");
        describe_gauge!(names::QUEUE, Unit::Count, "Writes that wait for the next batch");
        describe_gauge!(names::DUE, Unit::Count, "Due instances that wait for room in memory");
        describe_gauge!(names::RUNNING, Unit::Count, "Events of a pool whose handler runs");
        describe_histogram!(names::LATENESS, Unit::Seconds, "Time from when an instance was due to its wake");
        describe_gauge!(names::RESIDENT, Unit::Count, "Runs and jobs in memory");
    }
}

/// Counts an execution of a run.
pub(crate) fn execution(workflow: &str, is_replay: bool) {
    #[cfg(feature = "metrics")]
    {
        metrics::counter!(names::EXECUTIONS, "workflow" => workflow.to_owned()).increment(1);
        if is_replay {
            metrics::counter!(names::REPLAYS, "workflow" => workflow.to_owned()).increment(1);
        }
    }
}

/// Measures a run that has ended, or counts it if it is stuck.
pub(crate) fn run_ended(run: &Info, status: Status, now: Timestamp) {
    #[cfg(feature = "metrics")]
    match status {
        Status::Stuck => stuck(&run.workflow),
        _ => {
            let (workflow, seconds) = (run.workflow.clone(), now.since(run.started_at).as_secs_f64());
            metrics::histogram!(names::RUN, "workflow" => workflow, "status" => status.as_str()).record(seconds);
        }
    }
}

/// Counts an instance that is stuck.
pub(crate) fn stuck(workflow: &str) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::STUCK, "workflow" => workflow.to_owned()).increment(1);
}

/// Measures the attempt that a journal entry ends, if it ends one.
pub(crate) fn entry(run: &Info, entry: &Entry) {
    #[cfg(feature = "metrics")]
    {
        let outcome = match entry.kind {
            EntryKind::StepDone => "ok",
            EntryKind::StepFailed | EntryKind::AttemptFailed | EntryKind::FallingBack => "failed",
            _ => return,
        };
        let Some(started) = entry.started else { return };
        // Without its key and its scope: those are data, and there may be any number of them.
        let step = ParsedIdentity::of(&entry.op).name.to_owned();
        let labels = [("workflow", run.workflow.clone()), ("step", step), ("outcome", outcome.to_owned())];
        metrics::histogram!(names::STEP, &labels).record(entry.at.since(started).as_secs_f64());
    }
}

/// A call of a handler that has ended.
pub(crate) struct HandlerMeasure {
    /// The name of the job with its kind.
    pub(crate) job: String,
    pub(crate) is_ok: bool,
    pub(crate) took: Duration,
}

/// Measures a call of a handler.
pub(crate) fn handler(handler: &'static str, measure: impl FnOnce() -> HandlerMeasure) {
    #[cfg(feature = "metrics")]
    {
        let HandlerMeasure { job, is_ok, took } = measure();
        let outcome = if is_ok { "ok" } else { "failed" };
        metrics::histogram!(names::HANDLER, "job" => job, "handler" => handler, "outcome" => outcome)
            .record(took.as_secs_f64());
    }
}

/// Measures a batch that is durable. Called only where the time was taken.
#[cfg(all(feature = "metrics", feature = "tokio"))]
pub(crate) fn commit(writes: usize, took: Duration) {
    metrics::histogram!(names::BATCH).record(count(writes));
    metrics::histogram!(names::COMMIT).record(took.as_secs_f64());
}

/// Sets how many writes wait.
pub(crate) fn commit_queue(depth: impl FnOnce() -> usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::QUEUE).set(count(depth()));
}

/// Sets how many due instances wait for room.
pub(crate) fn due(instances: impl FnOnce() -> usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::DUE).set(count(instances()));
}

/// Sets how many events of a pool are handled.
pub(crate) fn pool_running(job: &str, events: usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::RUNNING, "job" => job.to_owned()).set(count(events));
}

/// Measures how late an instance is woken.
pub(crate) fn wake(late: impl FnOnce() -> Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!(names::LATENESS).record(late().as_secs_f64());
}

/// Sets how many instances are in memory.
pub(crate) fn resident(instances: usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::RESIDENT).set(count(instances));
}

#[cfg(feature = "metrics")]
fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
