//! Table tests of the run machine: breakers, retry budgets and heartbeats.

use std::task::Waker;
use std::time::Duration;

use outlive_core::failure::{Cause, Failure};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::payload::Payload;
use outlive_core::retry::{Breaker, BreakerChange, Jitter, Retry, RetryBudget};
use outlive_core::status::Status;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{
    HeartbeatSource, Machine, Mode, OpKind, Outcome, Polled, Slot, Spec, StepCare, StepSpec, base,
};
use proptest::prelude::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn live(journal: &[Entry]) -> Machine {
    Machine::new(Mode::Live, 7, at(0), journal).unwrap()
}

fn retry(times: u32) -> Option<std::sync::Arc<Retry>> {
    Some(Retry::times(times).constant("1 second").jitter(Jitter::none()).into())
}

fn with_breaker(breaker: &Breaker) -> StepSpec {
    let care = StepCare { breaker: Some(breaker.share()), ..StepCare::default() };
    StepSpec { retry: retry(9), care: Some(care.into()), ..StepSpec::default() }
}

fn with_heartbeat(timeout: Option<u64>) -> StepSpec {
    let care = StepCare { heartbeat_timeout: timeout.map(Duration::from_secs), ..StepCare::default() };
    StepSpec { retry: retry(9), care: Some(care.into()), ..StepSpec::default() }
}

/// Calls a step and polls it once.
fn begin(machine: &mut Machine, name: &str, spec: StepSpec, now: Timestamp) -> Slot {
    let slot = machine.open(OpKind::Step, base("", OpKind::Step, name, None), "src/shop.rs:12".into());
    machine.begin(slot, Spec::Step(spec));
    machine.poll(slot, now);
    slot
}

/// Returns the attempt whose body runs, if one does.
fn working(machine: &mut Machine, slot: Slot, now: Timestamp) -> Option<u32> {
    match machine.poll(slot, now) {
        Polled::Work(attempt) => Some(attempt.number),
        _ => None,
    }
}

fn fail(machine: &mut Machine, slot: Slot, now: Timestamp) {
    machine.finish(slot, Err(Failure::new(Cause::Error, "busy")), now);
}

fn entries(machine: &mut Machine) -> Vec<Entry> {
    let outgoing = machine.take_outgoing().unwrap_or_default();
    outgoing.entries.last().into_iter().for_each(|last| machine.durable(last.seq));
    outgoing.entries
}

fn kinds(machine: &mut Machine) -> Vec<EntryKind> {
    entries(machine).iter().map(|entry| entry.kind).collect()
}

fn source(machine: &Machine, slot: Slot, attempt: u32) -> HeartbeatSource {
    HeartbeatSource { slot, op: machine.operations().key(slot).unwrap(), attempt }
}

fn beat(machine: &mut Machine, slot: Slot, attempt: u32, value: u32, now: Timestamp) -> bool {
    let source = source(machine, slot, attempt);
    machine.attempts().heartbeat(&source, Payload::encode(&value).unwrap(), now)
}

#[test]
fn open_breaker_holds_an_attempt_back_without_recording_anything() {
    let breaker = Breaker::new(1, Duration::from_secs(30)).named("stripe");
    let mut one = live(&[]);
    let slot = begin(&mut one, "a", with_breaker(&breaker), at(0));
    fail(&mut one, slot, at(0));
    assert_eq!(one.attempts().take_notices()[0].change, BreakerChange::Opened { until: at(30) });

    let mut two = live(&[]);
    let held = begin(&mut two, "b", with_breaker(&breaker), at(1));
    assert_eq!(working(&mut two, held, at(1)), None);
    assert!(two.take_outgoing().is_none());
    assert_eq!(two.pause().status(), Status::Waiting { until: Some(at(30)) });
    let (awaited, _) = two.pause().awaited(9);
    assert_eq!(awaited[0].held.as_ref().unwrap().reason, "breaker stripe is open");

    two.act(at(29));
    assert_eq!(working(&mut two, held, at(29)), None);
    two.act(at(30));
    assert_eq!(working(&mut two, held, at(30)), Some(1), "the reset time has passed");
    assert_eq!(two.attempts().take_notices()[0].change, BreakerChange::HalfOpened);
    one.act(at(30));
    assert_eq!(working(&mut one, slot, at(30)), None, "the other attempt is the probe");

    two.finish(held, Ok(Payload::recorded("1")), at(31));
    assert_eq!(two.attempts().take_notices()[0].change, BreakerChange::Closed);
    one.attempts().ask_again(slot);
    one.act(at(31));
    assert_eq!(working(&mut one, slot, at(31)), Some(2));
}

#[test]
fn permanent_error_is_an_answer_and_a_timeout_is_a_failure() {
    let breaker = Breaker::new(1, Duration::from_secs(30));
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", with_breaker(&breaker), at(0));
    machine.finish(slot, Err(Failure::new(Cause::Error, "declined").permanent()), at(0));
    assert_eq!(machine.attempts().take_notices(), []);
    let spec = StepSpec { attempt_timeout: Some(Duration::from_secs(5)), ..with_breaker(&breaker) };
    begin(&mut machine, "b", spec, at(0));
    machine.act(at(5));
    assert_eq!(machine.attempts().take_notices()[0].change, BreakerChange::Opened { until: at(35) });
}

