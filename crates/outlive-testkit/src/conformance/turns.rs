//! Promises about turns of jobs: atomic, fenced, and applied once.

use outlive_core::event::Event;
use outlive_core::queue::{Depth, Moved, PushWrite, Spot};
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Epoch, NewState, OnConflict, Refusal, StartWrite, Turn, Write};
use outlive_core::time::Timestamp;

use super::jobs::{MAIL, MAILS, ORDER, ORDERS, event, keyed, letter, moved, strings, twice, words};
use super::world::{Checked, World, asleep, at, driven_on, ensure, in_words, json, name, released, same, signal};

cases![
    turn_applies_all_its_changes,
    turn_under_a_lost_lease_is_fenced,
    turn_with_the_wrong_previous_number_is_fenced,
    turn_of_an_unknown_instance_is_fenced,
    turn_of_an_ended_or_stuck_instance_is_fenced,
    repeated_turn_is_applied_once,
    repeated_removing_turn_is_applied_once,
    removing_turn_that_pushes_to_its_own_id_creates_a_fresh_instance,
    repeated_turn_without_lifecycle_events_is_applied_once,
    turn_state_is_refused_while_a_message_is_unseen,
    writes_of_a_turn_are_committed_with_it,
    refused_send_refuses_the_whole_turn,
    refused_turn_uses_no_numbers,
    message_sent_to_itself_wakes_the_instance,
    message_sent_to_itself_must_be_seen_by_the_next_turn,
    queued_events_wake_their_instance,
    turn_that_replaces_its_own_instance_is_fenced,
    removed_instance_leaves_only_its_lifecycle_events,
    id_can_be_reused_after_a_removal,
    turn_survives_a_crash,
    lifecycle_event_counts_as_progress,
    replies_to_events_are_kept,
];

async fn turn_applies_all_its_changes(w: &mut World) -> Checked {
    let pushed = w.driven_job(MAIL, &["one", "two", "three"]).await?;
    let pos = w.signalled(MAIL, "hello").await?;
    let p = &pushed.positions;
    let turn = Turn {
        taken: vec![pos],
        queue: vec![moved(p[0], &event("one"), None), moved(p[1], &event("two"), None)],
        dead: vec![letter(MAIL, p[1], &event("two"))],
        replies: vec![(p[0], json("\"yes\""))],
        state: Some(NewState { outcome: Some(json("{\"n\":1}")), ..asleep(at(5_000)) }),
        ..w.new_turn(pushed.num, 0)
    };
    same(&w.turned(&turn).await?.len(), &0)?;
    same(&w.ready(pushed.num).await?, &strings(&["three"]))?;
    same(&w.inbox(pushed.num).await?.len(), &0)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 1 })?;
    same(&in_words(w.store().reply(p[0]).await)?, &Some(json("\"yes\"")))?;
    let held = w.held(MAIL).await?;
    let record = Some(json("{\"n\":1}"));
    // An event is left in its queue.
    same(&(held.outcome, held.wake, held.owner, held.reported), &(record, Some(Timestamp::AT_ONCE), Epoch(0), 1))?;
    same(&words(&w.events_of(pushed.num).await?), &strings(&["job executed"]))
}

async fn turn_under_a_lost_lease_is_fenced(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &["one"]).await?;
    let lost = Turn { taken: pushed.positions.clone(), ..w.new_turn(pushed.num, 0) };
    w.lease(at(0)).await?;
    let before = w.snapshot().await?;
    same(&w.turn(&lost).await?, &Answer::Fenced)?;
    same(&w.turn(&Turn { epoch: Epoch(0), ..lost.clone() }).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)?;
    w.turned(&Turn { epoch: w.epoch, ..lost }).await.map(drop)
}

async fn turn_with_the_wrong_previous_number_is_fenced(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &["one"]).await?;
    for before in 0..3 {
        w.turned(&w.new_turn(pushed.num, before)).await?;
    }
    let there = w.snapshot().await?;
    for before in [0, 1, 4, 40] {
        let turn = Turn { taken: pushed.positions.clone(), ..w.new_turn(pushed.num, before) };
        same(&w.turn(&turn).await?, &Answer::Fenced)?;
    }
    same(&w.snapshot().await?, &there)
}

