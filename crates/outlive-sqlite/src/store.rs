//! The store handle: passes requests to the threads that serve them, and stops the threads when it is dropped.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::store::touched::{Touch, Touched};
use outlive_core::store::{Answered, Error, ErrorKind, Store};
use outlive_core::time::Timestamp;
use tokio::sync::oneshot;

use crate::error;
use crate::open::{self, Options, WriterConnection};
use crate::place::{self, FileIdentity};
use crate::read::{SqliteReader, feed, threads};
use crate::watch::{HandleListener, Watch};
use crate::write::{ReplyTo, Writer, WriterRequest};

/// A store in one SQLite file. Any number of handles and processes may read, start runs and send messages; the one that
/// holds the [`lease`](Store::lease) may execute.
///
/// ```
/// use outlive_core::store::query::{Filter, Query};
/// use outlive_sqlite::{Options, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let store = SqliteStore::open(&folder.path().join("shop.db"), Options::default())?;
/// assert_eq!(store.count(&Filter::runs()).await?.total(), 0);
/// # Ok(())
/// # }
/// ```
pub struct SqliteStore {
    listener: Arc<HandleListener>,
    threads: Arc<Threads>,
}

/// The threads that serve one or more handles, each on its own connection.
struct Threads {
    /// `true` if other handles may share these threads.
    is_shared: bool,
    options: Options,
    /// The file that the path led to when it was opened.
    identity: Option<FileIdentity>,
    durability: String,
    watch: Arc<Watch>,
    reader: SqliteReader,
    /// Declared last because fields drop in order: only a writing connection can clean up when it is the last to close.
    writer: WriterHandle,
}

/// The threads shared by handles of this process.
static SHARED: Mutex<Vec<Weak<Threads>>> = Mutex::new(Vec::new());

/// The channel to the writer thread, which ends when this is dropped.
struct WriterHandle {
    requests: Sender<WriterRequest>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the file, creating it with mode 0600 if it does not exist. Blocks until the file is open.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Open`](outlive_core::store::ErrorKind::Open) if the file cannot serve as a store, with the
    /// reason and what to do.
    ///
    /// ```
    /// use outlive_sqlite::{Options, SqliteStore};
    /// let error = SqliteStore::open("/no/such/folder/shop.db".as_ref(), Options::default()).unwrap_err();
    /// assert!(error.message.ends_with("create it first: mkdir -p /no/such/folder"));
    /// ```
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        Ok(Self::of(Arc::new(Threads::start(path, options, false)?)))
    }

    /// Opens a file like [`open`](Self::open), for handles that do not execute: all of them in one process share
    /// connections and threads. Requests are served in the order in which they arrive, and each handle is notified of
    /// the others' writes.
    ///
    /// # Errors
    /// Same as [`open`](Self::open). [`lease`](Store::lease) fails on a shared handle.
    ///
    /// ```
    /// use outlive_core::store::Store;
    /// use outlive_sqlite::{Options, SqliteStore};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("shop.db");
    /// // One per worker of a web server.
    /// let handles: Vec<_> = (0..100).map(|_| SqliteStore::shared(&file, Options::default()).unwrap()).collect();
    /// assert!(handles.iter().all(|handle| handle.is_shared_with(&handles[0])));
    /// ```
    pub fn shared(path: &Path, options: Options) -> Result<Self, Error> {
        let path = place::canonical(path)?;
        let identity = FileIdentity::at(&path);
        // Held until the file is open: of two concurrent callers, the second shares.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |threads: &Arc<Threads>| {
            let is_same_file = threads.identity.is_some() && threads.identity == identity;
            is_same_file && threads.reader.path() == path && threads.options.is_like(&options)
        };
        let known: Vec<Arc<Threads>> = shared.iter().filter_map(Weak::upgrade).collect();
        let threads = match known.iter().find(|threads| is_it(threads)) {
            Some(threads) => threads.clone(),
            None => {
                let threads = Arc::new(Threads::start(&path, options, true)?);
                shared.retain(|threads| threads.strong_count() > 0);
                shared.push(Arc::downgrade(&threads));
                threads
            }
        };
        drop(shared);
        Ok(Self::of(threads))
    }

    /// Returns `true` if both handles are served by the same connections.
    ///
    /// ```
    /// use outlive_sqlite::{Options, SqliteStore};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("shop.db");
    /// let (first, second) = (SqliteStore::shared(&file, Options::default()), SqliteStore::open(&file, Options::default()));
    /// assert!(!first.unwrap().is_shared_with(&second.unwrap())); // the second may execute
    /// ```
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.threads, &other.threads)
    }

    fn of(threads: Arc<Threads>) -> Self {
        Self { listener: HandleListener::new(&threads.watch), threads }
    }
}

