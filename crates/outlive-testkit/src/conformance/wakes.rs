//! Promises about wakes: due instances are found, in order, and nothing accepted waits for another event.

use outlive_core::id::InstanceNum;
use outlive_core::message::Message;
use outlive_core::status::Status;
use outlive_core::store::commit::{Commit, NewState, SendWrite, StartWrite};
use outlive_core::store::query::Wake;
use outlive_core::time::Timestamp;

use super::world::{
    BY_HAND, Checked, WAITING, World, asleep, at, cancel, driven_on, ensure, in_words, released, same, signal,
};

cases![
    wakes_are_ordered_by_due_time_then_number,
    wakes_are_listed_up_to_a_moment_and_a_limit,
    next_page_of_wakes_begins_after_the_last,
    pause_replaces_the_wake,
    pause_that_changes_only_the_wake_replaces_it,
    pause_without_a_wake_clears_it,
    ended_run_never_has_a_wake,
    stuck_run_never_has_a_wake,
    claim_removes_the_wake,
    message_makes_a_paused_run_due,
    message_makes_a_pending_run_due,
    every_kind_of_message_makes_a_run_due,
    messages_that_end_a_run_are_due_first,
    message_makes_a_run_due_regardless_of_its_wake,
    several_messages_make_a_run_due_at_once,
    message_to_a_driven_run_sets_no_wake,
    message_to_a_manually_paused_run_makes_it_due,
    refused_pause_keeps_the_wake,
];

async fn due(w: &World, id: &str) -> Checked<Option<Timestamp>> {
    let held = w.held(id).await?;
    let wakes = w.wakes().await?;
    let indexed = wakes.iter().find(|wake| wake.num == held.num).map(|wake| wake.due);
    same(&indexed, &held.wake)?;
    Ok(held.wake)
}

async fn wakes_are_ordered_by_due_time_then_number(w: &mut World) -> Checked {
    let mut want = Vec::new();
    for (i, millis) in [50, 10, 50, -10, 10, 0, 50].into_iter().enumerate() {
        w.start(&StartWrite { due: at(millis), ..w.new_start(&format!("run {i}")) }).await?;
        want.push(Wake { due: at(millis), num: w.held(&format!("run {i}")).await?.num });
    }
    want.sort();
    same(&w.wakes().await?, &want)
}

async fn wakes_are_listed_up_to_a_moment_and_a_limit(w: &mut World) -> Checked {
    for millis in 1..=5 {
        w.start(&StartWrite { due: at(millis), ..w.new_start(&format!("run {millis}")) }).await?;
    }
    let wakes = async |until: i64, limit: usize| -> Checked<Vec<i64>> {
        let wakes = in_words(w.store().wakes(at(until), limit).await)?;
        Ok(wakes.iter().map(|wake| wake.due.as_millis()).collect())
    };
    same(&wakes(3, 10).await?, &vec![1, 2, 3])?;
    same(&wakes(10, 2).await?, &vec![1, 2])?;
    same(&wakes(0, 10).await?, &vec![])?;
    same(&wakes(10, 0).await?, &vec![])
}

async fn next_page_of_wakes_begins_after_the_last(w: &mut World) -> Checked {
    for (i, millis) in [5, 0, 5, 5, 9, 5, 0].into_iter().enumerate() {
        w.start(&StartWrite { due: at(millis), ..w.new_start(&format!("run {i}")) }).await?;
    }
    let all = w.wakes().await?;
    for limit in 1..=8 {
        let (mut read, mut last) = (Vec::new(), Wake::FIRST);
        loop {
            let page = in_words(w.store().wakes_after(last, at(5), limit).await)?;
            let Some(next) = page.last() else { break };
            last = *next;
            read.extend(page);
        }
        same(&read, &all[..6].to_vec())?;
    }
    let past = Wake { due: at(5), num: InstanceNum(u64::MAX >> 1) };
    same(&in_words(w.store().wakes_after(past, at(9), 9).await)?, &all[6..].to_vec())
}

async fn pause_replaces_the_wake(w: &mut World) -> Checked {
    let num = w.paused_until("a", at(5_000)).await?;
    for until in [at(9_000), at(2_000)] {
        w.commit(&w.new_state(num, 0, asleep(until))).await?;
        same(&due(w, "a").await?, &Some(until))?;
        same(&w.wakes().await?.len(), &1)?;
    }
    Ok(())
}

async fn pause_that_changes_only_the_wake_replaces_it(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for wake in [Some(at(5_000)), Some(at(9_000)), Some(at(2_000)), None] {
        w.commit(&w.new_state(num, 0, NewState { wake, ..released(WAITING) })).await?;
        same(&due(w, "a").await?, &wake)?;
    }
    Ok(())
}

async fn pause_without_a_wake_clears_it(w: &mut World) -> Checked {
    let num = w.paused_until("a", at(5_000)).await?;
    w.commit(&w.new_state(num, 0, released(WAITING))).await?;
    same(&due(w, "a").await?, &None)?;
    let other = w.paused_until("b", at(5_000)).await?;
    w.commit(&w.new_state(other, 0, driven_on())).await?;
    same(&due(w, "b").await?, &None)
}

