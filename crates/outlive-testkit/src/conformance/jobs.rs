//! Helpers for cases about jobs: push events, take turns, and read the results.

use std::sync::Arc;

use outlive_core::event::Event;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::queue::{Dead, Depth, Moved, PushTarget, PushWrite, QueuePage, QueueRead, Queued, Spot};
use outlive_core::store::commit::{Answer, Turn, Write};
use outlive_core::store::query::{FeedContent, FeedItem};

use super::world::{Checked, NOW, World, at, in_words, json, name};

/// Instances of two jobs: one keeps its events in an inbox, the other in a queue.
pub(crate) const ORDER: &str = "task:orders:1";
pub(crate) const ORDERS: &str = "task:orders";
pub(crate) const MAIL: &str = "pool:mail:main";
pub(crate) const MAILS: &str = "pool:mail";

/// The result of a push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pushed {
    pub(crate) num: InstanceNum,
    pub(crate) created: bool,
    pub(crate) positions: Vec<u64>,
    pub(crate) before: u64,
}

/// Writing.
impl World {
    /// A push of events with these payloads, to the inbox of a task or the queue of a pool.
    pub(crate) fn new_push(&self, id: &str, texts: &[&str]) -> PushWrite {
        PushWrite {
            id: name(id),
            job: job_of(id),
            events: texts.iter().map(|text| event(text)).collect(),
            place: place_of(id),
            at: NOW,
            seed: 7,
            token: self.token(),
        }
    }

    pub(crate) async fn push(&self, push: &PushWrite) -> Checked<Answer> {
        self.write(Write::Push(push.clone())).await
    }

    /// Pushes events, which must be accepted.
    pub(crate) async fn pushed(&self, push: &PushWrite) -> Checked<Pushed> {
        match self.push(push).await? {
            Answer::Pushed { num, created, positions, before } => Ok(Pushed { num, created, positions, before }),
            other => Err(format!("a push to {:?} returned {other:?}", push.id)),
        }
    }

    /// An instance with an owner and these events.
    pub(crate) async fn driven_job(&self, id: &str, texts: &[&str]) -> Checked<Pushed> {
        let pushed = self.pushed(&self.new_push(id, texts)).await?;
        self.claim(&[pushed.num]).await?;
        Ok(pushed)
    }

    /// A turn that reports one lifecycle event and changes nothing else.
    pub(crate) fn new_turn(&self, num: InstanceNum, before: u64) -> Turn {
        let records = vec![LifecycleRecord::new(LifecycleRecordKind::JobExecuted, NOW)];
        Turn { lifecycle: records, ..Turn::new(num, self.epoch, before) }
    }

    pub(crate) async fn turn(&self, turn: &Turn) -> Checked<Answer> {
        self.write(Write::Turn(Box::new(turn.clone()))).await
    }

    /// Takes a turn, which must be accepted.
    pub(crate) async fn turned(&self, turn: &Turn) -> Checked<Vec<Answer>> {
        match self.turn(turn).await? {
            Answer::DoneWith(answers) => Ok(answers),
            other => Err(format!("a turn returned {other:?}")),
        }
    }
}

/// Reading.
impl World {
    /// Returns the payloads of the events in an inbox.
    pub(crate) async fn events(&self, num: InstanceNum) -> Checked<Vec<String>> {
        let inbox = self.inbox(num).await?;
        Ok(inbox
            .iter()
            .map(|inbound| inbound.message.to_parts().2.map_or("", |text| text.as_str()))
            .map(bare)
            .collect())
    }

    /// Returns what is ready in a queue at a time, up to a limit.
    pub(crate) async fn page(&self, num: InstanceNum, millis: i64, limit: usize) -> Checked<QueuePage> {
        in_words(self.store().queue(num, QueueRead { now: at(millis), after: None, limit }).await)
    }

    /// Returns the payloads of everything that is ready now.
    pub(crate) async fn ready(&self, num: InstanceNum) -> Checked<Vec<String>> {
        Ok(texts(&self.page(num, 1_000, 1_000).await?.events))
    }

    pub(crate) async fn depth(&self, job: &str) -> Checked<Depth> {
        in_words(self.store().depth(&name(job), NOW).await)
    }

    pub(crate) async fn dead(&self, job: &str) -> Checked<Vec<Dead>> {
        in_words(self.store().dead(&name(job), 0, 1_000).await)
    }

    pub(crate) async fn feed(&self) -> Checked<Vec<FeedItem>> {
        in_words(self.store().feed(0, 1_000_000).await)
    }

    /// Returns the lifecycle events of an instance, even if its id belongs to another one by now.
    pub(crate) async fn events_of(&self, num: InstanceNum) -> Checked<Vec<FeedItem>> {
        Ok(self.feed().await?.into_iter().filter(|item| item.num == num).collect())
    }
}

/// Writes the same thing twice, like a caller that lost the reply.
pub(crate) async fn twice(w: &World, write: Write) -> Checked<(Answer, Answer)> {
    // The same batch object again, which identifies a repeat when nothing else does.
    let batch = Arc::new(vec![write]);
    let first = in_words(w.store().write(batch.clone()).await)?;
    let second = in_words(w.store().write(batch).await)?;
    match (&first[..], &second[..]) {
        ([first], [second]) => Ok((first.clone(), second.clone())),
        _ => Err(format!("the same write returned {first:?}, then {second:?}")),
    }
}

pub(crate) fn event(text: &str) -> Event {
    Event::new(json(&format!("\"{text}\"")))
}

/// An event with a dedup key.
pub(crate) fn keyed(text: &str, key: &str) -> Event {
    Event { dedup: Some(name(key)), ..event(text) }
}

/// An event in a lane.
pub(crate) fn laned(text: &str, lane: &str) -> Event {
    Event { key: Some(name(lane)), ..event(text) }
}

pub(crate) fn urgent(text: &str, priority: i32) -> Event {
    Event { priority, ..event(text) }
}

pub(crate) fn delayed(text: &str, millis: i64) -> Event {
    Event { due: Some(at(millis)), ..event(text) }
}

pub(crate) fn texts(queued: &[Queued]) -> Vec<String> {
    queued
        .iter()
        .map(|one| one.event.as_ref().map_or_else(Clone::clone, |event| bare(event.payload.as_str())))
        .collect()
}

fn bare(text: &str) -> String {
    text.trim_matches('"').to_owned()
}

/// Removes a queued event, or replaces it with another.
pub(crate) fn moved(pos: u64, from: &Event, to: Option<Event>) -> Moved {
    Moved { pos, from: Spot::of(from), key: from.dedup.clone(), to }
}

/// A dead letter of an instance.
pub(crate) fn letter(id: &str, pos: u64, event: &Event) -> Dead {
    Dead {
        pos,
        job: job_of(id),
        id: name(id),
        at: NOW,
        attempts: 3,
        failure: json("\"no\""),
        event: event.clone(),
        place: place_of(id),
    }
}

/// Describes a feed event in a word or two.
pub(crate) fn word(item: &FeedItem) -> String {
    match &item.content {
        FeedContent::Entry(entry) => entry.op.to_string(),
        FeedContent::Lifecycle(records) => records.kind.as_str().to_owned(),
    }
}

pub(crate) fn words(lines: &[FeedItem]) -> Vec<String> {
    lines.iter().map(word).collect()
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn job_of(id: &str) -> Name {
    name(&id.split(':').take(2).collect::<Vec<_>>().join(":"))
}

fn place_of(id: &str) -> PushTarget {
    if id.starts_with("pool:") { PushTarget::Queue } else { PushTarget::Inbox }
}