async fn turn_of_an_unknown_instance_is_fenced(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let nobody = outlive_core::id::InstanceNum(num.0 + 1);
    same(&w.turn(&w.new_turn(nobody, 0)).await?, &Answer::Fenced)?;
    same(&w.turn(&Turn { is_removed: true, ..w.new_turn(nobody, 0) }).await?, &Answer::Fenced)
}

async fn turn_of_an_ended_or_stuck_instance_is_fenced(w: &mut World) -> Checked {
    for (id, status) in [("task:orders:1", Status::Stuck), ("task:orders:2", Status::Completed)] {
        let pushed = w.driven_job(id, &[]).await?;
        w.turned(&Turn { state: Some(released(status)), ..w.new_turn(pushed.num, 0) }).await?;
        let before = w.snapshot().await?;
        same(&w.turn(&w.new_turn(pushed.num, 1)).await?, &Answer::Fenced)?;
        same(&w.turn(&Turn { is_removed: true, ..w.new_turn(pushed.num, 1) }).await?, &Answer::Fenced)?;
        same(&w.snapshot().await?, &before)?;
    }
    Ok(())
}

/// A turn that does some of everything.
async fn busy(w: &World) -> Checked<Turn> {
    w.pending("run").await?;
    let pushed = w.driven_job(MAIL, &["one", "two"]).await?;
    let p = pushed.positions;
    let event = event("one");
    Ok(Turn {
        queue: vec![moved(p[0], &event, None)],
        dead: vec![letter(MAIL, p[0], &event)],
        replies: vec![(p[0], json("1"))],
        writes: vec![
            Write::Push(w.new_push(ORDER, &["for you"])),
            Write::Message(w.new_send("run", signal("hello"))),
            Write::Start(w.new_start("child")),
        ],
        ..w.new_turn(pushed.num, 0)
    })
}

async fn repeated_turn_is_applied_once(w: &mut World) -> Checked {
    let turn = Turn { state: Some(asleep(at(5_000))), ..busy(w).await? };
    let first = w.turn(&turn).await?;
    let before = w.snapshot().await?;
    let (second, third) = twice(w, Write::Turn(Box::new(turn))).await?;
    same(&second, &first)?;
    same(&third, &first)?;
    same(&w.snapshot().await?, &before)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 1 })
}

async fn repeated_removing_turn_is_applied_once(w: &mut World) -> Checked {
    let turn = Turn { is_removed: true, ..busy(w).await? };
    let first = w.turn(&turn).await?;
    let before = w.snapshot().await?;
    same(&w.turn(&turn).await?, &first)?;
    w.pushed(&w.new_push(MAIL, &["late"])).await?;
    same(&w.turn(&turn).await?, &first)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 1 })?;
    let late = w.held(MAIL).await?.num;
    w.claim(&[late]).await?;
    w.turned(&Turn { is_removed: true, ..Turn::new(late, w.epoch, 0) }).await?;
    same(&w.snapshot().await?, &before)
}

async fn removing_turn_that_pushes_to_its_own_id_creates_a_fresh_instance(w: &mut World) -> Checked {
    let before = w.pushed(&w.new_push(MAIL, &["first"])).await?;
    w.claim(&[before.num]).await?;
    let push = w.new_push(MAIL, &["again"]);
    let turn = Turn { writes: vec![Write::Push(push)], is_removed: true, ..w.new_turn(before.num, 0) };
    let first = w.turn(&turn).await?;
    let fresh = w.held(MAIL).await?;
    same(&(fresh.num != before.num), &true)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 0 })?;
    // The reply may have been lost.
    same(&w.turn(&turn).await?, &first)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 0 })
}

async fn repeated_turn_without_lifecycle_events_is_applied_once(w: &mut World) -> Checked {
    let turn = Turn { lifecycle: vec![], ..busy(w).await? };
    let first = w.turn(&turn).await?;
    same(&w.turn(&turn).await?, &first)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 1 })?;
    same(&w.dead(MAILS).await?.len(), &1)
}

