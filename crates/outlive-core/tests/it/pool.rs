//! Table tests of the pool machine: pushes, messages, ends and times in; calls, commits and reads out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::Name;
use outlive_core::job::{
    Dispatch, Done, End, Handling, Policy, Pool, PoolChange, PoolDurable, PoolNeed, PoolRules, PoolSetup, PoolTurn,
    Record, RefusedTurn,
};
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, QueuePage, QueueRead, Queued, Spot, take_turns};
use outlive_core::retry::{Jitter, Retry};
use outlive_core::status::Status;
use outlive_core::store::commit::{NewState, Write};
use outlive_core::time::Timestamp;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn rules(concurrency: usize) -> PoolRules {
    PoolRules { policy: Policy::default(), concurrency, batch: 1, rate: None }
}

fn retrying(times: u32) -> PoolRules {
    let retry = Retry::times(times).constant("10s").jitter(Jitter::none());
    PoolRules { policy: Policy { retry: Some(retry), has_error: false }, ..rules(2) }
}

fn setup(rules: PoolRules) -> PoolSetup {
    let id = Name::recorded("pool:mail:main");
    PoolSetup { rules, id, record: Record::default(), seed: 7, recoveries: 0, max_recoveries: 1 }
}

fn event(name: &str) -> Event {
    Event::new(Payload::encode(name).unwrap())
}

fn of_lane(name: &str, lane: &str) -> Event {
    Event { key: Some(Name::recorded(lane)), ..event(name) }
}

fn done() -> End {
    End::Done(Done::default())
}

fn failed() -> End {
    End::Failed(Failure::new(Cause::Error, "no"))
}

fn write() -> Write {
    Write::Mark(Name::recorded("sent"), 1)
}

fn name_of(queued: &Queued) -> String {
    queued.event.as_ref().map_or("damaged".into(), |event| event.payload.decode().unwrap())
}

/// Returns the names of the events of a call, with a mark if the handler is not called.
fn name_of_call(call: &Dispatch) -> String {
    let names: Vec<String> = call.events.iter().map(name_of).collect();
    let how = match &call.handling {
        Handling::Execute => "",
        Handling::Fail(_) => "fail ",
        Handling::GiveUp(_) => "give up ",
    };
    format!("{how}{}", names.join("+"))
}

/// A pool with a queue in place of its store.
struct Stage {
    pool: Pool,
    setup: PoolSetup,
    now: i64,
    pos: u64,
    queue: BTreeMap<(Spot, u64), Result<Event, String>>,
    running: VecDeque<Dispatch>,
    /// Requested by the pool, not done yet.
    change: Option<PoolChange>,
    read: Option<QueueRead>,
    /// Committed so far.
    dead: Vec<Dead>,
    lifecycle: Vec<LifecycleRecordKind>,
    state: Option<NewState>,
    durable: Vec<PoolDurable>,
}

impl Stage {
    fn new(setup: PoolSetup) -> Self {
        Self {
            pool: Pool::new(setup.clone()),
            setup,
            now: 0,
            pos: 0,
            queue: BTreeMap::new(),
            running: VecDeque::new(),
            change: None,
            read: None,
            dead: Vec::new(),
            lifecycle: Vec::new(),
            state: None,
            durable: Vec::new(),
        }
    }

    /// Kills the process: what was not committed is lost, and the next one loads the pool again.
    fn crash(&mut self) {
        self.setup.recoveries += 1;
        self.setup.record = self.state.as_ref().map_or_else(Record::default, record_of);
        self.pool = Pool::new(self.setup.clone());
        (self.change, self.read) = (None, None);
        self.running.clear();
    }

    fn push(&mut self, event: Event) {
        let rank = if event.key.is_some() { i64::MIN } else { Spot::rank_of(event.priority) };
        self.pos += 1;
        self.queue.insert((Spot::of(&event), self.pos), Ok(event));
        self.pool.pushed(Some(rank));
    }

