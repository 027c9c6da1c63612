//! The stores under test: in memory, on SQLite, and on SQLite with messages and events from another process.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::store::{Answered, Store};
use outlive_core::time::Timestamp;
use outlive_sqlite::{Durability, Options, SqliteStore};
use outlive_testkit::conformance::{Home, Opening};
use tempfile::TempDir;

/// A store in memory.
#[derive(Default)]
pub(super) struct Memory(Arc<MemoryStore>);

impl Home for Memory {
    fn open(&self) -> Opening<'_> {
        let store = self.0.clone();
        Box::pin(async move { Ok(store as _) })
    }
}

/// A store in a file.
pub(super) struct Sqlite {
    folder: TempDir,
    /// Whether messages and events come through their own handle, as from another process.
    has_guest: bool,
}

impl Sqlite {
    pub(super) fn new() -> std::io::Result<Self> {
        // No power is cut here, so the file may be kept in memory.
        let in_memory = Some(Path::new("/dev/shm")).filter(|folder| folder.is_dir());
        let folder = in_memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in)?;
        Ok(Self { folder, has_guest: false })
    }

    pub(super) fn with_guest() -> std::io::Result<Self> {
        Ok(Self { has_guest: true, ..Self::new()? })
    }

    pub(super) fn store(&self) -> Result<SqliteStore, String> {
        let options = Options::new().durability(Durability::Relaxed);
        SqliteStore::open(&self.folder.path().join("runs.db"), options).map_err(|error| error.to_string())
    }
}

impl Home for Sqlite {
    fn open(&self) -> Opening<'_> {
        Box::pin(async move {
            let host = self.store()?;
            if !self.has_guest {
                return Ok(Arc::new(host) as _);
            }
            Ok(Arc::new(Guested { host, guest: self.store()? }) as _)
        })
    }
}

/// One file with two handles: messages and events come through the guest, everything else through the host.
struct Guested {
    host: SqliteStore,
    guest: SqliteStore,
}

impl Store for Guested {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.host.lease(now)
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        let is_foreign = batch.iter().all(|write| matches!(write, Write::Message(_) | Write::Push(_)));
        if is_foreign { self.guest.write(batch) } else { self.host.write(batch) }
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.host.release(epoch)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.host.changed()
    }

    fn durability(&self) -> String {
        self.host.durability()
    }
}

impl Query for Guested {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.host.instance(id)
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.host.journal(num, after, limit)
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.host.inbox(num, after, limit)
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.host.wakes_after(after, until, limit)
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.host.suspects(until)
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.host.list(filter, before, limit)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.host.count(filter)
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.host.queue(num, read)
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.host.depth(job, now)
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.host.dead(job, after, limit)
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.host.jobs()
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.host.feed(after, limit)
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.host.mark(name)
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.host.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.host.outputs(num, read, limit)
    }
}
