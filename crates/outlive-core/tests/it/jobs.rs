//! Table tests of the job machines: messages and times in, handler calls out.

use std::time::Duration;

use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::Name;
use outlive_core::job::{
    ContinuousRules, DebounceRules, Done, End, HandlerKind, Job, Next, Planned, Policy, Record, Rules, TaskRules,
};
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::retry::{Jitter, Retry};
use outlive_core::schedule::{Missed, Schedule};
use outlive_core::time::Timestamp;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn policy(times: u32, has_error: bool) -> Policy {
    Policy { retry: Some(Retry::times(times).constant("10s").jitter(Jitter::none())), has_error }
}

fn task(policy: Policy, has_idle: bool) -> Rules {
    Rules::Task(TaskRules { policy, has_idle })
}

fn every_minute(policy: Policy, missed: Missed) -> Rules {
    let schedule = Schedule::every("1 minute").unwrap();
    Rules::Continuous(ContinuousRules { policy, schedule, missed, is_immediate: true })
}

fn debounce(window: u64, quiet: Option<u64>, max_events: Option<u64>) -> Rules {
    let (window, quiet) = (Some(Duration::from_secs(window)), quiet.map(Duration::from_secs));
    Rules::Debounce(DebounceRules { policy: policy(2, false), window, quiet, max_events })
}

/// A job and the calls it made, as `handler#attempt@seconds`.
struct Stage {
    job: Job,
    pos: u64,
    calls: Vec<String>,
    lifecycle: Vec<(LifecycleRecordKind, u32)>,
}

impl Stage {
    fn new(rules: Rules) -> Self {
        let state = matches!(rules, Rules::Continuous(_)).then(|| Payload::recorded("0"));
        let mut job = Job::new(rules, Name::recorded("task:t:1"), Record::default(), 7);
        job.begin(state, at(0));
        Self { job, pos: 0, calls: Vec::new(), lifecycle: Vec::new() }
    }

    fn receive(&mut self, seconds: i64, message: Message) {
        self.pos += 1;
        self.job.receive(Inbound { pos: self.pos, at: at(seconds), message });
    }

    fn event(&mut self, seconds: i64) {
        self.receive(seconds, Message::Event(Event::new(Payload::recorded("1"))));
    }

    /// Makes all calls due at `now`, each with the result of `end`. Returns what the job waits for.
    fn run(&mut self, now: i64, mut end: impl FnMut(HandlerKind, u32) -> End) -> Next {
        loop {
            let next = self.job.next(at(now));
            let Next::Call(call) = next else {
                self.keep();
                return next;
            };
            let flush = call.flush.map_or_else(String::new, |reason| format!(" by {}", reason.as_str()));
            let events = self.job.record().events;
            let of = if flush.is_empty() { String::new() } else { format!(" of {events}") };
            self.calls.push(format!("{}#{}@{now}{of}{flush}", call.handler.as_str(), call.attempt));
            self.job.ended(&call, end(call.handler, call.attempt), at(now), at(now));
            // The record is what the next process starts from, so it must survive serialization.
            self.keep();
            let kept = Record::from_payload(&self.job.record().to_payload());
            assert_eq!(kept.as_ref(), Ok(self.job.record()));
        }
    }

    fn keep(&mut self) {
        self.lifecycle.extend(self.job.take_change().lifecycle.iter().map(|record| (record.kind, record.attempt)));
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls)
    }
}

fn done() -> End {
    End::Done(Done { state: Some(Payload::recorded("1")), ..Done::default() })
}

fn wake(seconds: i64) -> End {
    End::Done(Done { plan: Some(Planned::At(at(seconds))), state: Some(Payload::recorded("1")), ..Done::default() })
}

fn failed() -> End {
    End::Failed(Failure::new(Cause::Error, "no"))
}

#[test]
fn attempts_are_bounded_by_the_policy_and_numbered() {
    for retries in 0..4 {
        for has_error in [false, true] {
            let mut stage = Stage::new(every_minute(policy(retries, has_error), Missed::CatchUpOne));
            for second in 0..59 {
                stage.run(second, |handler, _| if handler == HandlerKind::Error { done() } else { failed() });
            }
            let expected = (0..=retries).map(|n| format!("execute#{}@{}", n + 1, n * 10));
            let on_error = has_error.then(|| format!("on_error#1@{}", retries * 10));
            assert_eq!(stage.take(), expected.chain(on_error).collect::<Vec<_>>());
            let failures: Vec<u32> = stage
                .lifecycle
                .iter()
                .filter(|(kind, _)| *kind == LifecycleRecordKind::JobFailed)
                .map(|(_, attempt)| *attempt)
                .collect();
            assert_eq!(failures, (1..=retries + 1).collect::<Vec<_>>());
            assert_eq!(stage.lifecycle.last(), Some(&(LifecycleRecordKind::JobExhausted, retries + 1)));
            assert_eq!((stage.job.record().runs, stage.job.record().next), (1, Some(at(60))));
        }
    }
}

