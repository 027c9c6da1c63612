//! Writes and their answers in words, for people who look at what happened.

use std::time::Duration;

use outlive::{Entry, EntryKind, Payload, Status, Timestamp};
use outlive_core::commit::{Answer, State, Write};
use outlive_core::message::Message;

/// How much of a value is shown.
const VALUE_MAX: usize = 60;
/// How many lines are printed of what happened.
const LINES_MAX: usize = 200;

/// Whom a write is about.
pub(crate) fn of_whom(write: &Write) -> String {
    match write {
        Write::Start(start) => start.id.to_string(),
        Write::Send(send) => send.id.to_string(),
        Write::Commit(commit) => format!("run {}", commit.num),
        Write::Claim(claim) => {
            let nums: Vec<String> = claim.nums.iter().map(ToString::to_string).collect();
            format!("run {}", nums.join(", "))
        }
        Write::Reopen(reopen) => reopen.id.to_string(),
        Write::Purge(id) => id.to_string(),
        other => format!("{other:?}"),
    }
}

/// What was written, in a line; times are counted from a moment.
pub(crate) fn of_write(write: &Write, started: Timestamp) -> String {
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
pub(crate) fn name(op: &str) -> String {
    ["step:", "wait:"].iter().fold(op.to_owned(), |op, kind| op.replacen(kind, "", 1))
}

/// The identity of a step without a key, without the count.
pub(crate) fn unnumbered(op: &str) -> &str {
    op.rsplit_once('#').map_or(op, |(base, _)| base)
}

/// The sentence about a step that one place calls more than once without a key.
pub(crate) fn unkeyed(step: &str, site: &str) -> String {
    format!(
        "step {step:?} ({site}) is called more than once without a key, so only the order of the calls says which is which; \
         give each a `.key(..)` if the order can change, as that of a `HashMap` does"
    )
}

/// Lines to print: the last ones, if there are many.
pub(crate) fn last_lines<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> String {
    let mut last: Vec<_> = lines.rev().collect();
    let before = last.len().saturating_sub(LINES_MAX);
    last.truncate(LINES_MAX);
    let mut text = if before > 0 { format!("… {before} lines before\n") } else { String::new() };
    last.iter().rev().for_each(|line| text.extend([line, "\n"]));
    text
}

fn value(payload: &Payload) -> String {
    let text = payload.as_str();
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A length of time in its two largest units.
pub(crate) fn span(duration: Duration) -> String {
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

/// How it was answered, in a few words.
pub(crate) fn of_answer(answer: &Answer) -> String {
    match answer {
        Answer::Started { num, created: true, is_driven: true } => format!("run {num}, driven by who started it"),
        Answer::Started { num, created: true, is_driven: false } => format!("run {num}, for whoever claims it"),
        Answer::Started { num, .. } => format!("run {num}, which was there"),
        Answer::Sent { pos, is_new: true, .. } => format!("message {pos}"),
        Answer::Sent { pos, .. } => format!("message {pos}, which was there"),
        Answer::Done => "done".to_owned(),
        Answer::Fenced => "fenced".to_owned(),
        Answer::Unseen(messages) => format!("{} messages were not seen", messages.len()),
        Answer::Claimed(claimed) => {
            let nums: Vec<String> = claimed.iter().map(|claimed| claimed.instance.num.to_string()).collect();
            if nums.is_empty() { "none".to_owned() } else { format!("got run {}", nums.join(", ")) }
        }
        other => format!("{other:?}"),
    }
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
