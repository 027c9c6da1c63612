//! Promises about what survives a process crash, and how crashes are counted.

use outlive_core::id::InstanceNum;
use outlive_core::journal::EntryKind;
use outlive_core::status::Status;
use outlive_core::store::commit::{Absolve, Answer, Commit, Epoch, NewState, SendWrite, StartWrite, Write};
use outlive_core::store::query::{Suspect, Wake};

use super::world::{
    BY_HAND, Checked, NOW, World, asleep, at, driven_on, in_words, json, name, of_run, released, same, signal,
};

cases![
    lease_makes_owned_instances_due_and_counts_a_recovery,
    lease_does_not_affect_unowned_instances,
    recoveries_add_up,
    lease_counts_no_recovery_for_unclaimed_instances,
    entries_reset_the_recoveries,
    claim_or_state_alone_keeps_the_recoveries,
    heartbeats_keep_the_recoveries,
    instances_owned_at_two_crashes_are_suspects,
    only_a_lone_suspect_is_blamed_for_a_crash,
    one_suspect_among_others_is_blamed,
    earlier_blame_does_not_make_a_suspect,
    absolving_resets_the_recoveries,
    absolving_may_keep_some_recoveries,
    absolving_does_not_affect_stuck_instances,
    manually_paused_run_stays_paused_across_a_crash,
    acknowledged_writes_survive_a_crash,
    dedup_keys_survive_a_crash,
    numbers_and_positions_continue_after_a_crash,
];

async fn lease_makes_owned_instances_due_and_counts_a_recovery(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(5_000)).await?;
    let held = w.held("a").await?;
    same(&(held.owner, held.recoveries, held.status), &(Epoch(0), 1, Status::Running))?;
    same(&held.wake, &Some(at(5_000)))?;
    same(&w.wakes().await?, &vec![Wake { due: at(5_000), num }])
}

async fn lease_does_not_affect_unowned_instances(w: &mut World) -> Checked {
    w.pending("a").await?;
    w.paused_until("b", at(9_000)).await?;
    for (id, status) in [("c", Status::Completed), ("d", Status::Failed), ("e", Status::Stuck)] {
        w.with_status(id, status).await?;
    }
    w.signalled("b", "hello").await?;
    let before = w.snapshot().await?;
    w.restart(at(5_000)).await?;
    same(&w.snapshot().await?, &before)
}

async fn recoveries_add_up(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for crashes in 1..=3 {
        w.restart(at(5_000)).await?;
        same(&w.held("a").await?.recoveries, &crashes)?;
        let claimed = w.claim(&[num]).await?;
        same(&claimed[0].instance.recoveries, &crashes)?;
    }
    Ok(())
}

async fn lease_counts_no_recovery_for_unclaimed_instances(w: &mut World) -> Checked {
    w.driven("a").await?;
    w.restart(at(5_000)).await?;
    w.restart(at(6_000)).await?;
    let held = w.held("a").await?;
    same(&(held.recoveries, held.wake), &(1, Some(at(5_000))))
}

async fn entries_reset_the_recoveries(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(5_000)).await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_commit(num, 0, 1)).await?;
    same(&w.held("a").await?.recoveries, &0)
}

async fn claim_or_state_alone_keeps_the_recoveries(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(5_000)).await?;
    w.claim(&[num]).await?;
    for state in [driven_on(), asleep(at(9_000))] {
        w.commit(&w.new_state(num, 0, state)).await?;
        same(&w.held("a").await?.recoveries, &1)?;
    }
    w.signalled("a", "hello").await?;
    same(&w.held("a").await?.recoveries, &1)
}

async fn heartbeats_keep_the_recoveries(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(5_000)).await?;
    w.claim(&[num]).await?;
    let mut commit = w.new_commit(num, 0, 1);
    commit.entries[0].kind = EntryKind::Heartbeat;
    w.commit(&commit).await?;
    same(&w.held("a").await?.recoveries, &1)?;
    w.commit(&w.new_commit(num, 1, 1)).await?;
    same(&w.held("a").await?.recoveries, &0)
}