async fn turn_state_is_refused_while_a_message_is_unseen(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &["seen", "unseen", "unseen too"]).await?;
    let seen = pushed.positions[0];
    let before = w.snapshot().await?;
    let state = Some(NewState { seen: Some(seen), ..asleep(at(9_000)) });
    let writes = vec![Write::Push(w.new_push(MAIL, &["not yet"]))];
    let turn = Turn { taken: vec![seen], state, writes, ..w.new_turn(pushed.num, 0) };
    same(&w.turn(&turn).await?, &Answer::Unseen(in_words(w.store().inbox(pushed.num, seen, usize::MAX).await)?))?;
    same(&w.snapshot().await?, &before)?;
    w.turned(&Turn { taken: pushed.positions, ..turn }).await?;
    same(&w.held(ORDER).await?.wake, &Some(at(9_000)))
}

async fn writes_of_a_turn_are_committed_with_it(w: &mut World) -> Checked {
    let turn = busy(w).await?;
    let answers = w.turned(&turn).await?;
    let [Answer::Pushed { num, created: true, .. }, Answer::Sent { is_new: true, .. }, started] = &answers[..] else {
        return Err(format!("{answers:?}"));
    };
    same(&w.events(*num).await?, &strings(&["for you"]))?;
    let child = w.held("child").await?;
    same(started, &Answer::Started { num: child.num, created: true, is_driven: false })?;
    same(&w.signals(w.held("run").await?.num).await?, &strings(&["hello"]))?;
    same(&w.held(ORDER).await?.wake, &Some(Timestamp::AT_ONCE))
}

/// Turns that are refused because of the last thing they send, each with the reason.
async fn to_be_refused(w: &World) -> Checked<Vec<(Turn, Refusal)>> {
    w.with_status("over", Status::Completed).await?;
    let turn = Turn { state: Some(asleep(at(5_000))), ..busy(w).await? };
    let taken = StartWrite { on_conflict: OnConflict::Reject, ..w.new_start("run") };
    let resolve = outlive_core::queue::ResolveDeadLetters {
        job: name(MAILS),
        which: outlive_core::queue::WhichDeadLetters::One(99),
        is_retry: true,
        at: at(1),
    };
    let writes = [
        (Write::Message(w.new_send("nobody", signal("x"))), Refusal::NotFound),
        (Write::Message(w.new_send("over", signal("x"))), Refusal::Status(Status::Completed)),
        (Write::Start(taken), Refusal::Taken),
        (Write::ResolveDeadLetters(resolve), Refusal::NotFound),
    ];
    let with = |(write, why)| (Turn { writes: [turn.writes.clone(), vec![write]].concat(), ..turn.clone() }, why);
    Ok(writes.map(with).to_vec())
}

async fn refused_send_refuses_the_whole_turn(w: &mut World) -> Checked {
    let turns = to_be_refused(w).await?;
    let before = w.snapshot().await?;
    for (turn, why) in turns {
        let index = turn.writes.len() - 1;
        same(&w.turn(&turn).await?, &Answer::WriteRefused { index, refusal: why.clone() })?;
        same(&w.snapshot().await?, &before)?;
        let removing = Turn { is_removed: true, ..turn };
        same(&w.turn(&removing).await?, &Answer::WriteRefused { index, refusal: why })?;
        same(&w.snapshot().await?, &before)?;
    }
    let counts = in_words(w.store().count(&outlive_core::store::query::Filter::all()).await)?;
    same(&(counts.of(StatusKind::Pending), counts.total()), &(1, 3))
}

async fn refused_turn_uses_no_numbers(w: &mut World) -> Checked {
    let turns = to_be_refused(w).await?;
    let last = w.feed().await?.last().map(|item| item.pos);
    let mut refused: Vec<Write> = turns.into_iter().map(|(turn, _)| Write::Turn(Box::new(turn))).collect();
    // Later writes of the same batch behave as if the turn had never been there.
    let num = w.held(MAIL).await?.num;
    refused.push(Write::Turn(Box::new(w.new_turn(num, 0))));
    refused.push(Write::Push(w.new_push(ORDER, &["first"])));
    let answers = w.batch(refused).await?;
    same(&answers[4], &Answer::DoneWith(vec![]))?;
    ensure(matches!(answers[5], Answer::Pushed { created: true, before: 0, .. }), || format!("{:?}", answers[5]))?;
    w.restart(at(0)).await?;
    let since: Vec<_> = w.feed().await?.into_iter().filter(|item| Some(item.pos) > last).collect();
    same(&(since.len(), since[0].num, since[0].number), &(1, num, 1))?;
    same(&w.depth(MAILS).await?, &Depth { queued: 2, delayed: 0, dead: 0 })?;
    same(&w.events(w.held(ORDER).await?.num).await?, &strings(&["first"]))
}