    fn push_all(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.push(event(name)));
    }

    fn receive(&mut self, message: Message) {
        self.pos += 1;
        self.pool.receive(Inbound { pos: self.pos, at: at(self.now), message });
    }

    /// Takes one turn. Returns the calls that start.
    fn turn(&mut self) -> (Vec<String>, PoolTurn) {
        let mut turn = self.pool.next(at(self.now), |payload| payload.as_str() != "\"odd\"");
        if let Some(change) = turn.change.take() {
            assert!(self.change.is_none(), "one commit at a time");
            self.change = Some(change);
        }
        if let Some(read) = turn.read.take() {
            assert!(self.read.is_none(), "one read at a time");
            self.read = Some(read);
        }
        let names = turn.calls.iter().map(name_of_call).collect();
        for call in turn.calls.drain(..) {
            for queued in &call.events {
                let is_new = !self.running.iter().flat_map(|call| &call.events).any(|other| other.pos == queued.pos);
                assert!(is_new, "{} is handled twice at once", name_of(queued));
            }
            self.running.push_back(call);
        }
        (names, turn)
    }

    /// Returns the page that was asked for, without handing it over.
    fn page(&mut self) -> QueuePage {
        let QueueRead { now, after, limit } = self.read.take().expect("a page was requested");
        let is_later = |spot: &Spot| spot.rank == Spot::DELAYED && *spot > Spot::delayed_until(now);
        let next_due = self.queue.keys().find(|(spot, _)| is_later(spot)).map(|(spot, _)| spot.due());
        let ready = self.queue.iter().filter(|((spot, _), _)| !is_later(spot));
        let queued = |((spot, pos), event): (&(Spot, u64), &Result<Event, String>)| Queued {
            pos: *pos,
            spot: spot.clone(),
            at: at(0),
            event: event.clone(),
        };
        QueuePage { events: take_turns(ready.map(queued).collect(), after.as_deref(), limit, Queued::turn), next_due }
    }

    fn commit(&mut self) {
        let change = self.change.take().expect("something is committed");
        for moved in change.queue {
            assert!(self.queue.remove(&(moved.from, moved.pos)).is_some(), "event {} is not in the queue", moved.pos);
            moved.to.into_iter().for_each(|event| drop(self.queue.insert((Spot::of(&event), moved.pos), Ok(event))));
        }
        self.dead.extend(change.dead);
        self.lifecycle.extend(change.lifecycle.iter().map(|record| record.kind));
        self.state = change.state.or(self.state.take());
        self.durable.push(self.pool.committed().expect("a commit is in progress"));
    }

    /// Takes turns, reads and commits until only calls are outstanding. Returns the calls that started.
    fn settle(&mut self) -> Vec<String> {
        let mut calls = Vec::new();
        loop {
            calls.extend(self.turn().0);
            match (self.read.is_some(), self.change.is_some()) {
                (true, _) => {
                    let page = self.page();
                    self.pool.take_page(page);
                }
                (false, true) => self.commit(),
                (false, false) => return calls,
            }
        }
    }

    /// Ends the call with this name, and settles.
    fn end(&mut self, name: &str, end: End) -> Vec<String> {
        self.end_with(name, end, Vec::new());
        self.settle()
    }

    fn end_with(&mut self, name: &str, end: End, writes: Vec<Write>) {
        let place = self.running.iter().position(|call| name_of_call(call) == name);
        let call =
            place.and_then(|place| self.running.remove(place)).unwrap_or_else(|| panic!("{name} is not running"));
        let end = match call.handling {
            Handling::Execute => end,
            Handling::Fail(failure) | Handling::GiveUp(failure) => End::Failed(failure),
        };
        let mut finished = self.pool.judge().decide(call.events, end, call.began, at(self.now));
        finished.writes = writes;
        self.pool.ended(finished);
    }

    /// Ends all calls with success until nothing is left. Returns the order in which calls started.
    fn drain(&mut self) -> Vec<String> {
        let mut calls = self.settle();
        while let Some(call) = self.running.front().map(name_of_call) {
            calls.extend(self.end(&call, done()));
        }
        calls
    }

    fn status(&self) -> (Option<Status>, bool) {
        (self.state.as_ref().map(|state| state.status), self.state.as_ref().is_some_and(|state| state.is_owned))
    }

    fn dead(&self) -> Vec<(String, u32)> {
        self.dead.iter().map(|dead| (dead.event.payload.decode().unwrap(), dead.attempts)).collect()
    }
}

fn record_of(state: &NewState) -> Record {
    Record::from_payload(state.outcome.as_ref().unwrap()).unwrap()
}