/// Checks that a paused run has no wake after a commit with this status and a wake.
async fn has_no_wake_as(w: &World, id: &str, status: Status) -> Checked {
    let num = w.paused_until(id, at(5_000)).await?;
    let state = NewState { wake: Some(at(6_000)), ..released(status) };
    w.commit(&Commit { state: Some(state), ..w.new_commit(num, 0, 1) }).await?;
    same(&w.held(id).await?.status, &status)?;
    same(&due(w, id).await?, &None)
}

async fn ended_run_never_has_a_wake(w: &mut World) -> Checked {
    has_no_wake_as(w, "a", Status::Completed).await?;
    has_no_wake_as(w, "b", Status::Failed).await?;
    has_no_wake_as(w, "c", Status::Cancelled).await
}

async fn stuck_run_never_has_a_wake(w: &mut World) -> Checked {
    has_no_wake_as(w, "a", Status::Stuck).await
}

async fn claim_removes_the_wake(w: &mut World) -> Checked {
    let nums = [w.pending("a").await?, w.paused_until("b", at(5_000)).await?];
    w.claim(&nums).await?;
    same(&(due(w, "a").await?, due(w, "b").await?), &(None, None))
}

async fn message_makes_a_paused_run_due(w: &mut World) -> Checked {
    w.with_status("a", WAITING).await?;
    w.send(&SendWrite { at: at(3_000), ..w.new_send("a", signal("hello")) }).await?;
    same(&due(w, "a").await?, &Some(Timestamp::AT_ONCE))?;
    same(&w.held("a").await?.status, &WAITING)
}

async fn message_makes_a_pending_run_due(w: &mut World) -> Checked {
    w.start(&StartWrite { due: at(5_000), ..w.new_start("a") }).await?;
    w.send(&w.new_send("a", cancel("never mind"))).await?;
    let due = due(w, "a").await?;
    ensure(due.is_some_and(|due| due <= Timestamp::AT_ONCE), || format!("{due:?}"))?;
    same(&w.held("a").await?.status, &Status::Pending)
}

async fn every_kind_of_message_makes_a_run_due(w: &mut World) -> Checked {
    let terminate = Message::Terminate { reason: "now".to_owned() };
    let messages = [signal("hello"), cancel("no"), terminate, Message::Pause, Message::Resume];
    for (i, message) in messages.into_iter().enumerate() {
        let id = format!("run {i}");
        w.with_status(&id, WAITING).await?;
        w.send(&w.new_send(&id, message)).await?;
        let due = due(w, &id).await?;
        ensure(due.is_some_and(|due| due <= Timestamp::AT_ONCE), || format!("{due:?}"))?;
    }
    Ok(())
}

async fn messages_that_end_a_run_are_due_first(w: &mut World) -> Checked {
    let mut nums = Vec::new();
    for id in ["a", "b", "c"] {
        nums.push(w.with_status(id, WAITING).await?);
        w.signalled(id, "hello").await?;
    }
    let mut sent = Vec::new();
    for id in ["c", "a", "c"] {
        w.send(&w.new_send(id, cancel("no"))).await?;
        w.signalled(id, "hello again").await?;
        sent.push(due(w, id).await?);
    }
    ensure(sent.is_sorted() && sent[0] < sent[2], || format!("{sent:?}"))?;
    let order: Vec<InstanceNum> = w.wakes().await?.iter().map(|wake| wake.num).collect();
    same(&order, &vec![nums[0], nums[2], nums[1]])?;
    let ends = in_words(w.store().wakes(Wake::PAST_MESSAGES.due, 9).await)?;
    same(&ends.len(), &2)
}

async fn message_makes_a_run_due_regardless_of_its_wake(w: &mut World) -> Checked {
    w.paused_until("a", at(2_000)).await?;
    w.send(&SendWrite { at: at(3_000), ..w.new_send("a", signal("hello")) }).await?;
    same(&due(w, "a").await?, &Some(Timestamp::AT_ONCE))
}

async fn several_messages_make_a_run_due_at_once(w: &mut World) -> Checked {
    w.paused_until("a", at(9_000)).await?;
    for millis in [3_000, 4_000, 2_000] {
        w.send(&SendWrite { at: at(millis), ..w.new_send("a", signal("hello")) }).await?;
    }
    same(&due(w, "a").await?, &Some(Timestamp::AT_ONCE))
}

async fn message_to_a_driven_run_sets_no_wake(w: &mut World) -> Checked {
    w.driven("a").await?;
    w.signalled("a", "hello").await?;
    same(&due(w, "a").await?, &None)
}

async fn message_to_a_manually_paused_run_makes_it_due(w: &mut World) -> Checked {
    w.with_status("a", BY_HAND).await?;
    w.send(&w.new_send("a", Message::Resume)).await?;
    same(&due(w, "a").await?, &Some(Timestamp::AT_ONCE))?;
    same(&w.held("a").await?.status, &BY_HAND)
}

async fn refused_pause_keeps_the_wake(w: &mut World) -> Checked {
    let num: InstanceNum = w.paused_until("a", at(5_000)).await?;
    w.signalled("a", "unseen").await?;
    let blind = NewState { seen: Some(0), ..asleep(at(9_000)) };
    w.commit(&w.new_state(num, 0, blind)).await?;
    same(&due(w, "a").await?, &Some(Timestamp::AT_ONCE))?;
    w.commit(&w.new_state(num, 5, asleep(at(9_000)))).await?;
    same(&due(w, "a").await?, &Some(Timestamp::AT_ONCE))
}