#[test]
fn retry_runs_before_the_schedule_with_any_missed_policy() {
    let table: [(Missed, &[&str]); 3] = [
        (Missed::CatchUpOne, &["execute#1@0", "execute#2@200", "execute#1@200", "execute#1@240"]),
        (Missed::Skip, &["execute#1@0", "execute#2@200", "execute#1@240"]),
        (Missed::All(2), &["execute#1@0", "execute#2@200", "execute#1@200", "execute#1@200", "execute#1@240"]),
    ];
    for (missed, expected) in table {
        let mut stage = Stage::new(every_minute(policy(3, false), missed));
        stage.run(0, |_, _| failed());
        stage.run(200, |_, _| done());
        stage.run(240, |_, _| done());
        assert_eq!(stage.take(), expected, "{missed:?}");
    }
}

#[test]
fn trigger_keeps_the_scheduled_run() {
    // When the triggered call starts and ends, with a tick or wake at 60.
    for (began, ended, is_due_after) in [(5, 6, false), (59, 61, true), (59, 60, true)] {
        for is_task in [true, false] {
            let rules = if is_task {
                task(policy(1, false), false)
            } else {
                every_minute(policy(1, false), Missed::CatchUpOne)
            };
            let mut stage = Stage::new(rules);
            if is_task {
                stage.event(0);
            }
            stage.run(0, |_, _| if is_task { wake(60) } else { done() });
            stage.receive(began, Message::Trigger);
            let Next::Call(call) = stage.job.next(at(began)) else { panic!("no call although the job was triggered") };
            stage.job.ended(&call, done(), at(began), at(ended));
            assert_eq!(stage.job.record().next, Some(at(60)), "task {is_task}: {began}..{ended}");
            let next = stage.job.next(at(ended));
            assert_eq!(matches!(next, Next::Call(_)), is_due_after, "task {is_task}: {began}..{ended}");
        }
    }
}

#[test]
fn stopped_job_is_not_retried() {
    for is_trigger in [false, true] {
        let mut stage = Stage::new(every_minute(policy(3, false), Missed::CatchUpOne));
        if is_trigger {
            stage.run(0, |_, _| done());
            stage.receive(5, Message::Trigger);
        }
        stage.run(5, |_, _| failed());
        stage.take();
        stage.receive(6, Message::Pause);
        for now in [6, 15, 1_000] {
            assert!(matches!(stage.run(now, |_, _| done()), Next::Wait(_)));
        }
        assert_eq!(stage.take(), Vec::<String>::new(), "{is_trigger}");
        stage.receive(1_000, Message::Resume);
        stage.run(1_000, |_, _| done());
        assert_eq!(stage.take(), ["execute#1@1000"], "{is_trigger}");
    }
}

#[test]
fn events_wait_for_a_retry_and_are_reported_as_held() {
    let mut stage = Stage::new(task(policy(2, false), true));
    stage.event(0);
    stage.run(0, |_, _| failed());
    stage.event(1);
    let asking = Event { is_asking: true, ..Event::new(Payload::recorded("1")) };
    stage.receive(2, Message::Event(asking));
    stage.event(3);
    assert_eq!(stage.job.held(), [(1, 1), (2, 2), (4, 4)], "an event that asks for a reply waits for it");
    stage.run(3, |_, _| done());
    assert_eq!(stage.take(), ["on_event#1@0"]);
    stage.run(10, |_, _| done());
    assert_eq!(stage.take(), ["on_event#2@10", "on_event#1@10", "on_event#1@10", "on_event#1@10", "on_idle#1@10"]);
    assert!(stage.job.held().is_empty());
}

