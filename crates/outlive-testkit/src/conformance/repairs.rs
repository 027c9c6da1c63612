//! Promises about rewinds and forks.

use outlive_core::child::{ChildOutcome, Parent};
use outlive_core::id::InstanceNum;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{
    Answer, Commit, Epoch, ForkWrite, KeptChild, OnConflict, Refusal, RewindWrite, StartWrite, Write,
};
use outlive_core::time::Timestamp;

use super::world::{
    BY_HAND, Checked, NOW, WAITING, World, at, cancel, ensure, json, name, refused, released, same, signal, step_done,
};

cases![
    rewound_run_is_pending_due_and_keeps_its_journal,
    run_that_is_driven_or_has_not_begun_is_not_rewound,
    rewind_planned_from_another_journal_is_refused,
    old_number_does_not_rewind_a_later_run,
    repeated_rewind_changes_nothing,
    rewind_gives_messages_back_at_their_old_positions,
    rewind_leaves_messages_that_are_there,
    rewound_parent_learns_how_its_kept_children_ended,
    rewind_carries_notices,
    rewind_removes_a_deadline_that_has_passed,
    rewind_resets_the_recoveries,
    owner_of_a_rewound_run_is_fenced,
    fork_has_its_journal_and_inbox_and_is_due,
    fork_onto_a_taken_id_is_refused,
    repeated_fork_creates_one_run,
    messages_to_a_fork_come_after_those_it_began_with,
];

fn rewind(id: &str, num: InstanceNum, seq: u64) -> RewindWrite {
    let entry = Entry::rewound(seq, NOW, seq.saturating_sub(2), "".into());
    RewindWrite { id: name(id), num, entry, returned: Vec::new(), children: Vec::new(), writes: Vec::new() }
}

async fn apply(w: &World, rewind: &RewindWrite) -> Checked<Answer> {
    w.write(Write::Rewind(Box::new(rewind.clone()))).await
}

async fn applied(w: &World, rewind: &RewindWrite) -> Checked {
    let answer = apply(w, rewind).await?;
    ensure(matches!(answer, Answer::DoneWith(_)), || format!("{answer:?}"))
}

/// A run with two entries, released in this status.
async fn with_two(w: &World, id: &str, status: Status) -> Checked<InstanceNum> {
    let num = w.driven(id).await?;
    let state = Some(released(status));
    same(&w.commit(&Commit { state, ..w.new_commit(num, 0, 2) }).await?, &Answer::Done)?;
    Ok(num)
}

async fn rewound_run_is_pending_due_and_keeps_its_journal(w: &mut World) -> Checked {
    let statuses = [Status::Completed, Status::Failed, Status::Cancelled, Status::Stuck, WAITING, BY_HAND];
    for (n, status) in (0..).zip(statuses) {
        let id = format!("run-{n}");
        let num = with_two(w, &id, status).await?;
        let journal = w.journal(num).await?;
        let write = rewind(&id, num, 3);
        applied(w, &write).await?;
        let held = w.held(&id).await?;
        same(&(held.status, held.wake, held.owner), &(Status::Pending, Some(NOW), Epoch(0)))?;
        same(&(held.outcome, held.note, held.ended_at), &(None, None, None))?;
        ensure(held.started_at.is_some(), || "it has begun".to_owned())?;
        same(&w.journal(num).await?, &[journal, vec![write.entry]].concat())?;
        let claimed = w.claim(&[num]).await?;
        same(&claimed.iter().map(|one| (one.is_first, one.had_paused)).collect::<Vec<_>>(), &vec![(false, false)])?;
    }
    w.restart(at(0)).await?;
    same(&w.held("run-0").await?.status, &Status::Running)
}

async fn run_that_is_driven_or_has_not_begun_is_not_rewound(w: &mut World) -> Checked {
    let (driven, pending) = (w.driven("driven").await?, w.pending("pending").await?);
    let before = w.snapshot().await?;
    refused(&apply(w, &rewind("driven", driven, 1)).await?, Refusal::Status(Status::Running))?;
    refused(&apply(w, &rewind("pending", pending, 1)).await?, Refusal::Status(Status::Pending))?;
    same(&w.snapshot().await?, &before)
}

async fn rewind_planned_from_another_journal_is_refused(w: &mut World) -> Checked {
    let num = with_two(w, "a", Status::Failed).await?;
    let before = w.snapshot().await?;
    for seq in [1, 2, 4, 9] {
        refused(&apply(w, &rewind("a", num, seq)).await?, Refusal::Changed)?;
    }
    same(&w.snapshot().await?, &before)
}

