//! The writer thread, which owns the writing connection, the lease and the checkpoints.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::{Error, ErrorKind};
use outlive_core::time::Timestamp;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::apply::{ApplyOrder, apply_all};
use super::batch::{Batch, PriorAttempt};
use super::cache::{FileContent, WriterCache};
use super::checkpoint::{CHECKPOINT_PAGES, CheckpointAction, CheckpointReason, Checkpoints, WalState};
use super::lease;
use crate::doorbell::{Doorbell, Ringer};
use crate::error;
use crate::home;
use crate::lease::Lock;
use crate::open::{self, Options};
use crate::place::OpenPath;
use crate::watch::{self, HandleListener, Watch};

/// How long a restart checkpoint waits for readers. Nobody can write meanwhile.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// How long a client leaves the file to the executor after a write that woke it: a little longer than the executor
/// waits between two attempts to take the lock.
const EXECUTOR_TURN: Duration = Duration::from_micros(150);

/// Where to send the reply.
pub(crate) type ReplyTo<T> = oneshot::Sender<Result<T, Error>>;

/// A request to the writer.
pub(crate) enum WriterRequest {
    /// Writes a batch for the handle with this listener.
    Write(Arc<Vec<Write>>, Weak<HandleListener>, ReplyTo<Vec<Answer>>),
    /// Takes the lease. The reply is the epoch, and how many instances were driven when the last process died.
    Lease(Timestamp, ReplyTo<(Epoch, usize)>),
    Release(Epoch, ReplyTo<()>),
    /// Polls for foreign writes from now on.
    Watch,
    /// Stops the writer: all handles are gone.
    Close,
}

pub(crate) struct Writer {
    place: OpenPath,
    options: Options,
    connection: Connection,
    cache: WriterCache,
    requests: Receiver<WriterRequest>,
    watch: Arc<Watch>,
    /// Wakes the executor after a write if it is another process.
    ringer: Ringer,
    /// When the last write was made, if it woke the executor.
    rung_at: Option<Instant>,
    /// Held while this handle may execute. Dropped after the connection, so that the next holder finds the file closed.
    execution: Option<Execution>,
    /// When others last wrote, or when polling for their writes began.
    quiet_since: Instant,
    checkpoints: Checkpoints,
    /// `true` while the record of where the store is executed is only in the WAL, not in the file.
    is_home_in_wal: bool,
    /// Batches whose COMMIT failed without saying whether they are durable. Each client that shares the connection may
    /// have one.
    unsure: Vec<Arc<Vec<Write>>>,
}

/// What the executor of a store holds. The fields are dropped in this order: the lock is released last.
struct Execution {
    /// How other processes signal their writes; `None` where that is not possible, and the writer polls more often.
    doorbell: Option<Doorbell>,
    lock: Lock,
    /// The epoch of the lease.
    epoch: u64,
}

