//! Chooses which schedules to run, and shrinks a failing one.

use std::sync::Arc;

use super::ledger::Ledger;
use super::report::{Broken, Finding, Report};
use super::rules::{self, Breach, Rule};
use super::schedule::Schedule;
use super::stage::{self, Kind, Plan, Played};
use super::timeline;
use super::warning::{self, Warning, WarningKind};

/// Limit on trials used to shrink a failing schedule.
const SHRINKS_MAX: usize = 1_000;

pub(super) type Invariant = Arc<dyn Fn(&Ledger) -> Result<(), String> + Send + Sync>;

/// A crash test: the plan, and the rules that must hold.
pub(super) struct Search {
    pub(super) plan: Plan,
    pub(super) may_race: bool,
    pub(super) expects_failure: bool,
    pub(super) invariants: Vec<(String, Invariant)>,
    /// Steps that may run twice without a warning.
    pub(super) idempotent: Vec<String>,
    /// Steps that are always called in the same order.
    pub(super) ordered: Vec<String>,
    pub(super) denies_warnings: bool,
    /// Limit on schedules with one crash, with two, and so on.
    pub(super) bounds: Vec<usize>,
    /// The single schedule to run instead.
    pub(super) only: Option<Schedule>,
}

/// A trial that broke a rule.
struct Failing {
    played: Played,
    breach: Breach,
}

/// Reference trials that others are compared with.
struct Wholes {
    /// The trial without a crash.
    whole: Played,
    /// For each at-most-once step and attempt that was interrupted, the first single crash that interrupts it.
    interrupted: Vec<Played>,
}

impl Failing {
    /// Whether shrinking would only lose information: a problem that occurs without a crash is reported with all
    /// messages that arrived.
    fn is_small(&self) -> bool {
        let is_end = matches!(self.breach.rule, Rule::Playable | Rule::Ends | Rule::Expected);
        is_end && self.played.schedule.crashes.is_empty()
    }

    /// Whether it breaks the same rule with no more crashes.
    fn is_as(&self, other: &Self) -> bool {
        let crashes = |failing: &Self| failing.played.schedule.crashes.len();
        self.breach.rule == other.breach.rule && crashes(self) <= crashes(other)
    }
}

impl Search {
    /// Runs all schedules.
    pub(super) async fn run(&self) -> Result<Report, Broken> {
        let mut report = Report::of(&self.plan.workflow);
        report.only = self.only.as_ref().map(ToString::to_string);
        let searched = match &self.only {
            Some(schedule) => self.play_one(schedule, &mut report).await,
            None => self.play_all(&Schedule::default(), &mut report).await,
        };
        match searched {
            Ok(()) => self.judge_warnings(report).await,
            Err(failing) if self.only.is_some() || failing.is_small() => Err(self.broken(&failing)),
            Err(failing) => Err(self.broken(&self.shrink(failing).await)),
        }
    }

    async fn play_one(&self, schedule: &Schedule, report: &mut Report) -> Result<(), Failing> {
        let mut wholes = self.play_whole(&schedule.uncrashed(), report).await?;
        let played = self.play(schedule, Some(&mut wholes)).await?;
        report.played.resize(schedule.crashes.len() + 1, (0, 0));
        report.played[schedule.crashes.len()] = (1, 1);
        self.count(&played, report);
        Ok(())
    }

    /// Runs without a crash, then all schedules of one crash, then those of one more each, up to their limits.
    async fn play_all(&self, uncrashed: &Schedule, report: &mut Report) -> Result<(), Failing> {
        let mut wholes = self.play_whole(uncrashed, report).await?;
        let mut shorter = vec![(uncrashed.clone(), wholes.whole.commits)];
        for bound in &self.bounds {
            let there_are: Vec<_> = shorter.iter().flat_map(|(schedule, commits)| schedule.longer(*commits)).collect();
            let count = there_are.len();
            let chosen = spread(there_are, *bound);
            report.played.push((chosen.len() as u64, count as u64));
            shorter = Vec::with_capacity(chosen.len());
            for schedule in chosen {
                let played = self.play(&schedule, Some(&mut wholes)).await?;
                self.count(&played, report);
                shorter.push((schedule, played.commits));
            }
        }
        Ok(())
    }

