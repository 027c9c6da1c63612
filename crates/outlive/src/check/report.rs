//! The report of a check: the verdicts on all runs, for people, for programs and for exit codes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::verdict::{Allow, Verdict};

/// The verdict on one run.
///
/// ```
/// use outlive::check::Checked;
/// fn line(run: &Checked) -> String {
///     format!("{} ({}): {}", run.id, run.workflow, run.verdict)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checked {
    /// The run's id.
    pub id: String,
    /// The run's workflow.
    pub workflow: String,
    /// The version of the code that started it, if that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What would happen to it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The verdicts on all unfinished runs.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("nap", nap)).await;
/// # test.start(nap, &()).id("n-1").await?;
/// # test.settle().await;
/// let report = Engine::open("memory:").check(test.store()).await?; // nothing is registered
/// assert_eq!((report.exit_code(), report.count("would be stuck")), (1, 1));
/// for run in &report {
///     println!("{}: {}", run.id, run.verdict);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    runs: Vec<Checked>,
}

/// Every word for a verdict, best first.
const WORDS: [&str; 9] = [
    "fine",
    "new steps",
    "orphaned",
    "cannot tell",
    "needs a value",
    "looks renamed",
    "type changed",
    "would fail",
    "would be stuck",
];

impl Report {
    /// Returns the runs, newest first.
    ///
    /// ```
    /// assert_eq!(outlive::check::Report::default().runs().len(), 0);
    /// ```
    #[must_use]
    pub fn runs(&self) -> &[Checked] {
        &self.runs
    }

    /// Returns how many runs have a verdict with this [word](Verdict::word).
    ///
    /// ```
    /// assert_eq!(outlive::check::Report::default().count("fine"), 0);
    /// ```
    #[must_use]
    pub fn count(&self, word: &str) -> usize {
        self.runs.iter().filter(|run| run.verdict.word() == word).count()
    }

    /// Returns how many runs there are of each word, best first; words without runs are left out.
    ///
    /// ```
    /// assert!(outlive::check::Report::default().counts().is_empty());
    /// ```
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        WORDS.into_iter().map(|word| (word, self.count(word))).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns `true` if every run resumes as it should: it is fine, or reaches new steps.
    ///
    /// ```
    /// assert!(outlive::check::Report::default().is_fine());
    /// ```
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.exit_code() == 0
    }

    /// Returns the exit code for a program that checks: 0 if every run is fine or reaches new steps, otherwise 1.
    ///
    /// ```
    /// assert_eq!(outlive::check::Report::default().exit_code(), 0);
    /// ```
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.runs.iter().any(|run| run.verdict.severity() > 0))
    }

    /// Returns the report with one kind of verdict accepted as no reason not to deploy.
    ///
    /// ```
    /// use outlive::check::Allow;
    /// # use outlive::prelude::*;
    /// # async fn done() -> Result<()> { Ok(()) }
    /// async fn old(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("charge", done).await?;
    ///     Ok(ctx.sleep("1 day").await?)
    /// }
    /// async fn new(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("look for fraud", done).await?; // or is this `charge`, renamed?
    ///     ctx.step("charge", done).await?;
    ///     Ok(ctx.sleep("1 day").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("pay", old)).await;
    /// # test.start(old, &()).await?;
    /// # test.settle().await;
    /// let report = Engine::open("memory:").workflow("pay", new).check(test.store()).await?;
    /// assert_eq!(report.count("cannot tell"), 1);
    /// report.allow(Allow::NewBeforeRecorded).assert_fine(); // it is new
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn allow(mut self, what: Allow) -> Self {
        for run in &mut self.runs {
            let (asked, unreached) = match (what, &mut run.verdict) {
                (Allow::NewBeforeRecorded, Verdict::NewBeforeRecorded { asked, unreached }) => {
                    (std::mem::take(asked), std::mem::take(unreached))
                }
                (Allow::Renamed, Verdict::Renamed { renames }) => {
                    std::mem::take(renames).into_iter().map(|rename| (rename.to, rename.from)).unzip()
                }
                _ => continue,
            };
            run.verdict = Verdict::NewSteps { asked, unreached };
        }
        self
    }

    /// Returns a one-line summary: how many runs there are of each word.
    ///
    /// ```
    /// assert_eq!(outlive::check::Report::default().summary(), "0 unfinished runs");
    /// ```
    #[must_use]
    pub fn summary(&self) -> String {
        let total = self.runs.len();
        let counts: Vec<String> = self.counts().iter().map(|(word, count)| format!("{count} {word}")).collect();
        let mut text = format!("{total} unfinished {}", if total == 1 { "run" } else { "runs" });
        if !counts.is_empty() {
            text += &format!(": {}", counts.join(", "));
        }
        text
    }

    /// Returns a report for each version of the code that started runs; under `None`, those that no version is known of.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("nap", nap).version("1.4")).await;
    /// # test.start(nap, &()).id("n-1").await?;
    /// # test.settle().await;
    /// let report = Engine::open("memory:").workflow("nap", nap).check(test.store()).await?;
    /// let old = &report.by_version()[&Some("1.4".to_owned())];
    /// assert_eq!(old.summary(), "1 unfinished run: 1 fine"); // keep the old branch for these
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn by_version(&self) -> BTreeMap<Option<String>, Self> {
        let mut reports = BTreeMap::<_, Self>::new();
        for run in &self.runs {
            reports.entry(run.version.clone()).or_default().runs.push(run.clone());
        }
        reports
    }

    /// Returns a line per version with the number of runs of each word; empty if no run has a version.
    ///
    /// ```
    /// assert!(outlive::check::Report::default().version_lines().is_empty());
    /// ```
    #[must_use]
    pub fn version_lines(&self) -> Vec<String> {
        let reports = self.by_version();
        if reports.keys().all(Option::is_none) {
            return Vec::new();
        }
        let line = |(version, report): (&Option<String>, &Self)| {
            let version =
                version.as_ref().map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
            format!("{version}: {}", report.summary())
        };
        reports.iter().map(line).collect()
    }

    /// Panics with a table of the runs that are not fine, if there are any; for tests.
    ///
    /// ```
    /// outlive::check::Report::default().assert_fine();
    /// ```
    ///
    /// # Panics
    /// If the report is not [fine](Self::is_fine).
    #[track_caller]
    pub fn assert_fine(&self) {
        assert!(self.is_fine(), "these runs may not resume correctly with this code:\n{self}");
    }
}

impl FromIterator<Checked> for Report {
    fn from_iter<I: IntoIterator<Item = Checked>>(runs: I) -> Self {
        Self { runs: runs.into_iter().collect() }
    }
}

impl<'a> IntoIterator for &'a Report {
    type Item = &'a Checked;
    type IntoIter = std::slice::Iter<'a, Checked>;

    fn into_iter(self) -> Self::IntoIter {
        self.runs.iter()
    }
}

/// Writes a table of the runs that are not just fine, the summary, and one per version if there are versions.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.runs.iter().filter(|run| run.verdict != Verdict::Fine).collect();
        let width =
            |text: &dyn Fn(&Checked) -> &str| shown.iter().map(|run| text(run).chars().count()).max().unwrap_or(0);
        let (ids, workflows, words) =
            (width(&|run| &run.id), width(&|run| &run.workflow), width(&|run| run.verdict.word()));
        for run in &shown {
            let (id, workflow, word) = (&run.id, &run.workflow, run.verdict.word());
            writeln!(f, "{id:ids$}  {workflow:workflows$}  {word:words$}  {}", run.verdict.details())?;
        }
        f.write_str(&self.summary())?;
        self.version_lines().iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}
