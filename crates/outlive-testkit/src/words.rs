//! Describes writes and their results in words, for traces and timelines.

use std::time::Duration;

use outlive::{Entry, EntryKind, Payload, Status, Timestamp};
use outlive_core::event::Event;
use outlive_core::message::{Inbound, Message};
use outlive_core::output::OutputContent;
use outlive_core::queue::Moved;
use outlive_core::store::commit::{Answer, NewState, Refusal, Turn, Write};

/// Limit on the characters shown of a value.
const VALUE_MAX: usize = 60;
/// Limit on the items shown of one write.
const LISTED_MAX: usize = 10;
/// Limit on the lines printed of a trace.
const LINES_MAX: usize = 200;

/// Names the instance or reader that a write is about.
pub(crate) fn of_whom(write: &Write) -> String {
    match write {
        Write::Start(start) => start.id.to_string(),
        Write::Message(send) => send.id.to_string(),
        Write::Commit(commit) => format!("run {}", commit.num),
        Write::Claim(claim) => {
            let nums: Vec<String> = claim.nums.iter().map(ToString::to_string).collect();
            format!("run {}", nums.join(", "))
        }
        Write::Reopen(reopen) => reopen.id.to_string(),
        Write::Rewind(rewind) => rewind.id.to_string(),
        Write::Fork(fork) => fork.start.id.to_string(),
        Write::Purge(id, None) => id.to_string(),
        Write::Push(push) => push.id.to_string(),
        Write::Turn(turn) => format!("job {}", turn.num),
        Write::ResolveDeadLetters(resolve) => resolve.job.to_string(),
        Write::Mark(reader, _) => format!("reader {reader}"),
        Write::Trim(_) => "the feed".to_owned(),
        Write::Output(output) => format!("readers of run {}", output.num),
        other => format!("{other:?}"),
    }
}

/// Describes a write in one line; times are relative to `started`.
pub(crate) fn of_write(write: &Write, started: Timestamp) -> String {
    match write {
        Write::Start(start) => format!("run started with {}", value(&start.input)),
        Write::Message(send) => of_message(&send.message),
        Write::Claim(_) => "run claimed".to_owned(),
        Write::Commit(commit) => {
            let entries = commit.entries.iter().map(|entry| of_entry(entry, started));
            let state = commit.state.as_ref().map(|state| of_state(state, started));
            let sent = commit.writes.iter().map(|write| format!("to {}: {}", of_whom(write), of_write(write, started)));
            listed(entries.chain(sent).chain(state).collect())
        }
        Write::Reopen(_) => "stuck run retried".to_owned(),
        Write::Rewind(rewind) => format!("rewound to entry {}", rewind.entry.rewound_to().unwrap_or(0)),
        Write::Fork(fork) => format!("forked with {} entries", fork.entries.len()),
        Write::Purge(..) => "removed".to_owned(),
        Write::Push(push) => {
            format!("events pushed: {}", listed(push.events.iter().map(|event| of_event(event, started)).collect()))
        }
        Write::Turn(turn) => of_turn(turn, started),
        Write::ResolveDeadLetters(resolve) if resolve.is_retry => "dead letters retried".to_owned(),
        Write::ResolveDeadLetters(_) => "dead letters discarded".to_owned(),
        Write::Mark(_, number) => format!("cursor at {number}"),
        Write::Trim(trim) => format!("events older than {} removed", trim.before),
        Write::Output(output) => of_output(&output.content),
        other => format!("{other:?}"),
    }
}

fn of_output(content: &OutputContent) -> String {
    match content {
        OutputContent::Value { name, payload, .. } => format!("value {:?} is {}", name.as_str(), value(payload)),
        OutputContent::Item { name, payload, .. } => format!("stream {:?} gets {}", name.as_str(), value(payload)),
        OutputContent::Answer { question, payload } => format!("question {question} gets {}", value(payload)),
        OutputContent::AttemptEnd { origin, is_kept: true } => format!("attempt {} counts", origin.attempt),
        OutputContent::AttemptEnd { origin, .. } => format!("attempt {} does not count", origin.attempt),
    }
}

fn of_message(message: &Message) -> String {
    match message {
        Message::Signal { name, payload } => format!("signal {:?} sent with {}", name.as_str(), value(payload)),
        Message::Cancel { reason } => format!("cancel sent: {reason}"),
        Message::Terminate { reason } => format!("terminate sent: {reason}"),
        Message::Pause => "pause sent".to_owned(),
        Message::Resume => "resume sent".to_owned(),
        Message::Event(event) => format!("event {} sent", value(&event.payload)),
        Message::Trigger => "trigger sent".to_owned(),
        Message::Clear => "clear sent".to_owned(),
        other => format!("{other:?} sent"),
    }
}

fn of_event(event: &Event, started: Timestamp) -> String {
    let due = event.due.map_or(String::new(), |due| format!(" for {}", span(due.since(started))));
    let failed = if event.failed > 0 { format!(", failed {} times", event.failed) } else { String::new() };
    format!("{}{due}{failed}", value(&event.payload))
}

