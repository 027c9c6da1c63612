//! Promises about the same write again, after its answer was lost: it changes nothing and is answered as the first time.

use outlive_core::commit::{Answer, Commit, OnConflict, Send, Start, State, Write};
use outlive_core::journal::Entry;
use outlive_core::message::Message;
use outlive_core::status::Status;
use outlive_core::time::Timestamp;

use super::world::{
    Checked, World, asleep, at, cancel, driven_on, ensure, json, name, of_run, released, same, signal, step_done,
};

cases![
    the_same_start_again_is_answered_as_the_first_time,
    the_same_start_again_is_answered_as_the_first_time_when_the_run_has_ended,
    the_same_replacing_start_again_replaces_nothing,
    the_same_joining_start_again_joins_again,
    the_same_message_again_is_kept_once,
    the_same_message_again_names_the_one_before_it,
    the_same_message_again_is_not_kept_when_it_was_taken,
    the_same_message_again_is_answered_as_the_first_time_when_the_run_has_ended,
    the_same_message_with_a_key_again_is_answered_as_the_first_time,
    the_same_cancel_of_a_stuck_run_again_is_answered_as_the_first_time,
    equal_messages_with_different_tokens_are_all_kept,
    the_same_entries_again_are_there_once,
    the_same_pause_again_is_done,
    the_same_pause_again_keeps_the_wake_of_a_message_that_came_between,
    the_same_release_without_entries_again_is_done,
    the_same_end_again_is_done,
    the_same_end_without_entries_again_is_done,
    the_same_setting_aside_again_is_done,
    another_commit_with_the_numbers_of_the_last_one_is_fenced,
    entries_with_a_gap_are_fenced_though_the_last_of_them_is_there,
    another_end_without_entries_is_fenced,
    the_same_batch_again_is_answered_as_the_first_time,
    two_commits_of_one_run_in_one_batch_again_are_done,
    the_same_start_and_message_again_are_known_after_a_crash,
];

/// Writes the same once more; the answer must be the same and nothing may change.
async fn again(w: &World, write: Write, first: &Answer) -> Checked {
    let before = w.snapshot().await?;
    same(&w.write(write).await?, first)?;
    same(&w.snapshot().await?, &before)
}

/// Writes a batch twice; the answers must be the same and nothing may change the second time.
async fn all_again(w: &World, batch: Vec<Write>) -> Checked {
    let first = w.batch(batch.clone()).await?;
    let before = w.snapshot().await?;
    same(&w.batch(batch).await?, &first)?;
    same(&w.snapshot().await?, &before)
}

/// Commits twice.
async fn twice(w: &World, commit: Commit) -> Checked {
    same(&w.commit(&commit).await?, &Answer::Done)?;
    again(w, Write::Commit(commit), &Answer::Done).await
}

async fn the_same_start_again_is_answered_as_the_first_time(w: &mut World) -> Checked {
    for on_conflict in [OnConflict::Join, OnConflict::Reject, OnConflict::Replace] {
        let start = Start { on_conflict, ..w.new_start(&format!("{on_conflict:?}")) };
        let first = w.start(&start).await?;
        again(w, Write::Start(start), &first).await?;
    }
    Ok(())
}

async fn the_same_start_again_is_answered_as_the_first_time_when_the_run_has_ended(w: &mut World) -> Checked {
    let start = Start { owner: w.epoch, on_conflict: OnConflict::Reject, ..w.new_start("a") };
    let first = w.start(&start).await?;
    let num = w.held("a").await?.num;
    w.commit(&w.new_state(num, 0, released(Status::Failed))).await?;
    again(w, Write::Start(start), &first).await
}

async fn the_same_replacing_start_again_replaces_nothing(w: &mut World) -> Checked {
    w.driven("a").await?;
    let start = Start { owner: w.epoch, on_conflict: OnConflict::Replace, ..w.new_start("a") };
    let first = w.start(&start).await?;
    let num = w.held("a").await?.num;
    w.commit(&w.new_commit(num, 0, 2)).await?;
    again(w, Write::Start(start), &first).await
}

