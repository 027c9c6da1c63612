//! Promises about the lease: a process that lost the right to execute cannot change a run any more.

use outlive_core::status::Status;
use outlive_core::store::ErrorKind;
use outlive_core::store::commit::{Answer, Claim, Commit, Epoch, StartWrite, Write};
use outlive_core::store::query::Wake;

use super::world::{Checked, NOW, World, asleep, at, ensure, released, same, signal, step_done};

cases![
    each_lease_has_a_larger_epoch,
    commit_under_an_earlier_lease_is_fenced,
    claim_under_an_earlier_lease_is_fenced,
    commit_after_a_release_is_fenced,
    claim_after_a_release_is_fenced,
    start_under_an_earlier_lease_stays_pending,
    epoch_zero_and_unissued_epochs_are_fenced,
    second_lease_is_refused_or_fences_the_first,
    releasing_an_earlier_lease_does_not_touch_the_current_one,
    starts_and_messages_need_no_lease,
    release_makes_owned_instances_due_without_counting_a_recovery,
    release_does_not_affect_unowned_instances,
    lease_after_a_release_can_continue,
];

/// Checks that neither entries nor an end can be written under this epoch.
async fn cannot_commit(w: &World, id: &str, epoch: Epoch) -> Checked {
    let num = w.held(id).await?.num;
    let before = w.snapshot().await?;
    let entries = Commit { epoch, ..w.new_commit(num, 0, 1) };
    same(&w.commit(&entries).await?, &Answer::Fenced)?;
    let end = Commit { epoch, ..w.new_state(num, 0, released(Status::Completed)) };
    same(&w.commit(&end).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

/// Checks that nothing can be claimed under this epoch.
async fn cannot_claim(w: &World, id: &str, epoch: Epoch) -> Checked {
    let nums = vec![w.held(id).await?.num];
    let before = w.snapshot().await?;
    same(&w.write(Write::Claim(Claim { nums, epoch, at: NOW })).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

async fn each_lease_has_a_larger_epoch(w: &mut World) -> Checked {
    let first = w.epoch;
    let second = w.restart(at(1)).await?;
    w.release(second).await?;
    let third = w.lease(at(2)).await?;
    w.release(third).await?;
    let fourth = w.restart(at(3)).await?;
    let is_growing = Epoch(0) < first && first < second && second < third && third < fourth;
    ensure(is_growing, || format!("{first:?} {second:?} {third:?} {fourth:?}"))
}

async fn commit_under_an_earlier_lease_is_fenced(w: &mut World) -> Checked {
    let (old, num) = (w.epoch, w.driven("a").await?);
    w.restart(at(2_000)).await?;
    cannot_commit(w, "a", old).await?;
    w.claim(&[num]).await?;
    cannot_commit(w, "a", old).await
}

async fn claim_under_an_earlier_lease_is_fenced(w: &mut World) -> Checked {
    let old = w.epoch;
    w.pending("a").await?;
    w.restart(at(2_000)).await?;
    cannot_claim(w, "a", old).await
}

async fn commit_after_a_release_is_fenced(w: &mut World) -> Checked {
    let old = w.epoch;
    w.driven("a").await?;
    w.release(old).await?;
    cannot_commit(w, "a", old).await
}

async fn claim_after_a_release_is_fenced(w: &mut World) -> Checked {
    let old = w.epoch;
    w.pending("a").await?;
    w.release(old).await?;
    cannot_claim(w, "a", old).await
}

async fn start_under_an_earlier_lease_stays_pending(w: &mut World) -> Checked {
    let old = w.epoch;
    w.restart(at(2_000)).await?;
    w.start(&StartWrite { owner: old, ..w.new_start("a") }).await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake), &(Status::Pending, Epoch(0), Some(NOW)))
}

async fn epoch_zero_and_unissued_epochs_are_fenced(w: &mut World) -> Checked {
    w.pending("a").await?;
    for epoch in [Epoch(0), Epoch(w.epoch.0 + 1)] {
        cannot_commit(w, "a", epoch).await?;
        cannot_claim(w, "a", epoch).await?;
    }
    w.release(w.epoch).await?;
    cannot_commit(w, "a", Epoch(0)).await?;
    cannot_claim(w, "a", Epoch(0)).await
}

async fn second_lease_is_refused_or_fences_the_first(w: &mut World) -> Checked {
    let (old, num) = (w.epoch, w.driven("a").await?);
    match w.store().lease(at(2_000)).await {
        Ok(new) => {
            ensure(new > old, || format!("{new:?} after {old:?}"))?;
            cannot_commit(w, "a", old).await
        }
        Err(error) => {
            ensure(matches!(error.kind, ErrorKind::Locked { .. }), || format!("{error:?}"))?;
            same(&w.commit(&w.new_commit(num, 0, 1)).await?, &Answer::Done)
        }
    }
}

async fn releasing_an_earlier_lease_does_not_touch_the_current_one(w: &mut World) -> Checked {
    let old = w.epoch;
    w.restart(at(2_000)).await?;
    let num = w.driven("a").await?;
    let before = w.snapshot().await?;
    w.release(old).await?;
    same(&w.snapshot().await?, &before)?;
    same(&w.commit(&w.new_commit(num, 0, 1)).await?, &Answer::Done)
}

async fn starts_and_messages_need_no_lease(w: &mut World) -> Checked {
    w.release(w.epoch).await?;
    let num = w.pending("a").await?;
    w.signalled("a", "hello").await?;
    same(&w.signals(num).await?, &vec!["hello".to_owned()])?;
    w.die().await?;
    w.signalled("a", "again").await?;
    same(&w.wakes().await?, &vec![Wake { due: NOW, num }])
}

async fn release_makes_owned_instances_due_without_counting_a_recovery(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.commit(&w.new_commit(num, 0, 1)).await?;
    w.release(w.epoch).await?;
    let held = w.held("a").await?;
    same(&(held.owner, held.recoveries, held.status), &(Epoch(0), 0, Status::Running))?;
    let is_due = held.wake.is_some_and(|wake| wake <= NOW);
    ensure(is_due, || format!("wake {:?}", held.wake))?;
    w.lease(at(2_000)).await?;
    same(&w.held("a").await?.recoveries, &0)
}

async fn release_does_not_affect_unowned_instances(w: &mut World) -> Checked {
    w.pending("a").await?;
    w.paused_until("b", at(5_000)).await?;
    w.with_status("c", Status::Completed).await?;
    w.with_status("d", Status::Stuck).await?;
    w.send(&w.new_send("a", signal("hello"))).await?;
    let before = w.snapshot().await?;
    w.release(w.epoch).await?;
    same(&w.snapshot().await?, &before)
}

async fn lease_after_a_release_can_continue(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.commit(&w.new_commit(num, 0, 1)).await?;
    w.release(w.epoch).await?;
    w.lease(at(2_000)).await?;
    same(&w.claim(&[num]).await?.len(), &1)?;
    let pause = Commit { state: Some(asleep(at(9_000))), ..w.new_commit(num, 1, 1) };
    same(&w.commit(&pause).await?, &Answer::Done)?;
    same(&w.journal(num).await?, &(1..=2).map(step_done).collect())
}
