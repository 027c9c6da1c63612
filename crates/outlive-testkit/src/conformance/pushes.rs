//! Promises about pushes: an instance keeps events once each, in order, and is woken for them.

use outlive_core::queue::{PushTarget, PushWrite};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, NewState, Refusal, SendWrite, Turn, Write};
use outlive_core::time::Timestamp;

use super::jobs::{MAIL, MAILS, ORDER, ORDERS, Pushed, event, keyed, moved, strings, twice};
use super::world::{Checked, World, asleep, at, cancel, driven_on, ensure, name, refused, released, same, signal};

cases![
    push_creates_the_instance_once,
    events_of_a_push_are_kept_in_order,
    event_is_kept_as_pushed,
    push_names_the_message_before_it,
    inbox_key_is_accepted_once,
    queue_key_is_free_once_its_event_is_done,
    keys_are_forgotten_up_to_a_position,
    key_repeated_in_one_push_is_accepted_once,
    freed_key_belongs_to_its_next_event,
    push_of_a_known_key_makes_nothing_due,
    repeated_push_is_kept_once,
    push_repeated_after_its_events_were_taken_changes_nothing,
    push_repeated_after_its_instance_was_removed_changes_nothing,
    repeated_push_with_a_known_key_names_the_message_before_it,
    push_to_an_ended_instance_is_refused,
    push_to_an_instance_of_another_job_is_refused,
    stuck_instance_keeps_events_and_is_not_woken,
    push_makes_a_sleeping_instance_due_at_once,
    push_to_a_driven_instance_sets_no_wake,
    any_message_makes_a_pending_job_due_at_once,
    ended_job_has_no_events_left,
    reopened_job_keeps_its_record,
];

async fn push_creates_the_instance_once(w: &mut World) -> Checked {
    let first = w.pushed(&w.new_push(ORDER, &["one"])).await?;
    let second = w.pushed(&w.new_push(ORDER, &["two"])).await?;
    same(&(first.created, second.created, second.num), &(true, false, first.num))?;
    let held = w.held(ORDER).await?;
    same(&(held.num, held.workflow, held.seed, held.status), &(first.num, name(ORDERS), 7, Status::Pending))?;
    same(&w.events(first.num).await?, &strings(&["one", "two"]))
}

async fn events_of_a_push_are_kept_in_order(w: &mut World) -> Checked {
    let words = ["c", "a", "b", "e", "d"];
    let pushed = w.pushed(&w.new_push(ORDER, &words)).await?;
    ensure(pushed.positions.is_sorted_by(|one, next| one < next), || format!("{:?}", pushed.positions))?;
    let inbox = w.inbox(pushed.num).await?;
    same(&inbox.iter().map(|inbound| inbound.pos).collect::<Vec<_>>(), &pushed.positions)?;
    same(&w.events(pushed.num).await?, &strings(&words))?;
    let queued = w.pushed(&w.new_push(MAIL, &words)).await?;
    let page = w.page(queued.num, 1_000, 9).await?;
    same(&page.events.iter().map(|one| one.pos).collect::<Vec<_>>(), &queued.positions)?;
    same(&w.ready(queued.num).await?, &strings(&words))
}

async fn event_is_kept_as_pushed(w: &mut World) -> Checked {
    let full = outlive_core::event::Event {
        priority: i32::MIN,
        key: Some(name("ü \"key\"")),
        due: Some(at(5)),
        is_asking: true,
        failed: 3,
        tried_at: Some(at(2)),
        failure: Some(super::world::json("{\"why\":\"no\"}")),
        batch: 4,
        ..keyed("x", "k")
    };
    for id in [ORDER, MAIL] {
        let push = PushWrite { events: vec![full.clone()], at: at(3), ..w.new_push(id, &[]) };
        let pushed = w.pushed(&push).await?;
        if push.place == PushTarget::Inbox {
            let inbox = w.inbox(pushed.num).await?;
            same(&inbox[0].message, &outlive_core::message::Message::Event(full.clone()))?;
            same(&inbox[0].at, &at(3))?;
        } else {
            let page = w.page(pushed.num, 9, 9).await?;
            same(&page.events[0].event.as_ref(), &Ok(&full))?;
            same(&page.events[0].at, &at(3))?;
        }
    }
    Ok(())
}

