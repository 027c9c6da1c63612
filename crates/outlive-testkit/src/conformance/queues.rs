//! Promises about queues: ordered by priority, fair between lanes, never early, and counted.

use outlive_core::event::Event;
use outlive_core::id::InstanceNum;
use outlive_core::queue::{Depth, PushWrite, QueueRead, Queued};
use outlive_core::store::commit::{Turn, Write};

use super::jobs::{MAIL, MAILS, delayed, event, laned, moved, strings, texts, urgent};
use super::world::{Checked, NOW, World, at, ensure, in_words, same};

cases![
    highest_priority_goes_first,
    extreme_priorities_keep_their_order,
    lanes_take_turns,
    long_lane_does_not_starve_another,
    short_lane_does_not_let_a_lower_priority_pass,
    lanes_continue_after_the_last_one_served,
    lanes_wrap_around_after_the_last,
    queue_page_respects_its_limit,
    delayed_event_is_not_ready_before_its_time,
    next_due_time_is_the_earliest_delay,
    due_events_do_not_overtake_a_higher_priority,
    delayed_event_is_ordered_by_priority_and_lane_once_due,
    moved_event_keeps_its_position_and_its_time,
    missing_event_is_not_moved,
    counts_agree_with_the_queue,
    counts_agree_after_a_removal_and_a_crash,
    queue_belongs_to_one_instance,
    messages_and_the_queue_do_not_mix,
];

async fn queued(w: &World, events: Vec<Event>) -> Checked<(InstanceNum, Vec<u64>)> {
    let pushed = w.pushed(&PushWrite { events, ..w.new_push(MAIL, &[]) }).await?;
    Ok((pushed.num, pushed.positions))
}

async fn after(w: &World, num: InstanceNum, lane: &str, limit: usize) -> Checked<Vec<String>> {
    let read = QueueRead { now: NOW, after: Some(lane.to_owned()), limit };
    Ok(texts(&in_words(w.store().queue(num, read).await)?.events))
}

async fn highest_priority_goes_first(w: &mut World) -> Checked {
    let events = [("c", 0), ("a", 7), ("d", -3), ("b", 7), ("e", -3)].map(|(text, priority)| urgent(text, priority));
    let (num, _) = queued(w, events.to_vec()).await?;
    same(&w.ready(num).await?, &strings(&["a", "b", "c", "d", "e"]))
}

async fn extreme_priorities_keep_their_order(w: &mut World) -> Checked {
    let ends = [("last", i32::MIN), ("third", 0), ("first", i32::MAX), ("second", 1), ("fourth", -1)];
    let (num, _) = queued(w, ends.map(|(text, priority)| urgent(text, priority)).to_vec()).await?;
    w.pushed(&PushWrite { events: vec![delayed("later", 90_000)], ..w.new_push(MAIL, &[]) }).await?;
    same(&w.ready(num).await?, &strings(&["first", "second", "third", "fourth", "last"]))
}

async fn lanes_take_turns(w: &mut World) -> Checked {
    let events = ["a1 a", "a2 a", "a3 a", "b1 b", "c1 c", "c2 c"].map(|both| laned(&both[..2], &both[3..]));
    let (num, _) = queued(w, events.to_vec()).await?;
    same(&w.ready(num).await?, &strings(&["a1", "b1", "c1", "a2", "c2", "a3"]))?;
    same(&texts(&w.page(num, 1_000, 4).await?.events), &strings(&["a1", "b1", "c1", "a2"]))
}

async fn long_lane_does_not_starve_another(w: &mut World) -> Checked {
    let many = (0..10_000).map(|nth| laned(&format!("many {nth}"), "a")).chain([laned("one", "b")]);
    let (num, _) = queued(w, many.collect()).await?;
    same(&texts(&w.page(num, 1_000, 4).await?.events), &strings(&["many 0", "one", "many 1", "many 2"]))?;
    same(&w.depth(MAILS).await?.queued, &10_001)
}

async fn short_lane_does_not_let_a_lower_priority_pass(w: &mut World) -> Checked {
    let long = (0..20).map(|nth| Event { priority: 5, ..laned(&format!("long {nth}"), "a") });
    let short = [Event { priority: 5, ..laned("short", "b") }];
    let low = (0..20).map(|nth| laned(&format!("low {nth}"), "c"));
    let (num, _) = queued(w, low.chain(long).chain(short).collect()).await?;
    let page = texts(&w.page(num, 1_000, 12).await?.events);
    same(&page.iter().filter(|text| text.starts_with("low")).count(), &0)?;
    same(&(page.len(), page[1].as_str(), page[11].as_str()), &(12, "short", "long 10"))
}