    async fn play_whole(&self, uncrashed: &Schedule, report: &mut Report) -> Result<Wholes, Failing> {
        let whole = self.play(uncrashed, None).await?;
        (report.commits, report.end) = (whole.commits, whole.ledger.end.clone());
        self.count(&whole, report);
        Ok(Wholes { whole, interrupted: Vec::new() })
    }

    /// Runs a schedule and checks everything, comparing it with the crash-free trial if there is one.
    async fn play(&self, schedule: &Schedule, wholes: Option<&mut Wholes>) -> Result<Played, Failing> {
        let played = stage::play(&self.plan, schedule).await;
        let checked = match wholes {
            None => self.check_whole(&played),
            Some(wholes) => {
                let alike = self.alike(&played, wholes).await;
                self.check(&played, &wholes.whole, alike.map(|n| &wholes.interrupted[n]))
            }
        };
        match checked.and_then(|()| self.check_invariants(&played)) {
            Ok(()) => Ok(played),
            Err(breach) => Err(Failing { played, breach }),
        }
    }

    /// Returns the index of a trial with a single crash that interrupted the same attempt as this one. Trials are
    /// deterministic, so it is found again when this schedule runs alone.
    async fn alike(&self, played: &Played, wholes: &mut Wholes) -> Option<usize> {
        let wanted = rules::interrupted(played);
        if wanted.len() != 1 || self.may_race {
            return None;
        }
        let is_alike = |other: &Played| rules::interrupted(other) == wanted;
        let found = wholes.interrupted.iter().position(is_alike);
        if found.is_some() {
            return found;
        }
        let singles: Vec<_> = wholes.whole.schedule.longer(wholes.whole.commits).collect();
        for schedule in singles {
            let single = stage::play(&self.plan, &schedule).await;
            if is_alike(&single) {
                wholes.interrupted.push(single);
                return Some(wholes.interrupted.len() - 1);
            }
        }
        None
    }

    fn check_whole(&self, played: &Played) -> Result<(), Breach> {
        rules::check(played)?;
        let sent = self.plan.messages.iter().enumerate();
        let mut sent = sent.filter(|(n, _)| !played.schedule.without.contains(&(n + 1)));
        let is_cancelled = sent.any(|(_, message)| matches!(message.kind, Kind::Cancel { .. }));
        rules::check_expected(played, self.expects_failure, is_cancelled)
    }

    fn check(&self, played: &Played, whole: &Played, alike: Option<&Played>) -> Result<(), Breach> {
        rules::check(played)?;
        if self.may_race {
            return Ok(());
        }
        if rules::interrupted(played).is_empty() {
            return rules::compare(played, whole);
        }
        rules::compare_interrupted(played, whole)?;
        alike.map_or(Ok(()), |alike| rules::compare(played, alike))
    }

    fn check_invariants(&self, played: &Played) -> Result<(), Breach> {
        for (name, invariant) in &self.invariants {
            let held = invariant(&played.ledger);
            let breach = |problem| Breach {
                rule: Rule::Invariant(name.clone()),
                sentence: format!("invariant {name:?}: {problem}"),
            };
            held.map_err(breach)?;
        }
        Ok(())
    }

    fn count(&self, played: &Played, report: &mut Report) {
        report.bodies += played.ledger.effects.len() as u64;
        if !played.schedule.crashes.is_empty() {
            *report.ends.entry(played.ledger.end.status.kind().as_str()).or_default() += 1;
        }
        for warning in warning::of(played).into_iter().filter(|warning| !self.is_told(warning)) {
            let place = |warning: &Warning| (warning.kind, warning.step.clone(), warning.site.clone());
            if !report.warnings.iter().any(|other| place(other) == place(&warning)) {
                report.warnings.push(warning);
            }
        }
    }