// ---- order ----

#[test]
fn concurrent_calls_never_exceed_the_limit() {
    for concurrency in 1..5 {
        let mut stage = Stage::new(setup(rules(concurrency)));
        stage.push_all(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(stage.settle().len(), concurrency);
        assert_eq!(stage.end("a", done()).len(), 1, "the next call starts when one has ended");
        assert_eq!(stage.running.len(), concurrency);
        assert_eq!(stage.drain().len(), 6 - concurrency - 1);
    }
}

#[test]
fn lanes_take_turns_and_each_is_in_arrival_order() {
    let mut stage = Stage::new(setup(rules(1)));
    for (name, lane) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")] {
        stage.push(of_lane(name, lane));
    }
    assert_eq!(stage.drain(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn lane_that_had_its_turn_is_last_on_the_next_page() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push(of_lane("a1", "a"));
    stage.push(of_lane("a2", "a"));
    assert_eq!(stage.settle(), ["a1"]);
    // Paused, so that `a1` has left the queue when the next page is read.
    stage.receive(Message::Pause);
    stage.push(of_lane("b1", "b"));
    stage.end("a1", done());
    stage.receive(Message::Resume);
    assert_eq!(stage.drain(), ["b1", "a2"]);
}

#[test]
fn larger_priorities_go_first() {
    let mut stage = Stage::new(setup(rules(1)));
    for (name, priority) in [("low", -1), ("none", 0), ("top", i32::MAX), ("last", i32::MIN), ("high", 1)] {
        stage.push(Event { priority, ..event(name) });
    }
    assert_eq!(stage.drain(), ["top", "high", "none", "low", "last"]);
}

#[test]
fn more_urgent_event_overtakes_events_read_ahead() {
    let urgent = || Event { priority: 1, ..event("urgent") };
    let table = [
        // The event pushed while the others wait, and the calls that follow.
        (urgent(), ["urgent", "b", "c"]),
        (event("equal"), ["b", "c", "equal"]),
        (Event { priority: -1, ..event("lazy") }, ["b", "c", "lazy"]),
    ];
    for (pushed, expected) in table {
        let mut stage = Stage::new(setup(rules(1)));
        stage.push_all(&["a", "b", "c"]);
        assert_eq!(stage.settle(), ["a"]);
        stage.push(pushed);
        assert_eq!(stage.settle(), Vec::<String>::new());
        stage.end_with("a", done(), Vec::new());
        assert_eq!(stage.drain(), expected);
    }
}

#[test]
fn page_read_before_an_urgent_push_is_used_until_the_next_read() {
    let mut stage = Stage::new(setup(rules(2)));
    stage.push_all(&["a", "b", "c", "d"]);
    stage.turn();
    let page = stage.page();
    stage.push(Event { priority: 1, ..event("urgent") });
    stage.pool.take_page(page);
    assert_eq!(stage.settle(), ["a", "b"], "the handlers are kept busy");
    assert_eq!(stage.drain(), ["urgent", "c", "d"]);
}

#[test]
fn event_in_a_stale_page_is_not_handled_again() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["a", "b"]);
    assert_eq!(stage.settle(), ["a"]);
    // A page is read while `a` is handled, and arrives when it is done and durable.
    stage.pool.pushed(None);
    stage.turn();
    let page = stage.page();
    assert_eq!(page.events.len(), 2);
    stage.end_with("a", done(), Vec::new());
    assert_eq!(stage.turn().0, ["b"]);
    stage.commit();
    stage.pool.take_page(page);
    assert_eq!(stage.drain(), Vec::<String>::new());
    assert_eq!(stage.queue.len(), 0);
}

#[test]
fn queue_longer_than_a_page_is_fully_handled() {
    let mut stage = Stage::new(setup(rules(50)));
    let names: Vec<String> = (0..3_000).map(|n| n.to_string()).collect();
    names.iter().for_each(|name| stage.push(event(name)));
    assert_eq!(stage.drain(), names);
    assert_eq!((stage.queue.len(), stage.status()), (0, (Some(Status::Waiting { until: None }), false)));
}

#[test]
fn failed_page_read_is_retried() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["a"]);
    stage.turn();
    assert!(stage.read.take().is_some());
    stage.pool.read_failed();
    assert_eq!(stage.settle(), ["a"]);
}