async fn lanes_continue_after_the_last_one_served(w: &mut World) -> Checked {
    let events = ["a", "b", "c", "d"].map(|lane| laned(lane, lane));
    let (num, _) = queued(w, [events.to_vec(), vec![event("none")]].concat()).await?;
    same(&after(w, num, "b", 9).await?, &strings(&["c", "d", "none", "a", "b"]))?;
    // A lane that is empty by now keeps its place.
    same(&after(w, num, "bb", 3).await?, &strings(&["c", "d", "none"]))?;
    same(&after(w, num, "", 2).await?, &strings(&["a", "b"]))
}

async fn lanes_wrap_around_after_the_last(w: &mut World) -> Checked {
    let events = ["a", "b", "c"].map(|lane| laned(lane, lane));
    let (num, _) = queued(w, events.to_vec()).await?;
    for last in ["c", "z", "ü"] {
        same(&after(w, num, last, 9).await?, &strings(&["a", "b", "c"]))?;
        same(&after(w, num, last, 1).await?, &strings(&["a"]))?;
    }
    Ok(())
}

async fn queue_page_respects_its_limit(w: &mut World) -> Checked {
    let (num, _) = queued(w, [vec![delayed("due", 5)], ["a", "b", "c"].map(event).to_vec()].concat()).await?;
    for limit in 0..6 {
        same(&w.page(num, 1_000, limit).await?.events.len(), &limit.min(4))?;
        same(&w.page(InstanceNum(num.0 + 1), 1_000, limit).await?.events.len(), &0)?;
    }
    w.pushed(&PushWrite { events: vec![delayed("later", 5_000)], ..w.new_push(MAIL, &[]) }).await?;
    same(&w.page(num, 1_000, 0).await?.next_due, &Some(at(5_000)))
}

async fn delayed_event_is_not_ready_before_its_time(w: &mut World) -> Checked {
    let (num, _) = queued(w, vec![delayed("later", 5_000), event("now"), delayed("long ago", -5)]).await?;
    let at_time = async |millis| Ok::<_, String>(texts(&w.page(num, millis, 9).await?.events));
    same(&at_time(4_999).await?, &strings(&["long ago", "now"]))?;
    same(&at_time(5_000).await?, &strings(&["long ago", "later", "now"]))
}

async fn next_due_time_is_the_earliest_delay(w: &mut World) -> Checked {
    let (num, positions) = queued(w, [9_000, 5_000, 7_000].map(|due| delayed("x", due)).to_vec()).await?;
    same(&w.page(num, 4_999, 9).await?.next_due, &Some(at(5_000)))?;
    same(&w.page(num, 5_000, 9).await?.next_due, &Some(at(7_000)))?;
    w.claim(&[num]).await?;
    let queue = vec![moved(positions[2], &delayed("x", 7_000), None)];
    w.turned(&Turn { queue, ..w.new_turn(num, 0) }).await?;
    same(&w.page(num, 5_000, 9).await?.next_due, &Some(at(9_000)))?;
    same(&w.page(num, 9_000, 9).await?.next_due, &None)
}

async fn due_events_do_not_overtake_a_higher_priority(w: &mut World) -> Checked {
    let due = (0..20).map(|nth| delayed(&format!("due {nth}"), 5));
    let high = (0..5).map(|nth| urgent(&format!("high {nth}"), 1));
    let (num, _) = queued(w, due.chain(high).collect()).await?;
    same(
        &texts(&w.page(num, 1_000, 6).await?.events),
        &strings(&["high 0", "high 1", "high 2", "high 3", "high 4", "due 0"]),
    )
}

async fn delayed_event_is_ordered_by_priority_and_lane_once_due(w: &mut World) -> Checked {
    let due = |text, priority, lane| Event { priority, due: Some(at(5)), ..laned(text, lane) };
    let events = vec![laned("a1", "a"), laned("b1", "b"), due("a0", 0, "a"), due("low", -1, "b"), due("high", 1, "c")];
    let (num, _) = queued(w, events).await?;
    same(&w.ready(num).await?, &strings(&["high", "a0", "b1", "a1", "low"]))
}