async fn the_same_joining_start_again_joins_again(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let start = w.new_start("a");
    let first = w.start(&start).await?;
    same(&first, &Answer::Started { num, created: false, is_driven: false })?;
    again(w, Write::Start(start), &first).await
}

async fn the_same_message_again_is_kept_once(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let send = w.new_send("a", signal("once"));
    let first = w.send(&send).await?;
    w.signalled("a", "between").await?;
    again(w, Write::Send(send), &first).await?;
    same(&w.signals(num).await?, &vec!["once".to_owned(), "between".to_owned()])
}

/// A simulated run consumed its second signal first: the first came from another process, and the answer to the
/// second was lost. Answered again, it named no message before it, so that nobody looked for one.
async fn the_same_message_again_names_the_one_before_it(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let before = w.signalled("a", "first").await?;
    let send = w.new_send("a", signal("second"));
    let first = w.send(&send).await?;
    let is_named = matches!(&first, Answer::Sent { num: of, before: named, .. } if (*of, *named) == (num, before));
    ensure(is_named, || format!("{first:?} does not name {before}"))?;
    again(w, Write::Send(send), &first).await
}

async fn the_same_message_again_is_not_kept_when_it_was_taken(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let send = w.new_send("a", signal("once"));
    let first = w.send(&send).await?;
    let taken = w.inbox(num).await?.iter().map(|inbound| inbound.pos).collect();
    same(&w.commit(&Commit { taken, ..w.new_commit(num, 0, 1) }).await?, &Answer::Done)?;
    again(w, Write::Send(send), &first).await?;
    same(&w.inbox(num).await?, &Vec::new())
}

async fn the_same_message_again_is_answered_as_the_first_time_when_the_run_has_ended(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let send = w.new_send("a", cancel("enough"));
    let first = w.send(&send).await?;
    let taken = w.inbox(num).await?.iter().map(|inbound| inbound.pos).collect();
    let state = Some(released(Status::Cancelled));
    same(&w.commit(&Commit { taken, state, ..w.new_commit(num, 0, 1) }).await?, &Answer::Done)?;
    again(w, Write::Send(send), &first).await
}

async fn the_same_message_with_a_key_again_is_answered_as_the_first_time(w: &mut World) -> Checked {
    w.pending("a").await?;
    let send = Send { dedup: Some(name("key")), ..w.new_send("a", signal("once")) };
    let first = w.send(&send).await?;
    again(w, Write::Send(send), &first).await
}

async fn the_same_cancel_of_a_stuck_run_again_is_answered_as_the_first_time(w: &mut World) -> Checked {
    for (id, message) in [("a", cancel("no")), ("b", Message::Terminate { reason: "no".to_owned() })] {
        w.with_status(id, Status::Stuck).await?;
        let send = w.new_send(id, message);
        let first = w.send(&send).await?;
        again(w, Write::Send(send), &first).await?;
    }
    Ok(())
}

async fn equal_messages_with_different_tokens_are_all_kept(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let sends = (0..3).map(|_| Write::Send(w.new_send("a", signal("same")))).collect();
    w.batch(sends).await?;
    same(&w.signals(num).await?, &vec!["same".to_owned(); 3])
}

async fn the_same_entries_again_are_there_once(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.commit(&w.new_commit(num, 0, 1)).await?;
    twice(w, w.new_commit(num, 1, 3)).await?;
    same(&w.journal(num).await?, &(1..=4).map(step_done).collect())
}

async fn the_same_pause_again_is_done(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pos = w.signalled("a", "taken").await?;
    let state = Some(State { seen: Some(pos), ..asleep(at(5_000)) });
    twice(w, Commit { state, taken: vec![pos], ..w.new_commit(num, 0, 1) }).await
}

async fn the_same_pause_again_keeps_the_wake_of_a_message_that_came_between(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let state = Some(State { seen: Some(0), ..asleep(at(5_000)) });
    let pause = Commit { state, ..w.new_commit(num, 0, 1) };
    same(&w.commit(&pause).await?, &Answer::Done)?;
    w.send(&Send { at: at(2_000), ..w.new_send("a", signal("wake up")) }).await?;
    again(w, Write::Commit(pause), &Answer::Done).await?;
    same(&w.held("a").await?.wake, &Some(Timestamp::AT_ONCE))
}