impl Threads {
    fn start(path: &Path, options: Options, is_shared: bool) -> Result<Self, Error> {
        let path = place::canonical(path)?;
        let WriterConnection { connection, durability } = open::writer(&path, &options)?;
        let watch = Arc::new(Watch::default());
        let (requests, received) = mpsc::channel();
        let writer = Writer::new(path.clone(), options.clone(), connection, received, watch.clone())?;
        let reader = SqliteReader::start(path.clone(), &options)?;
        let thread = thread::Builder::new().name("outlive-writer".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(|e| threads::no_thread(&path, &e))?;
        let writer = WriterHandle { requests, thread: Some(thread) };
        Ok(Self { is_shared, options, identity: FileIdentity::at(&path), durability, watch, reader, writer })
    }
}

impl SqliteStore {
    /// Returns the absolute path of the file, with symbolic links resolved.
    ///
    /// ```
    /// use outlive_sqlite::{Options, SqliteStore};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let store = SqliteStore::open(&folder.path().join("shop.db"), Options::default()).unwrap();
    /// assert!(store.path().is_absolute() && store.path().ends_with("shop.db"));
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        self.threads.reader.path()
    }

    /// For tests: returns how often the writer has polled for foreign writes.
    #[doc(hidden)]
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.threads.watch.polls()
    }

    /// For tests: returns `true` if the writer polls for foreign writes because somebody waits for them.
    #[doc(hidden)]
    #[must_use]
    pub fn is_looking(&self) -> bool {
        self.threads.watch.is_on()
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(ReplyTo<T>) -> WriterRequest + Send + 'static,
    ) -> Answered<'_, T> {
        let (reply, answer) = oneshot::channel();
        Box::pin(async move {
            // If the writer is gone, so is `reply`, and the caller gets that error.
            self.threads.writer.send(request(reply));
            answer.await.unwrap_or_else(|_| Err(error::gone(self.path())))
        })
    }
}

impl Store for SqliteStore {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        if self.threads.is_shared {
            let message = format!(
                "{} is open on a shared handle, which cannot execute; use `SqliteStore::open`",
                self.path().display()
            );
            return Box::pin(async { Err(Error::new(ErrorKind::Open, message)) });
        }
        Box::pin(async move {
            let (epoch, driven) = self.ask(move |reply| WriterRequest::Lease(now, reply)).await?;
            if driven > 0 {
                tracing::warn!(
                    resumed = driven,
                    "the last process ended without a shutdown; resuming what it was running"
                );
            }
            Ok(epoch)
        })
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        let listener = Arc::downgrade(&self.listener);
        self.ask(move |reply| WriterRequest::Write(batch, listener, reply))
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.ask(move |reply| WriterRequest::Release(epoch, reply))
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // If the writer is gone, the next write reports it.
        self.listener.changed(|| self.threads.writer.send(WriterRequest::Watch))
    }

    fn touched(&self, after: u64, touch: Touch) -> Answered<'_, Option<Touched>> {
        self.threads.reader.lookups.ask(move |connection| feed::touched(connection, after, touch))
    }

    fn durability(&self) -> String {
        self.threads.durability.clone()
    }

    fn name(&self) -> String {
        self.path().display().to_string()
    }
}

impl Query for SqliteStore {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.threads.reader.instance(id)
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.threads.reader.journal(num, after, limit)
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.threads.reader.inbox(num, after, limit)
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.threads.reader.wakes_after(after, until, limit)
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.threads.reader.suspects(until)
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.threads.reader.list(filter, before, limit)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.threads.reader.count(filter)
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.threads.reader.queue(num, read)
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.threads.reader.depth(job, now)
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.threads.reader.dead(job, after, limit)
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.threads.reader.jobs()
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.threads.reader.feed(after, limit)
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.threads.reader.mark(name)
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.threads.reader.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.threads.reader.outputs(num, read, limit)
    }
}

impl WriterHandle {
    fn send(&self, request: WriterRequest) {
        let _ = self.requests.send(request);
    }
}

impl Drop for WriterHandle {
    /// Waits for the writer, so that the lock is released and the file closed when this returns.
    fn drop(&mut self) {
        // The doorbell also holds a sender, so the channel does not close by itself.
        self.send(WriterRequest::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path())
            .field("durability", &self.threads.durability)
            .finish_non_exhaustive()
    }
}
