//! Formats a trial as a timeline: what happened, when, and in which process lifetime.

use std::fmt::Write as _;

use outlive::Timestamp;
use outlive_core::store::commit::Write;

use crate::faults::Fault;
use crate::words::{name, of_write, span};

use super::stage::Played;
use super::tape::What;

/// Formats a trial, one line for each thing that happened.
pub(super) fn timeline(played: &Played) -> String {
    let mut rows = vec![("time".to_owned(), "life".to_owned(), "what".to_owned())];
    let mut now = played.started;
    for event in &played.events {
        let time = span(event.at.since(played.started));
        if event.at > now {
            let passed = span(event.at.since(now));
            rows.push((time.clone(), event.life.to_string(), format!("… {passed} later")));
            now = event.at;
        }
        rows.push((time, event.life.to_string(), what(&event.what, played.started)));
    }
    let time = rows.iter().map(|(time, ..)| time.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (at, life, what) in rows {
        let _ = writeln!(text, "  {at:time$}  {life:4}  {what}");
    }
    text
}

fn what(what: &What, started: Timestamp) -> String {
    let contents = |batch: &[Write]| batch.iter().map(|write| of_write(write, started)).collect::<Vec<_>>().join("; ");
    match what {
        What::Written { commit, batch, refused } => {
            let refused = if refused.contains(&true) { " (rejected: another write came first)" } else { "" };
            format!("commit {commit}: {}{refused}", contents(batch))
        }
        What::Died { fault: Fault::CrashBefore(commit), batch } => {
            format!("CRASH before commit {commit}: {}", contents(batch))
        }
        What::Died { fault: Fault::CrashAfter(commit), .. } => format!("CRASH after commit {commit}"),
        What::Died { fault, .. } => format!("CRASH ({fault:?})"),
        What::Body(effect) => format!("executing {:?}, attempt {}", name(&effect.op), effect.attempt),
    }
}
