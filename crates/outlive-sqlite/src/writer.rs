//! The one thread that writes: it owns the connection, the lock, the epoch and the checkpoints.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use outlive_core::commit::{Answer, Epoch, Write};
use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
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

/// How long readers are waited for, during which nobody else writes either.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// How often people are warned of the same.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// How long the names of the store and its lock are taken to be what they were.
const NAMES_EVERY: Duration = Duration::from_millis(10);

/// Where an answer is awaited.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What the writer is asked to do.
pub(crate) enum Job {
    /// Write, for the handle that hears by this.
    Write(Arc<Vec<Write>>, Weak<Ear>, Reply<Vec<Answer>>),
    /// The epoch, and how many instances were driven when the last process died.
    Lease(Timestamp, Reply<(Epoch, usize)>),
    Release(Epoch, Reply<()>),
    /// Look for foreign writes from now on.
    Watch,
    /// Somebody has rung: look now.
    Rung,
    /// Nobody can ask any more.
    Close,
}

/// The two ends of the way to the writer.
pub(crate) type Jobs = (Sender<Job>, Receiver<Job>);

pub(crate) struct Writer {
    path: PathBuf,
    /// The file that `path` was when it was opened.
    identity: Option<Identity>,
    options: Options,
    connection: Connection,
    ledger: Ledger,
    jobs: Jobs,
    watch: Arc<Watch>,
    /// Wakes the executor after a write, if it is another process.
    ringer: Ringer,
    /// How others tell of what they write, if this handle executes.
    doorbell: Option<Doorbell>,
    /// Whether a [`Job::Rung`] is on its way.
    is_rung: Arc<AtomicBool>,
    /// Held while this handle may execute.
    lock: Option<Lock>,
    /// The epoch given to this handle, 0 if it does not execute.
    epoch: u64,
    /// When others last wrote, or it was begun to look whether they do.
    quiet_since: Instant,
    checkpoints: Checkpoints,
    begun: Instant,
    /// Warnings about the log.
    warnings: Throttle,
    /// About how many pages were written since the log was last looked at.
    unlogged: i64,
    /// Whether `path` was another file, or none, when it was last looked at, and when that was.
    is_moved: bool,
    names_at: Instant,
    /// Whether the file itself does not say yet where it is executed.
    is_home_in_log: bool,
    /// Batches whose COMMIT failed without saying whether they are durable; clients that share the connection may have one
    /// each.
    unsure: Vec<Arc<Vec<Write>>>,
}

impl Writer {
    /// Takes over a connection. What others write from here on is noticed.
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        connection: Connection,
        jobs: Jobs,
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
            is_rung: Arc::default(),
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

    /// Does what is asked until nobody can ask any more.
    pub(crate) fn run(mut self) {
        open::set_patience(self.options.patience.unwrap_or(error::BUSY_MAX));
        while let Some(job) = self.next() {
            match job {
                Job::Write(batch, ear, reply) => {
                    let done = self.write(&batch);
                    if done.is_ok() {
                        self.watch.tell_others(&ear);
                    }
                    self.unlogged += batch.iter().map(pages).sum::<i64>();
                    let wanted = if done.is_ok() { Wanted::Order } else { Wanted::Room };
                    // Whoever is answered has the batch to himself again.
                    drop(batch);
                    let _ = reply.send(done);
                    self.checkpoint(wanted);
                }
                Job::Lease(now, reply) => {
                    let _ = reply.send(self.lease(now));
                }
                Job::Release(epoch, reply) => {
                    let _ = reply.send(self.release(epoch));
                }
                Job::Watch => self.quiet_since = watch::now(),
                Job::Rung => {
                    // Who rings from here on is heard again: what he wrote may not be seen by this look.
                    self.is_rung.store(false, Ordering::SeqCst);
                    self.look();
                }
                Job::Close => return,
            }
        }
    }