#[test]
fn batch_is_flushed_for_one_reason_at_its_time() {
    // Window, quiet period, max events; times of the events; time of a manual flush; expected calls.
    type Case = (u64, Option<u64>, Option<u64>, &'static [i64], Option<i64>, &'static [&'static str]);
    let table: [Case; 6] = [
        (30, None, None, &[0, 10, 20], None, &["execute#1@30 of 3 by window"]),
        (30, Some(5), None, &[0, 4, 8], None, &["execute#1@13 of 3 by quiet"]),
        (30, Some(12), None, &[0, 10, 20], None, &["execute#1@30 of 3 by window"]),
        (30, None, Some(2), &[0, 10, 20], None, &["execute#1@10 of 2 by max events", "execute#1@50 of 1 by window"]),
        (30, None, None, &[0, 10], Some(11), &["execute#1@11 of 2 by manual"]),
        (30, None, Some(1), &[0, 10], None, &["execute#1@0 of 1 by max events", "execute#1@10 of 1 by max events"]),
    ];
    for (window, quiet, most, events, flush, expected) in table {
        let mut stage = Stage::new(debounce(window, quiet, most));
        for second in 0..100 {
            events.iter().filter(|event| **event == second).for_each(|event| stage.event(*event));
            if flush == Some(second) {
                stage.receive(second, Message::Trigger);
            }
            stage.run(second, |_, _| done());
        }
        let flushes: Vec<String> = stage.take().into_iter().filter(|call| call.starts_with("execute")).collect();
        assert_eq!(flushes, expected, "{window} {quiet:?} {most:?} {events:?} {flush:?}");
        let flushed = stage.lifecycle.iter().filter(|(kind, _)| *kind == LifecycleRecordKind::DebounceFlushed).count();
        assert_eq!(flushed, expected.len());
    }
}

#[test]
fn events_held_by_a_retry_are_batched_by_arrival_time() {
    let mut stage = Stage::new(debounce(30, None, None));
    stage.event(0);
    stage.run(0, |_, _| done());
    let once = |_: HandlerKind, attempt: u32| if attempt == 1 { failed() } else { done() };
    stage.run(30, once);
    for second in [31, 32, 39] {
        stage.event(second);
        assert!(matches!(stage.run(second, |_, _| done()), Next::Wait(_)));
    }
    stage.take();
    stage.event(75);
    stage.run(75, |_, _| done());
    let calls: Vec<String> = stage.take().into_iter().filter(|call| call.starts_with("execute")).collect();
    assert_eq!(
        calls,
        ["execute#2@75 of 1 by window", "execute#1@75 of 3 by window"],
        "the event at 75 is in the next batch"
    );
    stage.run(105, |_, _| done());
    assert_eq!(stage.take(), ["execute#1@105 of 1 by window"]);
}

#[test]
fn terminate_ends_the_job_even_during_a_retry() {
    let end = || End::Done(Done { terminate: Some("enough".into()), ..Done::default() });
    for rules in [task(policy(2, true), true), debounce(5, None, None)] {
        for is_retrying in [false, true] {
            let mut stage = Stage::new(rules.clone());
            stage.event(0);
            stage.event(0);
            if is_retrying {
                stage.run(0, |_, _| failed());
            }
            let Next::Call(call) = stage.job.next(at(10)) else { panic!("no call although there is an event") };
            stage.job.ended(&call, end(), at(10), at(10));
            assert_eq!(stage.job.next(at(10)), Next::Over);
            let change = stage.job.take_change();
            assert!(change.is_removed && change.is_terminated);
            assert_eq!((change.taken, change.dead), (vec![1, 2], Vec::new()));
        }
    }
}

/// Regression: a due wake waited until no event was left, however many came after its time.
#[test]
fn due_wake_runs_before_events_accepted_after_it_was_due() {
    let mut stage = Stage::new(task(policy(0, false), false));
    stage.event(0);
    stage.run(0, |_, _| wake(60));
    stage.take();
    // Two events came before the wake was due and were delayed, two came after.
    for seconds in [59, 60, 61, 62] {
        stage.event(seconds);
    }
    stage.run(70, |_, _| done());
    assert_eq!(stage.take(), ["on_event#1@70", "on_event#1@70", "execute#1@70", "on_event#1@70", "on_event#1@70"]);
    // Triggers behave the same way.
    stage.event(71);
    stage.receive(72, Message::Trigger);
    stage.event(73);
    stage.run(74, |_, _| done());
    assert_eq!(stage.take(), ["on_event#1@74", "execute#1@74", "on_event#1@74"]);
}

/// Regression: each event scanned all events behind it, which would take forever with this many.
#[test]
fn long_inbox_costs_each_event_the_same() {
    let mut stage = Stage::new(task(policy(0, false), false));
    for _ in 0..300_000 {
        stage.event(0);
    }
    for handled in 1..=300_000 {
        let Next::Call(call) = stage.job.next(at(1)) else { panic!("no call although events are left") };
        assert!(!stage.job.inbox().has_end() && stage.job.held().is_empty());
        let before = stage.job.checkpoint();
        stage.job.ended(&call, done(), at(1), at(1));
        if handled % 2 == 0 {
            stage.job.roll_back(before, &call);
            stage.job.ended(&call, done(), at(1), at(1));
        }
        assert_eq!(stage.job.take_change().taken.len(), 1);
    }
    assert_eq!(stage.job.record().events, 300_000);
}