// ---- time ----

#[test]
fn delayed_event_starts_when_it_is_due() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push(Event { due: Some(at(60)), ..event("later") });
    assert_eq!(stage.settle(), Vec::<String>::new());
    let state = stage.state.clone().unwrap();
    assert_eq!((state.status, state.wake, state.is_owned), (Status::Sleeping { until: at(60) }, Some(at(60)), false));
    assert_eq!(stage.turn().1.wake, Some(at(60)));
    for (now, expected) in [(59, vec![]), (60, vec!["later"])] {
        stage.now = now;
        assert_eq!(stage.settle(), expected, "at {now}");
    }
}

#[test]
fn rate_limit_holds_despite_free_capacity() {
    let mut stage = Stage::new(setup(PoolRules { rate: Some((2, Duration::from_secs(60))), ..rules(10) }));
    stage.push_all(&["a", "b", "c", "d", "e"]);
    let table = [(0, vec!["a", "b"]), (30, vec![]), (59, vec![]), (60, vec!["c", "d"]), (120, vec!["e"])];
    for (now, expected) in table {
        stage.now = now;
        assert_eq!(stage.settle(), expected, "at {now}");
        assert_eq!(stage.turn().1.wake, if now < 120 { Some(at((now / 60 + 1) * 60)) } else { None });
    }
}

#[test]
fn clock_set_back_delays_a_rate_limit_by_at_most_one_period() {
    let mut stage = Stage::new(setup(PoolRules { rate: Some((2, Duration::from_secs(60))), ..rules(10) }));
    stage.push_all(&["a", "b", "c", "d"]);
    let table = [(10_000, vec!["a", "b"]), (1_000, vec![]), (1_059, vec![]), (1_060, vec!["c", "d"])];
    for (now, expected) in table {
        stage.now = now;
        assert_eq!(stage.settle(), expected, "at {now}");
    }
}

#[test]
fn idle_pool_stays_in_memory_until_its_rate_period_ends() {
    let mut stage = Stage::new(setup(PoolRules { rate: Some((1, Duration::from_secs(60))), ..rules(1) }));
    stage.push_all(&["a"]);
    assert_eq!(stage.drain(), ["a"]);
    for (now, need, wake) in [(0, PoolNeed::Busy, Some(at(60))), (60, PoolNeed::Idle, None)] {
        stage.now = now;
        let turn = stage.turn().1;
        assert_eq!((turn.need, turn.wake), (need, wake), "at {now}");
    }
}

// ---- failures ----

#[test]
fn each_event_is_retried_separately_and_becomes_a_dead_letter() {
    let mut stage = Stage::new(setup(retrying(2)));
    stage.push_all(&["bad", "good"]);
    let mut calls = stage.settle();
    calls.extend(stage.end("good", done()));
    for now in [0, 10, 20] {
        stage.now = now;
        calls.extend(stage.settle());
        stage.end("bad", failed());
        assert_eq!(stage.dead().is_empty(), now < 20);
    }
    assert_eq!(calls, ["bad", "good", "bad", "bad"]);
    assert_eq!((stage.dead(), stage.queue.len()), (vec![("bad".to_owned(), 3)], 0));
    let exhausted: Vec<u32> = stage.durable.iter().flat_map(|durable| &durable.exhausted).map(|e| e.attempts).collect();
    assert_eq!(exhausted, [3]);
    let failures = stage.lifecycle.iter().filter(|kind| **kind == LifecycleRecordKind::JobFailed).count();
    assert_eq!((failures, stage.lifecycle.last()), (3, Some(&LifecycleRecordKind::JobExhausted)));
}

#[test]
fn first_failure_without_a_policy_is_a_dead_letter() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["bad", "next"]);
    stage.settle();
    assert_eq!(stage.end("bad", failed()), ["next"]);
    assert_eq!(stage.dead(), [("bad".to_owned(), 1)]);
}

