//! Promises about repeated writes after a lost reply: they change nothing and return the first result.

use outlive_core::journal::Entry;
use outlive_core::message::Message;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, NewState, OnConflict, SendWrite, StartWrite, Write};
use outlive_core::time::Timestamp;

use super::world::{
    Checked, World, asleep, at, cancel, driven_on, ensure, json, name, of_run, released, same, signal, step_done,
};

cases![
    repeated_start_returns_the_first_result,
    repeated_start_returns_the_first_result_after_the_run_ended,
    repeated_replacing_start_replaces_nothing,
    repeated_joining_start_joins_again,
    repeated_message_is_kept_once,
    repeated_message_names_the_one_before_it,
    repeated_message_is_not_kept_after_it_was_taken,
    repeated_message_returns_the_first_result_after_the_run_ended,
    repeated_message_with_a_key_returns_the_first_result,
    repeated_cancel_of_a_stuck_run_returns_the_first_result,
    equal_messages_with_different_tokens_are_all_kept,
    repeated_entries_are_kept_once,
    repeated_pause_succeeds,
    repeated_pause_keeps_the_wake_of_a_message_in_between,
    repeated_release_without_entries_succeeds,
    repeated_end_succeeds,
    repeated_end_without_entries_succeeds,
    repeated_stuck_state_succeeds,
    different_commit_with_the_same_numbers_is_fenced,
    entries_with_a_gap_are_fenced_even_if_the_last_exists,
    different_end_without_entries_is_fenced,
    repeated_batch_returns_the_first_results,
    repeated_batch_with_two_commits_of_one_run_succeeds,
    repeated_start_and_message_are_recognized_after_a_crash,
];

/// Repeats a write; the result must be the same and nothing may change.
async fn again(w: &World, write: Write, first: &Answer) -> Checked {
    let before = w.snapshot().await?;
    same(&w.write(write).await?, first)?;
    same(&w.snapshot().await?, &before)
}

/// Writes a batch twice; the results must be the same and nothing may change the second time.
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

async fn repeated_start_returns_the_first_result(w: &mut World) -> Checked {
    for on_conflict in [OnConflict::Join, OnConflict::Reject, OnConflict::Replace] {
        let start = StartWrite { on_conflict, ..w.new_start(&format!("{on_conflict:?}")) };
        let first = w.start(&start).await?;
        again(w, Write::Start(start), &first).await?;
    }
    Ok(())
}

async fn repeated_start_returns_the_first_result_after_the_run_ended(w: &mut World) -> Checked {
    let start = StartWrite { owner: w.epoch, on_conflict: OnConflict::Reject, ..w.new_start("a") };
    let first = w.start(&start).await?;
    let num = w.held("a").await?.num;
    w.commit(&w.new_state(num, 0, released(Status::Failed))).await?;
    again(w, Write::Start(start), &first).await
}

async fn repeated_replacing_start_replaces_nothing(w: &mut World) -> Checked {
    w.driven("a").await?;
    let start = StartWrite { owner: w.epoch, on_conflict: OnConflict::Replace, ..w.new_start("a") };
    let first = w.start(&start).await?;
    let num = w.held("a").await?.num;
    w.commit(&w.new_commit(num, 0, 2)).await?;
    again(w, Write::Start(start), &first).await
}

async fn repeated_joining_start_joins_again(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let start = w.new_start("a");
    let first = w.start(&start).await?;
    same(&first, &Answer::Started { num, created: false, is_driven: false })?;
    again(w, Write::Start(start), &first).await
}

async fn repeated_message_is_kept_once(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let send = w.new_send("a", signal("once"));
    let first = w.send(&send).await?;
    w.signalled("a", "between").await?;
    again(w, Write::Message(send), &first).await?;
    same(&w.signals(num).await?, &vec!["once".to_owned(), "between".to_owned()])
}

/// Regression: a simulated run consumed its second signal first. The first came from another process, and the reply to
/// the second was lost. The repeated write named no message before it, so nothing looked for one.
async fn repeated_message_names_the_one_before_it(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let before = w.signalled("a", "first").await?;
    let send = w.new_send("a", signal("second"));
    let first = w.send(&send).await?;
    let is_named = matches!(&first, Answer::Sent { num: of, before: named, .. } if (*of, *named) == (num, before));
    ensure(is_named, || format!("{first:?} does not name {before}"))?;
    again(w, Write::Message(send), &first).await
}

async fn repeated_message_is_not_kept_after_it_was_taken(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let send = w.new_send("a", signal("once"));
    let first = w.send(&send).await?;
    let taken = w.inbox(num).await?.iter().map(|inbound| inbound.pos).collect();
    same(&w.commit(&Commit { taken, ..w.new_commit(num, 0, 1) }).await?, &Answer::Done)?;
    again(w, Write::Message(send), &first).await?;
    same(&w.inbox(num).await?, &Vec::new())
}

async fn repeated_message_returns_the_first_result_after_the_run_ended(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let send = w.new_send("a", cancel("enough"));
    let first = w.send(&send).await?;
    let taken = w.inbox(num).await?.iter().map(|inbound| inbound.pos).collect();
    let state = Some(released(Status::Cancelled));
    same(&w.commit(&Commit { taken, state, ..w.new_commit(num, 0, 1) }).await?, &Answer::Done)?;
    again(w, Write::Message(send), &first).await
}

async fn repeated_message_with_a_key_returns_the_first_result(w: &mut World) -> Checked {
    w.pending("a").await?;
    let send = SendWrite { dedup: Some(name("key")), ..w.new_send("a", signal("once")) };
    let first = w.send(&send).await?;
    again(w, Write::Message(send), &first).await
}

