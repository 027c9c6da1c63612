//! Executes: claims what is due, brings runs into memory, and hands them what comes for them.

mod claims;
mod jobs;
pub(crate) mod parked;
mod pooling;
mod recovery;
mod schedules;
mod suspects;
mod turns;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use outlive_core::commit::{Answer, Claim, Claimed, Commit, Epoch, OnConflict, Reopen, Send, Start, State, Write};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::mutant::{Mutant, is_on};
use outlive_core::page::whole_inbox;
use outlive_core::payload::Payload;
use outlive_core::query::{Filter, Wake};
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::{ErrorKind, Store};
use outlive_core::time::Timestamp;
use outlive_core::touched::Touch;
use outlive_core::workflow::{Machine, Mode};
use tokio::sync::{Notify, oneshot};

use crate::aside;
use crate::cell::Cell;
use crate::chance::Chance;
use crate::committer::{Committer, Reply, Router};
use crate::drive::{Begin, Drive, Surroundings};
use crate::env::Env;
use crate::error::Error;
use crate::follower::Follower;
use crate::handling::Surroundings as JobSurroundings;
use crate::info::Info;
use crate::mailbox::Mailbox;
use crate::registry::{Registered, Registry};
use crate::replies::Replies;
use crate::residency::Residency;
use crate::waiters::{End, Waiters};
use crate::wakes::Wakes;
use claims::{CLAIM_MAX, Claims};
use suspects::Suspects;

/// How far ahead the store's wakes are held in memory, and how many of them at most.
const HORIZON: Duration = Duration::from_secs(60);
const WAKES_MAX: usize = 4096;
/// How long a run that has paused for long stays in memory all the same: a stray future in it is noticed by then.
const IDLE: Duration = Duration::from_secs(10);
/// The wait after the store could not be asked.
const RETRY: Duration = Duration::from_millis(100);

