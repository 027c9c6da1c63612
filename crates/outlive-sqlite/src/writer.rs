//! The writer thread, which owns the writing connection, the lock, the epoch and the checkpoints.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::{Error, ErrorKind};
use outlive_core::throttle::Throttle;
use outlive_core::time::Timestamp;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::batch::{Again, Batch};
use crate::checkpoint::{Act, CHECKPOINT_PAGES, Checkpoints, Log, Wanted};
use crate::doorbell::{Doorbell, Ringer};
use crate::error;
use crate::home;
use crate::lease::Lock;
use crate::ledger::{Foreign, Ledger};
use crate::open::{self, Options};
use crate::place::Identity;
use crate::watch::{self, Ear, Watch};

/// How long a restart checkpoint waits for readers. Nobody can write meanwhile.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// The minimum interval between warnings about the WAL.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// How long the names of the store and its lock are trusted before they are checked again.
const NAMES_EVERY: Duration = Duration::from_millis(10);

/// How long a client leaves the file to the executor after a write that woke it: a little longer than the executor
/// waits between two attempts to take the lock.
const EXECUTOR_TURN: Duration = Duration::from_micros(150);

/// Where to send the reply.
pub(crate) type ReplyTo<T> = oneshot::Sender<Result<T, Error>>;

/// A request to the writer.
pub(crate) enum WriterRequest {
    /// Writes a batch for the handle that listens with this ear.
    Write(Arc<Vec<Write>>, Weak<Ear>, ReplyTo<Vec<Answer>>),
    /// Takes the lease. The reply is the epoch, and how many instances were driven when the last process died.
    Lease(Timestamp, ReplyTo<(Epoch, usize)>),
    Release(Epoch, ReplyTo<()>),
    /// Polls for foreign writes from now on.
    Watch,
    /// Stops the writer: all handles are gone.
    Close,
}

pub(crate) struct Writer {
    path: PathBuf,
    /// The file that `path` led to when it was opened.
    identity: Option<Identity>,
    options: Options,
    connection: Connection,
    ledger: Ledger,
    jobs: Receiver<WriterRequest>,
    watch: Arc<Watch>,
    /// Wakes the executor after a write if it is another process.
    ringer: Ringer,
    /// How other processes signal their writes; `None` if this handle does not execute.
    doorbell: Option<Doorbell>,
    /// When the last write was made, if it woke the executor.
    rung_at: Option<Instant>,
    /// Held while this handle may execute.
    lock: Option<Lock>,
    /// The epoch of this handle's lease, 0 if it does not execute.
    epoch: u64,
    /// When others last wrote, or when polling for their writes began.
    quiet_since: Instant,
    checkpoints: Checkpoints,
    begun: Instant,
    /// Limits how often warnings about the WAL are logged.
    warnings: Throttle,
    /// The approximate number of pages written since the WAL was last inspected.
    unlogged: i64,
    /// Whether `path` led to another file or to none at the last check, and when that was.
    is_moved: bool,
    names_at: Instant,
    /// `true` while the record of where the store is executed is only in the WAL, not in the file.
    is_home_in_log: bool,
    /// Batches whose COMMIT failed without saying whether they are durable. Each client that shares the connection may
    /// have one.
    unsure: Vec<Arc<Vec<Write>>>,
}