    /// Whether the test declared this to be fine.
    fn is_told(&self, warning: &Warning) -> bool {
        match warning.kind {
            WarningKind::KeyNotAsked => self.idempotent.contains(&warning.step),
            WarningKind::Unkeyed => self.ordered.contains(&warning.step),
        }
    }

    async fn judge_warnings(&self, report: Report) -> Result<Report, Broken> {
        let Some(warning) = report.warnings.first().filter(|_| self.denies_warnings) else { return Ok(report) };
        let schedule: Schedule = warning.schedule.parse().unwrap_or_default();
        let played = stage::play(&self.plan, &schedule).await;
        let sentence = format!("warnings are denied: {warning}");
        Err(self.broken(&Failing { played, breach: Breach { rule: Rule::NoWarnings, sentence } }))
    }

    /// Finds the smallest schedule that still breaks the same rule.
    async fn shrink(&self, failing: Failing) -> Failing {
        let mut smallest = failing;
        'quieter: loop {
            for uncrashed in smallest.played.schedule.quieter(self.plan.messages.len()) {
                // With one message fewer, commits are numbered differently: search for the crash point again.
                let found = self.play_all(&uncrashed, &mut Report::of(&self.plan.workflow)).await.err();
                if let Some(found) = found.filter(|found| found.is_as(&smallest)) {
                    smallest = found;
                    continue 'quieter;
                }
            }
            break;
        }
        let mut plays = 0;
        'smaller: loop {
            for schedule in smallest.played.schedule.smaller() {
                plays += 1;
                if plays > SHRINKS_MAX {
                    break 'smaller;
                }
                if let Some(found) = self.fails_as(&schedule, &smallest).await {
                    smallest = found;
                    continue 'smaller;
                }
            }
            break;
        }
        smallest
    }

    /// Returns the failure if a schedule breaks the same rule, and breaks none without its crashes.
    async fn fails_as(&self, schedule: &Schedule, other: &Failing) -> Option<Failing> {
        let tried = if schedule.crashes.is_empty() {
            self.play(schedule, None).await
        } else {
            let whole = self.play(&schedule.uncrashed(), None).await.ok()?;
            self.play(schedule, Some(&mut Wholes { whole, interrupted: Vec::new() })).await
        };
        tried.err().filter(|failing| failing.is_as(other))
    }

    fn broken(&self, failing: &Failing) -> Broken {
        let mut problem = failing.breach.sentence.clone();
        if matches!(failing.breach.rule, Rule::SameOutcome | Rule::SameOthers | Rule::SameSteps | Rule::ReplayStable) {
            let mut warnings = warning::of(&failing.played).into_iter();
            let unkeyed = warnings.find(|warning| warning.kind == WarningKind::Unkeyed && !self.is_told(warning));
            problem.extend(unkeyed.map(|warning| format!("; possibly related: {warning}")));
        }
        Broken(Box::new(Finding {
            workflow: self.plan.workflow.clone(),
            problem,
            schedule: failing.played.schedule.to_string(),
            timeline: timeline::timeline(&failing.played),
        }))
    }
}

/// Picks `count` items, spread evenly over all.
fn spread<T>(all: Vec<T>, count: usize) -> Vec<T> {
    let there_are = all.len();
    if there_are <= count {
        return all;
    }
    // An item is taken each time the running sum of shares passes a whole number.
    let is_taken = |n: usize| (n + 1) * count / there_are > n * count / there_are;
    all.into_iter().enumerate().filter(|(n, _)| is_taken(*n)).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn selection_is_spread_evenly() {
        assert_eq!(spread((0..10).collect(), 3), [3, 6, 9]);
        assert_eq!(spread((0..3).collect(), 7), [0, 1, 2]);
        for count in 0..=100 {
            assert_eq!(spread((0..100).collect(), count).len(), count);
        }
    }
}