    fn next(&mut self) -> Option<Job> {
        loop {
            let Some(wait) = self.look_in() else {
                return self.jobs.1.recv().ok();
            };
            match self.jobs.1.recv_timeout(wait) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// The time until the next look for foreign writes. `None` if nobody wants to know of any.
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

    /// Sees whether others have written. Trouble with the file is left for the next write to tell.
    fn look(&mut self) {
        self.watch.count_look();
        self.look_at_names();
        self.settle_home();
        if let Ok(Foreign::Changed) = self.ledger.look(&self.connection) {
            self.tell();
        }
    }

    /// Sees whether the names of the store and its lock still lead to the files that are open here. If they do not,
    /// others work on another file, or do not see that this one is executed.
    fn look_at_names(&mut self) {
        self.names_at = watch::now();
        self.is_moved = Identity::at(&self.path) != self.identity;
        if let Some(lock) = self.lock.as_mut().filter(|_| !self.is_moved) {
            lock.restore(&self.path);
        }
    }

    /// Others have written.
    fn tell(&mut self) {
        self.quiet_since = watch::now();
        self.watch.tell();
    }

    fn write(&mut self, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, Error> {
        // One that nobody else holds was given up and will not come again.
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
            // That nothing was written this time does not settle what became of it the first time.
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

    /// Moves the log into the file if where it is executed is only in the log: that stays behind in a rename. If somebody
    /// reads an earlier state just now, this is tried again later.
    fn settle_home(&mut self) {
        if !self.is_home_in_log {
            return;
        }
        match self.ask_log("PRAGMA wal_checkpoint(passive)") {
            Ok(log) => self.is_home_in_log = log.pages != log.moved,
            Err(e) => tracing::debug!("no checkpoint of {} yet: {e}", self.path.display()),
        }
    }

    /// Has others ring. Where they cannot, the writer looks often.
    fn put_up_doorbell(&mut self) {
        if self.doorbell.is_some() {
            return;
        }
        let (jobs, is_rung) = (self.jobs.0.clone(), self.is_rung.clone());
        let rung = move || {
            if !is_rung.swap(true, Ordering::SeqCst) {
                let _ = jobs.send(Job::Rung);
            }
        };
        match Doorbell::put_up(&self.path, rung) {
            Ok(doorbell) => self.doorbell = Some(doorbell),
            Err(e) => tracing::debug!("{} has no wake socket ({e}) and is polled instead", self.path.display()),
        }
    }

    fn release(&mut self, epoch: Epoch) -> Result<(), Error> {
        if self.epoch == 0 || self.epoch != epoch.0 {
            return Ok(());
        }
        self.transact(Again::First, |open| open.let_go())?;
        self.epoch = 0;
        self.doorbell = None;
        self.lock = None;
        Ok(())
    }

    /// Does `work` in one transaction: all of it is durable, or nothing of it is, or the error says it is not known.
    fn transact<T>(&mut self, again: Again, work: impl Fn(&mut Batch<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        loop {
            let damage_before = self.ledger.damage_count();
            let done = self.attempt(again, &work);
            let is_damage = matches!(&done, Err(e) if e.kind == ErrorKind::Corrupt);
            // A claim has met a damaged page, and SQLite takes back all that was done beside it. It is not read again.
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
        if committed.is_ok() && self.lock.is_none() {
            self.ringer.ring();
        }
        committed.map_err(|(e, stage)| self.undo(&e, stage))
    }

    fn begin(&mut self) -> Result<(), Error> {
        // What is written to a file that is not there any more would be found by nobody.
        if self.is_moved || self.names_at.elapsed() >= NAMES_EVERY {
            self.look_at_names();
        }
        if self.is_moved {
            return Err(error::moved(&self.path));
        }
        if !self.connection.is_autocommit() {
            // A transaction could not be undone; only a new connection is certain to be without it.
            self.connection = open::writer(&self.path, &self.options)?.connection;
            self.ledger.forget();
            // What others wrote meanwhile cannot be told from what was there before.
            self.watch.tell();
        }
        self.begin_in_turn()
    }

    /// Begins a transaction once others let it. As long as they get on, it waits longer than for one that is stuck.
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
        // SQLite undoes some failed transactions by itself.
        let is_undone = self.connection.is_autocommit() || self.execute("ROLLBACK").is_ok();
        match stage {
            Stage::Before if is_undone => error::while_reading(&self.path, error),
            _ => error::on_commit(&self.path, error, is_undone),
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Moves the log into the file when it has grown, or when a write was refused: the disk may be full, and a log that
    /// is used again has room. Trouble here loses nothing: the log stays, and the next batch tries again.
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
            Act::Restart => self.restart_log(),
        };
        let path = self.path.display();
        match done {
            Ok(log) if log.is_long() && self.warnings.pass(self.begun.elapsed()).is_some() => tracing::warn!(
                pages = log.pages,
                moved = log.moved,
                "a long-running reader is blocking WAL checkpoints of {path}: the log grows, and writes get slower; end \
                 the transaction that reads it, in this or another program"
            ),
            Err(e) if self.warnings.pass(self.begun.elapsed()).is_some() => {
                tracing::warn!("could not checkpoint the WAL of {path}, which grows until that works: {e}");
            }
            _ => {}
        }
    }

    /// Moves the log into the file and has the next write begin it anew, unless a reader stays for long.
    fn restart_log(&mut self) -> rusqlite::Result<Log> {
        self.connection.busy_timeout(RESTART_WAIT)?;
        let done = self.ask_log("PRAGMA wal_checkpoint(restart)");
        open::wait_for_others(&mut self.connection)?;
        done.inspect(|log| self.checkpoints.restarted(*log))
    }

    fn ask_log(&self, sql: &str) -> rusqlite::Result<Log> {
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([], |row| Ok(Log { is_busy: row.get(0)?, pages: row.get(1)?, moved: row.get(2)? }))
    }
}

/// About how many bytes a small row takes beside its text.
const ROW_BYTES: usize = 64;

/// About how many pages of the log a write takes by itself.
fn pages(write: &Write) -> i64 {
    let bytes = match write {
        Write::Start(start) => start.input.len(),
        Write::Send(send) => send.message.to_parts().2.map_or(0, Payload::len),
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

/// In which order a batch is applied: as it is, but commits that follow one another by instance, so that neighbours in
/// the index are written together. Those of one instance stay in their order, and nothing else is passed by.
fn order(batch: &[Write]) -> Vec<(InstanceNum, usize)> {
    // No instance has the number 0.
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
