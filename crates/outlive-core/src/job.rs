//! The machine of a job instance with one handler at a time: what it keeps, which handler is called next, and what the
//! end of a call changes. Pure: it is told the time and what happened, and answers with what is to be committed.

mod call;
mod continuous;
mod debounce;
mod record;
mod retrying;
mod task;

use std::collections::VecDeque;

pub use self::call::{Call, Done, End, Exhausted, FlushReason, HandlerKind, Planned};
pub use self::continuous::ContinuousRules;
pub use self::debounce::DebounceRules;
pub use self::record::{Record, Retrying, Troubled};
pub use self::retrying::{Policy, Verdict, failed_news};
pub use self::task::TaskRules;
use crate::id::Name;
use crate::kind::JobKind;
use crate::lifecycle::{Detail, News, NewsKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::Dead;
use crate::status::Status;
use crate::time::Timestamp;

/// What a definition says of its instances.
///
/// ```
/// use outlive_core::job::{Policy, Rules, TaskRules};
/// # use outlive_core::kind::JobKind;
/// let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
/// assert_eq!(rules.kind(), JobKind::Task);
/// ```
#[derive(Clone, Debug)]
pub enum Rules {
    /// Of a recurring job.
    Continuous(ContinuousRules),
    /// Of one that collects events.
    Debounce(DebounceRules),
    /// Of one that handles events one by one.
    Task(TaskRules),
}

impl Rules {
    /// The kind of job they are for.
    ///
    /// ```
    /// # use outlive_core::{job::{Policy, Rules, TaskRules}, kind::JobKind};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// assert_eq!(rules.kind().as_str(), "task");
    /// ```
    #[must_use]
    pub fn kind(&self) -> JobKind {
        match self {
            Self::Continuous(_) => JobKind::Continuous,
            Self::Debounce(_) => JobKind::Debounce,
            Self::Task(_) => JobKind::Task,
        }
    }

    fn policy(&self) -> &Policy {
        match self {
            Self::Continuous(rules) => &rules.policy,
            Self::Debounce(rules) => &rules.policy,
            Self::Task(rules) => &rules.policy,
        }
    }
}

/// What is to be done next for an instance.
///
/// ```
/// use outlive_core::job::Next;
/// assert!(matches!(Next::Over, Next::Over));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// Call a handler; its end is told by [`Job::ended`].
    Call(Call),
    /// Nothing until a time or a message comes.
    Wait(Status),
    /// Nothing of the instance is left that is worth keeping.
    Over,
}

/// What is to be committed, gathered until it is.
///
/// ```
/// use outlive_core::job::Change;
/// assert!(Change::default().is_empty());
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Change {
    /// What is told to the world.
    pub news: Vec<News>,
    /// Messages that are done with.
    pub taken: Vec<u64>,
    /// What is given up.
    pub dead: Vec<Dead>,
    /// Answers to events, by their position.
    pub replies: Vec<(u64, Payload)>,
    /// Dedup keys up to here are forgotten.
    pub keys_until: u64,
    /// Retries that came to their end, for those who want to know.
    pub exhausted: Vec<Exhausted>,
    /// Why it is set aside, if it is.
    pub stuck: Option<String>,
    /// Whether nothing of it is to be left.
    pub is_removed: bool,
    /// Whether a handler ended it: then what came meanwhile goes with it.
    pub is_terminated: bool,
    /// Whether a message ended it: what was accepted after that message begins anew.
    pub is_ended: bool,
    /// Whether the record has changed.
    pub is_touched: bool,
}

impl Change {
    /// Whether there is nothing to commit.
    ///
    /// ```
    /// # use outlive_core::job::Change;
    /// assert!(!Change { is_removed: true, ..Change::default() }.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One instance: its record, its inbox, and what is to be committed.
///
/// ```
/// use outlive_core::id::Name;
/// use outlive_core::job::{Job, Next, Policy, Record, Rules, TaskRules};
/// use outlive_core::time::Timestamp;
///
/// let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
/// let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
/// assert_eq!(job.next(Timestamp::from_millis(0)), Next::Over, "nobody sent it anything");
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    rules: Rules,
    id: Name,
    /// Where its random numbers begin.
    seed: u64,
    record: Record,
    inbox: VecDeque<Inbound>,
    /// How many messages in the inbox need no handler, and how many of them end the instance: with none, nobody looks
    /// through a long inbox.
    orders: (usize, usize),
    /// The last position that was received.
    seen: u64,
    /// The tick that was being run when the process died.
    begun: Option<Timestamp>,
    change: Change,
}

