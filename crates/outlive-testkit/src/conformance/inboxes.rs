//! Promises about messages: kept in order of arrival until they are taken, once each, and never skipped.

use outlive_core::id::InstanceNum;
use outlive_core::message::{Inbound, Message};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, NewState, Refusal, SendWrite, Write};

use super::world::{
    Checked, NOW, World, asleep, at, cancel, ensure, in_words, json, name, refused, released, same, signal,
};

cases![
    messages_are_kept_in_order_of_arrival,
    every_kind_of_message_is_kept_as_sent,
    positions_only_grow,
    inbox_is_read_from_a_position,
    taken_messages_are_gone_and_the_others_stay,
    fenced_commit_takes_no_message,
    commit_takes_only_from_its_own_inbox,
    taking_a_missing_message_is_not_an_error,
    pause_is_refused_while_a_message_is_unseen,
    end_is_refused_while_a_message_is_unseen,
    pause_that_has_seen_every_message_is_accepted,
    taken_messages_count_as_seen,
    commit_that_does_not_check_the_inbox_is_accepted,
    messages_of_other_instances_need_not_be_seen,
    message_to_an_unknown_run_is_refused,
    message_to_an_earlier_run_of_the_id_is_refused,
    message_to_the_current_run_of_the_id_is_kept,
    message_to_an_ended_run_is_refused_with_its_status,
    second_message_with_the_same_key_is_not_kept,
    key_is_remembered_after_its_message_is_taken,
    key_belongs_to_one_instance,
    key_sent_twice_in_one_batch_is_kept_once,
    duplicate_message_makes_nothing_due,
];

async fn texts(w: &World, num: InstanceNum, want: &[&str]) -> Checked {
    same(&w.signals(num).await?, &want.iter().map(|text| (*text).to_owned()).collect())
}

async fn messages_are_kept_in_order_of_arrival(w: &mut World) -> Checked {
    let (a, b) = (w.pending("a").await?, w.driven("b").await?);
    let words = ["c", "a", "b", "e", "d"];
    let sends = words.iter().flat_map(|word| ["a", "b"].map(|id| w.new_send(id, signal(word))));
    // Later messages carry an earlier time by their sender's clock; order of arrival is what counts.
    let sends = (0..).zip(sends).map(|(i, send)| Write::Message(SendWrite { at: at(1_000 - i), ..send })).collect();
    w.batch(sends).await?;
    texts(w, a, &words).await?;
    texts(w, b, &words).await
}

async fn every_kind_of_message_is_kept_as_sent(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let messages = [
        Message::Signal { name: name("paid"), payload: json("{\"by\":\"card\"}") },
        Message::Signal { name: name("paid € now"), payload: json("null") },
        cancel("changed \"their\" mind\nsaid ü"),
        cancel(""),
        Message::Terminate { reason: "out".to_owned() },
        Message::Pause,
        Message::Resume,
    ];
    for (millis, message) in (-2..).zip(&messages) {
        w.send(&SendWrite { at: at(millis), ..w.new_send("a", message.clone()) }).await?;
    }
    let inbox = w.inbox(num).await?;
    let want: Vec<Inbound> = (-2..)
        .zip(messages)
        .zip(&inbox)
        .map(|((millis, message), found)| Inbound { pos: found.pos, at: at(millis), message })
        .collect();
    same(&inbox.len(), &7)?;
    same(&inbox, &want)
}

async fn positions_only_grow(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let mut last = 0;
    for seq_before in 0..4 {
        let pos = w.signalled("a", "hello").await?;
        ensure(pos > last, || format!("{pos} after {last}"))?;
        same(&w.inbox(num).await?.iter().map(|inbound| inbound.pos).collect::<Vec<_>>(), &vec![pos])?;
        w.commit(&Commit { taken: vec![pos], ..w.new_commit(num, seq_before, 1) }).await?;
        last = pos;
    }
    Ok(())
}

async fn inbox_is_read_from_a_position(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let first = w.signalled("a", "one").await?;
    w.signalled("a", "two").await?;
    let last = w.signalled("a", "three").await?;
    same(&in_words(w.store().inbox(num, 0, usize::MAX).await)?.len(), &3)?;
    same(&in_words(w.store().inbox(num, first, usize::MAX).await)?.len(), &2)?;
    same(&in_words(w.store().inbox(num, first, 1).await)?.len(), &1)?;
    same(&in_words(w.store().inbox(num, last, usize::MAX).await)?.len(), &0)?;
    same(&in_words(w.store().inbox(InstanceNum(num.0 + 1), 0, usize::MAX).await)?.len(), &0)
}