/// Kills the process while it owns these instances.
async fn die_driving(w: &mut World, nums: &[InstanceNum], millis: i64) -> Checked {
    w.claim(nums).await?;
    w.restart(at(millis)).await.map(drop)
}

async fn instances_owned_at_two_crashes_are_suspects(w: &mut World) -> Checked {
    let (a, b, c) = (w.driven("a").await?, w.driven("b").await?, w.driven("c").await?);
    w.restart(at(2_000)).await?;
    same(&in_words(w.store().suspects(at(9_000)).await)?, &vec![])?;
    die_driving(w, &[a, b, c], 3_000).await?;
    die_driving(w, &[c], 4_000).await?;
    w.claim(&[b]).await?;
    let suspect = |num, recoveries| Suspect { num, recoveries };
    same(&in_words(w.store().suspects(at(9_000)).await)?, &vec![suspect(a, 2), suspect(c, 3)])?;
    same(&in_words(w.store().suspects(at(3_999)).await)?, &vec![suspect(a, 2)])
}

async fn only_a_lone_suspect_is_blamed_for_a_crash(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    w.restart(at(2_000)).await?;
    die_driving(w, &[a, b], 3_000).await?;
    same(&(w.held("a").await?.blamed, w.held("b").await?.blamed), &(0, 0))?;
    die_driving(w, &[b], 4_000).await?;
    die_driving(w, &[b], 5_000).await?;
    same(&(w.held("a").await?.blamed, w.held("b").await?.blamed), &(0, 2))?;
    same(&(w.held("a").await?.recoveries, w.held("b").await?.recoveries), &(2, 4))?;
    let claimed = w.claim(&[b]).await?;
    same(&(claimed[0].instance.blamed, claimed[0].instance.recoveries), &(2, 4))?;
    w.commit(&w.new_state(b, 0, driven_on())).await?;
    same(&w.held("b").await?.blamed, &2)?;
    w.commit(&w.new_commit(b, 0, 1)).await?;
    same(&(w.held("b").await?.blamed, w.held("b").await?.recoveries), &(0, 0))
}

async fn one_suspect_among_others_is_blamed(w: &mut World) -> Checked {
    let a = w.driven("a").await?;
    let b = w.driven("b").await?;
    w.restart(at(2_000)).await?;
    w.claim(&[a]).await?;
    w.driven("new").await?;
    // It was the only suspect at the previous crash.
    w.restart(at(3_000)).await?;
    same(&w.held("a").await?.blamed, &1)?;
    w.driven("newer").await?;
    die_driving(w, &[a, b], 4_000).await?;
    same(&(w.held("a").await?.blamed, w.held("b").await?.blamed, w.held("newer").await?.blamed), &(2, 0, 0))
}

/// What broke: SQLite kept recoveries and blame in one column and compared all of it, so an instance that had once been
/// blamed was blamed again for a crash that another one may have caused.
async fn earlier_blame_does_not_make_a_suspect(w: &mut World) -> Checked {
    let a = w.driven("a").await?;
    w.restart(at(2_000)).await?;
    same(&(w.held("a").await?.recoveries, w.held("a").await?.blamed), &(1, 1))?;
    let (b, _) = (w.driven("b").await?, w.driven("c").await?);
    w.restart(at(3_000)).await?;
    same(&(w.held("b").await?.recoveries, w.held("b").await?.blamed), &(1, 0))?;
    // Both were driven at one crash, so neither stands out.
    w.claim(&[a, b]).await?;
    let absolve = Absolve { nums: vec![a], epoch: w.epoch, max_recoveries: 1 };
    w.write(Write::Absolve(absolve)).await?;
    same(&w.held("a").await?.blamed, &1)?;
    w.restart(at(4_000)).await?;
    same(&(w.held("a").await?.blamed, w.held("b").await?.blamed), &(1, 0))
}