async fn the_same_release_without_entries_again_is_done(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    twice(w, w.new_state(num, 0, asleep(at(5_000)))).await?;
    twice(w, w.new_state(num, 0, driven_on())).await
}

async fn the_same_end_again_is_done(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        let num = w.driven(id).await?;
        let state = Some(State { outcome: Some(json("3")), ..released(status) });
        twice(w, Commit { state, ..w.new_commit(num, 0, 1) }).await?;
    }
    Ok(())
}

async fn the_same_end_without_entries_again_is_done(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        let num = w.driven(id).await?;
        let end = State { outcome: Some(json("3")), note: Some("why".to_owned()), ..released(status) };
        twice(w, w.new_state(num, 0, end)).await?;
    }
    Ok(())
}

async fn the_same_setting_aside_again_is_done(w: &mut World) -> Checked {
    let stuck = State { note: Some("the code is gone".to_owned()), ..released(Status::Stuck) };
    for (id, count) in [("a", 0), ("b", 1)] {
        let num = w.driven(id).await?;
        twice(w, Commit { state: Some(stuck.clone()), ..w.new_commit(num, 0, count) }).await?;
    }
    Ok(())
}

async fn another_commit_with_the_numbers_of_the_last_one_is_fenced(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 2)).await?, &Answer::Done)?;
    let other = Entry { payload: Some(json("false")), ..of_run(2) };
    let other = Commit { entries: vec![step_done(1), other], ..w.new_commit(num, 0, 0) };
    again(w, Write::Commit(other), &Answer::Fenced).await
}

async fn entries_with_a_gap_are_fenced_though_the_last_of_them_is_there(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 3)).await?, &Answer::Done)?;
    for (seq_before, seqs) in [(0, vec![3]), (0, vec![1, 3]), (2, vec![2, 3]), (3, vec![3])] {
        let entries = seqs.into_iter().map(step_done).collect();
        let commit = Commit { entries, ..w.new_commit(num, seq_before, 0) };
        again(w, Write::Commit(commit), &Answer::Fenced).await?;
    }
    Ok(())
}

async fn another_end_without_entries_is_fenced(w: &mut World) -> Checked {
    let num = w.with_status("a", Status::Completed).await?;
    let failed = w.new_state(num, 0, released(Status::Failed));
    let other_result = w.new_state(num, 0, State { outcome: Some(json("4")), ..released(Status::Completed) });
    for end in [failed, other_result] {
        again(w, Write::Commit(end), &Answer::Fenced).await?;
    }
    Ok(())
}

async fn the_same_batch_again_is_answered_as_the_first_time(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let batch = vec![
        Write::Start(w.new_start("b")),
        Write::Commit(w.new_commit(num, 0, 1)),
        Write::Send(w.new_send("b", signal("hello"))),
        Write::Send(w.new_send("nobody", signal("hello"))),
    ];
    all_again(w, batch).await
}

async fn two_commits_of_one_run_in_one_batch_again_are_done(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pause = Commit { state: Some(asleep(at(9_000))), ..w.new_commit(num, 3, 1) };
    let batch = [w.new_commit(num, 0, 1), w.new_commit(num, 1, 2), pause];
    all_again(w, batch.map(Write::Commit).into()).await?;
    same(&w.journal(num).await?, &(1..=4).map(step_done).collect())
}

async fn the_same_start_and_message_again_are_known_after_a_crash(w: &mut World) -> Checked {
    let (start, send) = (w.new_start("a"), w.new_send("a", signal("once")));
    let batch = vec![Write::Start(start), Write::Send(send)];
    let first = w.batch(batch.clone()).await?;
    w.restart(at(2_000)).await?;
    let before = w.snapshot().await?;
    same(&w.batch(batch).await?, &first)?;
    same(&w.snapshot().await?, &before)
}
