//! Promises about what a commit sends to other instances, and about parents and children.

use outlive_core::child::{ChildOutcome, Parent};
use outlive_core::id::InstanceNum;
use outlive_core::message::Message;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, OnConflict, Refusal, SendWrite, StartWrite, Write};
use outlive_core::store::query::Filter;
use outlive_core::time::Timestamp;

use super::world::{Checked, NOW, World, at, cancel, ensure, in_words, name, refused, released, same, signal};

cases![
    writes_of_a_commit_are_applied_with_it,
    refused_write_refuses_the_whole_commit,
    notice_to_an_ended_run_does_not_refuse_the_commit,
    repeated_commit_sends_once,
    commit_that_replaces_its_own_run_is_fenced,
    child_knows_its_parent,
    children_of_a_run_are_listed,
    cancelled_stuck_child_notifies_its_parent,
    cancelled_stuck_parent_cancels_its_attached_children,
    retried_parent_learns_how_its_children_ended,
    child_whose_parent_waits_is_neither_replaced_nor_purged,
    child_whose_parent_has_ended_can_be_replaced_and_purged,
];

fn of(id: &str, num: InstanceNum) -> Option<Parent> {
    Some(Parent { num, id: name(id), is_detached: false })
}

fn messages(inbox: &[outlive_core::message::Inbound]) -> Vec<Message> {
    inbox.iter().map(|inbound| inbound.message.clone()).collect()
}

/// A run that is driven, and a child of it in the given status.
async fn family(w: &World, status: Status) -> Checked<(InstanceNum, InstanceNum)> {
    let parent = w.driven("parent").await?;
    let start = StartWrite { parent: of("parent", parent), owner: w.epoch, ..w.new_start("child") };
    let Answer::Started { num: child, .. } = w.start(&start).await? else { return Err("not started".to_owned()) };
    if status != Status::Running {
        same(&w.commit(&w.new_state(child, 0, released(status))).await?, &Answer::Done)?;
    }
    Ok((parent, child))
}

async fn writes_of_a_commit_are_applied_with_it(w: &mut World) -> Checked {
    let (num, other) = (w.driven("a").await?, w.paused_until("b", at(9_000)).await?);
    let start = StartWrite { parent: of("a", num), due: Timestamp::AT_ONCE, ..w.new_start("a/ship") };
    let writes = vec![Write::Start(start), Write::Message(w.new_send("b", signal("hello")))];
    let answer = w.commit(&Commit { writes, ..w.new_commit(num, 0, 1) }).await?;
    let is_so = matches!(&answer, Answer::DoneWith(answers)
        if matches!(answers[..], [Answer::Started { created: true, .. }, Answer::Sent { is_new: true, .. }]));
    ensure(is_so, || format!("{answer:?}"))?;
    w.restart(at(0)).await?;
    same(&w.journal(num).await?.len(), &1)?;
    same(&w.held("a/ship").await?.status, &Status::Pending)?;
    same(&(w.signals(other).await?, w.held("b").await?.wake), &(vec!["hello".to_owned()], Some(Timestamp::AT_ONCE)))
}

async fn refused_write_refuses_the_whole_commit(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.pending("taken").await?;
    let fine = || Write::Start(w.new_start("new"));
    let taken = || Write::Start(StartWrite { on_conflict: OnConflict::Reject, ..w.new_start("taken") });
    let cases = [
        (vec![fine(), Write::Message(w.new_send("nobody", signal("x")))], Refusal::NotFound),
        (vec![fine(), taken(), fine()], Refusal::Taken),
    ];
    let before = w.snapshot().await?;
    for (writes, refusal) in cases {
        let answer = w.commit(&Commit { writes, ..w.new_commit(num, 0, 2) }).await?;
        same(&answer, &Answer::WriteRefused { index: 1, refusal })?;
        same(&w.snapshot().await?, &before)?;
    }
    same(&w.commit(&w.new_commit(num, 0, 2)).await?, &Answer::Done)
}

async fn notice_to_an_ended_run_does_not_refuse_the_commit(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.with_status("ended", Status::Completed).await?;
    let writes = ["ended", "nobody"].map(|id| Write::Message(w.new_send(id, cancel("enough")))).to_vec();
    let state = Some(released(Status::Completed));
    let answer = w.commit(&Commit { writes, state, ..w.new_commit(num, 0, 0) }).await?;
    let is_so = matches!(&answer, Answer::DoneWith(answers)
        if matches!(answers[..], [Answer::Refused(Refusal::Status(_)), Answer::Refused(Refusal::NotFound)]));
    ensure(is_so, || format!("{answer:?}"))?;
    same(&(w.held("a").await?.status, w.held("ended").await?.status), &(Status::Completed, Status::Completed))
}

async fn repeated_commit_sends_once(w: &mut World) -> Checked {
    let (num, other) = (w.driven("a").await?, w.driven("b").await?);
    let writes = vec![Write::Message(w.new_send("b", signal("once"))), Write::Start(w.new_start("c"))];
    for state in [None, Some(released(Status::Completed))] {
        let seq = w.journal(num).await?.len() as u64;
        let commit = Commit { writes: writes.clone(), state, ..w.new_commit(num, seq, 1) };
        let first = w.commit(&commit).await?;
        same(&w.commit(&commit).await?, &first)?;
    }
    same(&(w.signals(other).await?, w.journal(num).await?.len()), &(vec!["once".to_owned()], 2))
}

