//! Group commit: makes everything durable that this process writes, many writes per transaction.
//!
//! A transaction is durable once the disk has been synced, and a sync takes far longer than the writes in it. So all
//! writes of a process go through one queue. The committer takes everything that is waiting, writes it as one batch in
//! one transaction, and sends the replies only after that: nobody acts on a write that is not durable. While the store
//! syncs one batch, the next one gathers, and the replies for the previous one are sent.
//!
//! A batch fails in one of two ways. If its outcome is unknown, the same batch is repeated until the outcome is known,
//! and nothing else is written before. If the store refuses it, callers get the error, while the commits of runs and
//! jobs are kept in order and tried again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::store::commit::{Answer, Refusal, Write};
use outlive_core::store::{Error as StoreError, ErrorKind, Store};
use outlive_core::throttle::Throttle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::error::Error;
use crate::instance::mailbox::Mailbox;
use crate::instance::meters;
use crate::runtime::feed::Bell;

/// The most writes in one transaction: enough to share a sync among all, few enough to keep the wait for it short.
const BATCH_MAX: usize = 8192;
/// A batch smaller than this waits until the replies for the last batch are sent, as what their receivers write next
/// can share its sync.
const BATCH_MIN: usize = 64;
/// How long to wait before a batch that the store refused is tried again.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// How often to warn about trouble with the store.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The way to the store for all writes of a process.
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    wakeup: Notify,
    /// Rung whenever something is durable.
    pub(crate) bell: Arc<Bell>,
    begun: Instant,
    /// Limits the warnings about the store.
    warnings: Mutex<Throttle>,
}

#[derive(Default)]
struct Queue {
    /// Writes that wait, in order.
    batches: VecDeque<WriteBatch>,
    /// An empty batch, kept to reuse its memory.
    spare: WriteBatch,
    /// Why nothing is written any more.
    closed: Option<Error>,
    /// Grows with each write, and with each batch whose replies are sent.
    activity: u64,
}

impl Queue {
    /// Adds to the last batch, or starts a new one.
    #[inline]
    fn push(&mut self, write: Write, reply: WriteReply) {
        if self.batches.back().is_none_or(|last| last.writes.len() >= BATCH_MAX) {
            self.batches.push_back(std::mem::take(&mut self.spare));
        }
        if let Some(last) = self.batches.back_mut() {
            last.push(write, reply);
        }
    }

    /// Takes the next batch, unless it is so small that replies are sent first.
    fn next(&mut self, is_replying: bool) -> Option<WriteBatch> {
        let is_small = self.batches.len() < 2 && self.batches.iter().all(|batch| batch.writes.len() < BATCH_MIN);
        if is_small && is_replying { None } else { self.batches.pop_front() }
    }

    /// Takes out the writes of callers, and leaves those of runs and jobs.
    fn take_callers(&mut self) -> WriteBatch {
        let mut callers = WriteBatch::default();
        for batch in std::mem::take(&mut self.batches) {
            for (write, reply) in batch.writes.into_iter().zip(batch.replies) {
                match reply {
                    WriteReply::Run { .. } | WriteReply::Job(_) => self.push(write, reply),
                    WriteReply::Caller(_) => callers.push(write, reply),
                }
            }
        }
        callers
    }
}

/// Writes, and where to send the reply to each.
#[derive(Default)]
struct WriteBatch {
    writes: Vec<Write>,
    replies: Vec<WriteReply>,
}

impl WriteBatch {
    #[inline]
    fn push(&mut self, write: Write, reply: WriteReply) {
        self.writes.push(write);
        self.replies.push(reply);
    }
}

/// A durable batch whose replies are not sent yet.
struct Written {
    writes: Arc<Vec<Write>>,
    replies: Vec<WriteReply>,
    answers: Vec<Answer>,
    /// Whether it was written more than once.
    is_again: bool,
}

impl Written {
    /// Sends all replies. Returns the empty batch, to reuse its memory.
    fn send_replies(mut self, router: &dyn WriteListener) -> WriteBatch {
        debug_assert_eq!(self.answers.len(), self.replies.len(), "there is one reply per write");
        for ((write, answer), reply) in self.writes.iter().zip(self.answers).zip(self.replies.drain(..)) {
            let mut answer = match (write, answer) {
                // It existed, and an earlier attempt at this write removed it.
                (Write::Purge(..), Answer::Refused(Refusal::NotFound)) if self.is_again => Answer::Done,
                (_, answer) => answer,
            };
            router.written(write, &mut answer);
            reply.send(answer);
        }
        let mut writes = Arc::into_inner(self.writes).unwrap_or_default();
        writes.clear();
        WriteBatch { writes, replies: self.replies }
    }
}