#[test]
fn held_attempt_ends_with_its_total_timeout() {
    let breaker = Breaker::new(1, Duration::from_secs(30));
    let mut machine = live(&[]);
    let spec = StepSpec { total_timeout: Some(Duration::from_secs(10)), ..with_breaker(&breaker) };
    let slot = begin(&mut machine, "a", spec, at(0));
    fail(&mut machine, slot, at(0));
    machine.act(at(1));
    assert_eq!(working(&mut machine, slot, at(1)), None);
    machine.act(at(10));
    entries(&mut machine);
    assert_eq!(machine.deliver(), Some(slot));
    assert!(matches!(machine.poll(slot, at(10)), Polled::Ready(Outcome::Failed(failed)) if failed.attempts == 1));
}

#[test]
fn dropped_probe_lets_the_next_attempt_through() {
    let breaker = Breaker::new(1, Duration::from_secs(30));
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", with_breaker(&breaker), at(0));
    fail(&mut machine, slot, at(0));
    machine.act(at(30));
    assert_eq!(working(&mut machine, slot, at(30)), Some(2));
    drop(machine);
    let mut other = live(&[]);
    let slot = begin(&mut other, "b", with_breaker(&breaker), at(31));
    assert_eq!(working(&mut other, slot, at(31)), Some(1));
}

#[test]
fn replay_never_asks_the_breaker() {
    let breaker = Breaker::new(1, Duration::from_secs(30));
    let mut first = live(&[]);
    let slot = begin(&mut first, "a", with_breaker(&breaker), at(0));
    first.finish(slot, Ok(Payload::recorded("1")), at(0));
    let journal = entries(&mut first);
    assert_eq!(first.deliver(), Some(slot));
    assert!(matches!(first.poll(slot, at(0)), Polled::Ready(Outcome::Value(_))));
    let failing = begin(&mut first, "b", with_breaker(&breaker), at(0));
    fail(&mut first, failing, at(0));

    let mut replay = live(&journal);
    let slot = begin(&mut replay, "a", with_breaker(&breaker), at(1));
    assert_eq!(replay.deliver(), Some(slot));
    assert!(matches!(replay.poll(slot, at(1)), Polled::Ready(Outcome::Value(_))));
    let mut shadow = Machine::new(Mode::Shadow, 7, at(0), &journal).unwrap();
    let slot = begin(&mut shadow, "b", with_breaker(&breaker), at(99));
    assert!(!shadow.act(at(99)));
    assert_eq!(working(&mut shadow, slot, at(99)), None);
    assert_eq!(working(&mut first, failing, at(99)), None);
    first.act(at(99));
    assert_eq!(working(&mut first, failing, at(99)), Some(2), "nothing else has become the probe");
}

#[test]
fn used_up_budget_delays_a_retry_and_not_a_first_attempt() {
    let budget = RetryBudget::new(0.1).reserve(1).named("search");
    let spec = || StepSpec {
        retry: retry(9),
        care: Some(
            StepCare { budget: Some(budget.share()), bell: Waker::noop().clone(), ..StepCare::default() }.into(),
        ),
        ..StepSpec::default()
    };
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", spec(), at(0));
    fail(&mut machine, slot, at(0));
    machine.act(at(1));
    assert_eq!(working(&mut machine, slot, at(1)), Some(2), "this is the reserve");
    fail(&mut machine, slot, at(1));
    machine.act(at(2));
    assert_eq!(working(&mut machine, slot, at(2)), None);
    assert_eq!(machine.pause().awaited(9).0[0].held.as_ref().unwrap().reason, "retry budget search is used up");
    let other = begin(&mut machine, "b", spec(), at(2));
    assert_eq!(working(&mut machine, other, at(2)), Some(1));
    machine.act(at(10));
    assert_eq!(working(&mut machine, slot, at(10)), None);
    machine.act(at(11));
    assert_eq!(working(&mut machine, slot, at(11)), Some(3), "its place in the reserve");
}

#[test]
fn heartbeats_are_recorded_once_a_second_and_before_a_failure() {
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", with_heartbeat(None), at(0));
    assert!((1..=3).all(|value| beat(&mut machine, slot, 1, value, at(0))));
    let recorded = entries(&mut machine);
    assert_eq!((recorded.len(), recorded[0].payload.as_ref().unwrap().as_str()), (1, "1"));
    assert_eq!(machine.pause().due(), Some(at(1)));
    machine.act(at(1));
    assert_eq!(entries(&mut machine)[0].payload.as_ref().unwrap().as_str(), "3");
    assert_eq!(machine.pause().due(), None, "there is nothing left to record");
    beat(&mut machine, slot, 1, 4, at(1));
    fail(&mut machine, slot, at(1));
    assert_eq!(kinds(&mut machine), [EntryKind::Heartbeat, EntryKind::AttemptFailed]);
    assert_eq!(machine.attempts().progress(slot).unwrap().as_str(), "4");
}