async fn message_sent_to_itself_wakes_the_instance(w: &mut World) -> Checked {
    for id in [ORDER, MAIL] {
        let pushed = w.driven_job(id, &[]).await?;
        let writes = vec![Write::Push(w.new_push(id, &["for myself"]))];
        let state = Some(NewState { seen: Some(0), ..asleep(at(9_000)) });
        w.turned(&Turn { writes: writes.clone(), state, ..w.new_turn(pushed.num, 0) }).await?;
        same(&w.held(id).await?.wake, &Some(Timestamp::AT_ONCE))?;
        // An owner that keeps the instance learns of it from the result.
        w.claim(&[pushed.num]).await?;
        let writes = vec![Write::Message(w.new_send(id, signal("for myself")))];
        w.turned(&Turn { writes, state: Some(driven_on()), ..w.new_turn(pushed.num, 1) }).await?;
        same(&w.held(id).await?.wake, &None)?;
    }
    Ok(())
}

async fn message_sent_to_itself_must_be_seen_by_the_next_turn(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &[]).await?;
    let writes = vec![Write::Push(w.new_push(ORDER, &["for myself"]))];
    w.turned(&Turn { writes, ..w.new_turn(pushed.num, 0) }).await?;
    let state = Some(NewState { seen: Some(0), ..asleep(at(9_000)) });
    let answer = w.turn(&Turn { state, ..w.new_turn(pushed.num, 1) }).await?;
    same(&answer, &Answer::Unseen(w.inbox(pushed.num).await?))
}

async fn queued_events_wake_their_instance(w: &mut World) -> Checked {
    let pushed = w.driven_job(MAIL, &["one", "two"]).await?;
    let p = &pushed.positions;
    let idle = Turn { state: Some(asleep(at(9_000))), ..w.new_turn(pushed.num, 0) };
    w.turned(&idle).await?;
    same(&w.held(MAIL).await?.wake, &Some(Timestamp::AT_ONCE))?;
    // An instance that keeps its owner is not due, and neither is a manually paused one.
    w.claim(&[pushed.num]).await?;
    w.turned(&Turn { before: 1, state: Some(driven_on()), ..idle.clone() }).await?;
    same(&w.held(MAIL).await?.wake, &None)?;
    let by_hand = released(Status::Paused);
    w.turned(&Turn { before: 2, state: Some(by_hand), ..idle.clone() }).await?;
    same(&w.held(MAIL).await?.wake, &None)?;
    // A delayed event sets the wake, if it is due before the wake of the turn.
    w.claim(&[pushed.num]).await?;
    let later = |due: i64| Some(Event { due: Some(at(due)), ..event("one") });
    let moved = |pos: u64, to| Moved { pos, from: Spot::of(&event("one")), key: None, to };
    let queue = vec![moved(p[0], later(7_000)), moved(p[1], later(8_000))];
    w.turned(&Turn { before: 3, queue, ..idle.clone() }).await?;
    same(&w.held(MAIL).await?.wake, &Some(at(7_000)))?;
    w.claim(&[pushed.num]).await?;
    w.turned(&Turn { before: 4, state: Some(released(Status::Stuck)), ..idle }).await?;
    same(&w.held(MAIL).await?.wake, &None)
}

