//! Executes instances: claims what is due, loads it into memory, and passes messages on to it.
//!
//! The store knows when each instance is due: at a time, or because a message arrived. A *claim* is one write that
//! makes this engine's epoch the owner of due instances and returns everything stored for them. The worker keeps the
//! wakes of the near future in memory ([`Wakes`]), queues instances as they fall due ([`Claims`]), claims as many as
//! there are places for in memory ([`Residency`]), and spawns a driver for each. A wake or a message for an instance
//! that is already in memory goes to its mailbox instead. An instance that pauses is released in the store. It may stay
//! in memory, but once it has left, its next wake or message leads to another claim.
//!
//! All writes pass through the committer, which reports each durable write here before it replies to the caller
//! ([`WriteListener`]). So a claimed instance is in memory before any later message for it is passed on.

mod claims;
pub(crate) mod deploy;
mod job_driver;
mod jobs;
mod pool_driver;
mod recovery;
mod schedules;
mod suspects;
mod turns;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{
    Answer, Claim, Claimed, Commit, Epoch, NewState, OnConflict, Reopen, SendWrite, StartWrite, Write,
};
use outlive_core::store::page::whole_inbox;
use outlive_core::store::query::{Filter, Wake};
use outlive_core::store::touched::Touch;
use outlive_core::store::{ErrorKind, Store};
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Mode};
use tokio::sync::{Notify, oneshot};

use crate::error::Error;
use crate::instance::env::Env;
use crate::instance::info::Info;
use crate::instance::mailbox::Mailbox;
use crate::instance::random::RandomSource;
use crate::instance::resident::ResidentRun;
use crate::runtime::committer::{Committer, WriteListener, WriteReply};
use crate::runtime::follower::Follower;
use crate::runtime::handlers::HandlerEnv;
use crate::runtime::registry::{Registered, Registry};
use crate::runtime::replies::Replies;
use crate::runtime::residency::Residency;
use crate::runtime::run_driver::{Begin, RunDriver, RunHost};
use crate::runtime::stuck;
use crate::runtime::waiters::{RunOutcome, Waiters};
use crate::runtime::wakes::Wakes;
use claims::{CLAIM_MAX, Claims};
use suspects::Suspects;

/// How far ahead the store's wakes are kept in memory, and how many of them at most.
const HORIZON: Duration = Duration::from_secs(60);
const WAKES_MAX: usize = 4096;
/// How long a run in a long pause stays in memory all the same, so that a foreign future it awaits is noticed.
const IDLE: Duration = Duration::from_secs(10);
/// How long to wait after the store could not be read.
const RETRY: Duration = Duration::from_millis(100);

/// The executing part of an engine.
pub(crate) struct Worker {
    pub(crate) env: Arc<Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) waiters: Arc<Waiters>,
    /// Notifies waiting callers of what other processes write.
    follower: Arc<Follower>,
    pub(crate) replies: Arc<Replies>,
    /// The environment of job handlers.
    pub(crate) around: Arc<HandlerEnv>,
    /// When the clock was last read, in milliseconds.
    looked_at: AtomicI64,
    /// The pools in memory, by job.
    pools: Mutex<BTreeMap<Name, jobs::ResidentPool>>,
    /// Notified when a pool has nothing left to do.
    pub(crate) rested: Notify,
    pub(crate) epoch: Epoch,
    pub(crate) residency: Residency,
    pub(crate) wakes: Wakes,
    pub(crate) max_recoveries: u32,
    /// Instances that may have crashed the process.
    suspects: Mutex<Suspects>,
    /// Whether any of them waits to be loaded or absolved.
    is_recovering: AtomicBool,
    /// The last message from outside that was passed on.
    heard: Mutex<Wake>,
    /// Instances that are due and wait for a place.
    claims: Mutex<Claims>,
    /// Notified when a place is free or something is to be claimed.
    pub(crate) wakeup: Notify,
    is_stopping: AtomicBool,
    /// Whether another process has ever written.
    has_foreign: AtomicBool,
    /// Grows with everything that happens, so that tests can see when nothing does.
    pub(crate) activity: AtomicU64,
    this: Weak<Worker>,
}