#[test]
fn heartbeat_survives_a_crash_and_a_pending_one_is_dropped_with_success() {
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", with_heartbeat(None), at(0));
    beat(&mut machine, slot, 1, 7, at(0));
    let journal = entries(&mut machine);
    let mut again = live(&journal);
    let slot = begin(&mut again, "a", with_heartbeat(None), at(5));
    assert_eq!(again.attempts().progress(slot).unwrap().as_str(), "7");
    again.act(at(5));
    assert_eq!(working(&mut again, slot, at(5)), Some(1), "the attempt starts again");
    beat(&mut again, slot, 1, 8, at(5));
    beat(&mut again, slot, 1, 9, at(5));
    again.finish(slot, Ok(Payload::recorded("1")), at(5));
    assert_eq!(kinds(&mut again), [EntryKind::Heartbeat, EntryKind::StepDone]);
}

#[test]
fn heartbeat_of_an_attempt_that_is_over_is_refused() {
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", with_heartbeat(None), at(0));
    let first = source(&machine, slot, 1);
    fail(&mut machine, slot, at(0));
    machine.act(at(1));
    assert_eq!(working(&mut machine, slot, at(1)), Some(2));
    assert!(!machine.attempts().heartbeat(&first, Payload::recorded("1"), at(1)));
    machine.close(slot);
    let reused = begin(&mut machine, "b", with_heartbeat(None), at(1));
    assert_eq!(reused, slot);
    assert!(!machine.attempts().heartbeat(&first, Payload::recorded("1"), at(1)));
    assert_eq!(kinds(&mut machine), [EntryKind::AttemptFailed]);
}

#[test]
fn silent_attempt_fails_and_is_retried() {
    let mut machine = live(&[]);
    let slot = begin(&mut machine, "a", with_heartbeat(Some(10)), at(0));
    machine.act(at(9));
    assert_eq!(working(&mut machine, slot, at(9)), Some(1));
    beat(&mut machine, slot, 1, 1, at(9));
    machine.act(at(18));
    assert_eq!(working(&mut machine, slot, at(18)), Some(1), "it was heard of nine seconds ago");
    machine.act(at(19));
    assert_eq!(working(&mut machine, slot, at(19)), None);
    let failed = entries(&mut machine).pop().unwrap();
    assert_eq!(failed.failure().unwrap().to_string(), "sent no heartbeat for 10s");
    machine.act(at(20));
    assert_eq!(working(&mut machine, slot, at(20)), Some(2));
    machine.act(at(29));
    assert_eq!(working(&mut machine, slot, at(29)), Some(2), "the silence of the first attempt does not count");
}

#[test]
fn timeout_of_an_attempt_counts_despite_heartbeats() {
    let mut machine = live(&[]);
    let spec = StepSpec { attempt_timeout: Some(Duration::from_secs(3)), ..with_heartbeat(Some(2)) };
    let slot = begin(&mut machine, "a", spec, at(0));
    for second in 1..3 {
        machine.act(at(second));
        assert!(beat(&mut machine, slot, 1, 1, at(second)));
    }
    machine.act(at(3));
    assert_eq!(entries(&mut machine).pop().unwrap().failure().unwrap().to_string(), "timed out after 3s");
}

proptest! {
    /// However heartbeats come: at most one a second is recorded, the last one at the latest a second after it came, and
    /// an attempt is silent exactly when its limit has passed.
    #[test]
    fn heartbeats_keep_their_promises(waits in prop::collection::vec(0_i64..2_500, 1..60), limit in 1_u64..3) {
        let (mut machine, mut now) = (live(&[]), at(0));
        let slot = begin(&mut machine, "a", with_heartbeat(Some(limit)), now);
        let (mut recorded, mut last) = (Vec::new(), now);
        for (value, wait) in (0_u32..).zip(waits) {
            let next = Timestamp::from_millis(now.as_millis() + wait);
            // The driver acts whenever something is due.
            while let Some(due) = machine.pause().due().filter(|due| *due <= next) {
                machine.act(due);
                recorded.extend(entries(&mut machine));
                if working(&mut machine, slot, due).is_none() {
                    prop_assert_eq!(due, last.after(Duration::from_secs(limit)));
                    prop_assert_eq!(recorded.pop().unwrap().kind, EntryKind::AttemptFailed);
                    let sent = value.checked_sub(1).map(|last| last.to_string());
                    let kept = recorded.last().and_then(|entry| entry.payload.as_ref()).map(|value| value.to_string());
                    prop_assert_eq!(kept, sent, "the last one is durable");
                    return Ok(());
                }
            }
            now = next;
            prop_assert!(beat(&mut machine, slot, 1, value, now));
            last = now;
            recorded.extend(entries(&mut machine));
            let close = recorded.windows(2).any(|two| two[1].at.since(two[0].at) < Duration::from_secs(1));
            prop_assert!(!close);
        }
    }
}
