//! Promises about the removal of runs that ended long ago.

use outlive_core::child::Parent;
use outlive_core::id::InstanceNum;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::restart::RestartRecord;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, NewState, StartWrite, Write};
use outlive_core::store::expire::{Cutoffs, Expire, ExpireMark};

use super::world::{Checked, World, at, json, name, released, same};

cases![
    runs_that_ended_before_their_time_are_removed,
    workflow_may_have_a_rule_of_its_own,
    runs_are_looked_at_a_few_at_a_time,
    live_and_stuck_runs_are_never_removed,
    child_stays_while_its_parent_may_need_its_outcome,
    child_of_an_earlier_run_of_its_parent_is_removed,
    many_runs_that_stay_do_not_hold_up_the_others,
    run_with_dead_letters_stays,
];

const DONE: Status = Status::Completed;

fn before(millis: i64) -> Cutoffs {
    let before = Some(at(millis));
    Cutoffs { completed: before, failed: before, cancelled: before }
}

fn expire(default: Cutoffs, limit: u32) -> Expire {
    Expire { default, limit, ..Expire::default() }
}

async fn write(w: &World, expire: &Expire) -> Checked<(u64, Option<ExpireMark>)> {
    match w.write(Write::Expire(Box::new(expire.clone()))).await? {
        Answer::Expired { removed, next } => Ok((removed, next)),
        other => Err(format!("{other:?}")),
    }
}

/// Removes everything that ended before a time, a few runs at a time. Returns the number of runs that were removed.
async fn pass(w: &World, millis: i64, limit: u32) -> Checked<u64> {
    let mut expire = expire(before(millis), limit);
    let mut total = 0;
    loop {
        let (removed, next) = write(w, &expire).await?;
        total += removed;
        match next {
            None => return Ok(total),
            next => expire.after = next,
        }
    }
}

async fn end(w: &World, num: InstanceNum, seq: u64, status: Status, millis: i64) -> Checked {
    let outcome = (status != Status::Cancelled).then(|| json("1"));
    let state = NewState { outcome, at: at(millis), ..released(status) };
    same(&w.commit(&w.new_state(num, seq, state)).await?, &Answer::Done)
}

async fn ended(w: &World, id: &str, status: Status, millis: i64) -> Checked<InstanceNum> {
    let num = w.driven(id).await?;
    end(w, num, 0, status, millis).await?;
    Ok(num)
}

async fn ids(w: &World) -> Checked<Vec<String>> {
    let mut ids: Vec<_> = w.all().await?.iter().map(|instance| instance.id.to_string()).collect();
    ids.sort();
    Ok(ids)
}

async fn runs_that_ended_before_their_time_are_removed(w: &mut World) -> Checked {
    for (id, status, millis) in [
        ("a", Status::Completed, 1_000),
        ("b", Status::Completed, 2_000),
        ("c", Status::Failed, 1_000),
        ("d", Status::Failed, 3_000),
        ("e", Status::Cancelled, 1_000),
    ] {
        ended(w, id, status, millis).await?;
    }
    let cutoffs = Cutoffs { completed: Some(at(2_000)), failed: Some(at(9_000)), cancelled: None };
    same(&write(w, &expire(cutoffs, 9)).await?, &(3, None))?;
    same(&ids(w).await?, &vec!["b".to_owned(), "e".to_owned()])?;
    same(&write(w, &expire(cutoffs, 9)).await?, &(0, None))?;
    w.restart(at(0)).await?;
    same(&ids(w).await?.len(), &2)?;
    w.driven("a").await?;
    same(&w.held("a").await?.status, &Status::Running)
}

async fn workflow_may_have_a_rule_of_its_own(w: &mut World) -> Checked {
    for (id, workflow) in [("a", "checkout"), ("b", "audit"), ("c", "report")] {
        let start = StartWrite { workflow: name(workflow), owner: w.epoch, ..w.new_start(id) };
        w.start(&start).await?;
        let num = w.held(id).await?.num;
        end(w, num, 0, DONE, 1_000).await?;
    }
    let by_workflow = [(name("audit"), Cutoffs::default()), (name("report"), before(1_000))].into();
    same(&write(w, &Expire { by_workflow, ..expire(before(5_000), 9) }).await?, &(1, None))?;
    same(&ids(w).await?, &vec!["b".to_owned(), "c".to_owned()])
}

