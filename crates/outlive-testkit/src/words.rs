//! Writes and their answers in words, for people who look at what happened.

use outlive_core::commit::{Answer, Commit, Write};
use outlive_core::message::Message;

/// What was written, in a line.
pub(crate) fn of_write(write: &Write) -> String {
    match write {
        Write::Start(start) => format!("start {} of {:?} with {}", start.id, start.workflow, start.input),
        Write::Send(send) => format!("{} to {}", of_message(&send.message), send.id),
        Write::Commit(commit) => of_commit(commit),
        Write::Claim(claim) => {
            let nums: Vec<String> = claim.nums.iter().map(ToString::to_string).collect();
            format!("claim run {}", nums.join(", "))
        }
        Write::Reopen(reopen) => format!("have {} go on", reopen.id),
        Write::Purge(id) => format!("purge {id}"),
        other => format!("{other:?}"),
    }
}

fn of_message(message: &Message) -> String {
    match message {
        Message::Signal { name, payload } => format!("signal {name:?} {payload}"),
        Message::Cancel { reason } => format!("cancel ({reason})"),
        Message::Terminate { reason } => format!("terminate ({reason})"),
        Message::Pause => "pause".to_owned(),
        Message::Resume => "resume".to_owned(),
        other => format!("{other:?}"),
    }
}

fn of_commit(commit: &Commit) -> String {
    let mut parts: Vec<String> = Vec::new();
    for entry in &commit.entries {
        let due = entry.due.map(|due| format!(" until {due}")).unwrap_or_default();
        let payload = entry.payload.as_ref().map(|payload| format!(" = {payload}")).unwrap_or_default();
        parts.push(format!("{} {} {}{due}{payload}", entry.seq, entry.op, entry.kind.as_str()));
    }
    if !commit.taken.is_empty() {
        parts.push(format!("messages {:?} taken", commit.taken));
    }
    if let Some(state) = &commit.state {
        let wake = state.wake.map(|wake| format!(", wake at {wake}")).unwrap_or_default();
        let outcome = state.outcome.as_ref().map(|outcome| format!(" with {outcome}")).unwrap_or_default();
        let note = state.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        parts.push(format!("it is {}{outcome}{wake}{note}", state.status));
    }
    format!("commit of run {}: {}", commit.num, parts.join("; "))
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