async fn taken_messages_are_gone_and_the_others_stay(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let mut positions = Vec::new();
    for word in ["one", "two", "three", "four"] {
        positions.push(w.signalled("a", word).await?);
    }
    let taken = vec![positions[2], positions[0]];
    same(&w.commit(&Commit { taken, ..w.new_commit(num, 0, 1) }).await?, &Answer::Done)?;
    texts(w, num, &["two", "four"]).await
}

async fn fenced_commit_takes_no_message(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pos = w.signalled("a", "one").await?;
    let late = Commit { taken: vec![pos], ..w.new_commit(num, 3, 1) };
    same(&w.commit(&late).await?, &Answer::Fenced)?;
    texts(w, num, &["one"]).await
}

async fn commit_takes_only_from_its_own_inbox(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    let (mine, theirs) = (w.signalled("a", "mine").await?, w.signalled("b", "theirs").await?);
    // Positions may be counted per instance and thus be equal; a position beyond its own belongs to no message.
    let taken = vec![theirs, theirs + 1].into_iter().filter(|pos| *pos != mine).collect();
    w.commit(&Commit { taken, ..w.new_commit(a, 0, 1) }).await?;
    texts(w, a, &["mine"]).await?;
    texts(w, b, &["theirs"]).await
}

async fn taking_a_missing_message_is_not_an_error(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pos = w.signalled("a", "one").await?;
    for seq_before in 0..2 {
        let taken = vec![pos, pos + 40];
        same(&w.commit(&Commit { taken, ..w.new_commit(num, seq_before, 1) }).await?, &Answer::Done)?;
    }
    texts(w, num, &[]).await
}

/// Checks that a state that has seen the first of three messages is refused, and that the other two are returned.
async fn is_refused_with_the_unseen(w: &World, state: NewState) -> Checked {
    let num = w.driven("a").await?;
    let seen = w.signalled("a", "seen").await?;
    w.signalled("a", "unseen").await?;
    w.signalled("a", "unseen too").await?;
    let before = w.snapshot().await?;
    let state = Some(NewState { seen: Some(seen), ..state });
    let answer = w.commit(&Commit { state, taken: vec![seen], ..w.new_commit(num, 0, 1) }).await?;
    same(&answer, &Answer::Unseen(in_words(w.store().inbox(num, seen, usize::MAX).await)?))?;
    same(&w.snapshot().await?, &before)
}

async fn pause_is_refused_while_a_message_is_unseen(w: &mut World) -> Checked {
    is_refused_with_the_unseen(w, asleep(at(9_000))).await
}

async fn end_is_refused_while_a_message_is_unseen(w: &mut World) -> Checked {
    is_refused_with_the_unseen(w, released(Status::Completed)).await
}

async fn pause_that_has_seen_every_message_is_accepted(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.signalled("a", "one").await?;
    let last = w.signalled("a", "two").await?;
    let state = NewState { seen: Some(last), ..asleep(at(9_000)) };
    same(&w.commit(&w.new_state(num, 0, state)).await?, &Answer::Done)?;
    texts(w, num, &["one", "two"]).await?;
    same(&w.held("a").await?.wake, &Some(at(9_000)))
}

async fn taken_messages_count_as_seen(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pos = w.signalled("a", "one").await?;
    let state = Some(NewState { seen: Some(0), ..asleep(at(9_000)) });
    same(&w.commit(&Commit { state, taken: vec![pos], ..w.new_commit(num, 0, 1) }).await?, &Answer::Done)
}

async fn commit_that_does_not_check_the_inbox_is_accepted(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.signalled("a", "one").await?;
    same(&w.commit(&w.new_state(num, 0, asleep(at(9_000)))).await?, &Answer::Done)?;
    same(&w.held("a").await?.wake, &Some(at(9_000)))?;
    texts(w, num, &["one"]).await
}

async fn messages_of_other_instances_need_not_be_seen(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.driven("b").await?;
    w.signalled("b", "for b").await?;
    let state = NewState { seen: Some(0), ..asleep(at(9_000)) };
    same(&w.commit(&w.new_state(num, 0, state)).await?, &Answer::Done)
}