async fn old_number_does_not_rewind_a_later_run(w: &mut World) -> Checked {
    let old = with_two(w, "a", Status::Failed).await?;
    same(&w.purge("a").await?, &Answer::Done)?;
    with_two(w, "a", Status::Failed).await?;
    refused(&apply(w, &rewind("a", old, 3)).await?, Refusal::NotFound)?;
    refused(&apply(w, &rewind("nobody", old, 3)).await?, Refusal::NotFound)
}

async fn repeated_rewind_changes_nothing(w: &mut World) -> Checked {
    let num = with_two(w, "a", Status::Failed).await?;
    with_two(w, "child", WAITING).await?;
    let writes = vec![Write::Message(w.new_send("child", cancel("forgotten")))];
    let write = RewindWrite { writes, ..rewind("a", num, 3) };
    applied(w, &write).await?;
    let before = w.snapshot().await?;
    applied(w, &write).await?;
    same(&w.snapshot().await?, &before)
}

async fn rewind_gives_messages_back_at_their_old_positions(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let (one, two) = (w.signalled("a", "one").await?, w.signalled("a", "two").await?);
    let inbox = w.inbox(num).await?;
    let state = Some(released(Status::Completed));
    same(&w.commit(&Commit { taken: vec![one, two], state, ..w.new_commit(num, 0, 2) }).await?, &Answer::Done)?;
    applied(w, &RewindWrite { returned: inbox.clone(), ..rewind("a", num, 3) }).await?;
    w.signalled("a", "three").await?;
    w.restart(at(0)).await?;
    same(&w.signals(num).await?, &["one", "two", "three"].map(ToOwned::to_owned).to_vec())?;
    same(&w.inbox(num).await?[..2].to_vec(), &inbox)
}

async fn rewind_leaves_messages_that_are_there(w: &mut World) -> Checked {
    let num = with_two(w, "a", Status::Stuck).await?;
    w.signalled("a", "one").await?;
    let there = w.inbox(num).await?;
    let other = there.iter().map(|inbound| Inbound { message: signal("other"), ..inbound.clone() }).collect();
    applied(w, &RewindWrite { returned: other, ..rewind("a", num, 3) }).await?;
    same(&w.inbox(num).await?, &there)
}

async fn rewound_parent_learns_how_its_kept_children_ended(w: &mut World) -> Checked {
    let num = with_two(w, "parent", Status::Completed).await?;
    let parent = Some(Parent { num, id: name("parent"), is_detached: false });
    for (id, status) in [("ended", Some(Status::Completed)), ("running", None)] {
        let start = StartWrite { parent: parent.clone(), owner: w.epoch, ..w.new_start(id) };
        let Answer::Started { num: child, .. } = w.start(&start).await? else { return Err("not started".to_owned()) };
        if let Some(status) = status {
            w.commit(&w.new_state(child, 0, released(status))).await?;
        }
    }
    w.driven("stranger").await?;
    let recorded = json("{\"completed\":7}");
    let kept = |id: &str, outcome: Option<&Payload>| KeptChild { id: name(id), outcome: outcome.cloned() };
    let children = vec![
        kept("ended", Some(&recorded)),
        kept("running", Some(&recorded)),
        kept("stranger", Some(&recorded)),
        kept("gone", None),
    ];
    applied(w, &RewindWrite { children: children.clone(), ..rewind("parent", num, 3) }).await?;
    let ended = ChildOutcome::of(Status::Completed, None, None).ok_or("no outcome")?.to_payload();
    let end = |id: &str, outcome| Message::ChildEnded { id: name(id), outcome };
    let expected = vec![end("ended", ended), end("stranger", recorded), end("gone", KeptChild::gone())];
    let messages = async |w: &World| -> Checked<Vec<Message>> {
        Ok(w.inbox(num).await?.into_iter().map(|inbound| inbound.message).collect())
    };
    same(&messages(w).await?, &expected)?;
    // What is in the inbox is not sent again.
    applied(w, &RewindWrite { children, ..rewind("parent", num, 4) }).await?;
    same(&messages(w).await?, &expected)
}

async fn rewind_carries_notices(w: &mut World) -> Checked {
    let num = with_two(w, "a", Status::Failed).await?;
    let child = with_two(w, "child", WAITING).await?;
    w.with_status("ended", Status::Completed).await?;
    let to = |id: &str| Write::Message(w.new_send(id, cancel("its parent was rewound")));
    applied(w, &RewindWrite { writes: vec![to("ended"), to("child"), to("nobody")], ..rewind("a", num, 3) }).await?;
    w.restart(at(0)).await?;
    same(&w.inbox(child).await?.len(), &1)?;
    same(&w.held("a").await?.status, &Status::Pending)
}