async fn turn_that_replaces_its_own_instance_is_fenced(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &["one"]).await?;
    let before = w.snapshot().await?;
    let start = StartWrite { on_conflict: OnConflict::Replace, workflow: name(ORDERS), ..w.new_start(ORDER) };
    let turn = Turn {
        writes: vec![Write::Start(start)],
        state: Some(asleep(at(9_000))),
        dead: vec![letter(ORDER, pushed.positions[0], &event("one"))],
        ..w.new_turn(pushed.num, 0)
    };
    same(&w.turn(&turn).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

async fn removed_instance_leaves_only_its_lifecycle_events(w: &mut World) -> Checked {
    for id in [ORDER, MAIL] {
        let push = PushWrite { events: vec![keyed("one", "key"), event("two")], ..w.new_push(id, &[]) };
        let num = w.pushed(&push).await?.num;
        w.signalled(id, "hello").await?;
        w.claim(&[num]).await?;
        w.turned(&w.new_turn(num, 0)).await?;
        w.turned(&Turn { is_removed: true, state: Some(asleep(at(5))), ..w.new_turn(num, 1) }).await?;
        same(&(w.find(id).await?, w.wakes().await?), &(None, vec![]))?;
        same(&(w.inbox(num).await?.len(), w.ready(num).await?.len()), &(0, 0))?;
        let lines = w.events_of(num).await?;
        same(&lines.iter().map(|item| (item.id.as_str(), item.number)).collect::<Vec<_>>(), &vec![(id, 1), (id, 2)])?;
        let job = lines[0].workflow.as_str();
        ensure(id.starts_with(job), || format!("the lifecycle event names job {job:?}"))?;
        same(&w.depth(job).await?, &Depth::default())?;
    }
    same(&in_words(w.store().count(&outlive_core::store::query::Filter::all()).await)?.total(), &0)
}

async fn id_can_be_reused_after_a_removal(w: &mut World) -> Checked {
    let push = |token| PushWrite { events: vec![keyed("one", "key")], token, ..w.new_push(ORDER, &[]) };
    let first = w.pushed(&push(101)).await?;
    w.claim(&[first.num]).await?;
    w.turned(&Turn { is_removed: true, ..w.new_turn(first.num, 0) }).await?;
    let second = w.pushed(&push(102)).await?;
    ensure(second.created && second.num > first.num && second.positions[0] > 0, || format!("{second:?}"))?;
    w.claim(&[second.num]).await?;
    w.turned(&w.new_turn(second.num, 0)).await?;
    let numbers: Vec<_> = w.feed().await?.iter().map(|item| (item.num, item.number)).collect();
    same(&numbers, &vec![(first.num, 1), (second.num, 1)])
}

async fn turn_survives_a_crash(w: &mut World) -> Checked {
    let turn = Turn { state: Some(asleep(at(5_000))), ..busy(w).await? };
    w.turned(&turn).await?;
    let before = w.snapshot().await?;
    w.restart(at(0)).await?;
    same(&w.snapshot().await?, &before)?;
    let last = w.feed().await?.last().map_or(0, |item| item.pos);
    w.claim(&[turn.num]).await?;
    w.turned(&w.new_turn(turn.num, 1)).await?;
    let lines = w.events_of(turn.num).await?;
    ensure(lines[1].pos > last && lines[1].number == 2, || format!("{lines:?}"))
}

async fn lifecycle_event_counts_as_progress(w: &mut World) -> Checked {
    let pushed = w.driven_job(ORDER, &[]).await?;
    w.restart(at(0)).await?;
    w.claim(&[pushed.num]).await?;
    same(&w.held(ORDER).await?.recoveries, &1)?;
    w.turned(&Turn { lifecycle: vec![], state: Some(driven_on()), ..w.new_turn(pushed.num, 0) }).await?;
    same(&w.held(ORDER).await?.recoveries, &1)?;
    w.turned(&w.new_turn(pushed.num, 0)).await?;
    same(&w.held(ORDER).await?.recoveries, &0)
}

async fn replies_to_events_are_kept(w: &mut World) -> Checked {
    let pushed = w.driven_job(MAIL, &["one", "two"]).await?;
    let p = &pushed.positions;
    same(&in_words(w.store().reply(p[0]).await)?, &None)?;
    let queue = vec![moved(p[0], &event("one"), None)];
    w.turned(&Turn { queue, replies: vec![(p[0], json("[1]"))], ..w.new_turn(pushed.num, 0) }).await?;
    w.turned(&Turn { is_removed: true, ..w.new_turn(pushed.num, 1) }).await?;
    w.die().await?;
    same(&in_words(w.store().reply(p[0]).await)?, &Some(json("[1]")))?;
    same(&in_words(w.store().reply(p[1]).await)?, &None)
}