async fn push_names_the_message_before_it(w: &mut World) -> Checked {
    let first = w.pushed(&w.new_push(ORDER, &["one", "two"])).await?;
    same(&first.before, &0)?;
    let second = w.pushed(&w.new_push(ORDER, &["three"])).await?;
    same(&second.before, &first.positions[1])?;
    // In a queue, what came before does not matter.
    w.pushed(&w.new_push(MAIL, &["one"])).await?;
    same(&w.pushed(&w.new_push(MAIL, &["two"])).await?.before, &0)
}

fn with_key(w: &World, id: &str, text: &str) -> PushWrite {
    PushWrite { events: vec![keyed(text, "order 7")], ..w.new_push(id, &[]) }
}

async fn inbox_key_is_accepted_once(w: &mut World) -> Checked {
    let first = w.pushed(&with_key(w, ORDER, "first")).await?;
    same(&w.pushed(&with_key(w, ORDER, "second")).await?.positions, &vec![0])?;
    w.claim(&[first.num]).await?;
    w.turned(&Turn { taken: first.positions.clone(), ..w.new_turn(first.num, 0) }).await?;
    same(&w.pushed(&with_key(w, ORDER, "third")).await?.positions, &vec![0])?;
    same(&w.events(first.num).await?, &vec![])?;
    // The key belongs to one instance.
    ensure(w.pushed(&with_key(w, "task:orders:2", "other")).await?.positions[0] > 0, || "not kept".to_owned())
}

async fn queue_key_is_free_once_its_event_is_done(w: &mut World) -> Checked {
    let first = w.pushed(&with_key(w, MAIL, "first")).await?;
    w.claim(&[first.num]).await?;
    same(&w.pushed(&with_key(w, MAIL, "second")).await?.positions, &vec![0])?;
    let before = keyed("first", "order 7");
    let later = outlive_core::event::Event { due: Some(at(5)), failed: 1, ..before.clone() };
    let queue = vec![moved(first.positions[0], &before, Some(later.clone()))];
    w.turned(&Turn { queue, ..w.new_turn(first.num, 0) }).await?;
    same(&w.pushed(&with_key(w, MAIL, "third")).await?.positions, &vec![0])?;
    let queue = vec![moved(first.positions[0], &later, None)];
    w.turned(&Turn { queue, ..w.new_turn(first.num, 1) }).await?;
    ensure(w.pushed(&with_key(w, MAIL, "fourth")).await?.positions[0] > 0, || "the key is not free".to_owned())?;
    same(&w.ready(first.num).await?, &strings(&["fourth"]))
}

async fn keys_are_forgotten_up_to_a_position(w: &mut World) -> Checked {
    let keys = ["a", "b", "c"].map(|key| keyed(key, key)).to_vec();
    let pushed = w.pushed(&PushWrite { events: keys.clone(), ..w.new_push(ORDER, &[]) }).await?;
    w.claim(&[pushed.num]).await?;
    w.turned(&Turn { keys_until: pushed.positions[1], ..w.new_turn(pushed.num, 0) }).await?;
    let again = w.pushed(&PushWrite { events: keys, ..w.new_push(ORDER, &[]) }).await?;
    same(&again.positions.iter().map(|pos| *pos > 0).collect::<Vec<_>>(), &vec![true, true, false])
}

async fn key_repeated_in_one_push_is_accepted_once(w: &mut World) -> Checked {
    let events = vec![keyed("first", "k"), event("second"), keyed("third", "k")];
    let pushed = w.pushed(&PushWrite { events, ..w.new_push(ORDER, &[]) }).await?;
    same(&pushed.positions[2], &0)?;
    same(&w.events(pushed.num).await?, &strings(&["first", "second"]))
}

