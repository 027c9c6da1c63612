//! Promises about commits: atomic, and numbered without a gap.

use outlive_core::id::InstanceNum;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, Epoch, NewState, Refusal, Write};

use super::world::{
    BY_HAND, Checked, NOW, World, asleep, at, driven_on, ensure, in_words, json, name, of_run, refused, released, same,
    signal, step_done,
};

cases![
    commit_adds_its_entries_in_order,
    every_field_of_every_kind_of_entry_is_kept_as_written,
    each_instance_numbers_its_own_entries,
    entries_with_a_gap_are_fenced,
    commit_after_the_largest_number_is_fenced,
    entries_that_begin_too_late_are_fenced,
    entries_that_repeat_a_number_are_fenced,
    entries_in_the_wrong_order_are_fenced,
    commit_behind_the_journal_is_fenced,
    commit_ahead_of_the_journal_is_fenced,
    state_with_the_wrong_previous_number_is_fenced,
    commit_to_an_unknown_instance_is_fenced,
    commit_to_an_ended_instance_is_fenced,
    fenced_commit_does_not_block_its_batch,
    refused_write_does_not_block_its_batch,
    commit_with_an_unseen_message_does_not_block_its_batch,
    each_write_of_a_batch_sees_those_before_it,
    empty_batch_has_no_results,
    thousand_writes_return_their_results_in_order,
    commit_without_a_state_keeps_the_state,
    commit_may_keep_ownership,
    commit_may_release_ownership,
    commit_may_release_ownership_and_change_nothing_else,
    every_open_status_is_kept_as_written,
    end_keeps_outcome_note_and_time_but_no_messages_or_wake,
    new_state_replaces_the_note,
    first_start_time_is_kept,
    journal_is_read_from_a_position_up_to_a_limit,
];

async fn commit_adds_its_entries_in_order(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 2)).await?, &Answer::Done)?;
    same(&w.commit(&w.new_commit(num, 2, 3)).await?, &Answer::Done)?;
    same(&w.journal(num).await?, &(1..=5).map(step_done).collect())
}

async fn every_field_of_every_kind_of_entry_is_kept_as_written(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let mut entries = Vec::new();
    // A restart begins another journal.
    let kinds = EntryKind::ALL.into_iter().filter(|kind| *kind != EntryKind::Restarted);
    for (seq, kind) in (1..).step_by(2).zip(kinds) {
        entries.push(Entry::of_run(seq, at(-1), kind));
        entries.push(Entry {
            seq: seq + 1,
            at: at(7),
            kind,
            op: "scope/step \"charge\"#2 €".into(),
            site: "src/shop.rs:31".into(),
            attempt: u32::MAX,
            started: Some(at(0)),
            due: Some(at(-7)),
            payload: Some(json(r#"{"a":[1,null,"ü\u0000"]}"#)),
        });
    }
    same(&w.commit(&Commit { entries: entries.clone(), ..w.new_commit(num, 0, 0) }).await?, &Answer::Done)?;
    same(&w.journal(num).await?, &entries)
}

async fn each_instance_numbers_its_own_entries(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    let writes = [w.new_commit(a, 0, 1), w.new_commit(b, 0, 2), w.new_commit(a, 1, 1), w.new_commit(b, 2, 2)];
    for answer in w.batch(writes.map(Write::Commit).into()).await? {
        same(&answer, &Answer::Done)?;
    }
    same(&w.journal(a).await?, &(1..=2).map(step_done).collect())?;
    same(&w.journal(b).await?, &(1..=4).map(step_done).collect())
}

/// Checks that a commit with these numbers after this previous number changes nothing; the instance has two entries.
async fn is_fenced(w: &World, seq_before: u64, seqs: &[u64]) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 2)).await?, &Answer::Done)?;
    let before = w.snapshot().await?;
    // A different operation from the recorded one, so that the commit cannot be taken for a repeat.
    let entries = seqs.iter().map(|seq| Entry { op: "other".into(), ..of_run(*seq) }).collect();
    let state = Some(released(Status::Completed));
    same(&w.commit(&Commit { entries, state, ..w.new_commit(num, seq_before, 0) }).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

async fn entries_with_a_gap_are_fenced(w: &mut World) -> Checked {
    is_fenced(w, 2, &[3, 5]).await
}

/// Regression: computing the next number overflowed, and the store panicked.
async fn commit_after_the_largest_number_is_fenced(w: &mut World) -> Checked {
    is_fenced(w, u64::MAX, &[0]).await
}

async fn entries_that_begin_too_late_are_fenced(w: &mut World) -> Checked {
    is_fenced(w, 2, &[4, 5]).await
}

async fn entries_that_repeat_a_number_are_fenced(w: &mut World) -> Checked {
    is_fenced(w, 2, &[3, 3]).await
}

async fn entries_in_the_wrong_order_are_fenced(w: &mut World) -> Checked {
    is_fenced(w, 2, &[4, 3]).await
}

async fn commit_behind_the_journal_is_fenced(w: &mut World) -> Checked {
    is_fenced(w, 1, &[2]).await
}

async fn commit_ahead_of_the_journal_is_fenced(w: &mut World) -> Checked {
    is_fenced(w, 3, &[4]).await
}

async fn state_with_the_wrong_previous_number_is_fenced(w: &mut World) -> Checked {
    is_fenced(w, 1, &[]).await
}

async fn commit_to_an_unknown_instance_is_fenced(w: &mut World) -> Checked {
    let nobody = InstanceNum(w.driven("a").await?.0 + 100);
    let before = w.snapshot().await?;
    same(&w.commit(&w.new_commit(nobody, 0, 1)).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)?;
    same(&w.journal(nobody).await?, &Vec::new())
}

async fn commit_to_an_ended_instance_is_fenced(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        let num = w.with_status(id, status).await?;
        let before = w.snapshot().await?;
        same(&w.commit(&w.new_commit(num, 0, 1)).await?, &Answer::Fenced)?;
        same(&w.commit(&w.new_state(num, 0, driven_on())).await?, &Answer::Fenced)?;
        same(&w.snapshot().await?, &before)?;
    }
    Ok(())
}