impl Writer {
    /// Takes over a connection. Foreign writes are noticed from here on.
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        connection: Connection,
        jobs: Receiver<WriterRequest>,
        watch: Arc<Watch>,
    ) -> Result<Self, Error> {
        let mut ledger = Ledger::default();
        ledger.look(&connection).map_err(|e| error::on_open(&path, &e))?;
        Ok(Self {
            identity: Identity::at(&path),
            is_moved: false,
            names_at: watch::now(),
            ringer: Ringer::new(&path),
            doorbell: None,
            rung_at: None,
            quiet_since: watch::now(),
            path,
            checkpoints: Checkpoints::new(options.checkpoint_pages.unwrap_or(CHECKPOINT_PAGES)),
            begun: watch::now(),
            warnings: Throttle::new(WARN_EVERY),
            options,
            connection,
            ledger,
            jobs,
            watch,
            lock: None,
            epoch: 0,
            unlogged: 0,
            is_home_in_log: false,
            unsure: Vec::new(),
        })
    }

    /// Serves requests until the last handle is gone.
    pub(crate) fn run(mut self) {
        open::set_patience(self.options.patience.unwrap_or(error::BUSY_MAX));
        while let Some(job) = self.next() {
            match job {
                WriterRequest::Write(batch, ear, reply) => {
                    let done = self.write(&batch);
                    if done.is_ok() {
                        self.watch.tell_others(&ear);
                    }
                    self.unlogged += batch.iter().map(pages).sum::<i64>();
                    let wanted = if done.is_ok() { Wanted::Order } else { Wanted::Room };
                    // The caller must be the sole owner of the batch again when it gets the reply.
                    drop(batch);
                    let _ = reply.send(done);
                    self.checkpoint(wanted);
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

    fn next(&mut self) -> Option<WriterRequest> {
        loop {
            let Some(wait) = self.look_in() else {
                return self.jobs.recv().ok();
            };
            match self.jobs.recv_timeout(wait) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Returns the time until the next check for foreign writes, or `None` if nobody waits for any.
    fn look_in(&self) -> Option<Duration> {
        if self.doorbell.is_some() {
            return Some(self.options.net.unwrap_or(watch::NET));
        }
        let max = match self.lock {
            Some(_) => watch::EXECUTOR_MAX,
            None if self.watch.is_wanted() => watch::CLIENT_MAX,
            None => return None,
        };
        Some(watch::look_in(self.quiet_since.elapsed(), max))
    }

    /// Checks for foreign writes. Errors are left for the next write to report.
    fn look(&mut self) {
        self.watch.count_look();
        self.look_at_names();
        self.settle_home();
        if let Ok(Foreign::Changed) = self.ledger.look(&self.connection) {
            self.tell();
        }
    }

    /// Checks that the names of the store and its lock still lead to the files that are open here. Otherwise other
    /// processes would use another file, or would not see that this one is executed.
    fn look_at_names(&mut self) {
        self.names_at = watch::now();
        self.is_moved = Identity::at(&self.path) != self.identity;
        if let Some(lock) = self.lock.as_mut().filter(|_| !self.is_moved) {
            lock.restore(&self.path);
        }
    }

    /// Notifies all handles of a foreign write.
    fn tell(&mut self) {
        self.quiet_since = watch::now();
        self.watch.tell();
    }

    fn write(&mut self, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, Error> {
        // The caller of a batch that only this list holds has given it up and will not retry it.
        self.unsure.retain(|unsure| Arc::strong_count(unsure) > 1);
        let is_again = self.unsure.iter().any(|unsure| Arc::ptr_eq(unsure, batch));
        let again = if is_again { Again::Perhaps } else { Again::First };
        let order = order(batch);
        let answers = self.transact(again, |open| {
            let mut answers = vec![Answer::Done; batch.len()];
            for &(_, place) in &order {
                answers[place] = open.apply(&batch[place])?;
            }
            Ok(answers)
        });
        match answers {
            Ok(answers) if is_again => {
                self.unsure.retain(|unsure| !Arc::ptr_eq(unsure, batch));
                Ok(answers)
            }
            // That this attempt wrote nothing says nothing about the first one.
            Err(e) if is_again => Err(Error { kind: ErrorKind::Unknown, ..e }),
            Err(e) if e.kind == ErrorKind::Unknown => {
                self.unsure.push(batch.clone());
                Err(e)
            }
            other => other,
        }
    }

    fn lease(&mut self, now: Timestamp) -> Result<(Epoch, usize), Error> {
        home::check(&self.connection, &self.path)?;
        let lock = match self.lock.take() {
            Some(held) => held,
            None => Lock::take(&self.path)?,
        };
        self.epoch = 0;
        let path = self.path.clone();
        let ((epoch, driven), is_new) = self.transact(Again::First, |open| {
            let is_new = home::record(open.connection, &path)?;
            Ok((open.take_over(now)?, is_new))
        })?;
        (self.epoch, self.lock) = (epoch, Some(lock));
        self.is_home_in_log |= is_new;
        self.settle_home();
        self.put_up_doorbell();
        Ok((Epoch(epoch), driven))
    }

    /// Checkpoints if the record of where the store is executed is still only in the WAL, which a rename leaves behind.
    /// If a reader of an earlier state is in the way, this is retried later.
    fn settle_home(&mut self) {
        if !self.is_home_in_log {
            return;
        }
        match self.ask_log("PRAGMA wal_checkpoint(passive)") {
            Ok(log) => self.is_home_in_log = log.pages != log.moved,
            Err(e) => tracing::debug!("could not checkpoint {} yet: {e}", self.path.display()),
        }
    }

    /// Puts up the doorbell. Where there can be none, the writer polls.
    fn put_up_doorbell(&mut self) {
        if self.doorbell.is_some() {
            return;
        }
        let watch = self.watch.clone();
        match Doorbell::put_up(&self.path, move || watch.tell()) {
            Ok(doorbell) => self.doorbell = Some(doorbell),
            Err(e) => tracing::debug!("no wake socket for {} ({e}); polling instead", self.path.display()),
        }
    }

    fn release(&mut self, epoch: Epoch) -> Result<(), Error> {
        if self.epoch == 0 || self.epoch != epoch.0 {
            return Ok(());
        }
        self.transact(Again::First, |open| open.let_go())?;
        // After a shutdown, the file alone is all there is to copy. If a reader is in the way, the log stays.
        if let Err(e) = self.restart_log("PRAGMA wal_checkpoint(truncate)") {
            tracing::debug!("could not empty the log of {}: {e}", self.path.display());
        }
        self.epoch = 0;
        self.doorbell = None;
        self.lock = None;
        Ok(())
    }

    /// Does `work` in one transaction: all of it is durable or none, or the error says that the outcome is unknown.
    fn transact<T>(&mut self, again: Again, work: impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        loop {
            let damage_before = self.ledger.damage_count();
            let done = self.attempt(again, &work);
            let is_damage = matches!(&done, Err(e) if e.kind == ErrorKind::Corrupt);
            // A claim hit a damaged page, and SQLite rolls back everything else with it. The retry does not read that
            // page.
            if !is_damage || self.ledger.damage_count() <= damage_before {
                return done;
            }
        }
    }

    fn attempt<T>(&mut self, again: Again, work: &impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.begin()?;
        let done = self.apply(again, work);
        let committed = match done {
            Ok(value) => self.execute("COMMIT").map(|()| value).map_err(|e| (e, Stage::Commit)),
            Err(e) => Err((e, Stage::Before)),
        };
        if committed.is_ok() && self.lock.is_none() && self.ringer.ring() {
            self.rung_at = Some(watch::now());
        }
        committed.map_err(|(e, stage)| self.undo(&e, stage))
    }

    fn begin(&mut self) -> Result<(), Error> {
        // Nobody would find what is written to a file that has been moved or removed.
        if self.is_moved || self.names_at.elapsed() >= NAMES_EVERY {
            self.look_at_names();
        }
        if self.is_moved {
            return Err(error::moved(&self.path));
        }
        if !self.connection.is_autocommit() {
            // A rollback failed; only a new connection is certain to have no open transaction.
            self.connection = open::writer(&self.path, &self.options)?.connection;
            self.ledger.forget();
            // The new connection does not know what others wrote meanwhile.
            self.watch.tell();
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
            let has_changed = matches!(self.ledger.look(&self.connection), Ok(Foreign::Changed));
            if has_changed {
                self.tell();
            }
            if !has_changed || !error::is_busy(&error) {
                return Err(error::while_reading(&self.path, &error));
            }
        }
        let patience = self.options.patience.unwrap_or(error::BUSY_MAX);
        Err(error::crowded(&self.path, patience * error::CROWD))
    }

    fn apply<T>(&mut self, again: Again, work: &impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        if self.ledger.look(&self.connection)? == Foreign::Changed {
            self.tell();
        }
        let mut batch = Batch::new(&self.connection, &mut self.ledger, self.epoch, again)?;
        let value = work(&mut batch)?;
        drop(batch);
        self.ledger.flush(&self.connection)?;
        Ok(value)
    }

    fn undo(&mut self, error: &rusqlite::Error, stage: Stage) -> Error {
        self.ledger.forget();
        // SQLite rolls back some failed transactions by itself.
        let is_undone = self.connection.is_autocommit() || self.execute("ROLLBACK").is_ok();
        match stage {
            Stage::Before if is_undone => error::while_reading(&self.path, error),
            _ => error::on_commit(&self.path, error, is_undone),
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Checkpoints when the WAL has grown, or when a write was refused: the disk may be full, and a restarted WAL has
    /// room. A failure loses nothing: the WAL stays, and the next batch tries again.
    fn checkpoint(&mut self, wanted: Wanted) {
        if wanted == Wanted::Order && self.checkpoints.can_wait(self.unlogged) {
            return;
        }
        self.unlogged = 0;
        self.look_at_names();
        let log = match self.ask_log("PRAGMA wal_checkpoint(noop)") {
            Ok(found) if self.connection.is_autocommit() => found,
            _ => return,
        };
        let done = match self.checkpoints.next(wanted, log) {
            Act::Nothing => return,
            Act::Passive => self.ask_log("PRAGMA wal_checkpoint(passive)"),
            Act::Restart => self.restart_log("PRAGMA wal_checkpoint(restart)"),
        };
        let path = self.path.display();
        match done {
            Ok(log) if log.is_long() && self.warnings.pass(self.begun.elapsed()).is_some() => tracing::warn!(
                pages = log.pages,
                moved = log.moved,
                "a long-running reader is blocking WAL checkpoints of {path}: the WAL grows, and writes get slower; \
                 end the reading transaction, in this or another program"
            ),
            Err(e) if self.warnings.pass(self.begun.elapsed()).is_some() => {
                tracing::warn!("could not checkpoint {path}; its WAL grows until a checkpoint succeeds: {e}");
            }
            _ => {}
        }
    }

    /// Checkpoints so that the next write restarts the WAL, unless a reader stays too long.
    fn restart_log(&mut self, sql: &str) -> rusqlite::Result<Log> {
        self.connection.busy_timeout(RESTART_WAIT)?;
        let done = self.ask_log(sql);
        open::wait_for_others(&mut self.connection)?;
        done.inspect(|log| self.checkpoints.restarted(*log))
    }

    fn ask_log(&self, sql: &str) -> rusqlite::Result<Log> {
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([], |row| Ok(Log { is_busy: row.get(0)?, pages: row.get(1)?, moved: row.get(2)? }))
    }
}

/// The approximate size of a small row without its text.
const ROW_BYTES: usize = 64;

/// Estimates how many WAL pages a write takes.
fn pages(write: &Write) -> i64 {
    let bytes = match write {
        Write::Start(start) => start.input.len(),
        Write::Message(send) => send.message.to_parts().2.map_or(0, Payload::len),
        Write::Commit(commit) => {
            commit.entries.iter().filter_map(|entry| entry.payload.as_ref()).map(Payload::len).sum()
        }
        Write::Push(push) => push.events.iter().map(|event| event.payload.len() + ROW_BYTES).sum(),
        Write::Turn(turn) => {
            let record = turn.state.as_ref().and_then(|state| state.outcome.as_ref()).map_or(0, Payload::len);
            let moved = turn.queue.iter().filter_map(|moved| moved.to.as_ref());
            let events = moved.chain(turn.dead.iter().map(|dead| &dead.event));
            let kept: usize = events.map(|event| event.payload.len() + ROW_BYTES).sum();
            return turn.writes.iter().map(pages).sum::<i64>() + 1 + ((record + kept) / 4096) as i64;
        }
        _ => 0,
    };
    1 + (bytes / 4096) as i64
}

/// Returns the order in which a batch is applied: as given, except that consecutive commits are sorted by instance, so
/// that neighbours in the index are written together. Commits of one instance keep their order, and no commit moves
/// past another kind of write.
fn order(batch: &[Write]) -> Vec<(InstanceNum, usize)> {
    // No instance has number 0.
    let num = |write: &Write| if let Write::Commit(commit) = write { commit.num } else { InstanceNum(0) };
    let mut order: Vec<_> = batch.iter().map(num).zip(0..).collect();
    for same in order.chunk_by_mut(|(one, _), (next, _)| (one.0 == 0) == (next.0 == 0)) {
        same.sort_unstable();
    }
    order
}

/// Where a transaction failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Before,
    Commit,
}