async fn rewind_removes_a_deadline_that_has_passed(w: &mut World) -> Checked {
    for (id, deadline, left) in [("late", NOW, None), ("early", at(1_001), Some(at(1_001)))] {
        let start = StartWrite { deadline: Some(deadline), owner: w.epoch, ..w.new_start(id) };
        let Answer::Started { num, .. } = w.start(&start).await? else { return Err("not started".to_owned()) };
        w.commit(&w.new_state(num, 0, released(Status::Cancelled))).await?;
        applied(w, &rewind(id, num, 1)).await?;
        w.restart(at(0)).await?;
        let held = w.held(id).await?;
        same(&(held.deadline, held.note), &(left, None))?;
    }
    Ok(())
}

async fn rewind_resets_the_recoveries(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.restart(at(2_000)).await?;
    w.claim(&[num]).await?;
    w.commit(&w.new_state(num, 0, released(Status::Stuck))).await?;
    same(&w.held("a").await?.recoveries, &1)?;
    applied(w, &rewind("a", num, 1)).await?;
    same(&w.held("a").await?.recoveries, &0)
}

async fn owner_of_a_rewound_run_is_fenced(w: &mut World) -> Checked {
    let num = with_two(w, "a", WAITING).await?;
    applied(w, &rewind("a", num, 3)).await?;
    same(&w.commit(&w.new_commit(num, 2, 1)).await?, &Answer::Fenced)?;
    same(&w.commit(&w.new_state(num, 2, released(WAITING))).await?, &Answer::Fenced)?;
    w.claim(&[num]).await?;
    same(&w.commit(&w.new_commit(num, 3, 1)).await?, &Answer::Done)
}

fn forked(w: &World, id: &str) -> ForkWrite {
    let start = StartWrite { on_conflict: OnConflict::Reject, due: Timestamp::AT_ONCE, ..w.new_start(id) };
    let last = Entry { kind: EntryKind::Forked, ..Entry::rewound(3, NOW, 2, "".into()) };
    ForkWrite { start, entries: vec![step_done(1), step_done(2), last], inbox: Vec::new(), arriving: Vec::new() }
}

async fn fork(w: &World, fork: &ForkWrite) -> Checked<InstanceNum> {
    match w.write(Write::Fork(Box::new(fork.clone()))).await? {
        Answer::Started { num, created: true, is_driven: false } => Ok(num),
        other => Err(format!("a fork returned {other:?}")),
    }
}

async fn fork_has_its_journal_and_inbox_and_is_due(w: &mut World) -> Checked {
    with_two(w, "a", Status::Completed).await?;
    let pos = {
        w.pending("other").await?;
        w.signalled("other", "one").await?
    };
    let inbound = Inbound { pos, at: NOW, message: signal("one") };
    let write = ForkWrite { inbox: vec![inbound], arriving: vec![signal("two")], ..forked(w, "b") };
    let num = fork(w, &write).await?;
    w.restart(at(0)).await?;
    same(&w.journal(num).await?, &write.entries)?;
    same(&w.signals(num).await?, &["one", "two"].map(ToOwned::to_owned).to_vec())?;
    let held = w.held("b").await?;
    same(&(held.status, held.wake), &(Status::Pending, Some(Timestamp::AT_ONCE)))?;
    same(&w.claim(&[num]).await?.len(), &1)?;
    same(&w.commit(&w.new_commit(num, 3, 1)).await?, &Answer::Done)
}

async fn fork_onto_a_taken_id_is_refused(w: &mut World) -> Checked {
    with_two(w, "a", Status::Completed).await?;
    let before = w.snapshot().await?;
    refused(&w.write(Write::Fork(Box::new(forked(w, "a")))).await?, Refusal::Taken)?;
    same(&w.snapshot().await?, &before)
}

async fn repeated_fork_creates_one_run(w: &mut World) -> Checked {
    let write = forked(w, "b");
    let num = fork(w, &write).await?;
    let before = w.snapshot().await?;
    same(&fork(w, &write).await?, &num)?;
    same(&w.snapshot().await?, &before)
}

async fn messages_to_a_fork_come_after_those_it_began_with(w: &mut World) -> Checked {
    let write = ForkWrite { arriving: vec![signal("one"), signal("two")], ..forked(w, "b") };
    let num = fork(w, &write).await?;
    w.signalled("b", "three").await?;
    same(&w.signals(num).await?, &["one", "two", "three"].map(ToOwned::to_owned).to_vec())
}
