//! The expected counts, stored in a file, and what to report when a count differs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use outlive::prelude::Result;

/// Path of the file.
pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected.txt");
/// How far a count may be off, in percent.
const PERCENT_MAX: u64 = 10;
/// The command that rewrites the file.
const ANEW: &str = "cargo run --profile proof -p outlive-counts -- --write";

/// The content of the file.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    /// The tools with which the counts were made.
    pub(crate) tools: String,
    /// Instructions by scenario name.
    pub(crate) counts: Vec<(String, u64)>,
}

/// A count that is off.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) is_slower: bool,
    pub(crate) sentence: String,
}

impl Expected {
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}; write it with: {ANEW}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let tools = lines.next().unwrap_or_default().to_owned();
        let count = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        let counts = lines
            .map(|line| count(line).ok_or_else(|| format!("{line:?} is not a count; rewrite the file with: {ANEW}")));
        Ok(Self { tools, counts: counts.collect::<Result<_, _>>()? })
    }

    fn text(&self) -> String {
        let mut text = format!("# Instructions per operation. Written by: {ANEW}\n{}\n", self.tools);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name:<12} {count}");
        }
        text
    }

    pub(crate) fn write(&self) -> Result<()> {
        Ok(fs::write(FILE, self.text())?)
    }

    /// Returns the expected count of a scenario.
    pub(crate) fn count(&self, name: &str) -> Result<u64> {
        let found = self.counts.iter().find(|(other, _)| other == name);
        Ok(found.ok_or_else(|| format!("{FILE} has no count for {name:?}; rewrite it with: {ANEW}"))?.1)
    }
}

/// Returns the difference in percent.
pub(crate) fn change(before: u64, now: u64) -> f64 {
    (now as f64 / before.max(1) as f64 - 1.0) * 100.0
}

/// Returns what to report about a count, if it is off.
pub(crate) fn finding(name: &str, before: u64, now: u64, listing: &Path) -> Option<Finding> {
    let change = change(before, now);
    let sentence = if now * 100 > before * (100 + PERCENT_MAX) {
        let listing = listing.display();
        format!(
            "{name:?} takes {change:.1} % more instructions than expected ({now}, not {before}); profile it with \
             `callgrind_annotate {listing}`, or if it is intended, accept it with `{ANEW}`"
        )
    } else if now * 100 < before * (100 - PERCENT_MAX) {
        format!("{name:?} takes {:.1} % fewer instructions than expected; accept it with `{ANEW}`", -change)
    } else {
        return None;
    };
    Some(Finding { is_slower: change > 0.0, sentence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beyond_ten_percent_is_slower_and_says_by_how_much() {
        let finding = finding("start", 1_000, 1_101, Path::new("start.callgrind")).expect("the count is off");
        assert!(finding.is_slower);
        assert!(
            finding.sentence.starts_with("\"start\" takes 10.1 % more instructions than expected (1101, not 1000)")
        );
    }

    #[test]
    fn a_count_within_ten_percent_is_as_expected() {
        for now in [900, 1_000, 1_100] {
            assert_eq!(finding("start", 1_000, now, Path::new("start.callgrind")), None);
        }
    }

    #[test]
    fn a_count_far_below_is_told_and_is_no_failure() {
        let finding = finding("start", 1_000, 500, Path::new("start.callgrind")).expect("the count is off");
        assert!(!finding.is_slower && finding.sentence.contains("50.0 % fewer"), "{}", finding.sentence);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let written =
            Expected { tools: "rustc 1, cc 2 on x".into(), counts: vec![("start".into(), 12), ("wake".into(), 345)] };
        assert_eq!(Expected::parse(&written.text()).expect("it parses"), written);
        assert!(Expected::parse("tools\nstart many").is_err());
    }
}
