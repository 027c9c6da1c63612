//! Promises about dead letters: kept until they are resolved, whatever happens to their instance.

use outlive_core::event::Event;
use outlive_core::queue::{Dead, Depth, ResolveDeadLetters, WhichDeadLetters};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Refusal, Turn, Write};
use outlive_core::time::Timestamp;

use super::jobs::{MAIL, MAILS, ORDER, ORDERS, event, keyed, letter, moved, strings};
use super::world::{Checked, World, asleep, at, ensure, in_words, json, name, refused, released, same};

cases![
    dead_letter_is_kept_as_written,
    dead_letters_survive_their_instance_and_a_crash,
    dead_letters_are_listed_by_page,
    retry_delivers_the_letter_as_a_new_event,
    letter_is_not_rejected_for_its_own_key,
    letter_whose_key_is_in_use_stays,
    retry_recreates_the_instance,
    retrying_all_does_not_affect_other_jobs,
    discarded_letter_is_gone,
    unknown_letter_is_refused,
    letter_of_an_ended_instance_stays,
    letter_that_fails_again_is_a_new_letter,
];

fn resolve(job: &str, which: WhichDeadLetters, is_retry: bool) -> Write {
    Write::ResolveDeadLetters(ResolveDeadLetters { job: name(job), which, is_retry, at: at(2_000) })
}

/// Gives up events of the instance, and puts it to sleep.
async fn given_up(w: &World, id: &str, events: &[Event]) -> Checked<Vec<Dead>> {
    let push = outlive_core::queue::PushWrite { events: events.to_vec(), ..w.new_push(id, &[]) };
    let pushed = w.pushed(&push).await?;
    w.claim(&[pushed.num]).await?;
    let records = w.held(id).await?.reported;
    let dead: Vec<Dead> = pushed.positions.iter().zip(events).map(|(pos, event)| letter(id, *pos, event)).collect();
    let queue = pushed.positions.iter().zip(events).map(|(pos, event)| moved(*pos, event, None)).collect();
    let state = Some(asleep(at(9_000)));
    let taken = pushed.positions.clone();
    w.turned(&Turn { queue, taken, dead: dead.clone(), state, ..w.new_turn(pushed.num, records) }).await?;
    Ok(dead)
}

async fn dead_letter_is_kept_as_written(w: &mut World) -> Checked {
    let tried = Event {
        priority: -4,
        key: Some(name("ü")),
        failed: 3,
        tried_at: Some(at(7)),
        failure: Some(json("{\"why\":1}")),
        batch: 2,
        ..keyed("one", "k")
    };
    let mail = given_up(w, MAIL, &[tried.clone(), event("two")]).await?;
    same(&w.dead(MAILS).await?, &mail)?;
    let order = given_up(w, ORDER, &[tried]).await?;
    same(&w.dead(ORDERS).await?, &order)?;
    same(&w.depth(MAILS).await?, &Depth { queued: 0, delayed: 0, dead: 2 })
}

async fn dead_letters_survive_their_instance_and_a_crash(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &[event("one"), event("two")]).await?;
    let held = w.held(MAIL).await?;
    w.turned(&Turn { is_removed: true, ..w.new_turn(held.num, held.reported) }).await?;
    w.restart(at(0)).await?;
    same(&w.find(MAIL).await?, &None)?;
    same(&w.dead(MAILS).await?, &dead)?;
    same(&w.depth(MAILS).await?.dead, &2)
}

async fn dead_letters_are_listed_by_page(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &["a", "b", "c"].map(event)).await?;
    given_up(w, "pool:letters:main", &[event("other")]).await?;
    let page = async |after, limit| in_words(w.store().dead(&name(MAILS), after, limit).await);
    same(&page(0, 2).await?, &dead[..2].to_vec())?;
    same(&page(dead[1].pos, 2).await?, &dead[2..].to_vec())?;
    same(&page(dead[2].pos, 2).await?, &vec![])?;
    same(&page(0, 0).await?, &vec![])
}