#[test]
fn retry_keeps_the_event_and_its_first_attempt_time() {
    let mut stage = Stage::new(setup(retrying(5)));
    stage.push(Event { priority: 3, dedup: Some(Name::recorded("k")), ..of_lane("bad", "l") });
    stage.settle();
    stage.now = 4;
    stage.end("bad", failed());
    let ((spot, _), kept) = stage.queue.first_key_value().unwrap();
    let kept = kept.clone().unwrap();
    assert_eq!((spot.due(), kept.failed, kept.tried_at), (at(14), 1, Some(at(0))));
    assert_eq!((kept.priority, kept.dedup.is_some(), kept.key.is_some()), (3, true, true));
}

#[test]
fn calls_with_writes_are_committed_alone_and_the_others_together() {
    let mut stage = Stage::new(setup(rules(4)));
    stage.push_all(&["a", "b", "c", "d"]);
    stage.settle();
    stage.end_with("a", done(), vec![write()]);
    stage.end_with("b", done(), Vec::new());
    stage.end_with("c", done(), vec![write()]);
    stage.end_with("d", done(), Vec::new());
    let mut commits = Vec::new();
    while !stage.queue.is_empty() {
        stage.turn();
        let change = stage.change.as_ref().unwrap();
        commits.push((change.queue.len(), change.writes.len()));
        stage.commit();
    }
    assert_eq!(commits, [(2, 0), (1, 1), (1, 1)]);
}

#[test]
fn refused_write_fails_the_call_that_asked_for_it() {
    let mut stage = Stage::new(setup(retrying(1)));
    stage.push_all(&["a"]);
    stage.settle();
    stage.end_with("a", done(), vec![write()]);
    stage.turn();
    assert_eq!((stage.pool.writes_in_flight().len(), stage.change.take().unwrap().queue.len()), (1, 1));
    assert_eq!(stage.pool.refused("it signals nobody"), RefusedTurn::Handler);
    assert_eq!(stage.settle(), ["fail a"]);
    stage.end("fail a", done());
    let kept = stage.queue.values().next().unwrap().clone().unwrap();
    assert_eq!((kept.failed, stage.lifecycle.as_slice()), (1, [LifecycleRecordKind::JobFailed].as_slice()));
}

#[test]
fn refused_commit_of_a_released_pool_does_not_own_it() {
    let mut stage = Stage::new(setup(retrying(1)));
    assert_eq!((stage.settle(), stage.status().1), (vec![], false));
    stage.push_all(&["a"]);
    stage.settle();
    stage.end_with("a", done(), vec![write()]);
    stage.turn();
    assert!(stage.change.take().unwrap().state.is_some_and(|state| state.is_owned));
    stage.pool.refused("it signals nobody");
    stage.settle();
    stage.end_with("fail a", done(), Vec::new());
    stage.turn();
    assert!(stage.change.take().unwrap().state.is_some_and(|state| state.is_owned), "the next commit sets it again");
}

#[test]
fn page_read_before_a_retry_does_not_hide_it() {
    let mut stage = Stage::new(setup(retrying(1)));
    stage.push_all(&["a"]);
    stage.settle();
    stage.pool.pushed(None);
    stage.turn();
    let page = stage.page();
    stage.end_with("a", failed(), Vec::new());
    stage.turn();
    stage.pool.take_page(page);
    stage.commit();
    assert_eq!(stage.settle(), Vec::<String>::new());
    assert_eq!(stage.status(), (Some(Status::Sleeping { until: at(10) }), false));
}

#[test]
fn refused_write_of_on_dead_does_not_keep_the_event() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["a"]);
    stage.settle();
    stage.end_with("a", failed(), vec![write()]);
    stage.turn();
    stage.change = None;
    assert_eq!(stage.pool.refused("it signals nobody"), RefusedTurn::Hook);
    assert_eq!(stage.settle(), Vec::<String>::new());
    assert_eq!((stage.dead(), stage.queue.len()), (vec![("a".to_owned(), 1)], 0));
}

#[test]
fn refused_commit_without_writes_means_the_pool_is_lost() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["a"]);
    stage.settle();
    stage.end_with("a", done(), Vec::new());
    stage.turn();
    assert_eq!(stage.pool.refused("lost"), RefusedTurn::Lost);
}

// ---- batches ----

#[test]
fn batch_size_is_bounded() {
    let mut stage = Stage::new(setup(PoolRules { batch: 3, ..rules(1) }));
    stage.push_all(&["a", "b", "c", "d"]);
    assert_eq!(stage.drain(), ["a+b+c", "d"]);
}

