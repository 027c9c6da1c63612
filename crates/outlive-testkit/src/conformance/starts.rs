//! Promises about creating an instance.

use outlive_core::origin::{RunOrigin, TraceContext};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Epoch, OnConflict, Refusal, StartWrite, Write};
use outlive_core::store::query::{Instance, Wake};

use super::world::{Checked, NOW, World, at, json, name, refused, same, signal};

cases![
    start_keeps_every_field,
    start_is_pending_and_due_at_its_time,
    owned_start_is_running_and_has_no_wake,
    start_for_an_epoch_that_is_not_current_is_pending,
    start_with_same_workflow_and_input_joins_and_changes_nothing,
    start_with_another_input_is_a_conflict,
    start_of_another_workflow_is_a_conflict_that_names_the_first,
    start_joins_a_run_that_has_ended,
    rejecting_start_is_refused_if_the_id_is_taken,
    rejecting_start_is_accepted_if_the_id_is_free,
    replacing_start_leaves_nothing_of_the_old_instance,
    replacing_start_of_a_free_id_creates_the_run,
    replaced_run_cannot_commit,
    two_starts_of_one_id_in_one_batch_create_one_instance,
    later_starts_have_larger_numbers,
];

async fn start_keeps_every_field(w: &mut World) -> Checked {
    let tags = [("shop", "paris"), ("", "empty key"), ("empty value", "")];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1");
    let origin = RunOrigin::new(Some(name("2026-11-16")), trace);
    let start = StartWrite {
        origin: origin.clone(),
        seed: u64::MAX,
        token: u64::MAX,
        tags,
        due: at(5_000),
        ..w.new_start("a")
    };
    let answer = w.start(&start).await?;
    let held = w.held("a").await?;
    same(&answer, &Answer::Started { num: held.num, created: true, is_driven: false })?;
    let want = Instance {
        restarts: 0,
        deadline: None,
        parent: None,
        reported: 1,
        num: held.num,
        id: name("a"),
        workflow: name("checkout"),
        status: Status::Pending,
        created_at: NOW,
        started_at: None,
        ended_at: None,
        input: json("1"),
        outcome: None,
        note: None,
        origin,
        seed: u64::MAX,
        tags: start.tags,
        recoveries: 0,
        blamed: 0,
        owner: Epoch(0),
        wake: Some(at(5_000)),
    };
    same(&held, &want)
}

async fn start_is_pending_and_due_at_its_time(w: &mut World) -> Checked {
    w.start(&StartWrite { due: at(5_000), ..w.new_start("a") }).await?;
    let held = w.held("a").await?;
    same(&w.wakes().await?, &vec![Wake { due: at(5_000), num: held.num }])?;
    same(&(held.status, held.started_at), &(Status::Pending, None))
}

async fn owned_start_is_running_and_has_no_wake(w: &mut World) -> Checked {
    w.driven("a").await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner), &(Status::Running, w.epoch))?;
    same(&(held.started_at, held.wake), &(Some(NOW), None))?;
    same(&w.wakes().await?, &Vec::new())
}

async fn start_for_an_epoch_that_is_not_current_is_pending(w: &mut World) -> Checked {
    w.start(&StartWrite { owner: Epoch(w.epoch.0 + 9), ..w.new_start("a") }).await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner), &(Status::Pending, Epoch(0)))?;
    same(&(held.started_at, held.wake), &(None, Some(NOW)))
}

async fn start_with_same_workflow_and_input_joins_and_changes_nothing(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    let before = w.snapshot().await?;
    let tags = [("other".to_owned(), "tag".to_owned())].into();
    let second = StartWrite { tags, seed: 99, at: at(9_000), due: at(9_000), owner: w.epoch, ..w.new_start("a") };
    same(&w.start(&second).await?, &Answer::Started { num, created: false, is_driven: false })?;
    same(&w.snapshot().await?, &before)
}

async fn start_with_another_input_is_a_conflict(w: &mut World) -> Checked {
    w.pending("a").await?;
    let before = w.snapshot().await?;
    let answer = w.start(&StartWrite { input: json("2"), ..w.new_start("a") }).await?;
    refused(&answer, Refusal::Conflict { workflow: name("checkout") })?;
    same(&w.snapshot().await?, &before)
}

