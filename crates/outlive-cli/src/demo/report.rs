//! The report of the demo, computed only from the journal, the logs of executions and the state of the jobs.

use std::process::ExitCode;

use comfy_table::{Table, presets};
use outlive::{Entry, EntryKind, Status};
use serde::Serialize;

use super::execution_log::StepExecution;
use super::folder::DemoFolder;
use super::processes::Processes;
use super::snapshot::{OrderSnapshot, RUN_ID, STEPS};
use super::tally::Tally;
use crate::error::CliError;
use crate::output::printer::Printer;

/// The result of the demo.
#[derive(Serialize)]
pub(crate) struct DemoReport {
    status: &'static str,
    result: Option<String>,
    kills: usize,
    processes: usize,
    steps: Vec<StepReport>,
    jobs: Tally,
}

/// The result of one step.
#[derive(Serialize, PartialEq, Eq, Debug)]
struct StepReport {
    step: &'static str,
    /// The number of attempts in the journal.
    attempts: u32,
    /// How often the body really started.
    executions: usize,
    /// How often a value was recorded.
    recorded: usize,
    /// How often the body started again after that. If not 0, Outlive is broken.
    executions_after_record: usize,
}

impl DemoReport {
    pub(crate) fn new(snapshot: &OrderSnapshot, processes: &Processes, jobs: Tally) -> Result<Self, CliError> {
        let result = snapshot.info.output.as_ref().and_then(|output| output.decode().ok());
        if snapshot.info.status != Status::Completed {
            let why = snapshot.info.failure.as_ref().map(ToString::to_string).or_else(|| snapshot.info.note.clone());
            return Err(CliError::message(format!(
                "the order is {}: {}",
                snapshot.info.status,
                why.unwrap_or_default()
            )));
        }
        let steps =
            STEPS.into_iter().map(|step| StepReport::new(step, &snapshot.journal, &snapshot.executions)).collect();
        let (kills, processes) = (processes.kills, processes.started);
        Ok(Self { status: snapshot.info.status.kind().as_str(), result, kills, processes, steps, jobs })
    }

    pub(crate) fn print(&self, folder: &DemoFolder, out: Printer) -> Result<ExitCode, CliError> {
        if out.is_json() {
            out.json(self)?;
        } else {
            out.line(format!("\nThe order completed: {}\n", self.result.as_deref().unwrap_or_default()))?;
            out.line(self.table())?;
            self.remarks().into_iter().try_for_each(|remark| out.line(remark))?;
            out.line(format!("\nThe jobs alongside it, in the same processes:\n\n{}", self.jobs.table()))?;
            out.line(format!("\n{}\n{}\n", self.verdict(), self.jobs.verdict()))?;
            out.line(next(folder))?;
        }
        if self.is_well() {
            return Ok(ExitCode::SUCCESS);
        }
        let what =
            "a recorded step ran again, a step was not recorded exactly once, or a job lost or repeated an event";
        Err(CliError::message(format!("{what}; please report this output")))
    }

    fn is_well(&self) -> bool {
        self.steps.iter().all(StepReport::is_well) && self.jobs.is_well()
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["step", "attempts", "executions", "recorded"]);
        for step in &self.steps {
            table.add_row([
                step.step.to_owned(),
                step.attempts.to_string(),
                step.executions.to_string(),
                step.recorded_text(),
            ]);
        }
        table.to_string()
    }

    /// Explains why a body ran more often than there were attempts.
    fn remarks(&self) -> Vec<String> {
        let cut = self.steps.iter().filter(|step| step.is_cut_short());
        let remark = |step: &StepReport| {
            format!(
                "{:?} was killed while running, with nothing recorded yet; the next process ran that attempt again,\n\
                 with the same idempotency key.",
                step.step
            )
        };
        cut.map(remark).collect()
    }

    fn verdict(&self) -> String {
        let again: usize = self.steps.iter().map(|step| step.executions_after_record).sum();
        let repeats = match again {
            0 => "no recorded step ran twice".to_owned(),
            times => format!("RECORDED STEPS RAN AGAIN, {times} times"),
        };
        let kills = if self.kills == 1 { "kill" } else { "kills" };
        let processes = if self.processes == 1 { "process" } else { "processes" };
        format!("{} {kills}, {} {processes}, {repeats}", self.kills, self.processes)
    }
}

