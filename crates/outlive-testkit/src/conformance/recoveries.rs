//! Promises about what is there after a process died, and how often that happened.

use outlive_core::commit::{Answer, Commit, Epoch, Send, Start, State};
use outlive_core::query::Wake;
use outlive_core::status::Status;

use super::world::{BY_HAND, Checked, NOW, World, asleep, at, driven_on, json, name, of_run, released, same, signal};

cases![
    a_lease_makes_what_was_driven_due_and_counts_a_recovery,
    a_lease_leaves_what_nobody_drove,
    recoveries_add_up,
    a_lease_counts_no_recovery_for_what_was_not_claimed_since,
    entries_set_the_recoveries_back,
    a_claim_or_a_state_alone_leaves_the_recoveries,
    what_was_paused_by_hand_stays_so_over_a_crash,
    what_was_answered_is_there_after_a_crash,
    dedup_keys_are_known_after_a_crash,
    numbers_and_positions_go_on_after_a_crash,
];

async fn a_lease_makes_what_was_driven_due_and_counts_a_recovery(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(5_000)).await?;
    let held = w.held("a").await?;
    same(&(held.owner, held.recoveries, held.status), &(Epoch(0), 1, Status::Running))?;
    same(&held.wake, &Some(at(5_000)))?;
    same(&w.wakes().await?, &vec![Wake { due: at(5_000), num }])
}

async fn a_lease_leaves_what_nobody_drove(w: &mut World) -> Checked {
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

async fn a_lease_counts_no_recovery_for_what_was_not_claimed_since(w: &mut World) -> Checked {
    w.driven("a").await?;
    w.restart(at(5_000)).await?;
    w.restart(at(6_000)).await?;
    let held = w.held("a").await?;
    same(&(held.recoveries, held.wake), &(1, Some(at(5_000))))
}

async fn entries_set_the_recoveries_back(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(5_000)).await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_commit(num, 0, 1)).await?;
    same(&w.held("a").await?.recoveries, &0)
}

async fn a_claim_or_a_state_alone_leaves_the_recoveries(w: &mut World) -> Checked {
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

async fn what_was_paused_by_hand_stays_so_over_a_crash(w: &mut World) -> Checked {
    let num = w.with_status("a", BY_HAND).await?;
    w.signalled("a", "hello").await?;
    w.claim(&[num]).await?;
    w.restart(at(5_000)).await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake), &(BY_HAND, Epoch(0), Some(at(5_000))))
}

async fn what_was_answered_is_there_after_a_crash(w: &mut World) -> Checked {
    let tags = [("shop".to_owned(), "paris".to_owned())].into();
    w.start(&Start { tags, due: at(7_000), ..w.new_start("a") }).await?;
    let num = w.driven("b").await?;
    w.signalled("b", "first").await?;
    w.signalled("b", "second").await?;
    w.commit(&Commit { state: Some(asleep(at(8_000))), ..w.new_commit(num, 0, 5) }).await?;
    let failed = w.driven("c").await?;
    let entries = vec![of_run(1)];
    let state =
        Some(State { outcome: Some(json("\"broke\"")), note: Some("it broke".to_owned()), ..released(Status::Failed) });
    w.commit(&Commit { entries, state, ..w.new_commit(failed, 0, 0) }).await?;
    let before = w.snapshot().await?;
    w.die().await?;
    same(&w.snapshot().await?, &before)
}

async fn dedup_keys_are_known_after_a_crash(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let once = |w: &World, text| Send { dedup: Some(name("key")), ..w.new_send("a", signal(text)) };
    w.send(&once(w, "first")).await?;
    w.restart(at(2_000)).await?;
    w.send(&once(w, "second")).await?;
    same(&w.signals(num).await?, &vec!["first".to_owned()])
}

async fn numbers_and_positions_go_on_after_a_crash(w: &mut World) -> Checked {
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
