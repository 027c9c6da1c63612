//! Shared by the tests of jobs: handlers that follow a script, a book of what they did, and the feed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use outlive::prelude::*;
use outlive::store::Store;
use outlive_core::lifecycle::{Detail, LifecycleRecordKind};
use outlive_core::store::query::FeedContent;
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;

/// What handlers did across all lives, and what they do next.
#[derive(Clone)]
pub(crate) struct Book {
    notes: Arc<Mutex<Vec<String>>>,
    scripts: Arc<Mutex<BTreeMap<String, VecDeque<String>>>>,
    /// Where blocking handlers wait.
    pub(crate) gate: Arc<Semaphore>,
}

impl Default for Book {
    fn default() -> Self {
        Self { notes: Arc::default(), scripts: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

impl Book {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.notes.lock().unwrap().push(what.into());
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// Returns what was noted since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap())
    }

    /// Plans the next calls of a handler, one script each.
    pub(crate) fn plan<const N: usize>(&self, handler: &str, scripts: [&str; N]) {
        let mut planned = self.scripts.lock().unwrap();
        planned.entry(handler.to_owned()).or_default().extend(scripts.map(str::to_owned));
    }

    /// Returns the script of this call; empty if nothing was planned.
    pub(crate) fn script(&self, handler: &str) -> String {
        self.scripts.lock().unwrap().get_mut(handler).and_then(VecDeque::pop_front).unwrap_or_default()
    }
}

/// Runs the commands that every context supports. Commands are separated by `;`, their words by spaces.
macro_rules! perform {
    ($ctx:expr, $script:expr, $($verb:literal => $own:expr),* $(,)?) => {
        for command in $script.split(';').map(str::trim).filter(|command| !command.is_empty()) {
            let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
            match verb {
                $($verb => $own(rest),)*
                "fail" => return Err(rest.into()),
                "panic" => panic!("{rest}"),
                "block" => $ctx.get::<$crate::jobs_kit::Book>().gate.acquire().await.unwrap().forget(),
                "send" => {
                    let (id, event) = rest.split_once(' ').unwrap();
                    $ctx.send($crate::jobs_kit::NOTES, id, &event.to_owned())?;
                }
                "start" => $ctx.start($crate::jobs_kit::WAITER, &(), rest)?,
                "signal" => $ctx.signal(rest, "go", &7_u32)?,
                other => panic!("no command {other:?}"),
            }
        }
    };
}
pub(crate) use perform;

/// A task that keeps what others send to it.
pub(crate) const NOTES: outlive::job::Task<String, Vec<String>> = outlive::job::Task::new("notes");
/// A workflow that waits for a signal.
pub(crate) const WAITER: Workflow<(), u32> = Workflow::new("waiter");

async fn keep(ctx: outlive::job::TaskCtx<String, Vec<String>>, line: String) -> Result<()> {
    ctx.update_state(|lines| lines.push(line));
    Ok(())
}

async fn nothing<C>(_: C) -> Result<()> {
    Ok(())
}

async fn waiter(ctx: Ctx, (): ()) -> Result<u32> {
    Ok(ctx.wait("go").await?)
}

/// Registers the targets every test may send to.
pub(crate) fn others(engine: outlive::Builder) -> outlive::Builder {
    engine.job(NOTES.on_event(keep).execute(nothing)).workflow("waiter", waiter)
}

/// Returns the lifecycle records of an instance: kind, attempt, detail.
pub(crate) async fn reported(store: &Arc<dyn Store>, id: &str) -> Vec<(LifecycleRecordKind, u32, Detail)> {
    let feed = store.feed(0, 1_000_000).await.unwrap();
    let of = |item: outlive_core::store::query::FeedItem| match item.content {
        FeedContent::Lifecycle(record) if item.id.as_str() == id => {
            let detail = record.detail.as_ref().and_then(Detail::from_payload).unwrap_or_default();
            Some((record.kind, record.attempt, detail))
        }
        _ => None,
    };
    feed.into_iter().filter_map(of).collect()
}

/// Returns the reported failures and exhausted retries: `failed 1: no`, `exhausted 3 by max attempts: no`.
pub(crate) async fn failures(test: &TestEngine, id: &str) -> Vec<String> {
    let line = |(kind, attempt, detail): (LifecycleRecordKind, u32, Detail)| match kind {
        LifecycleRecordKind::JobFailed => Some(format!("failed {attempt}: {}", detail.error.unwrap_or_default())),
        LifecycleRecordKind::JobExhausted => Some(format!(
            "exhausted {attempt} by {}: {}",
            detail.reason.unwrap_or_default(),
            detail.error.unwrap_or_default()
        )),
        _ => None,
    };
    reported(test.store(), id).await.into_iter().filter_map(line).collect()
}

/// Formats everything a store holds.
pub(crate) async fn contents(store: &Arc<dyn Store>) -> String {
    let mut text = String::new();
    for instance in store.list(&Filter::runs(), None, 10_000).await.unwrap().instances {
        let inbox = store.inbox(instance.num, 0, usize::MAX).await.unwrap();
        let read = outlive_core::queue::QueueRead { now: Timestamp::MAX, after: None, limit: 100_000 };
        let queue = store.queue(instance.num, read).await.unwrap();
        text += &format!("{instance:?}\n{inbox:?}\n{queue:?}\n");
    }
    text + &format!("{:?}", store.feed(0, 1_000_000).await.unwrap())
}
