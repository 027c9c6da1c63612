//! Runs the tools against deliberate defects, each of which one of them must catch.

mod child;
mod defects;
mod homes;
mod suites;
mod tree;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::tools::{Lines, Order, bar};

pub(crate) use suites::be_mutant;

use child::{Child, Verdict};
use defects::Defect;

/// Limit on the characters kept of a finding.
const WORDS_MAX: usize = 140;
/// The control tries this many times as many schedules as the slowest catch needed.
const CONTROL: u64 = 10;

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let schedules = order.amount(200_000, 2_000_000);
    let binary = tree::build()?;
    let bar = bar(defects::all().count() as u64 + 1);
    let mut verdicts = Vec::new();
    for defect in defects::all() {
        let child = Child { binary: &binary, defect: Some(defect), schedules, seed: order.seed };
        verdicts.push((defect, child.judge()?));
        bar.inc(1);
    }
    let escaped: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict.found.is_none()).collect();
    if !escaped.is_empty() {
        let told = escaped.iter().map(|(defect, _)| format!("\n  {}: {}", defect.name, defect.breaks));
        return Err(format!("not caught:{}\n{}", told.collect::<String>(), table(&verdicts)));
    }
    let slowest = verdicts.iter().map(|(_, verdict)| verdict.schedules()).max().unwrap_or(0);
    let schedules = (slowest * CONTROL).max(schedules);
    let control = Child { binary: &binary, defect: None, schedules, seed: order.seed };
    let nothing = control.judge()?;
    bar.finish_and_clear();
    if let Some(found) = nothing.found {
        return Err(format!("without a defect, {} found: {found}", nothing.suite));
    }
    Ok(lines(&verdicts, schedules))
}

fn lines(verdicts: &[(&Defect, Verdict)], control: u64) -> Lines {
    let mut by_suite: BTreeMap<&str, u64> = BTreeMap::new();
    verdicts.iter().for_each(|(_, verdict)| *by_suite.entry(&verdict.suite).or_default() += 1);
    let mut lines = vec![("deliberate defects, all caught".to_owned(), verdicts.len().to_string())];
    lines.extend(by_suite.into_iter().map(|(suite, count)| (format!("caught by {suite}"), count.to_string())));
    lines.push(("schedules without a defect, with no findings".to_owned(), control.to_string()));
    lines.extend(verdicts.iter().map(|(defect, verdict)| {
        (format!("{}: {}", defect.name, defect.breaks), format!("{verdict}: {}", words(verdict)))
    }));
    lines
}

/// Formats all verdicts, to help find out why something escaped.
fn table(verdicts: &[(&Defect, Verdict)]) -> String {
    verdicts.iter().map(|(defect, verdict)| format!("{}: {verdict}: {}\n", defect.name, words(verdict))).collect()
}

/// Returns the beginning of a finding, in one line that fits into a table.
fn words(verdict: &Verdict) -> String {
    let first = verdict.found.as_deref().unwrap_or("nothing").lines().next().unwrap_or_default();
    first.chars().take(WORDS_MAX).collect::<String>().replace('|', "/")
}

/// How long a child may be silent before it counts as hanging.
const SILENCE_MAX: Duration = Duration::from_secs(30);
