//! Promises about a stuck instance: it stays as it is, and nothing of it is lost.

use outlive_core::id::InstanceNum;
use outlive_core::message::Message;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, Epoch, NewState, Refusal};

use super::world::{Checked, NOW, World, cancel, driven_on, ensure, refused, released, same, step_done};

cases![
    stuck_run_keeps_its_journal_and_its_inbox,
    stuck_run_keeps_a_signal_and_is_not_woken,
    cancel_ends_a_stuck_run_at_once,
    terminate_ends_a_stuck_run_at_once,
    pause_and_resume_of_a_stuck_run_are_refused,
    commit_to_a_stuck_run_is_fenced,
    stuck_run_is_not_claimed,
    stuck_state_is_refused_while_a_message_is_unseen,
    reopened_stuck_run_gets_the_signals_it_kept,
];

/// A stuck run with two entries and a message.
async fn stuck(w: &World, id: &str) -> Checked<InstanceNum> {
    let num = w.driven(id).await?;
    w.signalled(id, "before").await?;
    let state = Some(NewState { note: Some("the code is gone".to_owned()), ..released(Status::Stuck) });
    same(&w.commit(&Commit { state, ..w.new_commit(num, 0, 2) }).await?, &Answer::Done)?;
    Ok(num)
}

async fn stuck_run_keeps_its_journal_and_its_inbox(w: &mut World) -> Checked {
    let num = stuck(w, "a").await?;
    let held = w.held("a").await?;
    same(&(held.status, held.owner, held.wake, held.ended_at), &(Status::Stuck, Epoch(0), None, None))?;
    same(&held.note.as_deref(), &Some("the code is gone"))?;
    same(&w.journal(num).await?, &(1..=2).map(step_done).collect())?;
    same(&w.signals(num).await?, &vec!["before".to_owned()])
}

async fn stuck_run_keeps_a_signal_and_is_not_woken(w: &mut World) -> Checked {
    let num = stuck(w, "a").await?;
    w.signalled("a", "after").await?;
    same(&w.signals(num).await?, &vec!["before".to_owned(), "after".to_owned()])?;
    same(&(w.held("a").await?.wake, w.wakes().await?), &(None, Vec::new()))?;
    same(&w.held("a").await?.status, &Status::Stuck)
}

/// Checks that the message ends a stuck run, for this reason.
async fn is_ended_by(w: &World, message: Message, reason: &str) -> Checked {
    let num = stuck(w, "a").await?;
    let answer = w.send(&w.new_send("a", message)).await?;
    let is_so = matches!(answer, Answer::Sent { num: of, is_new: true, .. } if of == num);
    ensure(is_so, || format!("{answer:?}"))?;
    let held = w.held("a").await?;
    same(&(held.status, held.ended_at, held.wake), &(Status::Cancelled, Some(NOW), None))?;
    same(&held.note.as_deref(), &Some(reason))?;
    same(&(w.inbox(num).await?.len(), w.journal(num).await?.len()), &(0, 2))?;
    same(&w.wakes().await?, &Vec::new())
}

async fn cancel_ends_a_stuck_run_at_once(w: &mut World) -> Checked {
    is_ended_by(w, cancel("never mind"), "never mind").await
}

async fn terminate_ends_a_stuck_run_at_once(w: &mut World) -> Checked {
    is_ended_by(w, Message::Terminate { reason: "out".to_owned() }, "out").await
}

async fn pause_and_resume_of_a_stuck_run_are_refused(w: &mut World) -> Checked {
    stuck(w, "a").await?;
    let before = w.snapshot().await?;
    for message in [Message::Pause, Message::Resume] {
        refused(&w.send(&w.new_send("a", message)).await?, Refusal::Status(Status::Stuck))?;
    }
    same(&w.snapshot().await?, &before)
}

async fn commit_to_a_stuck_run_is_fenced(w: &mut World) -> Checked {
    let num = stuck(w, "a").await?;
    let before = w.snapshot().await?;
    same(&w.commit(&w.new_commit(num, 2, 1)).await?, &Answer::Fenced)?;
    same(&w.commit(&w.new_state(num, 2, driven_on())).await?, &Answer::Fenced)?;
    same(&w.commit(&w.new_state(num, 2, released(Status::Completed))).await?, &Answer::Fenced)?;
    same(&w.snapshot().await?, &before)
}

async fn stuck_run_is_not_claimed(w: &mut World) -> Checked {
    let num = stuck(w, "a").await?;
    let before = w.snapshot().await?;
    same(&w.claim(&[num]).await?.len(), &0)?;
    same(&w.snapshot().await?, &before)
}

async fn stuck_state_is_refused_while_a_message_is_unseen(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.send(&w.new_send("a", cancel("enough"))).await?;
    let stuck_state = NewState { seen: Some(0), ..released(Status::Stuck) };
    let answer = w.commit(&w.new_state(num, 0, stuck_state)).await?;
    same(&answer, &Answer::Unseen(w.inbox(num).await?))?;
    same(&w.held("a").await?.status, &Status::Running)
}

async fn reopened_stuck_run_gets_the_signals_it_kept(w: &mut World) -> Checked {
    let num = stuck(w, "a").await?;
    w.signalled("a", "after").await?;
    same(&w.reopen("a", NOW).await?, &Answer::Done)?;
    let claimed = w.claim(&[num]).await?;
    same(&claimed[0].inbox.as_ref().map(Vec::len), &Ok(2))
}