async fn retry_delivers_the_letter_as_a_new_event(w: &mut World) -> Checked {
    let tried = Event { failed: 3, priority: 2, due: Some(at(90_000)), ..keyed("one", "k") };
    let dead = given_up(w, MAIL, &[tried.clone(), event("two")]).await?;
    let num = w.held(MAIL).await?.num;
    let answer = w.write(resolve(MAILS, WhichDeadLetters::One(dead[0].pos), true)).await?;
    same(&answer, &Answer::DeadLettersResolved { count: 1, nums: vec![num] })?;
    same(&w.dead(MAILS).await?, &dead[1..].to_vec())?;
    let queued = w.page(num, 2_000, 9).await?.events;
    same(&queued.iter().map(|one| one.event.clone()).collect::<Vec<_>>(), &vec![Ok(tried.anew())])?;
    ensure(queued[0].pos > dead[1].pos && queued[0].at == at(2_000), || format!("{queued:?}"))?;
    same(&w.held(MAIL).await?.wake, &Some(Timestamp::AT_ONCE))?;
    same(&w.depth(MAILS).await?, &Depth { queued: 1, delayed: 0, dead: 1 })
}

/// Regression: the dedup key of an event in an inbox counts as long as its instance lives, so a retried letter was
/// rejected for its own key, and lost.
async fn letter_is_not_rejected_for_its_own_key(w: &mut World) -> Checked {
    let push = outlive_core::queue::PushWrite { events: vec![keyed("one", "k")], ..w.new_push(ORDER, &[]) };
    let pushed = w.pushed(&push).await?;
    w.claim(&[pushed.num]).await?;
    let dead = vec![letter(ORDER, pushed.positions[0], &push.events[0])];
    let (num, records, state) = (pushed.num, w.held(ORDER).await?.reported, Some(asleep(at(9_000))));
    w.turned(&Turn { taken: pushed.positions, dead: dead.clone(), state, ..w.new_turn(num, records) }).await?;
    same(
        &w.write(resolve(ORDERS, WhichDeadLetters::All, true)).await?,
        &Answer::DeadLettersResolved { count: 1, nums: vec![num] },
    )?;
    same(&w.events(num).await?, &strings(&["one"]))?;
    ensure(w.inbox(num).await?[0].pos > dead[0].pos, || "an old position was reused".to_owned())?;
    let push = outlive_core::queue::PushWrite { events: vec![keyed("two", "k")], ..w.new_push(ORDER, &[]) };
    same(&w.pushed(&push).await?.positions, &vec![0])
}

async fn letter_whose_key_is_in_use_stays(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &[keyed("one", "k")]).await?;
    let push = outlive_core::queue::PushWrite { events: vec![keyed("two", "k")], ..w.new_push(MAIL, &[]) };
    w.pushed(&push).await?;
    same(
        &w.write(resolve(MAILS, WhichDeadLetters::One(dead[0].pos), true)).await?,
        &Answer::DeadLettersResolved { count: 0, nums: vec![] },
    )?;
    same(&(w.dead(MAILS).await?, w.depth(MAILS).await?), &(dead, Depth { queued: 1, delayed: 0, dead: 1 }))
}

async fn retry_recreates_the_instance(w: &mut World) -> Checked {
    let dead = given_up(w, ORDER, &[event("one"), event("two")]).await?;
    let held = w.held(ORDER).await?;
    w.turned(&Turn { is_removed: true, ..w.new_turn(held.num, held.reported) }).await?;
    let answer = w.write(resolve(ORDERS, WhichDeadLetters::All, true)).await?;
    let again = w.held(ORDER).await?;
    same(&answer, &Answer::DeadLettersResolved { count: 2, nums: vec![again.num] })?;
    ensure(again.num > held.num && again.wake == Some(Timestamp::AT_ONCE), || format!("{again:?}"))?;
    same(&w.events(again.num).await?, &strings(&["one", "two"]))?;
    ensure(w.inbox(again.num).await?[0].pos > dead[1].pos, || "an old position was reused".to_owned())
}