/// How an instance stood before a call ended, for [`Job::roll_back`].
///
/// ```
/// use outlive_core::job::{Checkpoint, Job};
/// fn before(job: &Job) -> Checkpoint {
///     job.checkpoint()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint {
    record: Record,
    change: Change,
    begun: Option<Timestamp>,
}

impl Job {
    /// An instance as it was left.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert_eq!(job.record().runs, 0);
    /// ```
    #[must_use]
    pub fn new(rules: Rules, id: Name, record: Record, seed: u64) -> Self {
        let (inbox, change) = (VecDeque::new(), Change::default());
        Self { rules, id, seed, record, inbox, orders: (0, 0), seen: 0, begun: None, change }
    }

    /// Begins the life of an instance that was brought into being at a moment, with a state if it was given one.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// job.begin(None, Timestamp::from_millis(5));
    /// assert_eq!(job.take_change().news.len(), 1);
    /// ```
    pub fn begin(&mut self, state: Option<Payload>, created_at: Timestamp) {
        self.record.state = state;
        self.touch();
        self.tell(NewsKind::JobStarted, created_at, Detail::default());
        if let Rules::Continuous(rules) = &self.rules {
            self.record.next = rules.schedule.first(created_at, rules.is_immediate);
            self.record.schedule = Some(rules.schedule.to_string());
        }
    }