async fn runs_are_looked_at_a_few_at_a_time(w: &mut World) -> Checked {
    for n in 0..7 {
        let status = if n % 2 == 0 { Status::Completed } else { Status::Cancelled };
        ended(w, &format!("r{n}"), status, 1_000 + n % 3).await?;
    }
    let first = expire(before(5_000), 3);
    let (removed, next) = write(w, &first).await?;
    same(&(removed, next.is_some(), ids(w).await?.len()), &(3, true, 4))?;
    same(&pass(w, 5_000, 2).await?, &4)?;
    same(&ids(w).await?.len(), &0)
}

async fn live_and_stuck_runs_are_never_removed(w: &mut World) -> Checked {
    w.pending("a").await?;
    w.driven("b").await?;
    w.paused_until("c", at(9_000)).await?;
    w.with_status("d", Status::Stuck).await?;
    same(&pass(w, i64::MAX, 9).await?, &0)?;
    same(&ids(w).await?.len(), &4)
}

async fn child(w: &World, id: &str, parent: InstanceNum, millis: i64) -> Checked<InstanceNum> {
    let parent = Some(Parent { num: parent, id: name("parent"), is_detached: false });
    w.start(&StartWrite { parent, owner: w.epoch, at: at(millis), ..w.new_start(id) }).await?;
    let num = w.held(id).await?.num;
    end(w, num, 0, DONE, millis).await?;
    Ok(num)
}

async fn child_stays_while_its_parent_may_need_its_outcome(w: &mut World) -> Checked {
    let parent = w.driven("parent").await?;
    child(w, "child", parent, 500).await?;
    same(&pass(w, 5_000, 9).await?, &0)?;
    end(w, parent, 0, Status::Failed, 6_000).await?;
    // It may be retried, and then learns again how its children ended.
    same(&pass(w, 5_000, 9).await?, &0)?;
    same(&pass(w, 7_000, 9).await?, &1)?;
    same(&ids(w).await?, &vec!["child".to_owned()])?;
    same(&pass(w, 7_000, 9).await?, &1)
}

async fn child_of_an_earlier_run_of_its_parent_is_removed(w: &mut World) -> Checked {
    let parent = w.driven("parent").await?;
    child(w, "first", parent, 500).await?;
    let entries = vec![RestartRecord::new(json("1")).to_entry(1, at(1_000), 2)];
    w.commit(&Commit { entries, ..w.new_commit(parent, 0, 0) }).await?;
    child(w, "second", parent, 1_500).await?;
    same(&pass(w, 5_000, 9).await?, &1)?;
    same(&ids(w).await?, &vec!["parent".to_owned(), "second".to_owned()])
}

async fn many_runs_that_stay_do_not_hold_up_the_others(w: &mut World) -> Checked {
    let parent = w.driven("parent").await?;
    for n in 0..9 {
        child(w, &format!("child-{n}"), parent, 500).await?;
    }
    ended(w, "other", DONE, 900).await?;
    same(&pass(w, 5_000, 2).await?, &1)?;
    same(&w.find("other").await?, &None)
}

async fn run_with_dead_letters_stays(w: &mut World) -> Checked {
    let refused = |seq| Entry {
        op: "wait:n".into(),
        payload: Some(json("{\"value\":1,\"problem\":\"no\"}")),
        ..Entry::of_run(seq, at(0), EntryKind::SignalRefused)
    };
    let discarded = Entry { due: Some(at(1)), ..Entry::of_run(2, at(0), EntryKind::SignalDiscarded) };
    let carried = RestartRecord { dead: vec![refused(1)], ..RestartRecord::new(json("1")) }.to_entry(2, at(0), 2);
    for (id, entries) in [
        ("refused", vec![refused(1)]),
        ("discarded", vec![refused(1), discarded]),
        ("carried", vec![refused(1), carried]),
        ("plain", Vec::new()),
    ] {
        let num = w.driven(id).await?;
        let seq = entries.len() as u64;
        if seq > 0 {
            same(&w.commit(&Commit { entries, ..w.new_commit(num, 0, 0) }).await?, &Answer::Done)?;
        }
        end(w, num, seq, DONE, 1_000).await?;
    }
    same(&pass(w, 5_000, 9).await?, &2)?;
    same(&ids(w).await?, &vec!["carried".to_owned(), "refused".to_owned()])
}