/// The parts of a worker.
pub(crate) struct WorkerParts {
    pub(crate) env: Arc<Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) random: Arc<RandomSource>,
    pub(crate) epoch: Epoch,
    pub(crate) max_resident: usize,
    pub(crate) max_recoveries: u32,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> Arc<Self> {
        let around = HandlerEnv {
            env: parts.env.clone(),
            names: parts.registry.clone(),
            random: parts.random,
            deadlines: Default::default(),
        };
        let (bell, waiters) = (parts.committer.bell.clone(), parts.waiters.clone());
        Arc::new_cyclic(|this| Self {
            // Except for the removal of an instance, every change is reported here as it is made.
            follower: Follower::new(parts.store.clone(), waiters, bell, Touch::Removed),
            replies: parts.replies,
            around: Arc::new(around),
            pools: Mutex::default(),
            looked_at: AtomicI64::new(i64::MIN),
            rested: Notify::new(),
            env: parts.env,
            store: parts.store,
            committer: parts.committer,
            registry: parts.registry,
            waiters: parts.waiters,
            epoch: parts.epoch,
            residency: Residency::new(parts.max_resident),
            wakes: Wakes::new(),
            max_recoveries: parts.max_recoveries,
            suspects: Mutex::default(),
            is_recovering: AtomicBool::new(false),
            heard: Mutex::new(Wake::FIRST),
            claims: Mutex::default(),
            wakeup: Notify::new(),
            is_stopping: AtomicBool::new(false),
            has_foreign: AtomicBool::new(false),
            activity: AtomicU64::new(0),
            this: this.clone(),
        })
    }

    // ---- the loop ----

    /// Runs the worker's loop: claims whatever is due, in order, as room allows.
    pub(crate) async fn run(self: Arc<Self>) {
        self.load_suspects().await;
        while !self.committer.is_closed() {
            self.touch();
            if let Err(error) = self.look().await {
                if self.committer.is_closed() {
                    return;
                }
                tracing::warn!("could not read what is due, trying again: {error}");
                tokio::time::sleep(RETRY).await;
                continue;
            }
            let next = self.next_look();
            tokio::select! {
                biased;
                // The sleep may end early, as the clock may have been set back; then the loop looks again.
                () = self.env.clock.sleep_toward(next) => {}
                () = self.wakes.wakeup.notified() => {}
                () = self.wakeup.notified() => {}
                () = self.store.changed() => {
                    self.has_foreign.store(true, Ordering::Relaxed);
                    if let Err(error) = self.look_outside().await {
                        self.wakes.forget_horizon();
                        tracing::warn!("could not read what other processes wrote, trying again: {error}");
                    }
                }
            }
        }
    }

    /// Returns when to look again if nothing happens before.
    fn next_look(&self) -> Timestamp {
        if self.is_stopping() {
            return Timestamp::MAX;
        }
        let next = if self.may_read() { self.wakes.next() } else { self.wakes.first().unwrap_or(Timestamp::MAX) };
        let (cold, suspects, claims) = (self.residency.next_cold(), self.suspects().next_look(), self.claims().next());
        [cold, suspects, claims].into_iter().flatten().fold(next, Timestamp::min)
    }

    async fn look(&self) -> Result<(), Error> {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Ok(());
        }
        let now = self.env.clock.now();
        if self.looked_at.swap(now.as_millis(), Ordering::Relaxed) > now.as_millis() {
            self.clock_set_back();
        }
        if self.may_read() && self.wakes.is_short(now) {
            self.load_wakes(now).await?;
        }
        for wake in self.wakes.take_due(now) {
            self.wake(wake);
        }
        self.residency.evict_cold(now);
        self.recover(now).await?;
        self.claim().await?;
        let has_grown = self.claims().grow(&self.residency, now);
        if has_grown { self.claim().await } else { Ok(()) }
    }

    /// Returns `true` if there is room for another page of wakes.
    fn may_read(&self) -> bool {
        self.claims().has_room(WAKES_MAX)
    }

    /// Reads the next page of wakes.
    async fn load_wakes(&self, now: Timestamp) -> Result<(), Error> {
        let until = now.after(HORIZON);
        let before = self.wakes.raise(until);
        let page = self.store.wakes_after(before, until, WAKES_MAX).await;
        let page = page.inspect_err(|_| self.wakes.lower(before))?;
        let is_last = page.len() < WAKES_MAX;
        self.wakes.load(page, is_last, now);
        Ok(())
    }

    /// Passes on what another process has sent to runs in memory, and rereads what is due.
    async fn look_outside(&self) -> Result<(), Error> {
        self.wakes.start_over(self.env.clock.now());
        let (handed_on, ()) = tokio::join!(biased; self.hand_on(), self.follower.look());
        if !matches!(handed_on, Ok(true)) {
            // Only if no message was passed on: what follows from a message notices a lost lease by itself, and should
            // not wait for this write.
            self.check_lease();
        }
        handed_on.map(drop)
    }

    /// Passes on the messages sent from outside since the last call. Returns `true` if there were any.
    async fn hand_on(&self) -> Result<bool, Error> {
        let mut has_any = false;
        loop {
            let heard = *self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let page = self.store.wakes_after(heard, Wake::PAST_MESSAGES.due, WAKES_MAX).await?;
            let Some(last) = page.last().copied() else { return Ok(has_any) };
            has_any = true;
            *self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = last;
            page.into_iter().for_each(|wake| self.wake(wake));
        }
    }

    /// Wakes a due instance if it is in memory, otherwise queues a claim.
    fn wake(&self, wake: Wake) {
        let is_posted = match self.residency.mailbox(wake.num) {
            // Another process may have sent it a message.
            Some(mailbox) if wake.is_of_message() => {
                self.read_inbox(wake.num, &mailbox);
                true
            }
            Some(mailbox) => mailbox.post(|_| {}),
            None => false,
        };
        if !is_posted {
            self.queue_due(wake.num);
            if wake < Wake::PAST_MESSAGES {
                // It was asked to end.
                self.claims().hurry(wake.num);
            }
        }
    }

    /// Reads the inbox of a run in memory and posts it to the run.
    pub(crate) fn read_inbox(&self, num: InstanceNum, mailbox: &Arc<Mailbox>) {
        let (store, mailbox, this) = (self.store.clone(), mailbox.clone(), self.this.clone());
        tokio::spawn(async move {
            let is_posted = loop {
                match whole_inbox(&*store, num).await {
                    Ok(inbox) => {
                        break mailbox.post(|arrivals| {
                            arrivals.rare().inbox.extend(inbox);
                            arrivals.rare().rank_pushed = Some(i64::MIN);
                            arrivals.is_pushed = true;
                        });
                    }
                    Err(error) if error.kind == ErrorKind::Corrupt => {
                        let sentence = format!("its inbox is damaged: {error}; restore it from a backup");
                        break mailbox.post(|arrivals| arrivals.rare().damage = Some(sentence));
                    }
                    Err(error) => tracing::warn!("could not read an inbox, trying again: {error}"),
                }
                tokio::time::sleep(RETRY).await;
            };
            // It has left memory in the meantime.
            if let Some(worker) = this.upgrade().filter(|_| !is_posted) {
                worker.queue_due(num);
            }
        });
    }

    /// Returns `true` if the end of a run is reported here, whatever process ends it. Not so for a paused run, which
    /// has no owner, nor once another process has written, as that one may replace any run.
    pub(crate) fn hears_of(&self, num: InstanceNum) -> bool {
        self.residency.is_at_work(num) && !self.has_foreign.load(Ordering::Relaxed)
    }

    /// Queues a claim for an instance that is due in the store.
    fn queue_due(&self, num: InstanceNum) {
        if !self.claims().has_room(1) {
            // It will be found in the store when there is room.
            return self.wakes.forget_horizon();
        }
        self.queue_claim(num);
    }

    fn queue_claim(&self, num: InstanceNum) {
        if !self.has_to_wait(num) && self.claims().add(num) {
            self.wakeup.notify_one();
        }
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Marks an instance as running after a pause, and forgets its wake.
    pub(crate) fn resume(&self, num: InstanceNum) {
        if let Some(due) = self.residency.resume(num) {
            self.wakes.remove_stored(due, num);
        }
    }

    pub(crate) fn has_claims(&self) -> bool {
        !self.claims().is_empty()
    }

    /// Gives back places that were not needed, and wakes the loop if a claim waits for one.
    fn unreserve(&self, count: usize) {
        self.residency.unreserve(count);
        if count > 0 && self.has_claims() {
            self.wakeup.notify_one();
        }
    }

    /// Claims what is due while there is room.
    async fn claim(&self) -> Result<(), Error> {
        loop {
            let nums = self.claims().take(&self.residency, self.env.clock.now());
            if nums.is_empty() {
                return Ok(());
            }
            let claim = Claim { nums: nums.clone(), epoch: self.epoch, at: self.env.clock.now() };
            let answer = self.committer.write(Write::Claim(claim)).await;
            // What was claimed is in memory by now: the committer reported it before any message that came later.
            if let Err(error) = answer {
                nums.into_iter().for_each(|num| self.queue_claim(num));
                return Err(error);
            }
        }
    }

    /// Loads claimed instances into memory.
    fn claimed(&self, claim: &Claim, claimed: Vec<Claimed>) {
        self.unreserve(claim.nums.len() - claimed.len());
        let is_left_out = |num: &&InstanceNum| !claimed.iter().any(|one| one.instance.num == **num);
        // The others are stuck or gone: callers waiting for a reply find out from the store.
        claim.nums.iter().filter(is_left_out).for_each(|num| self.replies.drop_all_of(*num));
        self.driven_again(claim, &claimed);
        for one in claimed {
            let num = one.instance.num;
            if let Some(mailbox) = self.residency.mailbox(num) {
                // A message led to a claim while the instance came into memory another way.
                self.unreserve(1);
                let is_posted = mailbox.post(|arrivals| {
                    arrivals.rare().inbox.extend(one.inbox.unwrap_or_default());
                    arrivals.is_claimed = true;
                });
                if !is_posted {
                    self.queue_claim(num);
                }
            } else {
                self.bring_back(one);
            }
        }
    }

    fn submit_state(&self, num: InstanceNum, seq: u64, state: NewState) {
        let (epoch, state) = (self.epoch, Some(state));
        let commit = Commit { num, epoch, seq_before: seq, entries: Vec::new(), taken: Vec::new(), state };
        let reply = WriteReply::Run { mailbox: Arc::new(Mailbox::default()), seq: 0, has_state: true };
        self.committer.submit(Write::Commit(commit), reply);
    }

    /// Reopens stuck runs and jobs, because the program may have been fixed. Those that crashed the process repeatedly
    /// wait for a person to retry them.
    pub(crate) async fn reopen_stuck(self: Arc<Self>) {
        let filter = Filter::all().status(StatusKind::Stuck);
        let mut before = None;
        loop {
            match self.reopen_page(&filter, before).await {
                Ok(None) | Err(Error::Shutdown | Error::Fenced { .. }) => return,
                Ok(next) => before = next,
                // The store is in trouble; this can wait until it is not.
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn reopen_page(&self, filter: &Filter, before: Option<InstanceNum>) -> Result<Option<InstanceNum>, Error> {
        let page = self.store.list(filter, before, CLAIM_MAX).await?;
        for instance in page.instances.iter().filter(|instance| instance.blamed <= self.max_recoveries) {
            let reopen = Reopen { id: instance.id.clone(), num: Some(instance.num), at: self.env.clock.now() };
            self.committer.write(Write::Reopen(reopen)).await?;
        }
        Ok(page.next)
    }

    // ---- runs ----

    /// Loads a claimed run into memory, or marks it stuck if that is not possible.
    fn bring_back(&self, claimed: Claimed) {
        if JobKind::of(&claimed.instance.workflow).is_some() {
            return self.bring_back_job(claimed);
        }
        let Claimed { is_first, had_paused, instance, journal, inbox } = claimed;
        let info = Info::of(&instance);
        let (journal, inbox) = match (journal, inbox) {
            (Ok(journal), Ok(inbox)) => (journal, inbox),
            (Err(problem), _) | (_, Err(problem)) => {
                return self.set_aside(info, Status::Stuck, stuck::damaged(&problem), 0);
            }
        };
        let seq = journal.last().map_or(0, |entry| entry.seq);
        if instance.blamed > self.max_recoveries {
            self.admit_all();
            return self.set_aside(info, Status::Stuck, stuck::deadly(instance.blamed), seq);
        }
        // A run cancelled before its first line of code has run ends without running any.
        if is_first
            && journal.is_empty()
            && let Some(reason) = ends_at_once(&inbox)
        {
            return self.set_aside(info, Status::Cancelled, reason, seq);
        }
        let is_held = instance.status == Status::Paused;
        // What follows the last outcome is certainly repeated if the run had paused, and may be if the process died.
        let new_from = if is_first { 0 } else { seq + u64::from(had_paused) };
        self.spawn(info, Brought { input: instance.input, journal, inbox, is_held, new_from });
    }

    fn spawn(&self, info: Info, brought: Brought) {
        let Brought { input, journal, inbox, is_held, new_from } = brought;
        let num = info.num;
        let Some(registered) = self.registry.get(&outlive_core::id::Name::recorded(&info.workflow)).cloned() else {
            let sentence = stuck::unregistered(&info.workflow, &self.registry.known());
            let seq = journal.last().map_or(0, |entry| entry.seq);
            return self.set_aside(info, Status::Stuck, sentence, seq);
        };
        let mut machine = match Machine::new(Mode::Live, info.seed, info.started_at, &journal) {
            Ok(machine) => machine,
            Err(trouble) => return self.set_aside(info, Status::Stuck, trouble.0, journal.last().map_or(0, |e| e.seq)),
        };
        machine.receive_all(inbox);
        if is_held {
            machine.hold();
        }
        let mailbox = Arc::new(Mailbox::default());
        let resident = Arc::new(ResidentRun::new(info, self.env.clone(), mailbox, machine));
        self.residency.enter(num, resident.info.id.clone(), resident.mailbox.clone());
        if self.is_stopping() {
            resident.mailbox.post(|arrivals| arrivals.is_stopping = true);
        }
        let Some(worker) = self.this.upgrade() else { return };
        let journal = if self.env.is_paranoid { journal } else { Vec::new() };
        let Registered { handler, is_strict } = registered;
        let begin = Begin { handler, is_strict, epoch: self.epoch, input, journal, new_from };
        let task = async move {
            RunDriver::new(resident, WorkerHost { worker }, begin).await;
        };
        // With a cooperative budget, tokio's own macros would wake the run from outside.
        let task = tokio::spawn(tokio::task::unconstrained(task));
        self.residency.set_abort(num, task.abort_handle());
    }

    /// Ends a run that is not loaded into memory, or marks it stuck.
    fn set_aside(&self, info: Info, status: Status, note: String, seq: u64) {
        self.unreserve(1);
        tracing::warn!(run = info.id, "run is {status}: {note}");
        let state = NewState {
            status,
            wake: None,
            is_owned: false,
            seen: None,
            outcome: None,
            note: Some(note),
            at: self.env.clock.now(),
        };
        self.submit_state(info.num, seq, state);
    }

    // ---- writes reported by the committer ----

    fn started(&self, start: &StartWrite, num: InstanceNum, is_driven: bool) {
        if start.on_conflict == OnConflict::Replace {
            let follower = self.follower.clone();
            tokio::spawn(async move { follower.look().await });
            self.residency.replace(start.id.as_str(), num);
        }
        if !is_driven {
            match start.due <= self.env.clock.now() {
                true => self.queue_due(num),
                false => self.wakes.add_stored(start.due, num),
            }
            if start.owner == self.epoch {
                // Another engine holds the lease.
                self.unreserve(1);
                self.fenced();
            }
            return;
        }
        let info = Info {
            id: start.id.to_string(),
            workflow: start.workflow.to_string(),
            started_at: start.at,
            tags: start.tags.clone(),
            num,
            seed: start.seed,
        };
        self.spawn(info, Brought::new(start.input.clone()));
    }

    fn sent(&self, send: &SendWrite, num: InstanceNum, pos: u64, before: u64) {
        let inbound = Inbound { pos, at: send.at, message: send.message.clone() };
        let is_posted = self
            .residency
            .mailbox(num)
            .is_some_and(|mailbox| mailbox.post(|arrivals| arrivals.rare().messages.push((inbound, before))));
        if !is_posted {
            self.queue_due(num);
            if send.message.is_end() {
                self.claims().hurry(num);
                self.wakeup.notify_one();
            }
        }
    }

    pub(crate) fn touch(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    // ---- shutdown ----

    /// Starts nothing more. What is running may finish.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for mailbox in self.residency.mailboxes() {
            mailbox.post(|arrivals| arrivals.is_stopping = true);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Checks that this engine still holds the lease: if not, an empty claim is fenced.
    fn check_lease(&self) {
        let claim = Claim { nums: Vec::new(), epoch: self.epoch, at: self.env.clock.now() };
        self.committer.submit(Write::Claim(claim), WriteReply::Caller(oneshot::channel().0));
    }

    /// Stops because another engine has taken the lease. Nothing can be recorded here any more, so everything ends and
    /// waiting callers get an error.
    fn fenced(&self) {
        let error = Error::Fenced { store: self.store.name() };
        if !self.committer.close(error.clone()) {
            return;
        }
        tracing::error!("{error}");
        // Otherwise it would take the lock back when the other engine ends, and keep others out.
        let (store, epoch) = (self.store.clone(), self.epoch);
        tokio::spawn(async move { store.release(epoch).await });
        self.residency.abort();
        self.stopped();
        self.rested.notify_waiters();
        self.wakeup.notify_one();
    }
}

/// What a run is loaded with.
struct Brought {
    input: Payload,
    journal: Vec<Entry>,
    inbox: Vec<Inbound>,
    is_held: bool,
    /// The number of the first delivery after which the code may do something new.
    new_from: u64,
}

impl Brought {
    /// Returns the parts of a run that was never driven.
    fn new(input: Payload) -> Self {
        Self { input, journal: Vec::new(), inbox: Vec::new(), is_held: false, new_from: 0 }
    }
}

/// Returns the reason of a cancel or terminate among the messages.
fn ends_at_once(inbox: &[Inbound]) -> Option<String> {
    inbox.iter().find_map(|inbound| match &inbound.message {
        Message::Cancel { reason } | Message::Terminate { reason } => Some(reason.clone()),
        _ => None,
    })
}

impl WriteListener for Worker {
    fn written(&self, write: &Write, answer: &mut Answer) {
        self.note_progress(write, answer);
        match (write, answer) {
            (Write::Start(start), Answer::Started { num, created: true, is_driven }) => {
                self.started(start, *num, *is_driven);
            }
            (Write::Start(start), _) if start.owner == self.epoch => self.unreserve(1),
            (Write::Claim(claim), Answer::Claimed(claimed)) => self.claimed(claim, std::mem::take(claimed)),
            (Write::Claim(claim), answer) => {
                self.unreserve(claim.nums.len());
                if matches!(answer, Answer::Fenced) {
                    self.fenced();
                }
            }
            // The instance may be gone, or the lease may be lost.
            (Write::Commit(_) | Write::Turn(_), Answer::Fenced) => self.check_lease(),
            (Write::Message(send), Answer::Sent { num, pos, before, is_new: true }) => {
                self.replies.place(send.token, *num, *pos);
                self.sent(send, *num, *pos, *before)
            }
            (Write::Push(push), Answer::Pushed { num, positions, before, .. }) => {
                self.pushed(push, *num, positions, *before);
            }
            (Write::Turn(turn), Answer::Turned(answers)) => {
                turn.writes.iter().zip(answers).for_each(|(write, answer)| self.written(write, answer));
                let is_stuck = turn.state.as_ref().is_some_and(|state| state.status == Status::Stuck);
                if is_stuck && self.residency.mailbox(turn.num).is_none() {
                    // It became stuck while it was loaded, so no driver notifies those who wait for it.
                    self.waiters.ask(turn.num);
                    self.replies.drop_all_of(turn.num);
                }
            }
            (Write::ResolveDeadLetters(_), Answer::Buried { nums, .. }) => self.look_again(nums),
            (Write::Reopen(reopen), Answer::Done) => {
                // It is due now, but only the store knows its number.
                let (this, id) = (self.this.clone(), reopen.id.clone());
                tokio::spawn(async move {
                    let Some(worker) = this.upgrade() else { return };
                    if let Ok(Some(instance)) = worker.store.instance(&id).await {
                        worker.queue_claim(instance.num);
                    }
                });
            }
            (Write::Commit(Commit { num, state: Some(state), .. }), Answer::Done)
                if RunOutcome::is_in(state.status) =>
            {
                // A later claim, after a retry, loads a new copy.
                self.residency.retire(*num);
                self.waiters.notify(*num, state);
            }
            _ => {}
        }
    }

    fn refused(&self, write: &Write) {
        match write {
            Write::Start(start) if start.owner == self.epoch => self.unreserve(1),
            Write::Claim(claim) => self.unreserve(claim.nums.len()),
            _ => {}
        }
    }

    fn stopped(&self) {
        self.waiters.ask_all();
        self.replies.close();
    }
}

/// Connects a run's driver to its worker.
struct WorkerHost {
    worker: Arc<Worker>,
}

impl RunHost for WorkerHost {
    fn submit(&self, resident: &Arc<ResidentRun>, commit: Commit) {
        let seq = commit.seq_before + commit.entries.len() as u64;
        let has_state = commit.state.is_some();
        let reply = WriteReply::Run { mailbox: resident.mailbox.clone(), seq, has_state };
        self.worker.committer.submit(Write::Commit(commit), reply);
    }

    fn set_timer(&self, resident: &ResidentRun, due: Timestamp) {
        self.worker.wakes.add(due, resident.info.num);
    }

    fn clear_timer(&self, resident: &ResidentRun, due: Timestamp) {
        self.worker.wakes.remove(due, resident.info.num);
    }

    fn read_inbox(&self, resident: &Arc<ResidentRun>) {
        self.worker.read_inbox(resident.info.num, &resident.mailbox);
    }

    fn resumed(&self, resident: &Arc<ResidentRun>) {
        // A message from outside may have come just before, and its wake was removed with the pause.
        if self.worker.has_foreign.load(Ordering::Relaxed) {
            self.worker.read_inbox(resident.info.num, &resident.mailbox);
        }
    }

    fn keep_wake(&self, resident: &ResidentRun, wake: Timestamp) {
        self.worker.wakes.add_stored(wake, resident.info.num);
    }

    fn paused(&self, resident: &ResidentRun, wake: Option<Timestamp>) -> bool {
        let (num, now) = (resident.info.num, self.worker.env.clock.now());
        wake.into_iter().for_each(|wake| self.keep_wake(resident, wake));
        let is_far = wake.is_some_and(|wake| wake > now.after(HORIZON));
        !self.worker.is_stopping() && self.worker.residency.pause(num, wake, is_far.then(|| now.after(IDLE)))
    }

    fn resuming(&self, resident: &ResidentRun) {
        self.worker.resume(resident.info.num);
    }

    fn gone(&self, resident: &ResidentRun) {
        self.worker.touch();
        if self.worker.residency.leave(resident.info.num, &resident.mailbox) {
            // The run may come back, here or elsewhere.
            self.worker.waiters.ask(resident.info.num);
        }
        self.worker.wakeup.notify_one();
    }
}
