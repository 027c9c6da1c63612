//! The outcome of a crash test: how much was tried and what to look at, or what is broken and how to reproduce it.

use std::collections::BTreeMap;
use std::fmt;

use outlive::{Failure, Status};
use serde::de::DeserializeOwned;

use crate::words::last_lines;

use super::ledger::End;
use super::rules::told;
use super::warning::Warning;

/// Report of a crash test in which nothing is broken.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::crash_everywhere;
/// async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = crash_everywhere(nap).run().await;
/// assert!(report.schedules() > 2 * report.commits());
/// assert!(report.warnings().is_empty());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) workflow: String,
    /// The single schedule that ran, if only one was requested.
    pub(super) only: Option<String>,
    pub(super) commits: u64,
    /// For each number of crashes, starting with none: how many schedules ran, and how many exist.
    pub(super) played: Vec<(u64, u64)>,
    pub(super) bodies: u64,
    pub(super) warnings: Vec<Warning>,
    /// How the run ended without a crash.
    pub(super) end: End,
    /// How many crashed runs ended with each status, by status name.
    pub(super) ends: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Creates a report with nothing tried yet.
    pub(super) fn of(workflow: &str) -> Self {
        Self {
            workflow: workflow.to_owned(),
            only: None,
            commits: 0,
            played: vec![(1, 1)],
            bodies: 0,
            warnings: Vec::new(),
            end: End { status: Status::Pending, output: None, failure: None, note: None },
            ends: BTreeMap::new(),
        }
    }

    /// Describes which schedules ran.
    fn played(&self) -> String {
        if let Some(only) = &self.only {
            return format!("only {only:?}");
        }
        let kinds = ["plays", "single crashes", "pairs", "triples"];
        let levels = self.played.iter().zip(kinds).skip(1).filter(|((_, there_are), _)| *there_are > 0);
        let told = levels.map(|((played, there_are), kind)| match played == there_are {
            true => format!("all {played} {kind}"),
            false => format!("{played} of {there_are} {kind}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// Describes how many crashed runs ended with a different status than the one without a crash.
    fn otherwise(&self) -> String {
        let others = self.ends.iter().filter(|(status, _)| **status != self.end.status.kind().as_str());
        let told = others.map(|(status, count)| format!(", {count} crashed runs {status}"));
        told.collect()
    }

    /// Returns the run's final status without a crash.
    ///
    /// ```
    /// use outlive::Status;
    /// # use outlive_testkit::crashes::Report;
    /// fn has_failed(report: &Report) -> bool { report.status() == Status::Failed }
    /// ```
    #[must_use]
    pub fn status(&self) -> Status {
        self.end.status
    }

    /// Returns the run's result without a crash, if it has one that decodes as this type.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn total(report: &Report) -> u64 { report.output().unwrap_or_default() }
    /// ```
    #[must_use]
    pub fn output<T: DeserializeOwned>(&self) -> Option<T> {
        self.end.output.as_ref()?.decode().ok()
    }

    /// Returns the run's failure without a crash, if it was [expected](super::CrashEverywhere::expect_failure) to fail.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn is_declined(report: &Report) -> bool {
    ///     report.failure().is_some_and(|failure| failure.message.contains("declined"))
    /// }
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.end.failure.as_ref()
    }

    /// Returns how many commits the run has without a crash. Each has two crash points: before it and after it.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn places(report: &Report) -> u64 { 2 * report.commits() }
    /// ```
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// Returns how many crash schedules ran.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn sum(reports: &[Report]) -> u64 { reports.iter().map(Report::schedules).sum() }
    /// ```
    #[must_use]
    pub fn schedules(&self) -> u64 {
        self.played.iter().skip(1).map(|(played, _)| played).sum()
    }

    /// Returns how many of the schedules had this many crashes.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn pairs(report: &Report) -> u64 { report.schedules_of(2) }
    /// ```
    #[must_use]
    pub fn schedules_of(&self, crashes: usize) -> u64 {
        self.played.get(crashes).map_or(0, |(played, _)| *played)
    }

    /// Returns how often a step body ran, over all schedules.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn sum(reports: &[Report]) -> u64 { reports.iter().map(Report::bodies).sum() }
    /// ```
    #[must_use]
    pub fn bodies(&self) -> u64 {
        self.bodies
    }

    /// Returns the warnings; see [`WarningKind`](super::WarningKind).
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn steps(report: &Report) -> Vec<&str> {
    ///     report.warnings().iter().map(|warning| warning.step.as_str()).collect()
    /// }
    /// ```
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, commits, bodies, .. } = self;
        let (end, played, otherwise) = (told(&self.end), self.played(), self.otherwise());
        write!(
            f,
            "crash_everywhere({workflow}): {end}; {commits} commits, {played}, {bodies} step executions{otherwise}"
        )?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// A broken rule, the smallest schedule that shows it, and what happened in it.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::crash_everywhere;
/// async fn charge() -> Result<u32> { Ok(42) }
/// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let once = |ledger: &outlive_testkit::crashes::Ledger| match ledger.count("charge") {
///     1 => Ok(()),
///     times => Err(format!("charged {times} times")),
/// };
/// let broken = crash_everywhere(pay).invariant("one charge", once).try_run().await.unwrap_err();
/// assert_eq!(broken.problem(), "invariant \"one charge\": charged 2 times");
/// assert_eq!(broken.schedule(), "before 2");
/// # }
/// ```
pub struct Broken(pub(super) Box<Finding>);

/// The contents of a [`Broken`].
pub(super) struct Finding {
    pub(super) workflow: String,
    pub(super) problem: String,
    pub(super) schedule: String,
    pub(super) timeline: String,
}

impl Broken {
    /// Describes what is broken.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Broken;
    /// fn is_race(broken: &Broken) -> bool { broken.problem().contains("the outcome differs") }
    /// ```
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.0.problem
    }

    /// Returns the crashes that show it, in the format [`only`](super::CrashEverywhere::only) takes.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Broken;
    /// fn needs_no_crash(broken: &Broken) -> bool { broken.schedule() == "no crash" }
    /// ```
    #[must_use]
    pub fn schedule(&self) -> &str {
        &self.0.schedule
    }

    /// Returns what happened, one line each: time, process lifetime, and the commit, step execution or crash.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Broken;
    /// fn crashes(broken: &Broken) -> usize { broken.timeline().matches("CRASH").count() }
    /// ```
    #[must_use]
    pub fn timeline(&self) -> &str {
        &self.0.timeline
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { workflow, problem, schedule, timeline } = &*self.0;
        writeln!(f, "crash_everywhere({workflow}): {problem}")?;
        writeln!(f, "crashes:   {schedule}")?;
        writeln!(f, "reproduce: add `.only({schedule:?})` before `.run()`\n")?;
        f.write_str(&last_lines(timeline.lines()))
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Broken {}