async fn freed_key_belongs_to_its_next_event(w: &mut World) -> Checked {
    let first = w.pushed(&with_key(w, MAIL, "first")).await?;
    w.claim(&[first.num]).await?;
    w.turned(&Turn { keys_until: first.positions[0], ..w.new_turn(first.num, 0) }).await?;
    let second = w.pushed(&with_key(w, MAIL, "second")).await?;
    ensure(second.positions[0] > 0, || "the key is not free".to_owned())?;
    let queue = vec![moved(first.positions[0], &keyed("first", "order 7"), None)];
    w.turned(&Turn { queue, ..w.new_turn(first.num, 1) }).await?;
    same(&w.pushed(&with_key(w, MAIL, "third")).await?.positions, &vec![0])
}

async fn push_of_a_known_key_makes_nothing_due(w: &mut World) -> Checked {
    let first = w.pushed(&with_key(w, ORDER, "first")).await?;
    w.claim(&[first.num]).await?;
    w.turned(&Turn { state: Some(asleep(at(9_000))), ..w.new_turn(first.num, 0) }).await?;
    w.pushed(&with_key(w, ORDER, "second")).await?;
    same(&w.held(ORDER).await?.wake, &Some(at(9_000)))
}

async fn repeated_push_is_kept_once(w: &mut World) -> Checked {
    for id in [ORDER, MAIL] {
        let push = w.new_push(id, &["one", "two"]);
        let (first, second) = twice(w, Write::Push(push.clone())).await?;
        same(&second, &first)?;
        let before = w.snapshot().await?;
        same(&w.push(&push).await?, &first)?;
        w.restart(at(0)).await?;
        same(&w.push(&push).await?, &first)?;
        same(&w.snapshot().await?, &before)?;
    }
    same(&w.depth(MAILS).await?.queued, &2)
}

async fn push_repeated_after_its_events_were_taken_changes_nothing(w: &mut World) -> Checked {
    let push = w.new_push(ORDER, &["one"]);
    let pushed = w.pushed(&push).await?;
    w.claim(&[pushed.num]).await?;
    w.turned(&Turn { taken: pushed.positions.clone(), ..w.new_turn(pushed.num, 0) }).await?;
    same(&w.pushed(&push).await?, &pushed)?;
    same(&w.events(pushed.num).await?, &vec![])
}

async fn push_repeated_after_its_instance_was_removed_changes_nothing(w: &mut World) -> Checked {
    let push = w.new_push(ORDER, &["one"]);
    let pushed = w.driven_job(ORDER, &[]).await?;
    let late = w.pushed(&push).await?;
    w.turned(&Turn { is_removed: true, ..w.new_turn(pushed.num, 0) }).await?;
    same(&w.pushed(&push).await?, &late)?;
    same(&w.find(ORDER).await?, &None)
}

async fn repeated_push_with_a_known_key_names_the_message_before_it(w: &mut World) -> Checked {
    let first = w.pushed(&with_key(w, ORDER, "first")).await?;
    let push = PushWrite { events: vec![keyed("again", "order 7"), event("new")], ..w.new_push(ORDER, &[]) };
    let pushed = w.pushed(&push).await?;
    same(
        &pushed,
        &Pushed { positions: vec![0, pushed.positions[1]], created: false, before: first.positions[0], ..first },
    )?;
    same(&w.pushed(&push).await?, &pushed)
}

async fn push_to_an_ended_instance_is_refused(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &[]).await?;
    w.turned(&Turn { state: Some(released(Status::Cancelled)), ..w.new_turn(pushed.num, 0) }).await?;
    let before = w.snapshot().await?;
    refused(&w.push(&w.new_push(ORDER, &["late"])).await?, Refusal::Status(Status::Cancelled))?;
    same(&w.snapshot().await?, &before)
}

