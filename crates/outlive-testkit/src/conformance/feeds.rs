//! Promises about the feed: everything that happened is reported once, in order, with numbers without a gap.

use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, NewState, OnConflict, StartWrite, Trim, Turn, Write};
use outlive_core::store::query::{FeedContent, FeedItem};

use super::jobs::{ORDER, ORDERS, strings, twice, words};
use super::world::{
    BY_HAND, Checked, NOW, World, asleep, at, cancel, driven_on, ensure, in_words, json, name, released, same,
};

cases![
    lifecycle_of_a_run_is_reported_in_order,
    every_end_of_a_run_is_reported,
    cancelling_or_reopening_a_stuck_run_is_reported,
    lifecycle_event_numbers_have_no_gap,
    positions_of_the_feed_grow_across_a_crash,
    repeated_writes_report_nothing_twice,
    refused_writes_are_not_reported,
    feed_is_read_by_page,
    lifecycle_events_are_kept_as_written,
    lifecycle_events_of_removed_and_purged_instances_keep_their_names,
    feed_distinguishes_a_replaced_run_from_the_new_one,
    jobs_report_only_the_events_they_write,
    trimming_removes_only_older_events,
    future_dated_event_ages_with_its_neighbours,
    marks_are_kept,
    end_of_the_feed_is_known,
];

/// Checks that the numbers of these events go up to `last` without a gap.
fn dense(lines: &[FeedItem], last: u64) -> Checked {
    let mut number = 0;
    for item in lines {
        number += if let FeedContent::Lifecycle(records) = &item.content { records.kind.count() } else { 1 };
        same(&item.number, &number)?;
    }
    same(&number, &last)?;
    ensure(lines.is_sorted_by(|one, next| one.pos < next.pos), || format!("{lines:?}"))
}

async fn lifecycle_of_a_run_is_reported_in_order(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_commit(num, 0, 2)).await?;
    w.commit(&w.new_state(num, 2, asleep(at(500)))).await?;
    w.claim(&[num]).await?;
    let state = NewState { outcome: Some(json("1")), ..released(Status::Failed) };
    w.commit(&outlive_core::store::commit::Commit { state: Some(state), ..w.new_commit(num, 2, 1) }).await?;
    w.reopen("a", at(5)).await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_state(num, 4, NewState { outcome: Some(json("2")), ..released(Status::Completed) })).await?;
    let lines = w.events_of(num).await?;
    let said = ["run queued", "run started", "step 1", "step 2", "run paused", "run resumed", "step 3", "run failed"];
    let mut said = strings(&said);
    said.push(lines.get(8).map(super::jobs::word).unwrap_or_default());
    said.extend(strings(&["run queued", "run started", "run completed"]));
    same(&words(&lines), &said)?;
    ensure(matches!(&lines[8].content, FeedContent::Entry(entry) if entry.seq == 4), || format!("{:?}", lines[8]))?;
    dense(&lines, 12)
}

async fn every_end_of_a_run_is_reported(w: &mut World) -> Checked {
    let ends = [
        (Status::Completed, "run completed"),
        (Status::Failed, "run failed"),
        (Status::Cancelled, "run cancelled"),
        (Status::Stuck, "run stuck"),
        (BY_HAND, "run paused"),
    ];
    for (status, said) in ends {
        let num = w.with_status(said, status).await?;
        let lines = w.events_of(num).await?;
        same(&words(&lines), &strings(&["run queued and started", said]))?;
        dense(&lines, 3)?;
    }
    Ok(())
}

async fn cancelling_or_reopening_a_stuck_run_is_reported(w: &mut World) -> Checked {
    for id in ["a", "b"] {
        let num = w.with_status(id, Status::Stuck).await?;
        if id == "a" {
            w.send(&w.new_send(id, cancel("no"))).await?;
            same(&words(&w.events_of(num).await?)[2..].to_vec(), &strings(&["run cancelled"]))?;
            dense(&w.events_of(num).await?, 4)?;
        } else {
            w.reopen(id, at(9)).await?;
            same(&words(&w.events_of(num).await?)[3..].to_vec(), &strings(&["run queued"]))?;
            dense(&w.events_of(num).await?, 5)?;
        }
    }
    Ok(())
}

async fn lifecycle_event_numbers_have_no_gap(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.pending("b").await?);
    let job = w.driven_job(ORDER, &[]).await?.num;
    for round in 0..4 {
        w.commit(&w.new_commit(a, round * 2, 2)).await?;
        w.claim(&[b]).await?;
        w.commit(&w.new_state(b, 0, asleep(at(10)))).await?;
        let mut turn = w.new_turn(job, round * 2);
        turn.lifecycle.push(LifecycleRecord::new(LifecycleRecordKind::TaskScheduled, NOW));
        w.turned(&turn).await?;
        w.commit(&w.new_state(a, round * 2 + 2, driven_on())).await?;
    }
    dense(&w.events_of(a).await?, 2 + 8)?;
    dense(&w.events_of(b).await?, 1 + 8)?;
    dense(&w.events_of(job).await?, 8)
}