impl Writer {
    /// Takes over a connection. FileContent writes are noticed from here on.
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        connection: Connection,
        requests: Receiver<WriterRequest>,
        watch: Arc<Watch>,
    ) -> Result<Self, Error> {
        let mut cache = WriterCache::default();
        cache.refresh(&connection).map_err(|e| error::on_open(&path, &e))?;
        Ok(Self {
            ringer: Ringer::new(&path),
            place: OpenPath::new(path),
            checkpoints: Checkpoints::new(options.checkpoint_pages.unwrap_or(CHECKPOINT_PAGES)),
            options,
            connection,
            cache,
            requests,
            watch,
            rung_at: None,
            execution: None,
            quiet_since: watch::now(),
            is_home_in_wal: false,
            unsure: Vec::new(),
        })
    }

    /// Serves requests until the last handle is gone.
    pub(crate) fn run(mut self) {
        open::set_patience(self.options.patience.unwrap_or(error::BUSY_MAX));
        while let Some(request) = self.next_request() {
            match request {
                WriterRequest::Write(batch, listener, reply) => {
                    let done = self.write(&batch);
                    if done.is_ok() {
                        self.watch.notify_others(&listener);
                    }
                    self.checkpoints.count(&batch);
                    let reason = if done.is_ok() { CheckpointReason::Length } else { CheckpointReason::Room };
                    // The caller must be the sole owner of the batch again when it gets the reply.
                    drop(batch);
                    let _ = reply.send(done);
                    self.checkpoint(reason);
                }
                WriterRequest::Lease(now, reply) => {
                    let _ = reply.send(self.lease(now));
                }
                WriterRequest::Release(epoch, reply) => {
                    let _ = reply.send(self.release(epoch));
                }
                WriterRequest::Watch => self.quiet_since = watch::now(),
                WriterRequest::Close => return,
            }
        }
    }

    /// Waits for the next request, and polls for foreign writes meanwhile.
    fn next_request(&mut self) -> Option<WriterRequest> {
        loop {
            let Some(wait) = self.next_poll_in() else {
                return self.requests.recv().ok();
            };
            match self.requests.recv_timeout(wait) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Timeout) => self.poll(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Returns the time until the next poll for foreign writes, or `None` if nobody waits for any.
    fn next_poll_in(&self) -> Option<Duration> {
        let max = match &self.execution {
            Some(Execution { doorbell: Some(_), .. }) => return Some(self.options.net.unwrap_or(watch::NET)),
            Some(_) => watch::EXECUTOR_MAX,
            None if self.watch.is_wanted() => watch::CLIENT_MAX,
            None => return None,
        };
        Some(watch::next_poll_in(self.quiet_since.elapsed(), max))
    }

    /// Polls for foreign writes. Errors are left for the next write to report.
    fn poll(&mut self) {
        self.watch.count_poll();
        self.check_names();
        self.settle_home();
        if let Ok(FileContent::Changed) = self.cache.refresh(&self.connection) {
            self.notify();
        }
    }

    /// Checks that the names of the store and its lock still lead to the files that are open here. Otherwise other
    /// processes would use another file, or would not see that this one is executed.
    fn check_names(&mut self) {
        self.place.check();
        if let Some(execution) = self.execution.as_mut().filter(|_| !self.place.is_moved()) {
            execution.lock.restore(self.place.path());
        }
    }

    /// Notifies all handles of a foreign write.
    fn notify(&mut self) {
        self.quiet_since = watch::now();
        self.watch.notify();
    }

    fn write(&mut self, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, Error> {
        // The caller of a batch that only this list holds has given it up and will not retry it.
        self.unsure.retain(|unsure| Arc::strong_count(unsure) > 1);
        let is_retry = self.unsure.iter().any(|unsure| Arc::ptr_eq(unsure, batch));
        let prior = if is_retry { PriorAttempt::MaybeDurable } else { PriorAttempt::None };
        let order = ApplyOrder::of(batch);
        match self.transact(prior, |open| apply_all(open, batch, &order)) {
            Ok(answers) if is_retry => {
                self.unsure.retain(|unsure| !Arc::ptr_eq(unsure, batch));
                Ok(answers)
            }
            // That this attempt wrote nothing says nothing about the first one.
            Err(e) if is_retry => Err(Error { kind: ErrorKind::Unknown, ..e }),
            Err(e) if e.kind == ErrorKind::Unknown => {
                self.unsure.push(batch.clone());
                Err(e)
            }
            other => other,
        }
    }

    fn lease(&mut self, now: Timestamp) -> Result<(Epoch, usize), Error> {
        home::check(&self.connection, self.place.path())?;
        let (lock, doorbell) = match self.execution.take() {
            Some(held) => (held.lock, held.doorbell),
            None => (Lock::take(self.place.path())?, None),
        };
        let path = self.place.path().to_owned();
        let ((epoch, driven), is_new) = self.transact(PriorAttempt::None, |open| {
            let is_new = home::record(open.connection, &path)?;
            Ok((lease::take_over(open, now)?, is_new))
        })?;
        self.is_home_in_wal |= is_new;
        self.settle_home();
        let doorbell = doorbell.or_else(|| self.put_up_doorbell());
        self.execution = Some(Execution { doorbell, lock, epoch });
        Ok((Epoch(epoch), driven))
    }

    /// Checkpoints if the record of where the store is executed is still only in the WAL, which a rename leaves behind.
    /// If a reader of an earlier state is in the way, this is retried later.
    fn settle_home(&mut self) {
        if !self.is_home_in_wal {
            return;
        }
        match self.ask_wal("PRAGMA wal_checkpoint(passive)") {
            Ok(wal) => self.is_home_in_wal = wal.pages != wal.moved,
            Err(e) => tracing::debug!("could not checkpoint {} yet: {e}", self.place.path().display()),
        }
    }

    /// Puts up the doorbell. Where there can be none, the writer polls.
    fn put_up_doorbell(&self) -> Option<Doorbell> {
        let (path, watch) = (self.place.path(), self.watch.clone());
        Doorbell::put_up(path, move || watch.notify())
            .inspect_err(|e| tracing::debug!("no wake socket for {} ({e}); polling instead", path.display()))
            .ok()
    }

    fn release(&mut self, epoch: Epoch) -> Result<(), Error> {
        if self.epoch() == 0 || self.epoch() != epoch.0 {
            return Ok(());
        }
        self.transact(PriorAttempt::None, lease::release)?;
        // After a shutdown, the file alone is all there is to copy. If a reader is in the way, the WAL stays.
        if let Err(e) = self.restart_wal("PRAGMA wal_checkpoint(truncate)") {
            tracing::debug!("could not empty the WAL of {}: {e}", self.place.path().display());
        }
        self.execution = None;
        Ok(())
    }

    /// Returns the epoch of this handle's lease, 0 if it does not execute.
    fn epoch(&self) -> u64 {
        self.execution.as_ref().map_or(0, |execution| execution.epoch)
    }

    /// Does `work` in one transaction: all of it is durable or none, or the error says that the outcome is unknown.
    fn transact<T>(
        &mut self,
        prior: PriorAttempt,
        work: impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        loop {
            let damage_before = self.cache.damage_count();
            let done = self.attempt(prior, &work);
            let is_damage = matches!(&done, Err(e) if e.kind == ErrorKind::Corrupt);
            // A claim hit a damaged page, and SQLite rolls back everything else with it. The retry does not read that
            // page.
            if !is_damage || self.cache.damage_count() <= damage_before {
                return done;
            }
        }
    }

    fn attempt<T>(
        &mut self,
        prior: PriorAttempt,
        work: &impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        self.begin()?;
        let done = self.apply(prior, work);
        let committed = match done {
            Ok(value) => self.execute("COMMIT").map(|()| value).map_err(|e| (e, FailedAt::Commit)),
            Err(e) => Err((e, FailedAt::Statement)),
        };
        if committed.is_ok() && self.execution.is_none() && self.ringer.ring() {
            self.rung_at = Some(watch::now());
        }
        committed.map_err(|(e, at)| self.roll_back(&e, at))
    }

    fn begin(&mut self) -> Result<(), Error> {
        // Nobody would find what is written to a file that has been moved or removed.
        if self.place.is_check_due() {
            self.check_names();
        }
        if self.place.is_moved() {
            return Err(error::moved(self.place.path()));
        }
        if !self.connection.is_autocommit() {
            // A rollback failed; only a new connection is certain to have no open transaction.
            self.connection = open::writer(self.place.path(), &self.options)?.connection;
            self.cache.forget();
            // The new connection does not know what others wrote meanwhile.
            self.watch.notify();
        }
        self.give_way();
        self.begin_in_turn()
    }

    /// Leaves a gap after a write that woke the executor, because it writes next. SQLite has no queue: without a
    /// gap, a busy client takes the lock again before the executor finds it free.
    fn give_way(&mut self) {
        if let Some(since) = self.rung_at.take().map(|at| at.elapsed()) {
            std::thread::sleep(EXECUTOR_TURN.saturating_sub(since));
        }
    }

    /// Begins a transaction once the file is free. While others keep committing, it waits longer than for a single
    /// transaction that holds the lock.
    fn begin_in_turn(&mut self) -> Result<(), Error> {
        for _ in 0..error::CROWD {
            let error = match self.execute("BEGIN IMMEDIATE") {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let has_changed = matches!(self.cache.refresh(&self.connection), Ok(FileContent::Changed));
            if has_changed {
                self.notify();
            }
            if !has_changed || !error::is_busy(&error) {
                return Err(error::while_reading(self.place.path(), &error));
            }
        }
        let patience = self.options.patience.unwrap_or(error::BUSY_MAX);
        Err(error::crowded(self.place.path(), patience * error::CROWD))
    }

    fn apply<T>(
        &mut self,
        prior: PriorAttempt,
        work: &impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        if self.cache.refresh(&self.connection)? == FileContent::Changed {
            self.notify();
        }
        let epoch = self.epoch();
        let mut batch = Batch::new(&self.connection, &mut self.cache, epoch, prior)?;
        let value = work(&mut batch)?;
        drop(batch);
        self.cache.flush(&self.connection)?;
        Ok(value)
    }

    fn roll_back(&mut self, error: &rusqlite::Error, at: FailedAt) -> Error {
        self.cache.forget();
        // SQLite rolls back some failed transactions by itself.
        let is_undone = self.connection.is_autocommit() || self.execute("ROLLBACK").is_ok();
        match at {
            FailedAt::Statement if is_undone => error::while_reading(self.place.path(), error),
            _ => error::on_commit(self.place.path(), error, is_undone),
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Checkpoints when the WAL has grown, or when a write was refused: the disk may be full, and a restarted WAL has
    /// room. A failure loses nothing: the WAL stays, and the next batch tries again.
    fn checkpoint(&mut self, reason: CheckpointReason) {
        if reason == CheckpointReason::Length && self.checkpoints.can_wait() {
            return;
        }
        self.checkpoints.begin_count();
        self.check_names();
        let wal = match self.ask_wal("PRAGMA wal_checkpoint(noop)") {
            Ok(found) if self.connection.is_autocommit() => found,
            _ => return,
        };
        let done = match self.checkpoints.next(reason, wal) {
            CheckpointAction::Nothing => return,
            CheckpointAction::Passive => self.ask_wal("PRAGMA wal_checkpoint(passive)"),
            CheckpointAction::Restart => self.restart_wal("PRAGMA wal_checkpoint(restart)"),
        };
        let path = self.place.path().display();
        match done {
            Ok(wal) if wal.is_long() && self.checkpoints.may_warn() => tracing::warn!(
                pages = wal.pages,
                moved = wal.moved,
                "a long-running reader is blocking WAL checkpoints of {path}: the WAL grows, and writes get slower; \
                 end the reading transaction, in this or another program"
            ),
            Err(e) if self.checkpoints.may_warn() => {
                tracing::warn!("could not checkpoint {path}; its WAL grows until a checkpoint succeeds: {e}");
            }
            _ => {}
        }
    }

    /// Checkpoints so that the next write restarts the WAL, unless a reader stays too long.
    fn restart_wal(&mut self, sql: &str) -> rusqlite::Result<WalState> {
        self.connection.busy_timeout(RESTART_WAIT)?;
        let done = self.ask_wal(sql);
        open::wait_for_others(&mut self.connection)?;
        done.inspect(|wal| self.checkpoints.restarted(*wal))
    }

    fn ask_wal(&self, sql: &str) -> rusqlite::Result<WalState> {
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([], |row| Ok(WalState { is_busy: row.get(0)?, pages: row.get(1)?, moved: row.get(2)? }))
    }
}

/// Where a transaction failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailedAt {
    Statement,
    Commit,
}