async fn fenced_commit_does_not_block_its_batch(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    let gap = Commit { state: Some(asleep(at(9))), ..w.new_commit(a, 7, 2) };
    let writes = vec![
        Write::Commit(w.new_commit(b, 0, 1)),
        Write::Commit(gap),
        Write::Commit(w.new_commit(a, 0, 1)),
        Write::Start(w.new_start("c")),
    ];
    let answers = w.batch(writes).await?;
    same(&answers[..3], &[Answer::Done, Answer::Fenced, Answer::Done])?;
    same(&(w.journal(a).await?, w.journal(b).await?), &(vec![step_done(1)], vec![step_done(1)]))?;
    same(&(w.held("a").await?.status, w.held("c").await?.status), &(Status::Running, Status::Pending))
}

async fn refused_write_does_not_block_its_batch(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let writes = vec![
        Write::Purge(name("a"), None),
        Write::Message(w.new_send("nobody", signal("lost"))),
        Write::Commit(w.new_commit(num, 0, 1)),
        Write::Message(w.new_send("a", signal("kept"))),
    ];
    let answers = w.batch(writes).await?;
    refused(&answers[0], Refusal::Status(Status::Running))?;
    refused(&answers[1], Refusal::NotFound)?;
    same(&w.journal(num).await?, &vec![step_done(1)])?;
    same(&w.signals(num).await?, &vec!["kept".to_owned()])
}

async fn commit_with_an_unseen_message_does_not_block_its_batch(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    w.signalled("a", "unseen").await?;
    let blind = Commit { state: Some(NewState { seen: Some(0), ..asleep(at(9)) }), ..w.new_commit(a, 0, 1) };
    let answers = w.batch(vec![Write::Commit(blind), Write::Commit(w.new_commit(b, 0, 1))]).await?;
    ensure(matches!(answers[0], Answer::Unseen(_)), || format!("{:?}", answers[0]))?;
    same(&answers[1], &Answer::Done)?;
    same(&(w.journal(a).await?.len(), w.journal(b).await?.len()), &(0, 1))
}

async fn each_write_of_a_batch_sees_those_before_it(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let end = Commit { state: Some(released(Status::Completed)), ..w.new_commit(num, 2, 1) };
    let writes = vec![
        Write::Commit(w.new_commit(num, 0, 1)),
        Write::Commit(w.new_commit(num, 1, 1)),
        Write::Commit(end),
        Write::Commit(w.new_commit(num, 3, 1)),
        Write::Purge(name("a"), None),
        Write::Message(w.new_send("a", signal("too late"))),
    ];
    let answers = w.batch(writes).await?;
    same(&answers[..5], &[Answer::Done, Answer::Done, Answer::Done, Answer::Fenced, Answer::Done])?;
    refused(&answers[5], Refusal::NotFound)
}

async fn empty_batch_has_no_results(w: &mut World) -> Checked {
    same(&w.batch(Vec::new()).await?, &Vec::new())
}