async fn repeated_cancel_of_a_stuck_run_returns_the_first_result(w: &mut World) -> Checked {
    for (id, message) in [("a", cancel("no")), ("b", Message::Terminate { reason: "no".to_owned() })] {
        w.with_status(id, Status::Stuck).await?;
        let send = w.new_send(id, message);
        let first = w.send(&send).await?;
        again(w, Write::Message(send), &first).await?;
    }
    Ok(())
}

async fn equal_messages_with_different_tokens_are_all_kept(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let sends = (0..3).map(|_| Write::Message(w.new_send("a", signal("same")))).collect();
    w.batch(sends).await?;
    same(&w.signals(num).await?, &vec!["same".to_owned(); 3])
}

async fn repeated_entries_are_kept_once(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.commit(&w.new_commit(num, 0, 1)).await?;
    twice(w, w.new_commit(num, 1, 3)).await?;
    same(&w.journal(num).await?, &(1..=4).map(step_done).collect())
}

async fn repeated_pause_succeeds(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pos = w.signalled("a", "taken").await?;
    let state = Some(NewState { seen: Some(pos), ..asleep(at(5_000)) });
    twice(w, Commit { state, taken: vec![pos], ..w.new_commit(num, 0, 1) }).await
}

async fn repeated_pause_keeps_the_wake_of_a_message_in_between(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let state = Some(NewState { seen: Some(0), ..asleep(at(5_000)) });
    let pause = Commit { state, ..w.new_commit(num, 0, 1) };
    same(&w.commit(&pause).await?, &Answer::Done)?;
    w.send(&SendWrite { at: at(2_000), ..w.new_send("a", signal("wake up")) }).await?;
    again(w, Write::Commit(pause), &Answer::Done).await?;
    same(&w.held("a").await?.wake, &Some(Timestamp::AT_ONCE))
}

async fn repeated_release_without_entries_succeeds(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    twice(w, w.new_state(num, 0, asleep(at(5_000)))).await?;
    twice(w, w.new_state(num, 0, driven_on())).await
}

async fn repeated_end_succeeds(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        let num = w.driven(id).await?;
        let state = Some(NewState { outcome: Some(json("3")), ..released(status) });
        twice(w, Commit { state, ..w.new_commit(num, 0, 1) }).await?;
    }
    Ok(())
}

async fn repeated_end_without_entries_succeeds(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        let num = w.driven(id).await?;
        let end = NewState { outcome: Some(json("3")), note: Some("why".to_owned()), ..released(status) };
        twice(w, w.new_state(num, 0, end)).await?;
    }
    Ok(())
}

async fn repeated_stuck_state_succeeds(w: &mut World) -> Checked {
    let stuck = NewState { note: Some("the code is gone".to_owned()), ..released(Status::Stuck) };
    for (id, count) in [("a", 0), ("b", 1)] {
        let num = w.driven(id).await?;
        twice(w, Commit { state: Some(stuck.clone()), ..w.new_commit(num, 0, count) }).await?;
    }
    Ok(())
}

async fn different_commit_with_the_same_numbers_is_fenced(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 2)).await?, &Answer::Done)?;
    let other = Entry { payload: Some(json("false")), ..of_run(2) };
    let other = Commit { entries: vec![step_done(1), other], ..w.new_commit(num, 0, 0) };
    again(w, Write::Commit(other), &Answer::Fenced).await
}

async fn entries_with_a_gap_are_fenced_even_if_the_last_exists(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 3)).await?, &Answer::Done)?;
    for (seq_before, seqs) in [(0, vec![3]), (0, vec![1, 3]), (2, vec![2, 3]), (3, vec![3])] {
        let entries = seqs.into_iter().map(step_done).collect();
        let commit = Commit { entries, ..w.new_commit(num, seq_before, 0) };
        again(w, Write::Commit(commit), &Answer::Fenced).await?;
    }
    Ok(())
}

async fn different_end_without_entries_is_fenced(w: &mut World) -> Checked {
    let num = w.with_status("a", Status::Completed).await?;
    let failed = w.new_state(num, 0, released(Status::Failed));
    let other_result = w.new_state(num, 0, NewState { outcome: Some(json("4")), ..released(Status::Completed) });
    for end in [failed, other_result] {
        again(w, Write::Commit(end), &Answer::Fenced).await?;
    }
    Ok(())
}

async fn repeated_batch_returns_the_first_results(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let batch = vec![
        Write::Start(w.new_start("b")),
        Write::Commit(w.new_commit(num, 0, 1)),
        Write::Message(w.new_send("b", signal("hello"))),
        Write::Message(w.new_send("nobody", signal("hello"))),
    ];
    all_again(w, batch).await
}

async fn repeated_batch_with_two_commits_of_one_run_succeeds(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let pause = Commit { state: Some(asleep(at(9_000))), ..w.new_commit(num, 3, 1) };
    let batch = [w.new_commit(num, 0, 1), w.new_commit(num, 1, 2), pause];
    all_again(w, batch.map(Write::Commit).into()).await?;
    same(&w.journal(num).await?, &(1..=4).map(step_done).collect())
}

async fn repeated_start_and_message_are_recognized_after_a_crash(w: &mut World) -> Checked {
    let (start, send) = (w.new_start("a"), w.new_send("a", signal("once")));
    let batch = vec![Write::Start(start), Write::Message(send)];
    let first = w.batch(batch.clone()).await?;
    w.restart(at(2_000)).await?;
    let before = w.snapshot().await?;
    same(&w.batch(batch).await?, &first)?;
    same(&w.snapshot().await?, &before)
}
