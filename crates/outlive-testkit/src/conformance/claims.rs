//! Promises about claims: the claimant gets a complete instance, exclusively.

use outlive_core::id::InstanceNum;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Claim, Claimed, Commit, Epoch, Write};

use super::world::{BY_HAND, Checked, WAITING, World, asleep, at, cancel, same};

cases![
    claim_returns_row_journal_and_inbox,
    claim_returns_instances_in_the_requested_order,
    ended_stuck_and_unknown_instances_are_not_claimed,
    claiming_an_owned_instance_again_returns_it_again,
    pending_running_and_paused_instances_are_claimed_and_run,
    manually_paused_instance_stays_paused_when_claimed,
    instance_named_twice_is_claimed_once,
    claim_of_nothing_is_empty,
    claim_sets_the_start_time_only_once,
    claim_reports_whether_it_is_the_first,
    claimed_instance_can_commit_and_pause_again,
    message_after_the_claim_is_in_the_inbox,
    claim_of_hundreds_is_complete,
];

fn nums(claimed: &[Claimed]) -> Vec<InstanceNum> {
    claimed.iter().map(|one| one.instance.num).collect()
}

async fn claim_returns_row_journal_and_inbox(w: &mut World) -> Checked {
    let num = w.paused_until("a", at(5_000)).await?;
    w.commit(&w.new_commit(num, 0, 3)).await?;
    w.signalled("a", "one").await?;
    w.send(&w.new_send("a", cancel("two"))).await?;
    let claimed = w.claim(&[num]).await?;
    same(&claimed.len(), &1)?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake), &(Status::Running, w.epoch, None))?;
    same(&claimed[0].instance, &held)?;
    same(&claimed[0].journal, &Ok(w.journal(num).await?))?;
    same(&claimed[0].inbox, &Ok(w.inbox(num).await?))?;
    same(&(w.journal(num).await?.len(), w.inbox(num).await?.len()), &(3, 2))
}

async fn claim_returns_instances_in_the_requested_order(w: &mut World) -> Checked {
    let (a, b, c) = (w.pending("a").await?, w.pending("b").await?, w.pending("c").await?);
    same(&nums(&w.claim(&[b, c, a]).await?), &vec![b, c, a])
}

async fn claiming_an_owned_instance_again_returns_it_again(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let first = w.claim(&[num]).await?;
    let again = w.claim(&[num]).await?;
    same(&format!("{again:?}"), &format!("{first:?}"))
}

async fn ended_stuck_and_unknown_instances_are_not_claimed(w: &mut World) -> Checked {
    let mut asked = Vec::new();
    for (id, status) in [
        ("completed", Status::Completed),
        ("failed", Status::Failed),
        ("cancelled", Status::Cancelled),
        ("stuck", Status::Stuck),
    ] {
        asked.push(w.with_status(id, status).await?);
    }
    asked.push(InstanceNum(1_000_000));
    let before = w.snapshot().await?;
    same(&w.claim(&asked).await?.len(), &0)?;
    same(&w.snapshot().await?, &before)?;
    let free = w.pending("free").await?;
    asked.insert(1, free);
    same(&nums(&w.claim(&asked).await?), &vec![free])
}

async fn pending_running_and_paused_instances_are_claimed_and_run(w: &mut World) -> Checked {
    let running = w.driven("running").await?;
    w.restart(at(2_000)).await?;
    let asked = [w.pending("pending").await?, running, w.with_status("paused", WAITING).await?];
    same(&nums(&w.claim(&asked).await?), &asked.to_vec())?;
    for held in w.all().await? {
        same(&(held.status, held.owner, held.wake), &(Status::Running, w.epoch, None))?;
    }
    Ok(())
}

async fn manually_paused_instance_stays_paused_when_claimed(w: &mut World) -> Checked {
    let num = w.with_status("a", BY_HAND).await?;
    let claimed = w.claim(&[num]).await?;
    same(&(claimed[0].instance.status, claimed[0].instance.owner), &(BY_HAND, w.epoch))?;
    same(&w.held("a").await?.status, &BY_HAND)
}

async fn instance_named_twice_is_claimed_once(w: &mut World) -> Checked {
    let (a, b) = (w.pending("a").await?, w.pending("b").await?);
    same(&nums(&w.claim(&[a, b, a]).await?), &vec![a, b])
}

async fn claim_of_nothing_is_empty(w: &mut World) -> Checked {
    w.pending("a").await?;
    same(&w.claim(&[]).await?.len(), &0)
}

async fn claim_sets_the_start_time_only_once(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    for millis in [3_000, 4_000] {
        let claim = Claim { nums: vec![num], epoch: w.epoch, at: at(millis) };
        w.write(Write::Claim(claim)).await?;
        same(&w.held("a").await?.started_at, &Some(at(3_000)))?;
        w.restart(at(3_500)).await?;
    }
    Ok(())
}

async fn claim_reports_whether_it_is_the_first(w: &mut World) -> Checked {
    let (new, driven) = (w.pending("new").await?, w.driven("driven").await?);
    w.restart(at(2_000)).await?;
    let firsts = async |w: &World| -> Checked<Vec<bool>> {
        Ok(w.claim(&[new, driven]).await?.iter().map(|one| one.is_first).collect())
    };
    same(&firsts(w).await?, &vec![true, false])?;
    w.restart(at(3_000)).await?;
    same(&firsts(w).await?, &vec![false, false])
}

async fn claimed_instance_can_commit_and_pause_again(w: &mut World) -> Checked {
    let num = w.paused_until("a", at(5_000)).await?;
    for seq_before in 0..3 {
        same(&w.claim(&[num]).await?.len(), &1)?;
        let state = Some(asleep(at(6_000)));
        same(&w.commit(&Commit { state, ..w.new_commit(num, seq_before, 1) }).await?, &Answer::Done)?;
        let held = w.held("a").await?;
        same(&(held.owner, held.wake), &(Epoch(0), Some(at(6_000))))?;
    }
    Ok(())
}

async fn message_after_the_claim_is_in_the_inbox(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    w.signalled("a", "before").await?;
    w.claim(&[num]).await?;
    w.signalled("a", "after").await?;
    same(&w.signals(num).await?, &vec!["before".to_owned(), "after".to_owned()])
}

async fn claim_of_hundreds_is_complete(w: &mut World) -> Checked {
    let starts = (0..700).map(|i| Write::Start(w.new_start(&format!("run {i}")))).collect();
    w.batch(starts).await?;
    let sends = (0..700).map(|i| Write::Message(w.new_send(&format!("run {i}"), cancel("no")))).collect();
    w.batch(sends).await?;
    let asked: Vec<InstanceNum> = w.all().await?.iter().map(|held| held.num).collect();
    let claimed = w.claim(&asked).await?;
    same(&nums(&claimed), &asked)?;
    for one in &claimed {
        same(&one.inbox.as_ref().map(Vec::len), &Ok(1))?;
    }
    same(&w.wakes().await?, &Vec::new())
}