/// Where to send the reply.
pub(crate) enum WriteReply {
    /// To a run: everything up to the number is durable. If there was a new state, also the outcome of that.
    Run { mailbox: Arc<Mailbox>, seq: u64, has_state: bool },
    /// To a job instance: the outcome, whatever it is.
    Job(Arc<Mailbox>),
    /// To a waiting caller. If the store cannot take the write now, that is the reply.
    Caller(oneshot::Sender<Result<Answer, StoreError>>),
}

/// Receives each durable write before anyone else.
pub(crate) trait WriteListener: Send + Sync {
    /// Called for each durable write with its outcome. Takes claimed instances out of it.
    fn written(&self, write: &Write, answer: &mut Answer);
    /// Called for a write that the store refused and whose caller gets the error.
    fn refused(&self, _: &Write) {}
    /// Called when nothing is written any more.
    fn stopped(&self);
}

impl Committer {
    pub(crate) fn new() -> Arc<Self> {
        let warnings = Mutex::new(Throttle::new(WARN_EVERY));
        Arc::new(Self {
            queue: Mutex::default(),
            wakeup: Notify::new(),
            bell: Arc::default(),
            begun: Instant::now(),
            warnings,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a write to the next batch.
    #[inline]
    pub(crate) fn submit(&self, write: Write, reply: WriteReply) {
        let mut queue = self.lock();
        if queue.closed.is_some() {
            // The receiver sees by its closed channel that there will be no reply.
            return;
        }
        let is_first = queue.batches.is_empty();
        queue.push(write, reply);
        queue.activity += 1;
        drop(queue);
        if is_first {
            self.wakeup.notify_one();
        }
    }

    /// Takes no more writes. Waiting callers get this error. Returns `false` if it was closed before; that error stays.
    pub(crate) fn close(&self, why: Error) -> bool {
        let mut queue = self.lock();
        let is_first = queue.closed.is_none();
        queue.closed.get_or_insert(why);
        queue.batches.clear();
        drop(queue);
        self.wakeup.notify_one();
        self.bell.ring();
        is_first
    }

    /// Returns a number that grows with everything that is written.
    #[cfg(feature = "testing")]
    pub(crate) fn activity(&self) -> u64 {
        self.lock().activity
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Returns the reason as an error, once nothing is written any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.lock().closed.clone().map_or(Ok(()), Err)
    }

    /// Writes and waits until it is durable.
    pub(crate) async fn write(&self, write: Write) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        self.submit(write, WriteReply::Caller(reply));
        match answer.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(self.check().err().unwrap_or(Error::Shutdown)),
        }
    }

    /// Runs the committer's task.
    pub(crate) fn run(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        router: Arc<dyn WriteListener>,
    ) -> impl Future<Output = ()> {
        // Closes even if the runtime is dropped before the first poll. Otherwise a call from another runtime would wait
        // forever.
        let stopping = Stopping { committer: self.clone(), router: router.clone() };
        async move {
            let _stopping = stopping;
            self.write_all(&*store, &*router).await;
        }
    }

    async fn write_all(&self, store: &dyn Store, router: &dyn WriteListener) {
        let (mut done, mut is_refused) = (None, false);
        loop {
            let next = {
                let mut queue = self.lock();
                if queue.closed.is_some() {
                    break;
                }
                let next = queue.next(done.is_some());
                meters::commit_queue(|| queue.batches.iter().map(|batch| batch.writes.len()).sum());
                next
            };
            let batch = match (next, done.is_some()) {
                (Some(batch), _) => batch,
                (None, true) => {
                    self.send_replies(done.take(), router);
                    give_way().await;
                    continue;
                }
                (None, false) => {
                    self.wakeup.notified().await;
                    continue;
                }
            };
            // While the store has this batch, the replies for the last one are sent.
            let replying = async { self.send_replies(done.take(), router) };
            let (written, ()) = tokio::join!(biased; self.write_batch(batch, store, router), replying);
            match written {
                Ok(written) => {
                    if std::mem::take(&mut is_refused) {
                        tracing::info!("the store accepts writes again");
                    }
                    done = Some(written);
                }
                Err(failed) => {
                    is_refused = true;
                    // The commits of a run stay in order, ahead of what came later.
                    if !failed.writes.is_empty() {
                        self.lock().batches.push_front(failed);
                    }
                    tokio::time::sleep(RETRY_MIN).await;
                    self.write_callers(store, router).await;
                }
            }
        }
        self.send_replies(done, router);
    }

    /// Tries the writes of callers on their own while the store has no room for commits of runs, as they may make room.
    async fn write_callers(&self, store: &dyn Store, router: &dyn WriteListener) {
        let callers = self.lock().take_callers();
        if !callers.writes.is_empty() {
            self.send_replies(self.write_batch(callers, store, router).await.ok(), router);
        }
    }

    /// Writes one batch. If the store refuses it, returns what is still to be written: the commits of runs and jobs.
    async fn write_batch(
        &self,
        batch: WriteBatch,
        store: &dyn Store,
        router: &dyn WriteListener,
    ) -> Result<Written, WriteBatch> {
        #[cfg(feature = "metrics")]
        let begun = Instant::now();
        let (writes, replies) = (Arc::new(batch.writes), batch.replies);
        let (mut wait, mut is_again) = (RETRY_MIN, false);
        loop {
            let answers = match store.write(writes.clone()).await {
                Ok(answers) => answers,
                // The batch may be durable or not. The same batch again gets the outcome it should have had, and
                // nothing else may be written before.
                Err(error) if error.kind == ErrorKind::Unknown || is_again => {
                    is_again = true;
                    self.warn("it is unknown whether a write succeeded, repeating it", &error);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                    continue;
                }
                Err(error) => {
                    self.warn("the store refused a write, trying again", &error);
                    return Err(refuse(&writes, replies, &error, router));
                }
            };
            #[cfg(feature = "metrics")]
            meters::commit(writes.len(), begun.elapsed());
            return Ok(Written { writes, replies, answers, is_again });
        }
    }

    /// Warns about trouble with the store, at most once a minute: a full disk refuses many writes a second.
    fn warn(&self, what: &str, error: &StoreError) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        match warnings.pass(self.begun.elapsed()) {
            None => {}
            Some(0) => tracing::warn!("{what}: {error}"),
            Some(more) => tracing::warn!("{what} ({more} more such failures since the last warning): {error}"),
        }
    }

