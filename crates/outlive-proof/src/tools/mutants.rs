//! Runs the tools against deliberate defects, each of which one of them must catch.

mod child;
mod homes;
mod suites;

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::mutant::Mutant;

use crate::tools::{Lines, Order, bar};

pub(crate) use suites::be_mutant;

use child::{Child, Verdict};

/// Limit on the characters kept of a finding.
const WORDS_MAX: usize = 140;
/// The control tries this many times as many schedules as the slowest catch needed.
const CONTROL: u64 = 10;

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let schedules = order.amount(200_000, 2_000_000);
    let bar = bar(Mutant::ALL.len() as u64 + 1);
    let mut verdicts = Vec::new();
    for mutant in Mutant::ALL {
        verdicts.push((*mutant, Child { mutant: Some(*mutant), schedules, seed: order.seed }.judge()?));
        bar.inc(1);
    }
    let escaped: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict.found.is_none()).collect();
    if !escaped.is_empty() {
        let told = escaped.iter().map(|(mutant, _)| format!("\n  {}: {}", mutant.name(), mutant.sentence()));
        return Err(format!("not caught:{}\n{}", told.collect::<String>(), table(&verdicts)));
    }
    let slowest = verdicts.iter().map(|(_, verdict)| verdict.schedules()).max().unwrap_or(0);
    let control = Child { mutant: None, schedules: (slowest * CONTROL).max(schedules), seed: order.seed };
    let nothing = control.judge()?;
    bar.finish_and_clear();
    if let Some(found) = nothing.found {
        return Err(format!("without a defect, {} found: {found}", nothing.suite));
    }
    Ok(lines(&verdicts, control.schedules))
}

fn lines(verdicts: &[(Mutant, Verdict)], control: u64) -> Lines {
    let mut by_suite: BTreeMap<&str, u64> = BTreeMap::new();
    verdicts.iter().for_each(|(_, verdict)| *by_suite.entry(&verdict.suite).or_default() += 1);
    let mut lines = vec![("deliberate defects, all caught".to_owned(), verdicts.len().to_string())];
    lines.extend(by_suite.into_iter().map(|(suite, count)| (format!("caught by {suite}"), count.to_string())));
    lines.push(("schedules without a defect, with no findings".to_owned(), control.to_string()));
    lines.extend(verdicts.iter().map(|(mutant, verdict)| {
        (format!("{}: {}", mutant.name(), mutant.sentence()), format!("{verdict}: {}", words(verdict)))
    }));
    lines
}

/// Formats all verdicts, to help find out why something escaped.
fn table(verdicts: &[(Mutant, Verdict)]) -> String {
    verdicts.iter().map(|(mutant, verdict)| format!("{}: {verdict}: {}\n", mutant.name(), words(verdict))).collect()
}

/// Returns the beginning of a finding, in one line that fits into a table.
fn words(verdict: &Verdict) -> String {
    let first = verdict.found.as_deref().unwrap_or("nothing").lines().next().unwrap_or_default();
    first.chars().take(WORDS_MAX).collect::<String>().replace('|', "/")
}

/// How long a child may be silent before it counts as hanging.
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_many_defects_and_each_has_its_own_name_and_promise() {
        let names: BTreeSet<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert!(names.len() >= 20, "{}", names.len());
        assert_eq!(names.len(), Mutant::ALL.len());
        let vague = Mutant::ALL.iter().filter(|mutant| !mutant.sentence().contains(" Breaks P"));
        assert_eq!(vague.collect::<Vec<_>>(), [&Mutant::CommitUnfenced; 0]);
    }
}