fn of_turn(turn: &Turn, started: Timestamp) -> String {
    let mut all: Vec<String> = Vec::new();
    all.extend(turn.lifecycle.iter().map(|news| match news.attempt {
        0 | 1 => news.kind.as_str().to_owned(),
        attempt => format!("{}, attempt {attempt}", news.kind.as_str()),
    }));
    all.extend((!turn.taken.is_empty()).then(|| format!("takes {}", numbers(&turn.taken))));
    all.extend(turn.queue.iter().map(|Moved { pos, to, .. }| match to {
        Some(event) => format!("event {pos} waits: {}", of_event(event, started)),
        None => format!("event {pos} is done"),
    }));
    all.extend(turn.dead.iter().map(|dead| format!("event {} becomes a dead letter", dead.pos)));
    all.extend(turn.replies.iter().map(|(pos, reply)| format!("event {pos} gets the reply {}", value(reply))));
    all.extend(turn.writes.iter().map(|write| format!("to {}: {}", of_whom(write), of_write(write, started))));
    all.extend(turn.state.as_ref().map(|state| of_state(state, started)));
    all.extend(turn.is_removed.then(|| "removed".to_owned()));
    listed(all)
}

/// Joins what happened in one write; of many items, keeps the first and the last.
fn listed(mut all: Vec<String>) -> String {
    if all.len() > LISTED_MAX {
        let left_out = all.len() - LISTED_MAX;
        all.splice(LISTED_MAX / 2..LISTED_MAX / 2 + left_out, [format!("… {left_out} more")]);
    }
    if all.is_empty() { "nothing".to_owned() } else { all.join("; ") }
}

fn numbers(all: &[u64]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Describes the messages in an inbox in one line.
pub(crate) fn of_inbox(inbox: &[Inbound]) -> String {
    let all: Vec<_> = inbox.iter().map(|inbound| of_message(&inbound.message)).collect();
    if all.is_empty() { "empty".to_owned() } else { all.join("; ") }
}

/// Formats the end of a journal, one line for each entry, each after a line break.
pub(crate) fn of_journal(journal: &[Entry]) -> String {
    let Some(first) = journal.first() else { return "; its journal is empty".to_owned() };
    let line =
        |entry: &Entry| format!("    {} {}: {}", entry.seq, span(entry.at.since(first.at)), of_entry(entry, first.at));
    let lines: Vec<String> = journal.iter().map(line).collect();
    format!("; its journal:\n{}", last_lines(lines.iter().map(String::as_str)).trim_end())
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

fn of_state(state: &NewState, started: Timestamp) -> String {
    let outcome = state.outcome.as_ref().map_or(String::new(), |outcome| format!(" with {}", value(outcome)));
    let note = state.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    match state.status {
        Status::Running => "running".to_owned(),
        status => match status.until() {
            Some(until) => format!("{} until {}", status.as_str(), span(until.since(started))),
            None => format!("{}{outcome}{note}", status.as_str()),
        },
    }
}

/// Returns an operation's identity without its kind, which the line already says.
pub(crate) fn name(op: &str) -> String {
    ["step:", "wait:"].iter().fold(op.to_owned(), |op, kind| op.replacen(kind, "", 1))
}

/// Returns the identity of a step without a key, without its occurrence.
pub(crate) fn unnumbered(op: &str) -> &str {
    op.rsplit_once('#').map_or(op, |(base, _)| base)
}

/// The warning about a step that one call site calls more than once without a key.
pub(crate) fn unkeyed(step: &str, site: &str) -> String {
    format!(
        "step {step:?} ({site}) is called more than once without a key, so only call order tells the calls apart; \
         give each a `.key(..)` if the order can change, as with a `HashMap`"
    )
}

/// Joins the lines to print: the last ones, if there are many.
pub(crate) fn last_lines<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> String {
    let mut last: Vec<_> = lines.rev().collect();
    let before = last.len().saturating_sub(LINES_MAX);
    last.truncate(LINES_MAX);
    let mut text = if before > 0 { format!("… {before} earlier lines\n") } else { String::new() };
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

/// Formats a duration in its two largest units.
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

/// Describes the result of a write in a few words.
pub(crate) fn of_answer(answer: &Answer) -> String {
    match answer {
        Answer::Started { num, created: true, is_driven: true } => format!("run {num}, driven by its starter"),
        Answer::Started { num, created: true, is_driven: false } => format!("run {num}, unclaimed"),
        Answer::Started { num, .. } => format!("run {num}, already there"),
        Answer::Sent { pos, is_new: true, .. } => format!("message {pos}"),
        Answer::Sent { pos, .. } => format!("message {pos}, already there"),
        Answer::Done => "done".to_owned(),
        Answer::Fenced => "fenced".to_owned(),
        Answer::Unseen(messages) => format!("{} messages unseen", messages.len()),
        Answer::Claimed(claimed) => {
            let nums: Vec<String> = claimed.iter().map(|claimed| claimed.instance.num.to_string()).collect();
            if nums.is_empty() { "none".to_owned() } else { format!("got run {}", nums.join(", ")) }
        }
        Answer::Pushed { positions, .. } => format!("events {}", numbers(positions)),
        Answer::DoneWith(answers) if answers.is_empty() => "done".to_owned(),
        Answer::DoneWith(answers) => answers.iter().map(of_answer).collect::<Vec<_>>().join(", "),
        Answer::DeadLettersResolved { count, .. } => format!("{count} dead letters"),
        Answer::Trimmed(count) => format!("{count} events"),
        Answer::Refused(Refusal::NotFound) => "refused: no such instance".to_owned(),
        Answer::Refused(Refusal::Status(status)) => format!("refused: it is {status}"),
        Answer::Refused(Refusal::Conflict { workflow }) => format!("refused: the id belongs to {workflow}"),
        Answer::Refused(Refusal::Taken) => "refused: the id is taken".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_span_is_shown_in_its_two_largest_units() {
        let shown = |millis| span(Duration::from_millis(millis));
        assert_eq!(shown(0), "0 s");
        assert_eq!(shown(250), "250 ms");
        assert_eq!(shown(7_200_000), "2 h");
        assert_eq!(shown(90_061_001), "1 d 1 h");
    }
}