async fn push_to_an_instance_of_another_job_is_refused(w: &mut World) -> Checked {
    w.pending(ORDER).await?;
    let before = w.snapshot().await?;
    let conflict = Refusal::Conflict { workflow: name("checkout") };
    refused(&w.push(&w.new_push(ORDER, &["lost"])).await?, conflict)?;
    same(&w.snapshot().await?, &before)
}

async fn stuck_instance_keeps_events_and_is_not_woken(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &[]).await?;
    let state = NewState { note: Some("why".to_owned()), ..released(Status::Stuck) };
    w.turned(&Turn { state: Some(state), ..w.new_turn(pushed.num, 0) }).await?;
    w.pushed(&w.new_push(ORDER, &["later"])).await?;
    same(&w.held(ORDER).await?.wake, &None)?;
    same(&w.events(pushed.num).await?, &strings(&["later"]))
}

async fn push_makes_a_sleeping_instance_due_at_once(w: &mut World) -> Checked {
    for id in [ORDER, MAIL] {
        let pushed = w.driven_job(id, &[]).await?;
        w.turned(&Turn { state: Some(asleep(at(9_000))), ..w.new_turn(pushed.num, 0) }).await?;
        w.pushed(&w.new_push(id, &["up"])).await?;
        same(&w.held(id).await?.wake, &Some(Timestamp::AT_ONCE))?;
    }
    Ok(())
}

async fn push_to_a_driven_instance_sets_no_wake(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &[]).await?;
    w.turned(&Turn { state: Some(driven_on()), ..w.new_turn(pushed.num, 0) }).await?;
    w.pushed(&w.new_push(ORDER, &["for its driver"])).await?;
    same(&w.held(ORDER).await?.wake, &None)
}

async fn any_message_makes_a_pending_job_due_at_once(w: &mut World) -> Checked {
    let start =
        outlive_core::store::commit::StartWrite { workflow: name(ORDERS), due: at(9_000), ..w.new_start(ORDER) };
    w.start(&start).await?;
    same(&w.held(ORDER).await?.wake, &Some(at(9_000)))?;
    w.send(&w.new_send(ORDER, signal("hello"))).await?;
    same(&w.held(ORDER).await?.wake, &Some(Timestamp::AT_ONCE))
}

async fn ended_job_has_no_events_left(w: &mut World) -> Checked {
    let pushed = w.driven_job(MAIL, &["one", "two"]).await?;
    w.turned(&Turn { state: Some(released(Status::Completed)), ..w.new_turn(pushed.num, 0) }).await?;
    same(&(w.ready(pushed.num).await?, w.depth(MAILS).await?.queued), &(vec![], 0))?;
    let stuck = w.driven_job("pool:mail:other", &["one", "two"]).await?;
    w.turned(&Turn { state: Some(released(Status::Stuck)), ..w.new_turn(stuck.num, 0) }).await?;
    same(&w.depth(MAILS).await?.queued, &2)?;
    let answer = w.send(&SendWrite { num: Some(stuck.num), ..w.new_send("pool:mail:other", cancel("no")) }).await?;
    ensure(matches!(answer, Answer::Sent { .. }), || format!("{answer:?}"))?;
    same(&(w.ready(stuck.num).await?, w.depth(MAILS).await?.queued), &(vec![], 0))
}

async fn reopened_job_keeps_its_record(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &[]).await?;
    let record = Some(super::world::json("{\"count\":3}"));
    let state = NewState { outcome: record.clone(), note: Some("why".to_owned()), ..released(Status::Stuck) };
    w.turned(&Turn { state: Some(state), ..w.new_turn(pushed.num, 0) }).await?;
    same(&w.reopen(ORDER, at(5)).await?, &Answer::Done)?;
    let held = w.held(ORDER).await?;
    same(&(held.status, held.outcome, held.note), &(Status::Pending, record, None))
}