async fn positions_of_the_feed_grow_across_a_crash(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for seq in 0..3 {
        w.restart(at(0)).await?;
        w.claim(&[num]).await?;
        same(&w.commit(&w.new_commit(num, seq, 1)).await?, &Answer::Done)?;
    }
    dense(&w.events_of(num).await?, 5)
}

async fn repeated_writes_report_nothing_twice(w: &mut World) -> Checked {
    let start = w.new_start("a");
    twice(w, Write::Start(start)).await?;
    let num = w.held("a").await?.num;
    w.claim(&[num]).await?;
    w.claim(&[num]).await?;
    let state = NewState { note: Some("why".to_owned()), ..released(Status::Stuck) };
    let commit = outlive_core::store::commit::Commit { state: Some(state), ..w.new_commit(num, 0, 2) };
    twice(w, Write::Commit(commit)).await?;
    twice(w, Write::Reopen(outlive_core::store::commit::Reopen { id: name("a"), num: None, at: at(3) })).await?;
    w.claim(&[num]).await?;
    let commit = w.new_state(num, 3, NewState { outcome: Some(json("1")), ..released(Status::Completed) });
    twice(w, Write::Commit(commit)).await?;
    dense(&w.events_of(num).await?, 2 + 2 + 1 + 1 + 1 + 1 + 1)?;
    let job = w.driven_job(ORDER, &[]).await?.num;
    twice(w, Write::Turn(Box::new(w.new_turn(job, 0)))).await?;
    dense(&w.events_of(job).await?, 1)
}

async fn refused_writes_are_not_reported(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let lost = w.new_state(num, 0, released(Status::Failed));
    w.signalled("a", "unseen").await?;
    let end = NewState { seen: Some(0), ..released(Status::Completed) };
    w.commit(&w.new_state(num, 0, end)).await?;
    w.lease(at(0)).await?;
    w.commit(&lost).await?;
    w.start(&StartWrite { on_conflict: OnConflict::Reject, ..w.new_start("a") }).await?;
    w.start(&w.new_start("a")).await?;
    same(&words(&w.feed().await?), &strings(&["run queued and started"]))
}

async fn feed_is_read_by_page(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    for seq in 0..3 {
        w.batch(vec![Write::Commit(w.new_commit(a, seq, 1)), Write::Commit(w.new_commit(b, seq, 1))]).await?;
        w.commit(&w.new_state(a, seq + 1, asleep(at(5)))).await?;
        w.claim(&[a]).await?;
    }
    let all = w.feed().await?;
    same(&all.len(), &(2 + 6 + 6))?;
    for limit in [1, 2, 3, 5, 14, 100] {
        let (mut read, mut after) = (Vec::new(), 0);
        loop {
            let page = in_words(w.store().feed(after, limit).await)?;
            ensure(page.len() <= limit, || format!("{} events with a limit of {limit}", page.len()))?;
            let Some(last) = page.last() else { break };
            after = last.pos;
            read.extend(page);
        }
        same(&read, &all)?;
    }
    same(&in_words(w.store().feed(0, 0).await)?.len(), &0)?;
    same(&in_words(w.store().feed(u64::from(u32::MAX), 9).await)?.len(), &0)
}

async fn lifecycle_events_are_kept_as_written(w: &mut World) -> Checked {
    let job = w.driven_job(ORDER, &[]).await?.num;
    let records = vec![
        LifecycleRecord { attempt: 3, ..LifecycleRecord::new(LifecycleRecordKind::JobFailed, at(-7)) }
            .with(json("{\"error\":\"ü\"}")),
        LifecycleRecord::new(LifecycleRecordKind::TaskScheduled, at(7)),
    ];
    w.turned(&Turn { lifecycle: records.clone(), ..w.new_turn(job, 0) }).await?;
    let lines: Vec<FeedContent> = w.events_of(job).await?.into_iter().map(|item| item.content).collect();
    same(&lines, &records.into_iter().map(FeedContent::Lifecycle).collect())
}

async fn lifecycle_events_of_removed_and_purged_instances_keep_their_names(w: &mut World) -> Checked {
    let run = w.with_status("a", Status::Completed).await?;
    w.purge("a").await?;
    let job = w.driven_job(ORDER, &[]).await?.num;
    w.turned(&Turn { is_removed: true, ..w.new_turn(job, 0) }).await?;
    w.pending("a").await?;
    w.die().await?;
    let names = |lines: Vec<FeedItem>| lines.into_iter().map(|item| (item.id, item.workflow)).collect::<Vec<_>>();
    let (run_name, job_name) = ((name("a"), name("checkout")), (name(ORDER), name(ORDERS)));
    same(&names(w.events_of(run).await?), &vec![run_name.clone(), run_name])?;
    same(&names(w.events_of(job).await?), &vec![job_name])
}

async fn feed_distinguishes_a_replaced_run_from_the_new_one(w: &mut World) -> Checked {
    let old = w.driven("a").await?;
    w.commit(&w.new_commit(old, 0, 1)).await?;
    let again = StartWrite { on_conflict: OnConflict::Replace, workflow: name("refund"), ..w.new_start("a") };
    w.start(&again).await?;
    let new = w.held("a").await?.num;
    // Entries are removed with their run.
    let of = |lines: Vec<FeedItem>| lines.into_iter().map(|item| (item.workflow, item.number)).collect::<Vec<_>>();
    same(&of(w.events_of(old).await?), &vec![(name("checkout"), 2)])?;
    same(&of(w.events_of(new).await?), &vec![(name("refund"), 1)])
}