async fn commit_that_replaces_its_own_run_is_fenced(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let before = w.snapshot().await?;
    let start = StartWrite { on_conflict: OnConflict::Replace, ..w.new_start("a") };
    let commit = Commit { writes: vec![Write::Start(start)], ..w.new_commit(num, 0, 1) };
    same(&w.commit(&commit).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

async fn child_knows_its_parent(w: &mut World) -> Checked {
    let (parent, child) = family(w, Status::Running).await?;
    w.restart(at(0)).await?;
    same(&w.held("child").await?.parent, &of("parent", parent))?;
    same(&w.held("parent").await?.parent, &None)?;
    let claimed = w.claim(&[child]).await?;
    same(&claimed[0].instance.parent, &of("parent", parent))
}

async fn children_of_a_run_are_listed(w: &mut World) -> Checked {
    let (parent, child) = family(w, Status::Completed).await?;
    let second = StartWrite { parent: of("parent", parent), ..w.new_start("second") };
    w.start(&second).await?;
    let children = Filter::runs().children_of(parent);
    let page = in_words(w.store().list(&children, None, 10).await)?;
    let ids: Vec<String> = page.instances.iter().map(|one| one.id.to_string()).collect();
    same(&ids, &vec!["second".to_owned(), "child".to_owned()])?;
    same(&in_words(w.store().count(&children).await)?.total(), &2)?;
    same(&in_words(w.store().list(&Filter::runs().children_of(child), None, 10).await)?.instances.len(), &0)
}

async fn cancelled_stuck_child_notifies_its_parent(w: &mut World) -> Checked {
    let (parent, _) = family(w, Status::Stuck).await?;
    same(&w.commit(&w.new_state(parent, 0, super::world::asleep(at(9_000)))).await?, &Answer::Done)?;
    let answer = w.send(&w.new_send("child", cancel("enough"))).await?;
    let is_so = matches!(&answer, Answer::Sent { reached, .. } if *reached == [parent]);
    ensure(is_so, || format!("{answer:?}"))?;
    w.restart(at(0)).await?;
    let outcome = ChildOutcome::Cancelled("enough".to_owned()).to_payload();
    same(&messages(&w.inbox(parent).await?), &vec![Message::ChildEnded { id: name("child"), outcome }])?;
    same(&w.held("parent").await?.wake, &Some(Timestamp::AT_ONCE))
}

async fn cancelled_stuck_parent_cancels_its_attached_children(w: &mut World) -> Checked {
    let (parent, child) = family(w, Status::Running).await?;
    let detached = Some(Parent { num: parent, id: name("parent"), is_detached: true });
    w.start(&StartWrite { parent: detached, ..w.new_start("detached") }).await?;
    let grandchild = StartWrite { parent: of("child", child), owner: w.epoch, ..w.new_start("grandchild") };
    w.start(&grandchild).await?;
    for num in [parent, child] {
        same(&w.commit(&w.new_state(num, 0, released(Status::Stuck))).await?, &Answer::Done)?;
    }
    let grandchild = w.held("grandchild").await?.num;
    let answer = w.send(&w.new_send("parent", cancel("enough"))).await?;
    let is_so = matches!(&answer, Answer::Sent { reached, .. } if *reached == [child, grandchild]);
    ensure(is_so, || format!("{answer:?}"))?;
    same(&w.held("child").await?.status, &Status::Cancelled)?;
    same(&messages(&w.inbox(grandchild).await?), &vec![cancel("enough")])?;
    let detached = w.held("detached").await?;
    same(&(detached.status, w.inbox(detached.num).await?.len()), &(Status::Pending, 0))
}

async fn retried_parent_learns_how_its_children_ended(w: &mut World) -> Checked {
    let (parent, _) = family(w, Status::Completed).await?;
    let running = StartWrite { parent: of("parent", parent), ..w.new_start("running") };
    w.start(&running).await?;
    same(&w.commit(&w.new_state(parent, 0, released(Status::Failed))).await?, &Answer::Done)?;
    same(&w.inbox(parent).await?.len(), &0)?;
    same(&w.reopen("parent", at(2_000)).await?, &Answer::Done)?;
    w.restart(at(0)).await?;
    let outcome = ChildOutcome::of(Status::Completed, None, None).ok_or("no outcome")?.to_payload();
    same(&messages(&w.inbox(parent).await?), &vec![Message::ChildEnded { id: name("child"), outcome }])?;
    same(&w.held("parent").await?.status, &Status::Pending)
}

async fn child_whose_parent_waits_is_neither_replaced_nor_purged(w: &mut World) -> Checked {
    family(w, Status::Stuck).await?;
    let before = w.snapshot().await?;
    let why = Refusal::Child { parent: name("parent") };
    refused(&w.purge("child").await?, why.clone())?;
    let replace = StartWrite { on_conflict: OnConflict::Replace, ..w.new_start("child") };
    refused(&w.start(&replace).await?, why)?;
    same(&w.snapshot().await?, &before)
}

async fn child_whose_parent_has_ended_can_be_replaced_and_purged(w: &mut World) -> Checked {
    let (parent, child) = family(w, Status::Stuck).await?;
    let outcome = ChildOutcome::Cancelled("enough".to_owned());
    let late = SendWrite::child_ended(&of("parent", parent).ok_or("no parent")?, &name("child"), &outcome, 77, NOW);
    same(&w.commit(&w.new_state(parent, 0, released(Status::Completed))).await?, &Answer::Done)?;
    refused(&w.send(&late).await?, Refusal::Status(Status::Completed))?;
    let replace = StartWrite { on_conflict: OnConflict::Replace, ..w.new_start("child") };
    ensure(matches!(w.start(&replace).await?, Answer::Started { created: true, num, .. } if num != child), || {
        "not replaced".to_owned()
    })?;
    let num = w.held("child").await?.num;
    w.claim(&[num]).await?;
    same(&w.commit(&w.new_state(num, 0, released(Status::Stuck))).await?, &Answer::Done)?;
    same(&w.purge("child").await?, &Answer::Done)
}