    fn send_replies(&self, written: Option<Written>, router: &dyn WriteListener) {
        let Some(written) = written else { return };
        let spare = written.send_replies(router);
        self.bell.ring();
        let mut queue = self.lock();
        queue.activity += 1;
        queue.spare = spare;
    }
}

/// Closes the committer when its task ends, however it ends.
struct Stopping {
    committer: Arc<Committer>,
    router: Arc<dyn WriteListener>,
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.committer.close(Error::Shutdown);
        self.router.stopped();
    }
}

/// Gives other tasks that are ready a turn.
async fn give_way() {
    let mut has_given = false;
    let turn = |cx: &mut Context<'_>| match std::mem::replace(&mut has_given, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    };
    std::future::poll_fn(turn).await;
}

/// Handles a refused batch: callers get the error, the commits of runs and jobs are kept.
fn refuse(writes: &[Write], replies: Vec<WriteReply>, error: &StoreError, router: &dyn WriteListener) -> WriteBatch {
    let mut kept = WriteBatch::default();
    for (write, reply) in writes.iter().zip(replies) {
        match reply {
            WriteReply::Caller(caller) => {
                router.refused(write);
                // The receiver may have been dropped.
                let _ = caller.send(Err(error.clone()));
            }
            kept_for @ (WriteReply::Run { .. } | WriteReply::Job(_)) => kept.push(write.clone(), kept_for),
        }
    }
    kept
}

impl WriteReply {
    fn send(self, answer: Answer) {
        match self {
            Self::Caller(caller) => {
                // The receiver may have been dropped; the write is durable all the same.
                let _ = caller.send(Ok(answer));
            }
            Self::Job(mailbox) => {
                mailbox.post(|arrivals| arrivals.rare().answers.push(answer));
            }
            Self::Run { mailbox, seq, has_state } => {
                mailbox.post(|arrivals| match answer {
                    Answer::Done | Answer::DoneWith(_) => {
                        arrivals.durable = arrivals.durable.max(seq);
                        if has_state {
                            arrivals.rare().answers.push(Answer::Done);
                        }
                    }
                    Answer::Unseen(_) | Answer::WriteRefused { .. } => arrivals.rare().answers.push(answer),
                    _ => arrivals.is_fenced = true,
                });
            }
        }
    }
}