impl StepReport {
    fn new(step: &'static str, journal: &[Entry], executions: &[StepExecution]) -> Self {
        let entries = || journal.iter().filter(|entry| entry.op.strip_prefix("step:") == Some(step));
        let executions = || executions.iter().filter(|execution| execution.step == step);
        let done = || entries().filter(|entry| entry.kind == EntryKind::StepDone);
        let first_done = done().map(|entry| entry.at).min();
        let is_after = |at| first_done.is_some_and(|done| at >= done);
        Self {
            step,
            attempts: entries().map(|entry| entry.attempt).max().unwrap_or(0),
            executions: executions().count(),
            recorded: done().count(),
            executions_after_record: executions().filter(|execution| is_after(execution.at)).count(),
        }
    }

    fn is_well(&self) -> bool {
        self.recorded == 1 && self.executions_after_record == 0
    }

    fn is_cut_short(&self) -> bool {
        self.executions > usize::try_from(self.attempts).unwrap_or(usize::MAX) && self.executions_after_record == 0
    }

    fn recorded_text(&self) -> String {
        match (self.recorded, self.executions_after_record) {
            (1, 0) => "once".into(),
            (1, again) => format!("once, RAN AGAIN {again} times"),
            (times, _) => format!("{times} TIMES"),
        }
    }
}

/// Suggests what to try after the demo.
fn next(folder: &DemoFolder) -> String {
    let outlive = std::env::args().next().unwrap_or_else(|| "outlive".into());
    let (first, store) = if folder.is_kept() {
        (String::new(), folder.store().display().to_string())
    } else {
        (format!("  {outlive} demo --keep my-demo      # the same, but keep the store\n"), "my-demo/shop.db".into())
    };
    format!(
        "Try next:\n{first}  {outlive} ps {store}\n  {outlive} show {store} {RUN_ID}\n  {outlive} jobs {store}\n  \
         README.md shows a program of 25 lines to start with; `{outlive} help` lists the commands."
    )
}

#[cfg(test)]
mod tests {
    use outlive::Timestamp;

    use super::*;

    fn entry(at: i64, kind: EntryKind, attempt: u32) -> Entry {
        Entry { op: "step:ship".into(), attempt, ..Entry::of_run(1, Timestamp::from_millis(at), kind) }
    }

    fn began(at: i64) -> StepExecution {
        StepExecution { at: Timestamp::from_millis(at), step: "ship".into(), attempt: 1, pid: 1 }
    }

    #[test]
    fn interrupted_body_may_run_again() {
        let report = StepReport::new("ship", &[entry(30, EntryKind::StepDone, 1)], &[began(10), began(20)]);
        assert!(report.is_well() && report.is_cut_short());
        assert_eq!((report.attempts, report.executions, report.recorded_text().as_str()), (1, 2, "once"));
    }

    #[test]
    fn body_that_runs_after_its_record_is_found() {
        let report = StepReport::new("ship", &[entry(30, EntryKind::StepDone, 1)], &[began(10), began(40)]);
        assert!(!report.is_well() && !report.is_cut_short());
        assert_eq!(report.recorded_text(), "once, RAN AGAIN 1 times");
    }

    #[test]
    fn step_without_a_record_or_with_two_is_found() {
        let failed = entry(15, EntryKind::AttemptFailed, 1);
        assert!(!StepReport::new("ship", &[failed], &[began(10)]).is_well());
        let twice = [entry(30, EntryKind::StepDone, 1), entry(40, EntryKind::StepDone, 1)];
        assert!(!StepReport::new("ship", &twice, &[began(10)]).is_well());
    }

    #[test]
    fn retries_count_as_attempts_and_not_as_repeats() {
        let journal = [entry(15, EntryKind::AttemptFailed, 1), entry(30, EntryKind::StepDone, 2)];
        let report = StepReport::new("ship", &journal, &[began(10), began(20)]);
        assert!(report.is_well() && !report.is_cut_short());
        assert_eq!(report.attempts, 2);
    }
}