    /// What it keeps.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(job.record().state.is_none());
    /// ```
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The last position of its inbox that it has seen.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert_eq!(job.seen(), 0);
    /// ```
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether events that come now have to wait: something is tried again first.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(!job.is_held_up());
    /// ```
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.record.retry.is_some() || self.record.trouble.is_some() || self.record.flush.is_some()
    }

    /// Who has to wait because something is tried again first: messages, each with how many events there are up to it.
    /// Those who wait for an answer are not among them.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(job.held().is_empty());
    /// ```
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        if !self.is_held_up() {
            return Vec::new();
        }
        let mut events = 0;
        let held = self.inbox.iter().filter_map(|inbound| match &inbound.message {
            Message::Event(event) => {
                events += 1;
                (!event.is_asking).then_some((inbound.pos, events))
            }
            Message::Trigger => Some((inbound.pos, events)),
            _ => None,
        });
        held.collect()
    }

    /// A message has come. One that was received before is passed over.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// use outlive_core::message::{Inbound, Message};
    /// job.receive(Inbound { pos: 3, at: Timestamp::from_millis(1), message: Message::Trigger });
    /// assert_eq!(job.seen(), 3);
    /// ```
    pub fn receive(&mut self, inbound: Inbound) {
        if inbound.pos > self.seen {
            self.seen = inbound.pos;
            self.orders.0 += usize::from(self.is_order(&inbound.message));
            self.orders.1 += usize::from(inbound.message.is_end());
            self.inbox.push_back(inbound);
        }
    }

    /// Whether the message at a position was received, or there is none before the first one.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(job.has_received(0) && !job.has_received(9));
    /// ```
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen
    }

    /// What is to be done now. Messages that need no handler are dealt with on the way; what they change is committed
    /// with the next change.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Next, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert_eq!(job.next(Timestamp::from_millis(0)), Next::Over);
    /// ```
    pub fn next(&mut self, now: Timestamp) -> Next {
        if self.change.stuck.is_some() {
            return Next::Wait(Status::Stuck);
        }
        if self.change.is_removed {
            return Next::Over;
        }
        if let Some(over) = self.end_if_told(now) {
            return over;
        }
        self.take_orders(now);
        if let Some(next) = self.trouble().or_else(|| self.retry(now)) {
            return next;
        }
        match self.rules.kind() {
            JobKind::Continuous => self.next_tick(now),
            JobKind::Debounce => self.next_batch(now),
            _ => self.next_event(now),
        }
    }

    /// A handler has ended.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Next, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # use outlive_core::{event::Event, message::{Inbound, Message}, payload::Payload};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// use outlive_core::job::{Done, End};
    /// let at = Timestamp::from_millis(1);
    /// job.receive(Inbound { pos: 3, at, message: Message::Event(Event::new(Payload::recorded("42"))) });
    /// let Next::Call(call) = job.next(at) else { panic!("there is an event") };
    /// job.ended(&call, End::Done(Done::default()), at, at);
    /// assert_eq!(job.take_change().taken, [3]);
    /// ```
    pub fn ended(&mut self, call: &Call, end: End, began: Timestamp, now: Timestamp) {
        self.touch();
        match end {
            End::Done(Done { terminate: Some(reason), .. }) => self.terminate(&reason, now),
            End::Done(done) => self.done(call, done, began, now),
            End::Failed(failure) => self.failed(call, failure, began, now),
            End::Unreadable(problem) => self.unreadable(call, problem, now),
        }
        // Attempts of one call are one call.
        self.record.calls += u64::from(self.record.retry.is_none());
    }

    /// What is to be committed since the last time this was asked.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(job.take_change().is_empty());
    /// ```
    pub fn take_change(&mut self) -> Change {
        std::mem::take(&mut self.change)
    }

    /// What was to be committed could not be, and is to be once more.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Change, Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// job.put_back(Change { taken: vec![3], ..Change::default() });
    /// assert_eq!(job.take_change().taken, [3]);
    /// ```
    pub fn put_back(&mut self, change: Change) {
        debug_assert!(self.change.is_empty(), "nothing has happened since it was taken");
        self.change = change;
    }

    /// Whether a message has come that ends it at once.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(!job.is_ended_by_message());
    /// ```
    #[must_use]
    pub fn is_ended_by_message(&self) -> bool {
        self.orders.1 > 0
    }

    /// How it stands now. It does not copy the inbox, which may be long.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// let before = job.checkpoint();
    /// # drop(before);
    /// ```
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { record: self.record.clone(), change: self.change.clone(), begun: self.begun }
    }

    /// Undoes the end of a call that could not be committed.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Next, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # use outlive_core::{event::Event, job::{Done, End}, message::{Inbound, Message}, payload::Payload};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// # let at = Timestamp::from_millis(1);
    /// job.receive(Inbound { pos: 3, at, message: Message::Event(Event::new(Payload::recorded("42"))) });
    /// let Next::Call(call) = job.next(at) else { panic!("there is an event") };
    /// let before = job.checkpoint();
    /// job.ended(&call, End::Done(Done::default()), at, at);
    /// job.roll_back(before, &call);
    /// assert_eq!(job.next(at), Next::Call(call), "the event is there again");
    /// ```
    pub fn roll_back(&mut self, before: Checkpoint, call: &Call) {
        (self.record, self.change, self.begun) = (before.record, before.change, before.begun);
        let Some(inbound) = &call.event else { return };
        // All that the end of a call takes is the event it was for.
        let place = self.inbox.partition_point(|other| other.pos < inbound.pos);
        if self.inbox.get(place).is_none_or(|other| other.pos != inbound.pos) {
            self.orders.0 += usize::from(self.is_order(&inbound.message));
            self.inbox.insert(place, inbound.clone());
        }
    }

    /// It cannot go on for this reason, and is set aside with all it has.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// job.set_aside("its inbox is damaged".to_owned(), Timestamp::from_millis(1));
    /// assert!(job.take_change().stuck.is_some());
    /// ```
    pub fn set_aside(&mut self, problem: String, now: Timestamp) {
        let reason = Some(problem.clone().into());
        self.tell(NewsKind::JobStuck, now, Detail { reason, ..Detail::default() });
        self.change.stuck = Some(problem);
    }

    /// Nothing of it is to be left, because there is nothing in it.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// job.remove();
    /// assert!(job.take_change().is_removed);
    /// ```
    pub fn remove(&mut self) {
        self.change.is_removed = true;
    }

    /// There is something in it after all: a message came before it was gone.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// job.remove();
    /// job.keep(outlive_core::time::Timestamp::from_millis(1));
    /// assert!(!job.take_change().is_removed);
    /// ```
    pub fn keep(&mut self, now: Timestamp) {
        self.change.is_removed = self.change.is_terminated;
        if std::mem::take(&mut self.change.is_ended) {
            self.begin(None, now);
        }
    }

    /// Whether there is something to commit.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert!(!job.has_change());
    /// ```
    #[must_use]
    pub fn has_change(&self) -> bool {
        !self.change.is_empty()
    }

    // ---- what all kinds have in common ----

    fn touch(&mut self) {
        self.change.is_touched = true;
    }

    fn tell(&mut self, kind: NewsKind, at: Timestamp, detail: Detail) {
        self.tell_of(kind, 0, at, detail);
    }

    fn tell_of(&mut self, kind: NewsKind, attempt: u32, at: Timestamp, detail: Detail) {
        let detail = (detail != Detail::default()).then(|| detail.to_payload());
        self.change.news.push(News { at, kind, attempt, detail });
    }

    /// A message is done with.
    fn take(&mut self, pos: u64) {
        // In order of arrival, so that the one meant is found without looking at the others.
        if let Ok(place) = self.inbox.binary_search_by_key(&pos, |inbound| inbound.pos)
            && let Some(inbound) = self.inbox.remove(place)
        {
            self.orders.0 -= usize::from(self.is_order(&inbound.message));
            self.orders.1 -= usize::from(inbound.message.is_end());
            self.change.taken.push(pos);
        }
    }

    /// Whether a message needs no handler, whatever else is under way.
    fn is_order(&self, message: &Message) -> bool {
        match (message, self.rules.kind()) {
            (Message::Event(_), JobKind::Continuous) => true,
            (Message::Event(_), _) | (Message::Trigger, JobKind::Debounce) => false,
            _ => true,
        }
    }

    /// Ends the instance at once if a message says so, whatever else is under way.
    fn end_if_told(&mut self, now: Timestamp) -> Option<Next> {
        while self.orders.1 > 0 {
            let (pos, reason) = self.inbox.iter().rev().find_map(|inbound| match &inbound.message {
                Message::Terminate { reason } | Message::Cancel { reason } => Some((inbound.pos, reason.clone())),
                _ => None,
            })?;
            if self.rules.kind() == JobKind::Continuous {
                self.terminate(&reason, now);
                return Some(Next::Over);
            }
            if self.end_at(pos, &reason, now) {
                return Some(Next::Over);
            }
        }
        None
    }

    /// Ends it by a message: all that was accepted before goes, and events that were accepted after begin anew. Returns
    /// whether there are none.
    fn end_at(&mut self, pos: u64, reason: &str, now: Timestamp) -> bool {
        let reason = Some(reason.to_owned().into());
        self.tell(NewsKind::JobTerminated, now, Detail { reason, ..Detail::default() });
        let is_over = !self.inbox.iter().any(|other| other.pos > pos && matches!(other.message, Message::Event(_)));
        let gone = self.inbox.iter().map(|inbound| inbound.pos).filter(|other| is_over || *other <= pos);
        gone.collect::<Vec<_>>().into_iter().for_each(|pos| self.take(pos));
        (self.record, self.begun) = (Record { calls: self.record.calls, ..Record::default() }, None);
        self.change.keys_until = self.change.keys_until.max(pos);
        self.touch();
        match is_over {
            true => (self.change.is_removed, self.change.is_ended) = (true, true),
            false => self.begin(None, now),
        }
        is_over
    }

    /// Deals with what somebody told it and needs no handler, whatever else is under way.
    fn take_orders(&mut self, now: Timestamp) {
        if self.orders.0 == 0 {
            return;
        }
        let orders = self.inbox.iter().filter(|inbound| self.is_order(&inbound.message));
        let orders: Vec<Inbound> = orders.cloned().collect();
        for Inbound { pos, at, message } in orders {
            match (self.rules.kind(), message) {
                (_, Message::Trigger) => self.triggered(pos),
                (JobKind::Continuous, message) => self.take_tick_order(message, at, now),
                (JobKind::Debounce, Message::Clear) => self.clear(pos, at),
                _ => {}
            }
            self.touch();
            self.take(pos);
        }
    }

    /// Removes all of it. What is in the inbox goes too.
    fn terminate(&mut self, reason: &str, now: Timestamp) {
        let reason = Some(reason.to_owned().into());
        self.tell(NewsKind::JobTerminated, now, Detail { reason, ..Detail::default() });
        self.change.taken.extend(self.inbox.iter().map(|inbound| inbound.pos));
        (self.change.is_removed, self.change.is_terminated) = (true, true);
    }

    /// A failure that was given up waits for `on_error`.
    fn trouble(&self) -> Option<Next> {
        let trouble = self.record.trouble.as_ref()?;
        Some(Next::Call(Call {
            handler: HandlerKind::Error,
            attempt: 1,
            event: None,
            tick: None,
            trigger: None,
            flush: None,
            failure: Some(trouble.failure.clone()),
        }))
    }

    /// What failed is tried again before anything else, and not before its time.
    fn retry(&self, now: Timestamp) -> Option<Next> {
        let retry = self.record.retry.as_ref()?;
        if retry.due > now {
            return Some(Next::Wait(Status::Retrying { at: retry.due }));
        }
        match retry.handler {
            HandlerKind::Execute => Some(Next::Call(self.execution(retry.is_trigger))),
            handler => Some(Next::Call(self.call(handler, retry.event))),
        }
    }

    /// A call of `execute`: for a trigger, or for what is due.
    fn execution(&self, is_trigger: bool) -> Call {
        let (tick, trigger) = match is_trigger {
            true => (None, Some(self.record.trigger)),
            false => (self.record.next, None),
        };
        Call { tick, trigger, ..self.call(HandlerKind::Execute, None) }
    }

    /// A call of a handler as it is to be made now.
    fn call(&self, handler: HandlerKind, pos: Option<u64>) -> Call {
        let attempt = self.record.retry.as_ref().map_or(1, |retry| retry.failed.saturating_add(1));
        let find = |pos| self.inbox.binary_search_by_key(&pos, |inbound| inbound.pos).ok();
        let event = pos.and_then(find).and_then(|place| self.inbox.get(place)).cloned();
        Call { handler, attempt, event, tick: None, trigger: None, flush: self.record.flush, failure: None }
    }

    /// Somebody asks for an execution. Several that come before it begins are one.
    fn triggered(&mut self, pos: u64) {
        if !self.record.is_triggered {
            (self.record.is_triggered, self.record.trigger) = (true, pos);
        }
    }

    fn done(&mut self, call: &Call, done: Done, began: Timestamp, now: Timestamp) {
        if let Some(state) = done.state {
            self.record.state = Some(state);
        }
        self.record.retry = None;
        let was_trigger = call.trigger.is_some();
        match call.handler {
            HandlerKind::Event => self.event_done(call, done.answer, now),
            HandlerKind::Execute => {
                self.record.runs += 1;
                let duration_ms = u64::try_from(now.since(began).as_millis()).ok();
                let detail = Detail { run: Some(self.record.runs), duration_ms, ..Detail::default() };
                self.tell_of(NewsKind::JobExecuted, call.attempt, now, detail);
                self.executed(call, was_trigger, now);
            }
            HandlerKind::Error => self.recovered(now),
            HandlerKind::Idle => self.record.is_restless = false,
        }
        if let Some(plan) = done.plan {
            self.plan(plan, now);
        }
    }

    /// Sets or clears the wake of a task, as its handler asked for.
    fn plan(&mut self, plan: Planned, now: Timestamp) {
        match plan {
            Planned::At(at) => {
                self.record.next = Some(at);
                self.tell(NewsKind::TaskScheduled, now, Detail { at: Some(at), ..Detail::default() });
            }
            Planned::Never => self.record.next = None,
        }
    }

    /// An event was handled.
    fn event_done(&mut self, call: &Call, answer: Option<Payload>, now: Timestamp) {
        let Some(Inbound { pos, at, message: Message::Event(event) }) = &call.event else { return };
        if event.is_asking {
            self.change.replies.push((*pos, answered(answer)));
        }
        match self.rules.kind() {
            JobKind::Debounce => self.collected(*pos, *at, event, now),
            _ => {
                self.record.events += 1;
                self.record.is_restless = true;
                let detail = Detail { event: Some(*pos), ..Detail::default() };
                self.tell_of(NewsKind::EventHandled, call.attempt, now, detail);
            }
        }
        self.take(*pos);
    }

    /// An execution came to its end, by success or because it was given up.
    fn executed(&mut self, call: &Call, was_trigger: bool, now: Timestamp) {
        match self.rules.kind() {
            JobKind::Continuous => self.tick_over(call.tick, was_trigger, now),
            JobKind::Debounce => self.flushed(call.flush, now),
            _ => self.task_executed(was_trigger),
        }
    }

    /// Whether nothing was ever made of this instance: no handler has succeeded yet, and nothing is planned.
    fn is_void(&self) -> bool {
        let record = &self.record;
        record.state.is_none() && record.events == 0 && record.runs == 0 && record.next.is_none()
    }

    /// What it waits for if there is nothing to do.
    fn waiting_until(&self, until: Option<Timestamp>) -> Next {
        Next::Wait(until.map_or(Status::Waiting { until: None }, |until| Status::Sleeping { until }))
    }
}

/// The answer of a handler that gave one, and of one that did not.
fn answered(answer: Option<Payload>) -> Payload {
    Payload::recorded(&format!(r#"{{"ok":{}}}"#, answer.as_ref().map_or("null", Payload::as_str)))
}