#[test]
fn undecodable_event_fails_without_the_rest_of_its_batch() {
    let mut stage = Stage::new(setup(PoolRules { batch: 4, ..rules(1) }));
    stage.push_all(&["a", "odd", "b", "c"]);
    let damaged = (Spot::of(&event("b")), 3);
    stage.queue.insert(damaged.clone(), Err("no JSON".into()));
    assert_eq!(stage.settle(), ["odd", "fail damaged", "a+c"]);
    stage.end("odd", End::Unreadable("odd".into()));
    stage.end("fail damaged", done());
    assert_eq!(stage.dead.iter().map(|dead| dead.pos).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(stage.running.len(), 1);
}

// ---- crashes of the process ----

#[test]
fn after_a_crash_nothing_starts_before_the_mark_is_durable() {
    let mut stage = Stage::new(PoolSetup { recoveries: 1, ..setup(rules(2)) });
    stage.push_all(&["a", "b"]);
    stage.turn();
    let page = stage.page();
    stage.pool.take_page(page);
    assert_eq!(stage.turn().0, Vec::<String>::new());
    let marks: Vec<u32> = stage.change.as_ref().unwrap().queue.iter().map(|m| m.to.as_ref().unwrap().deaths).collect();
    assert_eq!(marks, [1, 1]);
    stage.commit();
    assert_eq!(stage.turn().0, ["a", "b"]);
    stage.end("a", done());
    stage.end("b", failed());
    assert_eq!((stage.queue.len(), stage.dead.len()), (0, 1));
}

/// The process crashes whenever `deadly` is handled, and finally also while `on_dead` handles it.
#[test]
fn deadly_event_is_given_up_after_too_many_crashes() {
    let mut stage = Stage::new(setup(rules(2)));
    stage.push_all(&["deadly", "a", "b"]);
    let mut lives = vec![stage.settle()];
    for _ in 0..4 {
        stage.crash();
        lives.push(stage.settle());
    }
    let expected: [&[&str]; 5] = [
        &["deadly", "a"],
        // Both were running, but neither is blamed yet.
        &["deadly", "a"],
        // Either may be the cause, so it runs alone.
        &["deadly"],
        // Two crashes are too many.
        &["fail deadly"],
        // `on_dead` does not survive it either.
        &["give up deadly"],
    ];
    assert_eq!(lives, expected);
    assert_eq!(stage.end("give up deadly", done()), ["a"], "it is blamed for a crash, so it runs alone");
    assert_eq!(stage.end("a", done()), ["b"]);
    assert_eq!(stage.dead(), [("deadly".to_owned(), 1)]);
    assert!(stage.dead[0].failure.as_str().contains("the process died 3 times"), "{:?}", stage.dead[0].failure);
}

#[test]
fn suspect_runs_alone_and_not_in_a_batch() {
    let mut stage = Stage::new(setup(PoolRules { batch: 3, ..rules(2) }));
    stage.push_all(&["a", "b"]);
    stage.push(Event { deaths: 1, ..event("suspect") });
    stage.push_all(&["c"]);
    assert_eq!(stage.settle(), ["a+b"]);
    assert_eq!(stage.end("a+b", done()), ["suspect"], "not while others run");
    assert_eq!(stage.end("suspect", done()), ["c"], "no other call while it runs");
}

#[test]
fn marked_events_that_do_not_start_lose_their_mark() {
    let mut stage = Stage::new(PoolSetup { recoveries: 1, ..setup(rules(2)) });
    stage.push_all(&["a", "b", "c"]);
    stage.settle();
    // The next mark waits for a commit in progress. Before it is made, the pool is paused.
    stage.end_with("a", done(), Vec::new());
    stage.turn();
    assert_eq!(stage.change.as_ref().unwrap().queue.len(), 1);
    stage.receive(Message::Pause);
    assert_eq!(stage.settle(), Vec::<String>::new());
    stage.end("b", done());
    let kept = stage.queue.values().next().unwrap().clone().unwrap();
    assert_eq!((stage.queue.len(), kept.deaths), (1, 0));
    stage.receive(Message::Resume);
    assert_eq!(stage.settle(), ["c"]);
}

// ---- messages and rest ----

#[test]
fn paused_pool_starts_nothing_until_it_is_resumed() {
    let mut stage = Stage::new(setup(rules(1)));
    // Pausing works before the first event too.
    stage.receive(Message::Pause);
    assert_eq!(stage.settle(), Vec::<String>::new());
    assert_eq!(stage.status(), (Some(Status::Paused), false));
    stage.push_all(&["a", "b"]);
    assert_eq!(stage.settle(), Vec::<String>::new());
    stage.crash();
    assert_eq!(stage.settle(), Vec::<String>::new(), "also after a restart");
    stage.receive(Message::Resume);
    assert_eq!(stage.settle(), ["a"]);
    assert_eq!(stage.status(), (Some(Status::Running), true));
    stage.receive(Message::Pause);
    assert_eq!(stage.end("a", done()), Vec::<String>::new(), "the running call ends, and nothing follows");
    stage.receive(Message::Resume);
    assert_eq!(stage.drain(), ["b"]);
    let orders: Vec<_> = stage.lifecycle.iter().filter(|kind| **kind != LifecycleRecordKind::JobExecuted).collect();
    let (stopped, resumed) = (&LifecycleRecordKind::JobStopped, &LifecycleRecordKind::JobResumed);
    assert_eq!(orders, [stopped, resumed, stopped, resumed]);
}

#[test]
fn duplicate_or_no_op_message_is_only_taken() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.receive(Message::Resume);
    stage.pool.receive(Inbound { pos: 1, at: at(0), message: Message::Pause });
    assert_eq!(
        [stage.pool.has_received(0), stage.pool.has_received(1), stage.pool.has_received(2)],
        [true, true, false]
    );
    stage.settle();
    let taken: Vec<u64> = stage.durable.iter().flat_map(|durable| durable.taken.clone()).collect();
    assert_eq!(
        (taken, stage.lifecycle.len(), stage.status()),
        (vec![1], 0, (Some(Status::Waiting { until: None }), false))
    );
}

