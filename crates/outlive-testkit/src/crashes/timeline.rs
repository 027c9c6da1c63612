//! A play as lines for people: what happened, when, and in which life of the process.

use std::fmt::Write as _;
use std::time::Duration;

use outlive::{Entry, EntryKind, Payload, Status, Timestamp};
use outlive_core::commit::{State, Write};
use outlive_core::message::Message;

use crate::faults::Fault;

use super::stage::Played;
use super::tape::What;

/// How much of a value is shown.
const VALUE_MAX: usize = 60;

/// The play, a line for each thing that happened.
pub(super) fn timeline(played: &Played) -> String {
    let mut rows = vec![("time".to_owned(), "life".to_owned(), "what".to_owned())];
    let mut now = played.started;
    for event in &played.events {
        let time = span(event.at.since(played.started));
        if event.at > now {
            let passed = span(event.at.since(now));
            rows.push((time.clone(), event.life.to_string(), format!("… {passed} pass")));
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
            let refused = if refused.contains(&true) { " (refused: something came in between)" } else { "" };
            format!("commit {commit}: {}{refused}", contents(batch))
        }
        What::Died { fault: Fault::CrashBefore(commit), batch } => {
            format!("CRASH before commit {commit}: {}", contents(batch))
        }
        What::Died { fault: Fault::CrashAfter(commit), .. } => format!("CRASH after commit {commit}"),
        What::Died { fault, .. } => format!("CRASH ({fault:?})"),
        What::Body(effect) => format!("body of {:?}, attempt {}", name(&effect.op), effect.attempt),
    }
}

fn of_write(write: &Write, started: Timestamp) -> String {
    match write {
        Write::Start(start) => format!("the run is started with {}", value(&start.input)),
        Write::Send(send) => match &send.message {
            Message::Signal { name, payload } => format!("signal {:?} comes with {}", name.as_str(), value(payload)),
            Message::Cancel { reason } => format!("a cancel comes: {reason}"),
            other => format!("{other:?} comes"),
        },
        Write::Claim(_) => "the run is claimed".to_owned(),
        Write::Commit(commit) => {
            let entries = commit.entries.iter().map(|entry| of_entry(entry, started));
            let state = commit.state.as_ref().map(|state| of_state(state, started));
            let all: Vec<_> = entries.chain(state).collect();
            if all.is_empty() { "nothing".to_owned() } else { all.join("; ") }
        }
        Write::Reopen(_) => "the stuck run tries again".to_owned(),
        other => format!("{other:?}"),
    }
}

fn of_entry(entry: &Entry, started: Timestamp) -> String {
    let (op, attempt) = (name(&entry.op), entry.attempt);
    let until = entry.due.map_or(String::new(), |due| format!(" until {}", span(due.since(started))));
    let payload = entry.payload.as_ref().map_or(String::new(), value);
    let failure = || entry.failure().map_or(payload.clone(), |failure| failure.to_string());
    match entry.kind {
        EntryKind::StepStarted => format!("step {op:?} attempt {attempt} started"),
        EntryKind::AttemptFailed => format!("step {op:?} attempt {attempt} failed ({}), waits{until}", failure()),
        EntryKind::StepDone => format!("step {op:?} done with {payload}"),
        EntryKind::StepFailed => format!("step {op:?} failed ({})", failure()),
        EntryKind::FallingBack => format!("step {op:?} falls back ({})", failure()),
        EntryKind::SleepSet => format!("{op} set{until}"),
        EntryKind::SleepDone => format!("{op} done"),
        EntryKind::WaitSet => format!("wait for {op:?}{until}"),
        EntryKind::SignalTaken => format!("wait for {op:?} got {payload}"),
        EntryKind::WaitTimedOut => format!("wait for {op:?} timed out"),
        EntryKind::OpCancelled => format!("{op:?} cancelled"),
        EntryKind::CancelTaken => format!("cancel taken ({payload})"),
        other => other.as_str().to_owned(),
    }
}

fn of_state(state: &State, started: Timestamp) -> String {
    let outcome = state.outcome.as_ref().map_or(String::new(), |outcome| format!(" with {}", value(outcome)));
    let note = state.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    match state.status {
        Status::Running => "goes on".to_owned(),
        Status::Paused { until: Some(until), .. } => format!("paused until {}", span(until.since(started))),
        status => format!("{}{outcome}{note}", status.kind().as_str()),
    }
}

/// An operation's identity without the word for its kind, which the line says in its own way.
fn name(op: &str) -> String {
    ["step:", "wait:"].iter().fold(op.to_owned(), |op, kind| op.replacen(kind, "", 1))
}

fn value(payload: &Payload) -> String {
    let text = payload.as_str();
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A length of time in its two largest units.
fn span(duration: Duration) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
    let mut left = duration.as_millis();
    let mut parts = Vec::new();
    for (unit, millis) in units {
        if left >= millis {
            parts.push(format!("{} {unit}", left / millis));
            left %= millis;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_shown_in_its_two_largest_units() {
        let shown = |millis| span(Duration::from_millis(millis));
        assert_eq!(shown(0), "0 s");
        assert_eq!(shown(250), "250 ms");
        assert_eq!(shown(7_200_000), "2 h");
        assert_eq!(shown(90_061_001), "1 d 1 h");
    }
}