async fn thousand_writes_return_their_results_in_order(w: &mut World) -> Checked {
    let starts = (0..1_000).rev().map(|i| Write::Start(w.new_start(&format!("run {i}")))).collect();
    let answers = w.batch(starts).await?;
    for (i, answer) in (0..1_000).rev().zip(&answers) {
        let num = w.held(&format!("run {i}")).await?.num;
        same(answer, &Answer::Started { num, created: true, is_driven: false })?;
    }
    Ok(())
}

async fn commit_without_a_state_keeps_the_state(w: &mut World) -> Checked {
    let num = w.paused_until("a", at(5_000)).await?;
    let before = w.held("a").await?;
    same(&w.commit(&w.new_commit(num, 0, 1)).await?, &Answer::Done)?;
    same(&w.held("a").await?, &before)
}

async fn commit_may_keep_ownership(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let status = Status::Retrying { at: at(2_000) };
    w.commit(&w.new_state(num, 0, NewState { status, ..driven_on() })).await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake), &(status, w.epoch, None))
}

async fn commit_may_release_ownership(w: &mut World) -> Checked {
    w.paused_until("a", at(2_000)).await?;
    let held = w.held("a").await?;
    same(&(held.owner, held.wake), &(Epoch(0), Some(at(2_000))))
}

async fn commit_may_release_ownership_and_change_nothing_else(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    same(&w.commit(&w.new_state(num, 0, released(Status::Running))).await?, &Answer::Done)?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake), &(Status::Running, Epoch(0), None))
}

async fn every_open_status_is_kept_as_written(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let mut statuses = vec![Status::Pending, Status::Running, BY_HAND, Status::Waiting { until: None }];
    for at in [at(0), at(-5)] {
        statuses.extend([Status::Sleeping { until: at }, Status::Retrying { at }, Status::Waiting { until: Some(at) }]);
    }
    for status in statuses {
        same(&w.commit(&w.new_state(num, 0, released(status))).await?, &Answer::Done)?;
        same(&w.held("a").await?.status, &status)?;
    }
    Ok(())
}

async fn end_keeps_outcome_note_and_time_but_no_messages_or_wake(w: &mut World) -> Checked {
    for (id, status) in [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled)] {
        let num = w.driven(id).await?;
        w.signalled(id, "never taken").await?;
        let (outcome, note) = (Some(json("{\"total\":3}")), Some("a note".to_owned()));
        let end = NewState { outcome: outcome.clone(), note: note.clone(), at: at(3_000), ..released(status) };
        w.commit(&Commit { state: Some(end), ..w.new_commit(num, 0, 1) }).await?;
        let held = w.held(id).await?;
        same(&(held.status, held.outcome, held.note), &(status, outcome, note))?;
        same(&(held.ended_at, held.owner, held.wake), &(Some(at(3_000)), Epoch(0), None))?;
        same(&(w.journal(num).await?.len(), w.inbox(num).await?.len()), &(1, 0))?;
    }
    same(&w.wakes().await?, &Vec::new())
}

async fn new_state_replaces_the_note(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for note in [Some("first".to_owned()), Some("second".to_owned()), None] {
        w.commit(&w.new_state(num, 0, NewState { note: note.clone(), ..driven_on() })).await?;
        same(&w.held("a").await?.note, &note)?;
    }
    Ok(())
}

async fn first_start_time_is_kept(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    for millis in [2_000, 3_000] {
        w.commit(&w.new_state(num, 0, NewState { at: at(millis), ..driven_on() })).await?;
        w.commit(&w.new_state(num, 0, asleep(at(9_000)))).await?;
        same(&w.held("a").await?.started_at, &Some(at(2_000)))?;
    }
    w.claim(&[num]).await?;
    same(&w.held("a").await?.started_at, &Some(at(2_000)))?;
    same(&w.held("a").await?.created_at, &NOW)
}

async fn journal_is_read_from_a_position_up_to_a_limit(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.commit(&w.new_commit(num, 0, 9)).await?;
    let some = |from: u64, to: u64| (from..=to).map(step_done).collect::<Vec<_>>();
    same(&in_words(w.store().journal(num, 0, 3).await)?, &some(1, 3))?;
    same(&in_words(w.store().journal(num, 3, 3).await)?, &some(4, 6))?;
    same(&in_words(w.store().journal(num, 7, 100).await)?, &some(8, 9))?;
    same(&in_words(w.store().journal(num, 9, 100).await)?, &Vec::new())?;
    same(&in_words(w.store().journal(num, 0, 0).await)?, &Vec::new())
}
