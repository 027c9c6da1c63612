//! Promises about an instance after its end: it is reopened, or nothing remains of it.

use outlive_core::id::InstanceNum;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, Epoch, NewState, Refusal, Reopen, SendWrite, StartWrite, Write};
use outlive_core::store::query::Wake;

use super::world::{Checked, NOW, WAITING, World, at, json, name, refused, released, same, signal, step_done};

cases![
    failed_run_is_reopened,
    stuck_run_is_reopened,
    only_failed_and_stuck_runs_are_reopened,
    reopening_an_unknown_run_is_refused,
    reopened_run_continues_at_the_next_number,
    failed_run_can_be_reopened_repeatedly,
    reopening_resets_the_recoveries,
    purge_leaves_nothing_behind,
    stuck_run_can_be_purged,
    open_run_cannot_be_purged,
    purging_an_unknown_run_is_refused,
    purge_does_not_affect_other_runs,
    purged_id_starts_fresh,
    old_number_neither_purges_nor_reopens_a_later_run,
    number_is_never_reused,
    purged_id_forgets_its_dedup_keys,
];

/// A run with two entries, ended or stuck as given.
async fn run_with_status(w: &World, id: &str, status: Status) -> Checked<InstanceNum> {
    let num = w.driven(id).await?;
    let (outcome, note) = (Some(json("\"broke\"")), Some("it broke".to_owned()));
    let state = Some(NewState { outcome, note, ..released(status) });
    same(&w.commit(&Commit { state, ..w.new_commit(num, 0, 2) }).await?, &Answer::Done)?;
    Ok(num)
}

async fn is_reopened(w: &World, status: Status) -> Checked {
    let num = run_with_status(w, "a", status).await?;
    same(&w.reopen("a", at(5_000)).await?, &Answer::Done)?;
    let held = w.held("a").await?;
    same(&(held.num, held.status, held.owner), &(num, Status::Pending, Epoch(0)))?;
    same(&(held.outcome, held.note, held.ended_at), &(None, None, None))?;
    same(&(held.created_at, held.started_at), &(NOW, Some(NOW)))?;
    same(&w.wakes().await?, &vec![Wake { due: at(5_000), num }])?;
    let reopened = Entry::reopened(3, at(5_000), status, None);
    same(&w.journal(num).await?, &vec![step_done(1), step_done(2), reopened])
}

async fn failed_run_is_reopened(w: &mut World) -> Checked {
    is_reopened(w, Status::Failed).await
}

async fn stuck_run_is_reopened(w: &mut World) -> Checked {
    is_reopened(w, Status::Stuck).await
}

async fn only_failed_and_stuck_runs_are_reopened(w: &mut World) -> Checked {
    w.pending("pending").await?;
    w.driven("running").await?;
    w.with_status("paused", WAITING).await?;
    w.with_status("completed", Status::Completed).await?;
    w.with_status("cancelled", Status::Cancelled).await?;
    let before = w.snapshot().await?;
    for id in ["pending", "running", "paused", "completed", "cancelled"] {
        let status = w.held(id).await?.status;
        refused(&w.reopen(id, at(5_000)).await?, Refusal::Status(status))?;
    }
    same(&w.snapshot().await?, &before)
}

async fn reopening_an_unknown_run_is_refused(w: &mut World) -> Checked {
    refused(&w.reopen("nobody", NOW).await?, Refusal::NotFound)
}

async fn reopened_run_continues_at_the_next_number(w: &mut World) -> Checked {
    let num = run_with_status(w, "a", Status::Failed).await?;
    w.reopen("a", NOW).await?;
    let claimed = w.claim(&[num]).await?;
    same(&claimed[0].journal.as_ref().map(Vec::len), &Ok(3))?;
    same(&w.commit(&w.new_commit(num, 2, 1)).await?, &Answer::Fenced)?;
    same(&w.commit(&w.new_commit(num, 3, 1)).await?, &Answer::Done)?;
    same(&w.journal(num).await?.len(), &4)
}

async fn failed_run_can_be_reopened_repeatedly(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for failures in 0..3 {
        w.commit(&w.new_state(num, failures, released(Status::Failed))).await?;
        same(&w.reopen("a", NOW).await?, &Answer::Done)?;
    }
    let kinds: Vec<_> = w.journal(num).await?.iter().map(|entry| (entry.seq, entry.kind)).collect();
    same(&kinds, &(1..=3).map(|seq| (seq, EntryKind::Retried)).collect())
}

async fn reopening_resets_the_recoveries(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(2_000)).await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_state(num, 0, released(Status::Stuck))).await?;
    same(&w.held("a").await?.recoveries, &1)?;
    w.reopen("a", at(3_000)).await?;
    same(&w.held("a").await?.recoveries, &0)
}