/// The executing part of an engine.
pub(crate) struct Worker {
    pub(crate) env: Arc<Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) waiters: Arc<Waiters>,
    /// How those who wait here hear of what others do.
    follower: Arc<Follower>,
    pub(crate) replies: Arc<Replies>,
    /// What handlers of jobs find around them.
    pub(crate) around: Arc<JobSurroundings>,
    /// When the clock was last looked at, in milliseconds.
    looked_at: AtomicI64,
    /// How many handlers of each pool are at work, and where to reach it.
    pools: Mutex<BTreeMap<Name, jobs::Pool>>,
    /// Told when a pool has nothing left to do.
    pub(crate) rested: Notify,
    pub(crate) epoch: Epoch,
    pub(crate) residency: Residency,
    pub(crate) wakes: Wakes,
    pub(crate) recoveries_max: u32,
    /// What may have taken the process down.
    suspects: Mutex<Suspects>,
    /// Whether some of it waits to be brought back, or to be absolved.
    is_recovering: AtomicBool,
    /// The last message from outside that was handed on.
    heard: Mutex<Wake>,
    /// Due, and waiting for a place.
    claims: Mutex<Claims>,
    /// Told when a place is free or something is to be claimed.
    pub(crate) news: Notify,
    is_stopping: AtomicBool,
    /// Whether somebody outside has ever written.
    has_foreign: AtomicBool,
    /// Grows with all that happens: for tests, to see that nothing does.
    pub(crate) activity: AtomicU64,
    this: Weak<Worker>,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) env: Arc<Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) chance: Arc<Chance>,
    pub(crate) epoch: Epoch,
    pub(crate) residents_max: usize,
    pub(crate) recoveries_max: u32,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let around = JobSurroundings {
            env: parts.env.clone(),
            names: parts.registry.clone(),
            chance: parts.chance,
            deadlines: Default::default(),
        };
        let (bell, waiters) = (parts.committer.bell.clone(), parts.waiters.clone());
        Arc::new_cyclic(|this| Self {
            // All but the removal of an instance is heard of as it is done.
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
            residency: Residency::new(parts.residents_max),
            wakes: Wakes::new(),
            recoveries_max: parts.recoveries_max,
            suspects: Mutex::default(),
            is_recovering: AtomicBool::new(false),
            heard: Mutex::new(Wake::FIRST),
            claims: Mutex::default(),
            news: Notify::new(),
            is_stopping: AtomicBool::new(false),
            has_foreign: AtomicBool::new(false),
            activity: AtomicU64::new(0),
            this: this.clone(),
        })
    }

    // ---- the loop ----

    /// The worker's task: whatever is due is claimed, in order, as there is room.
    pub(crate) async fn run(self: Arc<Self>) {
        self.load_suspects().await;
        while !self.committer.is_closed() {
            self.touch();
            if let Err(error) = self.look().await {
                if self.committer.is_closed() {
                    return;
                }
                tracing::warn!("the store could not be asked what is due: {error}");
                tokio::time::sleep(RETRY).await;
                continue;
            }
            let next = self.next_look();
            tokio::select! {
                biased;
                // It may be woken early, and looks again: the clock may have been set back.
                () = self.env.clock.sleep_toward(next) => {}
                () = self.wakes.news.notified() => {}
                () = self.news.notified() => {}
                () = self.store.changed() => {
                    self.has_foreign.store(true, Ordering::Relaxed);
                    if let Err(error) = self.look_outside().await {
                        self.wakes.forget_horizon();
                        tracing::warn!("the store could not be asked what has changed: {error}");
                    }
                }
            }
        }
    }

    /// When there is something to look at, should nothing happen before.
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

    /// Whether more from the store is of use: there is room for a page of it.
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

    /// Somebody outside has written: hands on what is for runs in memory, and has the store asked what is due.
    async fn look_outside(&self) -> Result<(), Error> {
        self.wakes.start_over(self.env.clock.now());
        let (handed_on, ()) = tokio::join!(biased; self.hand_on(), self.follower.look());
        if !matches!(handed_on, Ok(true)) {
            // What comes of a message finds out by itself, and does not have to wait for this write.
            self.check_lease();
        }
        handed_on.map(drop)
    }

    /// Hands on what was sent from outside since the last time. Returns `true` if there was any.
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

    /// An instance is due: tells it if it is in memory, else has it claimed.
    fn wake(&self, wake: Wake) {
        let is_told = match self.residency.mailbox(wake.num) {
            // Somebody outside may have sent it something.
            Some(mailbox) if wake.is_of_message() => {
                self.read_inbox(wake.num, &mailbox);
                true
            }
            Some(mailbox) => mailbox.post(|_| {}),
            None => false,
        };
        if !is_told {
            self.queue_due(wake.num);
            if wake < Wake::PAST_MESSAGES {
                // Somebody asked it to end.
                self.claims().hurry(wake.num);
            }
        }
    }

    /// Reads the inbox of a run in memory and hands it over.
    pub(crate) fn read_inbox(&self, num: InstanceNum, mailbox: &Arc<Mailbox>) {
        let (store, mailbox, this) = (self.store.clone(), mailbox.clone(), self.this.clone());
        tokio::spawn(async move {
            let is_told = loop {
                match whole_inbox(&*store, num).await {
                    Ok(inbox) => {
                        break mailbox.post(|letters| {
                            letters.inbox.extend(inbox);
                            letters.is_pushed = true;
                            letters.rank_pushed = Some(i64::MIN);
                        });
                    }
                    Err(error) if error.kind == ErrorKind::Corrupt => {
                        let sentence = format!("its inbox is damaged: {error}; restore it from a backup");
                        break mailbox.post(|letters| letters.damage = Some(sentence));
                    }
                    Err(error) => tracing::warn!("an inbox could not be read: {error}"),
                }
                tokio::time::sleep(RETRY).await;
            };
            // It has left memory meanwhile.
            if let Some(worker) = this.upgrade().filter(|_| !is_told) {
                worker.queue_due(num);
            }
        });
    }

    /// Whether the end of a run is heard of here, whoever brings it about. A paused run belongs to nobody, and somebody
    /// outside may replace any.
    pub(crate) fn hears_of(&self, num: InstanceNum) -> bool {
        self.residency.is_at_work(num) && !self.has_foreign.load(Ordering::Relaxed)
    }

    /// Has an instance claimed that is due in the store.
    fn queue_due(&self, num: InstanceNum) {
        if !self.claims().has_room(1) {
            // It is found in the store when there is room.
            return self.wakes.forget_horizon();
        }
        self.queue_claim(num);
    }

    fn queue_claim(&self, num: InstanceNum) {
        if !self.has_to_wait(num) && self.claims().add(num) {
            self.news.notify_one();
        }
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// An instance goes on after a pause, and takes its wake along.
    pub(crate) fn resume(&self, num: InstanceNum) {
        if let Some(due) = self.residency.resume(num) {
            self.wakes.remove_stored(due, num);
        }
    }

    pub(crate) fn has_claims(&self) -> bool {
        !self.claims().is_empty()
    }

    /// Gives back places that were not needed, to whoever waits for one.
    fn unreserve(&self, count: usize) {
        self.residency.unreserve(count);
        if count > 0 && self.has_claims() {
            self.news.notify_one();
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
            // What was claimed is in memory by now: the committer saw to it, ahead of any message that came later.
            if let Err(error) = answer {
                nums.into_iter().for_each(|num| self.queue_claim(num));
                return Err(error);
            }
        }
    }

    /// Brings what was claimed into memory.
    fn claimed(&self, claim: &Claim, claimed: Vec<Claimed>) {
        self.unreserve(claim.nums.len() - claimed.len());
        let is_left_out = |num: &&InstanceNum| !claimed.iter().any(|one| one.instance.num == **num);
        // They are stuck or gone: whoever waits for an answer finds out by the store.
        claim.nums.iter().filter(is_left_out).for_each(|num| self.replies.drop_all_of(*num));
        self.driven_again(claim, &claimed);
        for one in claimed {
            let num = one.instance.num;
            if let Some(mailbox) = self.residency.mailbox(num).filter(|_| !is_on(Mutant::BroughtInTwice)) {
                // A message had it claimed while it came into memory by another way.
                self.unreserve(1);
                let is_told = mailbox.post(|letters| {
                    letters.inbox.extend(one.inbox.unwrap_or_default());
                    letters.is_claimed = true;
                });
                if !is_told {
                    self.queue_claim(num);
                }
            } else {
                self.bring_back(one);
            }
        }
    }

    fn submit_state(&self, num: InstanceNum, seq: u64, state: State) {
        let (epoch, state) = (self.epoch, Some(state));
        let commit = Commit { num, epoch, seq_before: seq, entries: Vec::new(), taken: Vec::new(), state };
        let reply = Reply::Run { mailbox: Arc::new(Mailbox::default()), seq: 0, has_state: true };
        self.committer.submit(Write::Commit(commit), reply);
    }

    /// Has runs and jobs that were stuck try again: the program may have been mended. Those that took the process down again
    /// and again wait for somebody to retry them.
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
        for instance in page.instances.iter().filter(|instance| instance.blamed <= self.recoveries_max) {
            let reopen = Reopen { id: instance.id.clone(), num: Some(instance.num), at: self.env.clock.now() };
            self.committer.write(Write::Reopen(reopen)).await?;
        }
        Ok(page.next)
    }

    // ---- runs ----

    /// Brings a claimed run into memory, or sets it aside if that cannot be.
    fn bring_back(&self, claimed: Claimed) {
        if JobKind::of(&claimed.instance.workflow).is_some() {
            return self.bring_back_job(claimed);
        }
        let Claimed { is_first, had_paused, instance, journal, inbox } = claimed;
        let info = Info::of(&instance);
        let (journal, inbox) = match (journal, inbox) {
            (Ok(journal), Ok(inbox)) => (journal, inbox),
            (Err(problem), _) | (_, Err(problem)) => {
                return self.set_aside(info, Status::Stuck, aside::damaged(&problem), 0);
            }
        };
        let seq = journal.last().map_or(0, |entry| entry.seq);
        if instance.blamed > self.recoveries_max {
            self.admit_all();
            return self.set_aside(info, Status::Stuck, aside::deadly(instance.blamed), seq);
        }
        // Who is cancelled before the first line of code has run ends without running any.
        if is_first
            && journal.is_empty()
            && let Some(reason) = ends_at_once(&inbox)
        {
            return self.set_aside(info, Status::Cancelled, reason, seq);
        }
        let is_held = instance.status == Status::Paused;
        // What follows the last outcome is repeated for sure if the run had paused, and maybe if the process died.
        let new_from = if is_first { 0 } else { seq + u64::from(had_paused) };
        self.spawn(info, Brought { input: instance.input, journal, inbox, is_held, new_from });
    }

    fn spawn(&self, info: Info, brought: Brought) {
        let Brought { input, journal, inbox, is_held, new_from } = brought;
        let num = info.num;
        let Some(registered) = self.registry.get(&outlive_core::id::Name::recorded(&info.workflow)).cloned() else {
            let sentence = aside::unregistered(&info.workflow, &self.registry.known());
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
        let cell = Arc::new(Cell::new(info, self.env.clone(), mailbox, machine));
        self.residency.enter(num, cell.info.id.clone(), cell.mailbox.clone());
        if self.is_stopping() {
            cell.mailbox.post(|letters| letters.is_stopping = true);
        }
        let Some(worker) = self.this.upgrade() else { return };
        let journal = if self.env.is_paranoid { journal } else { Vec::new() };
        let Registered { handler, is_strict } = registered;
        let begin = Begin { handler, is_strict, epoch: self.epoch, input, journal, new_from };
        let task = async move {
            Drive::new(cell, Place { worker }, begin).await;
        };
        // Cooperative budgets would have tokio's own macros wake the run from outside.
        let task = tokio::spawn(tokio::task::unconstrained(task));
        self.residency.set_abort(num, task.abort_handle());
    }

    /// Ends a run that is not brought into memory.
    fn set_aside(&self, info: Info, status: Status, note: String, seq: u64) {
        self.unreserve(1);
        tracing::warn!(run = info.id, "run is {status}: {note}");
        let state = State {
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

    // ---- what came by the committer ----

    fn started(&self, start: &Start, num: InstanceNum, is_driven: bool) {
        if start.on_conflict == OnConflict::Replace {
            let follower = self.follower.clone();
            tokio::spawn(async move { follower.look().await });
            self.residency.replace(start.id.as_str(), num);
        }
        if !is_driven && !is_on(Mutant::DrivenUnleased) {
            match start.due <= self.env.clock.now() {
                true => self.queue_due(num),
                false => self.wakes.add_stored(start.due, num),
            }
            if start.owner == self.epoch {
                // Another one holds the lease.
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

    fn sent(&self, send: &Send, num: InstanceNum, pos: u64, before: u64) {
        let inbound = Inbound { pos, at: send.at, message: send.message.clone() };
        let told = self
            .residency
            .mailbox(num)
            .is_some_and(|mailbox| mailbox.post(|letters| letters.messages.push((inbound, before))));
        if !told {
            self.queue_due(num);
            if send.message.is_end() {
                self.claims().hurry(num);
                self.news.notify_one();
            }
        }
    }

    pub(crate) fn touch(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    // ---- the end ----

    /// Begins nothing more; what is at work may end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for mailbox in self.residency.mailboxes() {
            mailbox.post(|letters| letters.is_stopping = true);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Asks the store whether this engine still executes it: a claim of nothing is fenced if it does not.
    fn check_lease(&self) {
        let claim = Claim { nums: Vec::new(), epoch: self.epoch, at: self.env.clock.now() };
        self.committer.submit(Write::Claim(claim), Reply::Caller(oneshot::channel().0));
    }

    /// Another engine has taken the lease. Nothing can be recorded here any more, so everything ends, and those who
    /// wait get an error.
    fn fenced(&self) {
        let error = Error::Fenced { store: self.store.name() };
        if !self.committer.close(error.clone()) {
            return;
        }
        tracing::error!("{error}");
        // Else it would take the lock back when the other one ends, and keep others out.
        let (store, epoch) = (self.store.clone(), self.epoch);
        tokio::spawn(async move { store.release(epoch).await });
        self.residency.abort();
        self.stopped();
        self.rested.notify_waiters();
        self.news.notify_one();
    }
}

/// What a run is brought into memory with.
struct Brought {
    input: Payload,
    journal: Vec<Entry>,
    inbox: Vec<Inbound>,
    is_held: bool,
    /// The number of the first delivery after which its code may do what it never did before.
    new_from: u64,
}

impl Brought {
    /// That of a run that nobody has driven.
    fn new(input: Payload) -> Self {
        Self { input, journal: Vec::new(), inbox: Vec::new(), is_held: false, new_from: 0 }
    }
}

/// The reason of a cancel or terminate among the messages.
fn ends_at_once(inbox: &[Inbound]) -> Option<String> {
    inbox.iter().find_map(|inbound| match &inbound.message {
        Message::Cancel { reason } | Message::Terminate { reason } => Some(reason.clone()),
        _ => None,
    })
}

impl Router for Worker {
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
            // Its instance may be gone, or all of them.
            (Write::Commit(_) | Write::Turn(_), Answer::Fenced) => self.check_lease(),
            (Write::Send(send), Answer::Sent { num, pos, before, is_new: true }) => {
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
                    // It was set aside as it came: nobody else tells who waits for it.
                    self.waiters.ask(turn.num);
                    self.replies.drop_all_of(turn.num);
                }
            }
            (Write::Bury(_), Answer::Buried { nums, .. }) => self.look_again(nums),
            (Write::Reopen(reopen), Answer::Done) => {
                // It is due now; the store knows its number.
                let (this, id) = (self.this.clone(), reopen.id.clone());
                tokio::spawn(async move {
                    let Some(worker) = this.upgrade() else { return };
                    if let Ok(Some(instance)) = worker.store.instance(&id).await {
                        worker.queue_claim(instance.num);
                    }
                });
            }
            (Write::Commit(Commit { num, state: Some(state), .. }), Answer::Done) if End::is_in(state.status) => {
                // Whoever claims it from here on, after a retry, brings a new one into memory.
                self.residency.retire(*num);
                self.waiters.tell(*num, state);
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

/// How a run's driver reaches its worker.
struct Place {
    worker: Arc<Worker>,
}

impl Surroundings for Place {
    fn submit(&self, cell: &Arc<Cell>, commit: Commit) {
        let seq = commit.seq_before + commit.entries.len() as u64;
        let has_state = commit.state.is_some();
        let reply = Reply::Run { mailbox: cell.mailbox.clone(), seq, has_state };
        self.worker.committer.submit(Write::Commit(commit), reply);
    }

    fn set_timer(&self, cell: &Cell, due: Timestamp) {
        if !is_on(Mutant::TimerUnset) {
            self.worker.wakes.add(due, cell.info.num);
        }
    }

    fn clear_timer(&self, cell: &Cell, due: Timestamp) {
        self.worker.wakes.remove(due, cell.info.num);
    }

    fn read_inbox(&self, cell: &Arc<Cell>) {
        self.worker.read_inbox(cell.info.num, &cell.mailbox);
    }

    fn went_on(&self, cell: &Arc<Cell>) {
        // A message from outside may have come just before, and its wake gone with the pause.
        if self.worker.has_foreign.load(Ordering::Relaxed) {
            self.worker.read_inbox(cell.info.num, &cell.mailbox);
        }
    }

    fn keep_wake(&self, cell: &Cell, wake: Timestamp) {
        if !is_on(Mutant::WakeForgotten) {
            self.worker.wakes.add_stored(wake, cell.info.num);
        }
    }

    fn paused(&self, cell: &Cell, wake: Option<Timestamp>) -> bool {
        let (num, now) = (cell.info.num, self.worker.env.clock.now());
        wake.into_iter().for_each(|wake| self.keep_wake(cell, wake));
        let is_far = wake.is_some_and(|wake| wake > now.after(HORIZON));
        !self.worker.is_stopping() && self.worker.residency.pause(num, wake, is_far.then(|| now.after(IDLE)))
    }

    fn resumed(&self, cell: &Cell) {
        self.worker.resume(cell.info.num);
    }

    fn gone(&self, cell: &Cell) {
        self.worker.touch();
        if self.worker.residency.leave(cell.info.num, &cell.mailbox) {
            // It may come back, here or elsewhere.
            self.worker.waiters.ask(cell.info.num);
        }
        self.worker.news.notify_one();
    }
}