#[test]
fn stopping_pool_finishes_running_calls_and_keeps_the_rest() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["a", "b"]);
    stage.settle();
    stage.pool.stop();
    assert_eq!((stage.settle(), stage.turn().1.need), (vec![], PoolNeed::Busy));
    assert_eq!(stage.end("a", done()), Vec::<String>::new());
    assert_eq!((stage.status().1, stage.turn().1.need, stage.queue.len()), (false, PoolNeed::Over, 1));
}

#[test]
fn pool_rests_on_an_empty_queue_and_wakes_on_a_push() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.push_all(&["a"]);
    assert_eq!(stage.drain(), ["a"]);
    assert_eq!((stage.status(), stage.turn().1.need), ((Some(Status::Waiting { until: None }), false), PoolNeed::Idle));
    stage.push_all(&["b"]);
    assert_eq!(stage.settle(), ["b"]);
    assert_eq!(stage.end("b", done()), Vec::<String>::new());
    let running = stage.durable.iter().filter(|durable| durable.is_rest).count();
    assert_eq!((running, stage.queue.len()), (2, 0), "it was owned and released again");
}

#[test]
fn rest_is_refused_if_there_is_an_unseen_message() {
    let mut stage = Stage::new(setup(rules(1)));
    stage.turn();
    let page = stage.page();
    stage.pool.take_page(page);
    stage.turn();
    let state = stage.change.take().unwrap().state.unwrap();
    assert_eq!((state.is_owned, state.seen), (false, Some(0)));
    stage.pool.unseen(vec![Inbound { pos: 9, at: at(0), message: Message::Pause }]);
    stage.settle();
    let state = stage.state.clone().unwrap();
    assert_eq!((state.status, state.seen, record_of(&state).is_stopped), (Status::Paused, Some(9), true));
}

#[test]
fn number_of_running_events_is_recorded_for_other_processes() {
    let mut stage = Stage::new(setup(PoolRules { batch: 2, ..rules(2) }));
    stage.push_all(&["a", "b", "c"]);
    stage.settle();
    stage.receive(Message::Pause);
    stage.settle();
    assert_eq!(record_of(stage.state.as_ref().unwrap()).events, 3);
    stage.end("a+b", done());
    stage.end("c", done());
    assert_eq!(record_of(stage.state.as_ref().unwrap()).events, 0);
}