async fn retrying_all_does_not_affect_other_jobs(w: &mut World) -> Checked {
    given_up(w, MAIL, &[event("one")]).await?;
    given_up(w, "pool:mail:other", &[event("two")]).await?;
    let others = given_up(w, "pool:letters:main", &[event("three")]).await?;
    let nums = vec![w.held(MAIL).await?.num, w.held("pool:mail:other").await?.num];
    same(
        &w.write(resolve(MAILS, WhichDeadLetters::All, true)).await?,
        &Answer::DeadLettersResolved { count: 2, nums },
    )?;
    same(
        &w.write(resolve(MAILS, WhichDeadLetters::All, true)).await?,
        &Answer::DeadLettersResolved { count: 0, nums: vec![] },
    )?;
    same(&w.dead("pool:letters").await?, &others)?;
    same(&w.depth("pool:letters").await?, &Depth { queued: 0, delayed: 0, dead: 1 })
}

async fn discarded_letter_is_gone(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &["a", "b", "c"].map(event)).await?;
    let answer = w.write(resolve(MAILS, WhichDeadLetters::One(dead[1].pos), false)).await?;
    same(&answer, &Answer::DeadLettersResolved { count: 1, nums: vec![] })?;
    same(&w.dead(MAILS).await?.iter().map(|dead| dead.pos).collect::<Vec<_>>(), &vec![dead[0].pos, dead[2].pos])?;
    same(
        &w.write(resolve(MAILS, WhichDeadLetters::All, false)).await?,
        &Answer::DeadLettersResolved { count: 2, nums: vec![] },
    )?;
    same(&w.depth(MAILS).await?, &Depth::default())?;
    same(&w.held(MAIL).await?.wake, &Some(at(9_000)))
}

async fn unknown_letter_is_refused(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &[event("a")]).await?;
    let before = w.snapshot().await?;
    for (job, pos) in [(MAILS, 0), (MAILS, dead[0].pos + 1), (ORDERS, dead[0].pos)] {
        for is_retry in [true, false] {
            refused(&w.write(resolve(job, WhichDeadLetters::One(pos), is_retry)).await?, Refusal::NotFound)?;
        }
    }
    same(&w.snapshot().await?, &before)
}

async fn letter_of_an_ended_instance_stays(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &[event("a")]).await?;
    let held = w.held(MAIL).await?;
    w.turned(&Turn { state: Some(released(Status::Completed)), ..w.new_turn(held.num, held.reported) }).await?;
    for which in [WhichDeadLetters::All, WhichDeadLetters::One(dead[0].pos)] {
        same(&w.write(resolve(MAILS, which, true)).await?, &Answer::DeadLettersResolved { count: 0, nums: vec![] })?;
    }
    same(&(w.dead(MAILS).await?, w.depth(MAILS).await?.dead), &(dead, 1))
}

async fn letter_that_fails_again_is_a_new_letter(w: &mut World) -> Checked {
    let dead = given_up(w, MAIL, &[event("a")]).await?;
    w.write(resolve(MAILS, WhichDeadLetters::All, true)).await?;
    let held = w.held(MAIL).await?;
    let queued = w.page(held.num, 2_000, 9).await?.events;
    w.claim(&[held.num]).await?;
    let again = letter(MAIL, queued[0].pos, &event("a"));
    let queue = vec![moved(queued[0].pos, &event("a"), None)];
    w.turned(&Turn { queue, dead: vec![again.clone()], ..w.new_turn(held.num, held.reported) }).await?;
    ensure(again.pos > dead[0].pos, || format!("{again:?}"))?;
    same(&(w.dead(MAILS).await?, w.depth(MAILS).await?), &(vec![again], Depth { queued: 0, delayed: 0, dead: 1 }))
}
