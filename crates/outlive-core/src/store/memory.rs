//! The in-memory store, for tests.

mod expire;
mod jobs;
mod outputs;
mod repair;
mod row;
mod rows;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::id::{InstanceNum, Name};
use crate::journal::Entry;
use crate::message::Inbound;
use crate::output::{Output, OutputRead};
use crate::payload::Payload;
use crate::queue::{Dead, Depth, QueuePage, QueueRead};
use crate::store::commit::{Answer, Epoch, Write};
use crate::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use crate::store::{Answered, Store};
use crate::time::Timestamp;

use self::rows::Rows;

/// A store that keeps everything in memory and loses it with the process. A new lease always takes over: an earlier
/// holder can only be an engine of the same test that was dropped.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: Mutex<Rows>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        Box::pin(async move { Ok(self.rows().lease(now)) })
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        Box::pin(async move {
            let mut rows = self.rows();
            Ok(batch.iter().map(|write| rows.apply(write)).collect())
        })
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        Box::pin(async move {
            self.rows().release(epoch);
            Ok(())
        })
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    fn durability(&self) -> String {
        "memory: none".to_owned()
    }
}

impl Query for MemoryStore {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        Box::pin(async move { Ok(self.rows().instance(id)) })
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        Box::pin(async move { Ok(self.rows().journal(num, after, limit)) })
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        Box::pin(async move { Ok(self.rows().inbox(num, after, limit)) })
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        Box::pin(async move { Ok(self.rows().wakes_after(after, until, limit)) })
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        Box::pin(async move { Ok(self.rows().suspects(until)) })
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        Box::pin(async move { Ok(self.rows().list(filter, before, limit)) })
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        Box::pin(async move { Ok(self.rows().count(filter)) })
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        Box::pin(async move { Ok(self.rows().queue(num, &read)) })
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        Box::pin(async move { Ok(self.rows().depth(job, now)) })
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        Box::pin(async move { Ok(self.rows().dead(job, after, limit)) })
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        Box::pin(async move { Ok(self.rows().jobs()) })
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        Box::pin(async move { Ok(self.rows().feed_after(after, limit)) })
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        Box::pin(async move { Ok(self.rows().mark(name)) })
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        Box::pin(async move { Ok(self.rows().reply(pos)) })
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        Box::pin(async move { Ok(self.rows().outputs(num, &read, limit)) })
    }
}
