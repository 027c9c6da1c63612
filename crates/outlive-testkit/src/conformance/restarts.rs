//! Promises about restarts: a fresh journal under the same number, while the feed keeps the old ones for a time.

use outlive_core::id::InstanceNum;
use outlive_core::journal::Entry;
use outlive_core::restart::RestartRecord;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, NewState, Trim, Write};
use outlive_core::store::query::FeedContent;

use super::world::{Checked, World, at, in_words, json, released, same, step_done};

cases![
    restart_begins_a_fresh_journal,
    restarted_run_is_claimed_with_its_inbox,
    repeated_restart_counts_once,
    feed_keeps_past_journals_until_they_are_trimmed,
    purge_removes_past_journals,
];

fn restarted(seq: u64, at_millis: i64, run_number: u32) -> Entry {
    RestartRecord::new(json("{\"page\":7}")).to_entry(seq, at(at_millis), run_number)
}

/// Returns the commit that restarts a run whose journal ends with entry `seq`.
fn restart(w: &World, num: InstanceNum, seq: u64, run_number: u32) -> Commit {
    let state = NewState { wake: Some(at(0)), ..released(Status::Running) };
    let entries = vec![restarted(seq + 1, 1_000 * i64::from(run_number), run_number)];
    Commit { entries, ..w.new_state(num, seq, state) }
}

/// A run with two entries that has restarted.
async fn restarted_run(w: &World, id: &str) -> Checked<InstanceNum> {
    let num = w.driven(id).await?;
    w.commit(&w.new_commit(num, 0, 2)).await?;
    same(&w.commit(&restart(w, num, 2, 2)).await?, &Answer::Done)?;
    Ok(num)
}

async fn entries_in_feed(w: &World, num: InstanceNum) -> Checked<Vec<(u64, u64)>> {
    let feed = in_words(w.store().feed(0, usize::MAX).await)?;
    let entry = |content: &FeedContent| match content {
        FeedContent::Entry(entry) => Some(entry.seq),
        FeedContent::Lifecycle(_) => None,
    };
    let of_run = feed.iter().filter(|item| item.num == num);
    Ok(of_run.filter_map(|item| Some((entry(&item.content)?, item.number))).collect())
}

async fn restart_begins_a_fresh_journal(w: &mut World) -> Checked {
    let num = restarted_run(w, "a").await?;
    same(&w.journal(num).await?, &vec![restarted(3, 2_000, 2)])?;
    let held = w.held("a").await?;
    same(&(held.restarts, held.status, held.wake), &(1, Status::Running, Some(at(0))))?;
    same(&held.input, &w.new_start("a").input)?;
    w.claim(&[num]).await?;
    w.commit(&w.new_commit(num, 3, 1)).await?;
    same(&w.journal(num).await?, &vec![restarted(3, 2_000, 2), step_done(4)])?;
    same(&in_words(w.store().journal(num, 3, 9).await)?, &vec![step_done(4)])?;
    w.commit(&restart(w, num, 4, 3)).await?;
    w.restart(at(0)).await?;
    same(&(w.journal(num).await?, w.held("a").await?.restarts), &(vec![restarted(5, 3_000, 3)], 2))
}

async fn restarted_run_is_claimed_with_its_inbox(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.signalled("a", "early").await?;
    w.commit(&w.new_commit(num, 0, 2)).await?;
    w.commit(&restart(w, num, 2, 2)).await?;
    let claimed = w.claim(&[num]).await?;
    same(&claimed.len(), &1)?;
    same(&claimed[0].journal, &Ok(vec![restarted(3, 2_000, 2)]))?;
    same(&(claimed[0].inbox.as_ref().map(Vec::len), claimed[0].is_first), &(Ok(1), false))
}

async fn repeated_restart_counts_once(w: &mut World) -> Checked {
    let num = restarted_run(w, "a").await?;
    same(&w.commit(&restart(w, num, 2, 2)).await?, &Answer::Done)?;
    same(&(w.held("a").await?.restarts, w.journal(num).await?.len()), &(1, 1))
}

async fn feed_keeps_past_journals_until_they_are_trimmed(w: &mut World) -> Checked {
    let num = restarted_run(w, "a").await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_commit(num, 3, 1)).await?;
    same(&entries_in_feed(w, num).await?, &vec![(1, 3), (2, 4), (3, 5), (4, 6)])?;
    let trim = |before| Write::Trim(Trim { before: at(before), now: at(9_000) });
    w.write(trim(2_000)).await?;
    same(&entries_in_feed(w, num).await?.len(), &4)?;
    w.write(trim(2_001)).await?;
    same(&entries_in_feed(w, num).await?, &vec![(3, 5), (4, 6)])?;
    same(&w.journal(num).await?.len(), &2)?;
    same(&w.write(trim(2_001)).await?, &Answer::Trimmed(0))
}

async fn purge_removes_past_journals(w: &mut World) -> Checked {
    let num = restarted_run(w, "a").await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_state(num, 3, NewState { outcome: Some(json("1")), ..released(Status::Completed) })).await?;
    w.purge("a").await?;
    same(&entries_in_feed(w, num).await?, &Vec::new())
}