async fn start_of_another_workflow_is_a_conflict_that_names_the_first(w: &mut World) -> Checked {
    w.pending("a").await?;
    let answer = w.start(&StartWrite { workflow: name("refund"), ..w.new_start("a") }).await?;
    refused(&answer, Refusal::Conflict { workflow: name("checkout") })
}

async fn start_joins_a_run_that_has_ended(w: &mut World) -> Checked {
    let num = w.with_status("a", Status::Completed).await?;
    same(&w.start(&w.new_start("a")).await?, &Answer::Started { num, created: false, is_driven: false })?;
    same(&w.held("a").await?.status, &Status::Completed)
}

async fn rejecting_start_is_refused_if_the_id_is_taken(w: &mut World) -> Checked {
    w.pending("a").await?;
    let before = w.snapshot().await?;
    let answer = w.start(&StartWrite { on_conflict: OnConflict::Reject, ..w.new_start("a") }).await?;
    refused(&answer, Refusal::Taken)?;
    same(&w.snapshot().await?, &before)
}

async fn rejecting_start_is_accepted_if_the_id_is_free(w: &mut World) -> Checked {
    let answer = w.start(&StartWrite { on_conflict: OnConflict::Reject, ..w.new_start("a") }).await?;
    let num = w.held("a").await?.num;
    same(&answer, &Answer::Started { num, created: true, is_driven: false })
}

async fn replacing_start_leaves_nothing_of_the_old_instance(w: &mut World) -> Checked {
    let old = w.driven("a").await?;
    w.commit(&w.new_commit(old, 0, 3)).await?;
    w.signalled("a", "for the old one").await?;
    w.restart(at(4_000)).await?;
    let second = StartWrite { input: json("2"), on_conflict: OnConflict::Replace, ..w.new_start("a") };
    let answer = w.start(&second).await?;
    let held = w.held("a").await?;
    same(&answer, &Answer::Started { num: held.num, created: true, is_driven: false })?;
    same(&(held.num > old, held.recoveries), &(true, 0))?;
    same(&w.all().await?, &vec![held.clone()])?;
    same(&w.wakes().await?, &vec![Wake { due: NOW, num: held.num }])?;
    for num in [old, held.num] {
        same(&w.journal(num).await?, &Vec::new())?;
        same(&w.inbox(num).await?, &Vec::new())?;
    }
    Ok(())
}

async fn replacing_start_of_a_free_id_creates_the_run(w: &mut World) -> Checked {
    let answer = w.start(&StartWrite { on_conflict: OnConflict::Replace, ..w.new_start("a") }).await?;
    let num = w.held("a").await?.num;
    same(&answer, &Answer::Started { num, created: true, is_driven: false })
}

async fn replaced_run_cannot_commit(w: &mut World) -> Checked {
    let old = w.driven("a").await?;
    let second = StartWrite { on_conflict: OnConflict::Replace, owner: w.epoch, ..w.new_start("a") };
    w.start(&second).await?;
    let before = w.snapshot().await?;
    same(&w.commit(&w.new_commit(old, 0, 1)).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

async fn two_starts_of_one_id_in_one_batch_create_one_instance(w: &mut World) -> Checked {
    let (first, second) = (w.new_start("a"), w.new_start("a"));
    let message = Write::Message(w.new_send("a", signal("hello")));
    let answers = w.batch(vec![Write::Start(first), message, Write::Start(second)]).await?;
    let num = w.held("a").await?.num;
    same(&answers[0], &Answer::Started { num, created: true, is_driven: false })?;
    same(&answers[2], &Answer::Started { num, created: false, is_driven: false })?;
    same(&w.all().await?.len(), &1)
}

async fn later_starts_have_larger_numbers(w: &mut World) -> Checked {
    let (first, second, third) = (w.pending("c").await?, w.pending("b").await?, w.driven("a").await?);
    same(&(first < second && second < third), &true)
}