async fn absolving_resets_the_recoveries(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    w.restart(at(2_000)).await?;
    die_driving(w, &[a], 3_000).await?;
    w.claim(&[a]).await?;
    let absolve = |epoch| Write::Absolve(Absolve { nums: vec![a, InstanceNum(1_000_000)], epoch, max_recoveries: 0 });
    same(&w.write(absolve(Epoch(1_000))).await?, &Answer::Fenced)?;
    same(&w.write(absolve(w.epoch)).await?, &Answer::Done)?;
    let held = w.held("a").await?;
    same(&(held.recoveries, held.blamed, w.held("b").await?.recoveries), &(0, 0, 1))?;
    w.commit(&w.new_state(a, 0, asleep(at(9_000)))).await?;
    same(&w.held("a").await?.recoveries, &0)?;
    w.claim(&[b]).await.map(drop)
}

async fn absolving_may_keep_some_recoveries(w: &mut World) -> Checked {
    let (a, b) = (w.driven("a").await?, w.driven("b").await?);
    w.restart(at(2_000)).await?;
    die_driving(w, &[a], 3_000).await?;
    die_driving(w, &[a], 4_000).await?;
    let nums = vec![a, b];
    w.write(Write::Absolve(Absolve { nums, epoch: w.epoch, max_recoveries: 1 })).await?;
    let (first, second) = (w.held("a").await?, w.held("b").await?);
    same(&(first.recoveries, first.blamed, second.recoveries), &(1, 0, 1))
}

async fn absolving_does_not_affect_stuck_instances(w: &mut World) -> Checked {
    let a = w.driven("a").await?;
    w.restart(at(2_000)).await?;
    w.claim(&[a]).await?;
    w.commit(&w.new_state(a, 0, released(Status::Stuck))).await?;
    w.write(Write::Absolve(Absolve { nums: vec![a], epoch: w.epoch, max_recoveries: 0 })).await?;
    same(&(w.held("a").await?.recoveries, w.held("a").await?.blamed), &(1, 1))
}

async fn manually_paused_run_stays_paused_across_a_crash(w: &mut World) -> Checked {
    let num = w.with_status("a", BY_HAND).await?;
    w.signalled("a", "hello").await?;
    w.claim(&[num]).await?;
    w.restart(at(5_000)).await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake), &(BY_HAND, Epoch(0), Some(at(5_000))))
}

async fn acknowledged_writes_survive_a_crash(w: &mut World) -> Checked {
    let tags = [("shop".to_owned(), "paris".to_owned())].into();
    w.start(&StartWrite { tags, due: at(7_000), ..w.new_start("a") }).await?;
    let num = w.driven("b").await?;
    w.signalled("b", "first").await?;
    w.signalled("b", "second").await?;
    w.commit(&Commit { state: Some(asleep(at(8_000))), ..w.new_commit(num, 0, 5) }).await?;
    let failed = w.driven("c").await?;
    let entries = vec![of_run(1)];
    let state = Some(NewState {
        outcome: Some(json("\"broke\"")),
        note: Some("it broke".to_owned()),
        ..released(Status::Failed)
    });
    w.commit(&Commit { entries, state, ..w.new_commit(failed, 0, 0) }).await?;
    let before = w.snapshot().await?;
    w.die().await?;
    same(&w.snapshot().await?, &before)
}

async fn dedup_keys_survive_a_crash(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let once = |w: &World, text| SendWrite { dedup: Some(name("key")), ..w.new_send("a", signal(text)) };
    w.send(&once(w, "first")).await?;
    w.restart(at(2_000)).await?;
    w.send(&once(w, "second")).await?;
    same(&w.signals(num).await?, &vec!["first".to_owned()])
}

async fn numbers_and_positions_continue_after_a_crash(w: &mut World) -> Checked {
    let (first, b) = (w.driven("a").await?, w.driven("b").await?);
    let pos = w.signalled("b", "one").await?;
    let taken = vec![pos];
    same(&w.commit(&Commit { taken, ..w.new_commit(b, 0, 1) }).await?, &Answer::Done)?;
    w.commit(&w.new_state(first, 0, released(Status::Completed))).await?;
    w.purge("a").await?;
    w.restart(NOW).await?;
    let (next, pos_next) = (w.pending("a").await?, w.signalled("b", "two").await?);
    same(&(next > b, pos_next > pos), &(true, true))
}