async fn message_to_an_unknown_run_is_refused(w: &mut World) -> Checked {
    refused(&w.send(&w.new_send("nobody", signal("hello"))).await?, Refusal::NotFound)?;
    same(&w.find("nobody").await?, &None)
}

async fn message_to_an_earlier_run_of_the_id_is_refused(w: &mut World) -> Checked {
    let old = w.with_status("a", Status::Completed).await?;
    w.purge("a").await?;
    let new = w.pending("a").await?;
    for num in [old, InstanceNum(new.0 + 1)] {
        let send = SendWrite { num: Some(num), ..w.new_send("a", signal("hello")) };
        refused(&w.send(&send).await?, Refusal::NotFound)?;
    }
    texts(w, new, &[]).await
}

async fn message_to_the_current_run_of_the_id_is_kept(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    w.send(&SendWrite { num: Some(num), ..w.new_send("a", signal("hello")) }).await?;
    texts(w, num, &["hello"]).await
}

async fn message_to_an_ended_run_is_refused_with_its_status(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        w.with_status(id, status).await?;
        let before = w.snapshot().await?;
        for message in [signal("hello"), cancel("no"), Message::Pause, Message::Resume] {
            refused(&w.send(&w.new_send(id, message)).await?, Refusal::Status(status))?;
        }
        same(&w.snapshot().await?, &before)?;
    }
    Ok(())
}

fn keyed(w: &World, id: &str, text: &str) -> SendWrite {
    SendWrite { dedup: Some(name("order 7")), ..w.new_send(id, signal(text)) }
}

/// Checks that the result says the message already existed, at `first` or at an unknown position.
fn was_there(answer: &Answer, num: InstanceNum, first: u64) -> Checked {
    let is_so =
        matches!(answer, Answer::Sent { num: of, pos, is_new: false, .. } if *of == num && [0, first].contains(pos));
    ensure(is_so, || format!("{answer:?}, but the first was at {first}"))
}

async fn second_message_with_the_same_key_is_not_kept(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    w.send(&keyed(w, "a", "first")).await?;
    let first = w.inbox(num).await?[0].pos;
    was_there(&w.send(&keyed(w, "a", "second")).await?, num, first)?;
    w.send(&SendWrite { dedup: Some(name("order 8")), ..w.new_send("a", signal("third")) }).await?;
    w.signalled("a", "fourth").await?;
    texts(w, num, &["first", "third", "fourth"]).await
}

async fn key_is_remembered_after_its_message_is_taken(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.send(&keyed(w, "a", "first")).await?;
    let first = w.inbox(num).await?[0].pos;
    w.commit(&Commit { taken: vec![first], ..w.new_commit(num, 0, 1) }).await?;
    was_there(&w.send(&keyed(w, "a", "second")).await?, num, first)?;
    texts(w, num, &[]).await
}

async fn key_belongs_to_one_instance(w: &mut World) -> Checked {
    let (a, b) = (w.pending("a").await?, w.pending("b").await?);
    w.send(&keyed(w, "a", "for a")).await?;
    w.send(&keyed(w, "b", "for b")).await?;
    texts(w, a, &["for a"]).await?;
    texts(w, b, &["for b"]).await
}

async fn key_sent_twice_in_one_batch_is_kept_once(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let (first, second) = (keyed(w, "a", "first"), keyed(w, "a", "second"));
    let answers = w.batch(vec![Write::Message(first), Write::Message(second)]).await?;
    let pos = w.inbox(num).await?[0].pos;
    same(&answers[0], &Answer::Sent { reached: Vec::new(), num, pos, before: 0, is_new: true })?;
    was_there(&answers[1], num, pos)?;
    texts(w, num, &["first"]).await
}

async fn duplicate_message_makes_nothing_due(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.send(&keyed(w, "a", "first")).await?;
    let first = w.inbox(num).await?[0].pos;
    let state = Some(asleep(at(9_000)));
    w.commit(&Commit { taken: vec![first], state, ..w.new_commit(num, 0, 1) }).await?;
    w.send(&keyed(w, "a", "second")).await?;
    same(&w.held("a").await?.wake, &Some(at(9_000)))?;
    same(&(w.held("a").await?.created_at, w.wakes().await?.len()), &(NOW, 1))
}