async fn moved_event_keeps_its_position_and_its_time(w: &mut World) -> Checked {
    let push = PushWrite { events: vec![event("one"), event("two")], at: at(77), ..w.new_push(MAIL, &[]) };
    let pushed = w.pushed(&push).await?;
    w.claim(&[pushed.num]).await?;
    let again = Event { failed: 1, due: Some(at(3_000)), ..event("one") };
    let queue = vec![moved(pushed.positions[0], &event("one"), Some(again.clone()))];
    w.turned(&Turn { queue, ..w.new_turn(pushed.num, 0) }).await?;
    same(&w.ready(pushed.num).await?, &strings(&["two"]))?;
    let page = w.page(pushed.num, 3_000, 9).await?;
    let want = Queued {
        pos: pushed.positions[0],
        spot: outlive_core::queue::Spot::of(&again),
        at: at(77),
        event: Ok(again.clone()),
    };
    same(&page.events[0], &want)?;
    let ready = Event { due: None, ..again.clone() };
    let queue = vec![moved(pushed.positions[0], &again, Some(ready))];
    w.turned(&Turn { queue, ..w.new_turn(pushed.num, 1) }).await?;
    same(&w.ready(pushed.num).await?, &strings(&["one", "two"]))?;
    same(&w.depth(MAILS).await?, &Depth { queued: 2, delayed: 0, dead: 0 })
}

async fn missing_event_is_not_moved(w: &mut World) -> Checked {
    let (num, positions) = queued(w, vec![event("one")]).await?;
    w.claim(&[num]).await?;
    let gone = positions[0] + 40;
    let elsewhere = moved(positions[0], &urgent("one", 9), Some(event("two")));
    let queue = vec![moved(gone, &event("x"), None), moved(gone, &event("x"), Some(event("y"))), elsewhere];
    w.turned(&Turn { queue, ..w.new_turn(num, 0) }).await?;
    same(&w.ready(num).await?, &strings(&["one"]))?;
    same(&w.depth(MAILS).await?.queued, &1)
}

async fn counts_agree_with_the_queue(w: &mut World) -> Checked {
    let (num, positions) = queued(w, vec![event("a"), event("b"), delayed("c", 5_000), delayed("d", 500)]).await?;
    w.pushed(&w.new_push("pool:mail:other", &["e"])).await?;
    w.pushed(&w.new_push("pool:letters:main", &["f", "g"])).await?;
    same(&w.depth(MAILS).await?, &Depth { queued: 5, delayed: 1, dead: 0 })?;
    same(&w.depth("pool:letters").await?, &Depth { queued: 2, delayed: 0, dead: 0 })?;
    same(&w.depth("pool:none").await?, &Depth::default())?;
    w.claim(&[num]).await?;
    let queue = vec![moved(positions[0], &event("a"), None), moved(positions[2], &delayed("c", 5_000), None)];
    w.turned(&Turn { queue, ..w.new_turn(num, 0) }).await?;
    same(&w.depth(MAILS).await?, &Depth { queued: 3, delayed: 0, dead: 0 })
}

async fn counts_agree_after_a_removal_and_a_crash(w: &mut World) -> Checked {
    let (num, positions) = queued(w, vec![event("a"), delayed("b", 5_000), event("c")]).await?;
    w.pushed(&w.new_push("pool:mail:other", &["e"])).await?;
    w.claim(&[num]).await?;
    // An event taken by a removing turn is not subtracted twice.
    let queue = vec![moved(positions[0], &event("a"), None)];
    w.turned(&Turn { queue, is_removed: true, ..w.new_turn(num, 0) }).await?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 0 })?;
    w.restart(at(0)).await?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 0 })
}

async fn queue_belongs_to_one_instance(w: &mut World) -> Checked {
    let (num, positions) = queued(w, vec![event("mine")]).await?;
    let other = w.pushed(&w.new_push("pool:mail:other", &["theirs"])).await?;
    w.claim(&[num, other.num]).await?;
    let queue = vec![moved(positions[0], &event("mine"), None)];
    w.turned(&Turn { queue, ..w.new_turn(other.num, 0) }).await?;
    same(&w.ready(num).await?, &strings(&["mine"]))?;
    same(&w.ready(other.num).await?, &strings(&["theirs"]))
}

async fn messages_and_the_queue_do_not_mix(w: &mut World) -> Checked {
    let (num, positions) = queued(w, vec![event("queued")]).await?;
    w.signalled(MAIL, "message").await?;
    same(&w.signals(num).await?, &strings(&["message"]))?;
    same(&w.ready(num).await?, &strings(&["queued"]))?;
    let claimed = w.claim(&[num]).await?;
    same(&claimed[0].inbox.as_ref().map(Vec::len), &Ok(1))?;
    // A queue position means nothing to an inbox, and vice versa.
    w.turned(&Turn { taken: positions, ..w.new_turn(num, 0) }).await?;
    same(&w.ready(num).await?, &strings(&["queued"]))?;
    let batch = w.batch(vec![Write::Push(w.new_push(MAIL, &["more"]))]).await?;
    ensure(batch.len() == 1, || "no result".to_owned())?;
    same(&w.signals(num).await?, &strings(&["message"]))
}
