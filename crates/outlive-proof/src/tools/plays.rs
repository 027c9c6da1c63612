//! Tests code changes against runs in flight: what a check reports, and what a deploy then does.

use outlive_testkit::proof::plays;

use crate::tools::{Lines, Order, bar};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let count = order.amount(6_000, u64::MAX);
    let bar = bar(if count == u64::MAX { 0 } else { count });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("failed to create a tokio runtime: {error}"))?;
    let report = runtime.block_on(plays(order.seed, count, |plays| bar.inc(plays)));
    bar.finish_and_clear();
    let report = report?;
    if let Some(first) = report.missed.first() {
        return Err(format!(
            "the check was wrong in {} of {} trials, first: {first}",
            report.missed.len(),
            report.plays
        ));
    }
    let mut lines = vec![
        ("trials: a workflow, where a run of it stops, and one or two changes".to_owned(), report.plays),
        (
            "reported as fine, but something was repeated or the run did not end, except for what is excluded below"
                .to_owned(),
            0,
        ),
        ("reported as fine, and it was".to_owned(), report.fine),
        ("reported as not fine, and it was not".to_owned(), report.alarms),
        ("reported as not fine, but it was".to_owned(), report.false_alarms()),
    ];
    let alarms = report.false_alarms.iter().map(|(word, number)| (format!("of these \"{word}\""), *number));
    lines.extend(alarms);
    lines.extend([
        ("`.was(..)` suggested and followed, and nothing was repeated".to_owned(), report.suggestions),
        ("`.was(..)` suggested for a different step, which a person rejects".to_owned(), report.questions),
        ("with unkeyed loops, which are excluded".to_owned(), report.unkeyed),
        ("of these reported as fine, but it was not".to_owned(), report.unkeyed_missed),
        ("a received signal does not decode, behind a step that had not run".to_owned(), report.unseen_signals),
    ]);
    Ok(lines.into_iter().map(|(what, number)| (what, number.to_string())).collect())
}
