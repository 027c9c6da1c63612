//! Changes of code against runs in flight: what a check says, and what a deploy then does.

use outlive_testkit::plays::plays;

use crate::tools::{Lines, Order, bar};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let count = order.amount(6_000, u64::MAX);
    let bar = bar(if count == u64::MAX { 0 } else { count });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the runtime does not start: {error}"))?;
    let report = runtime.block_on(plays(order.seed, count, |plays| bar.inc(plays)));
    bar.finish_and_clear();
    let report = report?;
    if let Some(first) = report.missed.first() {
        return Err(format!(
            "the check was wrong in {} of {} plays, first: {first}",
            report.missed.len(),
            report.plays
        ));
    }
    let mut lines = vec![
        ("plays: a workflow, where a run of it stops, and one or two changes".to_owned(), report.plays),
        (
            "said to be fine, and something was done again or the run did not end, apart from what is left out below"
                .to_owned(),
            0,
        ),
        ("said to be fine, and it was".to_owned(), report.fine),
        ("not said to be fine, and it was not".to_owned(), report.alarms),
        ("not said to be fine, and it was".to_owned(), report.false_alarms()),
    ];
    let alarms = report.false_alarms.iter().map(|(word, number)| (format!("of these \"{word}\""), *number));
    lines.extend(alarms);
    lines.extend([
        ("`.was(..)` suggested, followed, and nothing done again".to_owned(), report.suggestions),
        ("`.was(..)` suggested for a step that is another: a person says no".to_owned(), report.questions),
        ("of loops without keys, which are left out".to_owned(), report.unkeyed),
        ("of these said to be fine, and it was not".to_owned(), report.unkeyed_missed),
        ("a signal that had come does not read, behind a step that had not run".to_owned(), report.unseen_signals),
    ]);
    Ok(lines.into_iter().map(|(what, number)| (what, number.to_string())).collect())
}