async fn jobs_report_only_the_events_they_write(w: &mut World) -> Checked {
    let job = w.driven_job(ORDER, &["one"]).await?.num;
    w.turned(&Turn { lifecycle: vec![], state: Some(asleep(at(5))), ..w.new_turn(job, 0) }).await?;
    w.claim(&[job]).await?;
    w.turned(&Turn { lifecycle: vec![], state: Some(released(Status::Stuck)), ..w.new_turn(job, 0) }).await?;
    same(&w.feed().await?, &vec![])
}

fn trim(before: i64, now: i64) -> Write {
    Write::Trim(Trim { before: at(before), now: at(now) })
}

/// Regression: a clock that was once ahead left an event dated in the future, and nothing after it was ever removed.
async fn future_dated_event_ages_with_its_neighbours(w: &mut World) -> Checked {
    let job = w.driven_job(ORDER, &[]).await?.num;
    for (before, millis) in [(0, 90_000), (1, 2_000), (2, 95_000), (3, 3_000), (4, 99_000), (5, 2_000)] {
        let records = vec![LifecycleRecord::new(LifecycleRecordKind::JobExecuted, at(millis))];
        w.turned(&Turn { lifecycle: records, ..w.new_turn(job, before) }).await?;
    }
    let numbers = async |w: &World| Ok::<_, String>(w.feed().await?.iter().map(|item| item.number).collect::<Vec<_>>());
    same(&w.write(trim(1_000, 5_000)).await?, &Answer::Trimmed(0))?;
    same(&w.write(trim(2_500, 5_000)).await?, &Answer::Trimmed(2))?;
    same(&numbers(w).await?, &vec![3, 4, 5, 6])?;
    same(&w.write(trim(4_000, 5_000)).await?, &Answer::Trimmed(4))?;
    same(&numbers(w).await?, &vec![])
}

async fn trimming_removes_only_older_events(w: &mut World) -> Checked {
    let run = w.driven("a").await?;
    w.commit(&w.new_commit(run, 0, 1)).await?;
    let job = w.driven_job(ORDER, &[]).await?.num;
    for (before, millis) in [(0, 2_000), (1, 3_000), (2, 4_000)] {
        let records = vec![LifecycleRecord::new(LifecycleRecordKind::JobExecuted, at(millis))];
        w.turned(&Turn { lifecycle: records, is_removed: before == 2, ..w.new_turn(job, before) }).await?;
    }
    same(&w.write(trim(0, 9_000)).await?, &Answer::Trimmed(0))?;
    same(&w.feed().await?.len(), &5)?;
    same(&w.write(trim(3_000, 9_000)).await?, &Answer::Trimmed(2))?;
    let numbers: Vec<_> = w.feed().await?.into_iter().map(|item| (item.num, item.number, item.id)).collect();
    // Entries belong to the journal, and stay as long as it does.
    same(&numbers, &vec![(run, 3, name("a")), (job, 2, name(ORDER)), (job, 3, name(ORDER))])?;
    same(&w.write(trim(i64::MAX, i64::MAX)).await?, &Answer::Trimmed(2))?;
    same(&words(&w.feed().await?), &strings(&["step 1"]))?;
    let last = w.feed().await?.last().map(|item| item.pos);
    let next = w.pending("b").await?;
    ensure(w.events_of(next).await?.first().map(|item| item.pos) > last, || "an old position was reused".to_owned())
}

async fn marks_are_kept(w: &mut World) -> Checked {
    let mark = async |w: &World, text: &str| in_words(w.store().mark(Some(&name(text))).await);
    same(&mark(w, "sink").await?, &None)?;
    for value in [7, 3, u64::from(u32::MAX) + 9] {
        same(&w.write(Write::Mark(name("sink"), value)).await?, &Answer::Done)?;
        same(&mark(w, "sink").await?, &Some(value))?;
    }
    w.write(Write::Mark(name("num"), 1)).await?;
    w.pending("a").await?;
    w.restart(at(0)).await?;
    same(&(mark(w, "sink").await?, mark(w, "num").await?), &(Some(u64::from(u32::MAX) + 9), Some(1)))?;
    same(&mark(w, "epoch").await?, &None)
}

async fn end_of_the_feed_is_known(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for seq in 0..3 {
        w.commit(&w.new_commit(num, seq, 1)).await?;
        let end = in_words(w.store().mark(None).await)?.unwrap_or(0);
        let last = w.feed().await?.last().map_or(0, |item| item.pos);
        ensure(end >= last, || format!("{end} before {last}"))?;
        w.commit(&w.new_state(num, seq + 1, asleep(at(5)))).await?;
        w.claim(&[num]).await?;
        same(&words(&in_words(w.store().feed(end, 9).await)?), &strings(&["run paused", "run resumed"]))?;
    }
    Ok(())
}
