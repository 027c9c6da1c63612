//! What is told at the end: how much was tried and what to look at, or what is broken and how to see it again.

use std::fmt;

/// What was tried, when nothing is broken.
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
    /// The one schedule that was played, if it was to be one.
    pub(super) only: Option<String>,
    pub(super) commits: u64,
    /// How many schedules of each number of crashes were played, and how many there are; the first is of none.
    pub(super) played: Vec<(u64, u64)>,
    pub(super) bodies: u64,
    pub(super) warnings: Vec<Warning>,
}

impl Report {
    /// Nothing was tried yet.
    pub(super) fn of(workflow: &str) -> Self {
        Self {
            workflow: workflow.to_owned(),
            only: None,
            commits: 0,
            played: vec![(1, 1)],
            bodies: 0,
            warnings: Vec::new(),
        }
    }

    /// What was played, in words.
    fn played(&self) -> String {
        if let Some(only) = &self.only {
            return format!("crashed {only} only");
        }
        let kinds = ["plays", "single crashes", "pairs", "triples"];
        let levels = self.played.iter().zip(kinds).skip(1).filter(|((_, there_are), _)| *there_are > 0);
        let told = levels.map(|((played, there_are), kind)| match played == there_are {
            true => format!("all {played} {kind}"),
            false => format!("{played} of {there_are} {kind}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// How many commits the run has without a crash. Each has two places to die: before it and after it.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn places(report: &Report) -> u64 { 2 * report.commits() }
    /// ```
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// How many schedules of crashes were played.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn sum(reports: &[Report]) -> u64 { reports.iter().map(Report::schedules).sum() }
    /// ```
    #[must_use]
    pub fn schedules(&self) -> u64 {
        self.played.iter().skip(1).map(|(played, _)| played).sum()
    }

    /// How many of them had so many crashes.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn pairs(report: &Report) -> u64 { report.schedules_of(2) }
    /// ```
    #[must_use]
    pub fn schedules_of(&self, crashes: usize) -> u64 {
        self.played.get(crashes).map_or(0, |(played, _)| *played)
    }

    /// How often the body of a step ran in all of them.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Report;
    /// fn sum(reports: &[Report]) -> u64 { reports.iter().map(Report::bodies).sum() }
    /// ```
    #[must_use]
    pub fn bodies(&self) -> u64 {
        self.bodies
    }

    /// The steps that ran twice under one idempotency key and never asked for it.
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
        let (workflow, commits, played, bodies) = (&self.workflow, self.commits, self.played(), self.bodies);
        write!(f, "crash_everywhere({workflow}): {commits} commits, {played}, {bodies} bodies run")?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// A step that ran twice under one idempotency key, which its body never asked for: nobody could have told that it was
/// the same request.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::crash_everywhere;
/// async fn charge() -> Result<u32> { Ok(42) }
/// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = crash_everywhere(pay).run().await;
/// assert_eq!(report.warnings()[0].step, "charge");
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Warning {
    /// The step's name.
    pub step: String,
    /// Where it is called.
    pub site: String,
    /// How often its body ran.
    pub times: usize,
    /// With which crashes.
    pub schedule: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, site, times, schedule } = self;
        write!(
            f,
            "step {step:?} ({site}) ran {times} times ({schedule}) and never asked for its idempotency key; \
             hand `attempt.idempotency_key()` to whoever can drop a second request, \
             or say `.idempotent({step:?})` if a second one does no harm"
        )
    }
}

/// What is broken, the smallest schedule that shows it, and what happened in it.
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

/// What is behind a [`Broken`].
pub(super) struct Finding {
    pub(super) workflow: String,
    pub(super) problem: String,
    pub(super) schedule: String,
    pub(super) timeline: String,
}

impl Broken {
    /// What is broken.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Broken;
    /// fn is_race(broken: &Broken) -> bool { broken.problem().contains("the outcome differs") }
    /// ```
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.0.problem
    }

    /// The crashes that show it, as [`only`](super::CrashEverywhere::only) takes them.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Broken;
    /// fn needs_no_crash(broken: &Broken) -> bool { broken.schedule() == "no crash" }
    /// ```
    #[must_use]
    pub fn schedule(&self) -> &str {
        &self.0.schedule
    }

    /// What happened, a line for each thing: time, life of the process, commit, body or crash.
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
        writeln!(f, "crashes: {schedule}")?;
        writeln!(f, "repeat:  add `.only({schedule:?})` before `.run()`\n")?;
        f.write_str(timeline)
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Broken {}