async fn leaves_nothing(w: &World, id: &str, num: InstanceNum) -> Checked {
    same(&w.purge(id).await?, &Answer::Done)?;
    same(&w.find(id).await?, &None)?;
    same(&(w.journal(num).await?, w.inbox(num).await?), &(Vec::new(), Vec::new()))?;
    same(&(w.all().await?, w.wakes().await?), &(Vec::new(), Vec::new()))?;
    refused(&w.purge(id).await?, Refusal::NotFound)
}

async fn old_number_neither_purges_nor_reopens_a_later_run(w: &mut World) -> Checked {
    let old = run_with_status(w, "a", Status::Failed).await?;
    same(&w.purge("a").await?, &Answer::Done)?;
    let num = run_with_status(w, "a", Status::Failed).await?;
    let before = w.snapshot().await?;
    refused(&w.write(Write::Purge(name("a"), Some(old))).await?, Refusal::NotFound)?;
    let reopen = |num| Write::Reopen(Reopen { id: name("a"), num: Some(num), at: NOW });
    refused(&w.write(reopen(old)).await?, Refusal::NotFound)?;
    same(&w.snapshot().await?, &before)?;
    same(&w.write(reopen(num)).await?, &Answer::Done)
}

async fn purge_leaves_nothing_behind(w: &mut World) -> Checked {
    for status in [Status::Completed, Status::Failed, Status::Cancelled] {
        let num = run_with_status(w, "a", status).await?;
        leaves_nothing(w, "a", num).await?;
    }
    Ok(())
}

async fn stuck_run_can_be_purged(w: &mut World) -> Checked {
    let num = run_with_status(w, "a", Status::Stuck).await?;
    w.signalled("a", "kept until now").await?;
    leaves_nothing(w, "a", num).await
}

async fn open_run_cannot_be_purged(w: &mut World) -> Checked {
    w.pending("pending").await?;
    w.driven("running").await?;
    w.with_status("paused", WAITING).await?;
    let before = w.snapshot().await?;
    for id in ["pending", "running", "paused"] {
        let status = w.held(id).await?.status;
        refused(&w.purge(id).await?, Refusal::Status(status))?;
    }
    same(&w.snapshot().await?, &before)
}

async fn purging_an_unknown_run_is_refused(w: &mut World) -> Checked {
    refused(&w.purge("nobody").await?, Refusal::NotFound)
}

async fn purge_does_not_affect_other_runs(w: &mut World) -> Checked {
    for id in ["aa", "b"] {
        run_with_status(w, id, Status::Failed).await?;
    }
    let paused = w.paused_until("c", at(9_000)).await?;
    w.commit(&w.new_commit(paused, 0, 2)).await?;
    w.signalled("c", "hello").await?;
    let before = w.snapshot().await?;
    let purged = run_with_status(w, "a", Status::Completed).await?;
    w.purge("a").await?;
    same(&w.snapshot().await?.without_events_of(purged), &before)
}

async fn purged_id_starts_fresh(w: &mut World) -> Checked {
    let old = run_with_status(w, "a", Status::Failed).await?;
    w.purge("a").await?;
    let start = StartWrite { workflow: name("refund"), input: json("2"), ..w.new_start("a") };
    let answer = w.start(&start).await?;
    let held = w.held("a").await?;
    same(&answer, &Answer::Started { num: held.num, created: true, is_driven: false })?;
    same(&(held.num > old, held.status, held.workflow), &(true, Status::Pending, name("refund")))?;
    same(&(held.outcome, held.note, held.started_at), &(None, None, None))?;
    same(&(w.journal(held.num).await?, w.inbox(held.num).await?), &(Vec::new(), Vec::new()))?;
    same(&w.commit(&w.new_commit(old, 2, 1)).await?, &Answer::Fenced)
}

async fn number_is_never_reused(w: &mut World) -> Checked {
    let mut last = InstanceNum(0);
    for round in 0..3 {
        let num = run_with_status(w, "a", Status::Completed).await?;
        same(&(num > last), &true)?;
        last = num;
        w.purge("a").await?;
        if round == 1 {
            w.restart(at(2_000)).await?;
        }
    }
    Ok(())
}

async fn purged_id_forgets_its_dedup_keys(w: &mut World) -> Checked {
    w.driven("a").await?;
    let keyed = |w: &World, text| SendWrite { dedup: Some(name("key")), ..w.new_send("a", signal(text)) };
    let first = keyed(w, "to the old one");
    w.send(&first).await?;
    let old = w.held("a").await?.num;
    w.commit(&w.new_state(old, 0, released(Status::Completed))).await?;
    w.purge("a").await?;
    let new = w.pending("a").await?;
    w.send(&keyed(w, "to the new one")).await?;
    same(&w.signals(new).await?, &vec!["to the new one".to_owned()])
}
