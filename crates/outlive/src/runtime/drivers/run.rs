//! Drives one run: polls the user's future, delivers outcomes one at a time, and commits what is new.
//!
//! A workflow is an ordinary future. After a restart it runs again from its first line, and every `select!` and `join!`
//! in it must see the same results in the same order as before. So outcomes are not handed over as they happen. The
//! driver polls the future until it is quiet, that is, until it only waits. Then it delivers one outcome: of all
//! recorded outcomes of outstanding operations, it takes the one with the lowest number that was not delivered yet,
//! makes that operation ready, wakes it, and polls until the future is quiet again. A replay does the same with the
//! journal, so each poll finds the same operation ready. Once nothing recorded is left to deliver, the run is at its
//! *frontier*, and new work begins: step bodies start, sleeps and waits are set, signals are given to waits. Each new
//! outcome gets the next number, is committed, and is delivered once it is durable. Commits are grouped freely,
//! deliveries never.
//!
//! A live run is also polled when the body of a step can continue, which a replay is not. These polls are counted and
//! made up for before a delivery; see [`polls`](crate::instance::polls).
//!
//! When nothing in a run can move by itself, the run pauses: it is released in the store, and may leave memory until a
//! time or a message resumes it.

mod end;
mod notices;
mod script;
mod user;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::failure;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, Epoch, NewState, Write};
use outlive_core::time::Timestamp;
use outlive_core::workflow::Outgoing;

use crate::ctx::unwinding;
use crate::instance::logs;
use crate::instance::mailbox::{Arrivals, RareArrivals};
use crate::instance::meters;
use crate::instance::resident::ResidentRun;
use crate::runtime::awaited;
use crate::runtime::{family, stuck};

pub(crate) use end::RunEnd;
pub(crate) use script::Script;
use user::{TURNS_MAX, UserFuture};

/// The driver's connection to its worker: where commits go, and who is notified of the run's state.
pub(crate) trait RunHost: Send + Sync {
    /// Makes a commit durable. The reply arrives in the mailbox.
    fn submit(&self, resident: &Arc<ResidentRun>, commit: Commit);
    /// Sets a timer, because something is due for the run at this time.
    fn set_timer(&self, resident: &ResidentRun, due: Timestamp);
    /// Clears a timer.
    fn clear_timer(&self, resident: &ResidentRun, due: Timestamp);
    /// Reads the whole inbox, which arrives in the mailbox.
    fn read_inbox(&self, resident: &Arc<ResidentRun>);
    /// Keeps the wake of a paused run, which the store has too.
    fn keep_wake(&self, resident: &ResidentRun, wake: Timestamp);
    /// Called when the run has paused and is released. Returns `true` if it stays in memory.
    fn paused(&self, resident: &ResidentRun, wake: Option<Timestamp>) -> bool;
    /// Called when it is durable that the run has resumed.
    fn resumed(&self, resident: &Arc<ResidentRun>);
    /// Called when the run resumes after a pause, before that is durable.
    fn resuming(&self, resident: &ResidentRun);
    /// Called when a commit was refused because the store has something else: the run was rewound or removed, or belongs
    /// to another process.
    fn fenced(&self, resident: &ResidentRun);
    /// Called when the run is no longer in memory.
    fn gone(&self, resident: &ResidentRun);
}

/// The task of a resident run.
pub(crate) struct RunDriver<S: RunHost> {
    resident: Arc<ResidentRun>,
    host: S,
    epoch: Epoch,
    script: Script,
    user: UserFuture,
    phase: RunPhase,
    is_stopping: bool,
    /// The run must leave memory while it is paused, because there is no room for it.
    is_leaving: bool,
    /// The timer that was last set.
    timer: Option<Timestamp>,
    /// When the run is due according to the store, while it is paused.
    paused_until: Option<Timestamp>,
    /// What has arrived, until it is read.
    arrivals: Arrivals,
}

/// What a driver starts with.
pub(crate) struct Begin {
    pub(crate) script: Script,
    pub(crate) epoch: Epoch,
    /// The number of the first delivery after which user code may do something new.
    pub(crate) new_from: u64,
}

/// The state of the run in the store.
enum RunPhase {
    /// Owned, and not begun.
    New,
    /// Owned and running.
    Running,
    /// The commit that resumes it is in progress. No body may run before it is durable.
    Resuming,
    /// The commit that pauses it is in progress.
    Pausing,
    /// Released, but still in memory.
    Paused,
    /// The user's future is done, with this result, and what it has sent is in progress.
    Closing(RunEnd),
    /// The commit that ends it is in progress, with this result of the user's future.
    Ending(RunEnd),
    /// That commit is durable.
    Ended(RunEnd),
}

impl<S: RunHost> RunDriver<S> {
    pub(crate) fn new(resident: Arc<ResidentRun>, host: S, begin: Begin) -> Self {
        let Begin { script, epoch, new_from } = begin;
        Self {
            user: UserFuture::new(&resident, new_from),
            resident,
            host,
            epoch,
            script,
            phase: RunPhase::New,
            is_stopping: false,
            is_leaving: false,
            timer: None,
            paused_until: None,
            arrivals: Arrivals::default(),
        }
    }

    /// Calls the workflow function.
    fn begin(&mut self) {
        self.phase = RunPhase::Running;
        if let Err(problem) = self.user.begin(&self.resident, &self.script) {
            self.resident.lock().machine.fail(problem.into_sentence());
        }
    }

    /// Takes one turn: reads the mailbox, advances the run as far as possible, and commits what is new. Returns `true`
    /// if the run is over here.
    fn turn(&mut self) -> bool {
        if self.arrivals.is_fenced {
            self.drop_future();
            self.resident.mailbox.close();
            self.host.fenced(&self.resident);
            return true;
        }
        self.is_stopping |= self.arrivals.is_stopping;
        self.is_leaving |= self.arrivals.is_evicted;
        let rare = self.arrivals.take_rare();
        let answers = self.read(rare);
        self.arrivals.clear();
        for answer in answers {
            if self.answered(answer) {
                return true;
            }
        }
        match self.phase {
            RunPhase::Running => self.go_on(),
            RunPhase::Paused if self.resident.lock().machine.inbox().terminate_reason().is_some() => self.go_on(),
            RunPhase::Paused => {
                self.look_up();
                if matches!(self.phase, RunPhase::Paused) && (self.is_stopping || self.is_leaving) {
                    return self.leave();
                }
            }
            RunPhase::Closing(_) => self.close(),
            RunPhase::New | RunPhase::Resuming | RunPhase::Pausing | RunPhase::Ending(_) | RunPhase::Ended(_) => {}
        }
        self.is_stopping && self.is_idle() && self.leave()
    }

    /// Passes what has arrived to the machine. Returns the replies to commits with a new state.
    fn read(&mut self, rare: Option<Box<RareArrivals>>) -> Vec<Answer> {
        let arrivals = &mut self.arrivals;
        let mut state = self.resident.lock();
        state.machine.durable(arrivals.durable);
        let (mut has_gap, mut answers) = (false, Vec::new());
        if let Some(rare) = rare {
            answers = rare.answers;
            if !rare.inbox.is_empty() {
                state.machine.inbox_mut().receive_all(rare.inbox);
            }
            for (message, before) in rare.messages {
                has_gap |= !state.machine.inbox().has_received(before);
                if !has_gap {
                    state.machine.inbox_mut().receive(message);
                }
            }
            rare.damage.into_iter().for_each(|sentence| state.machine.fail(sentence));
        }
        if arrivals.is_claimed {
            state.machine.inbox_mut().look_again();
        }
        if arrivals.is_foreign {
            let sentence = stuck::foreign(&state.machine, "was woken by");
            state.machine.fail(sentence);
        }
        if self.is_stopping {
            state.machine.freeze();
        }
        self.user.add_wakes(arrivals.woken.drain(..).filter(|slot| state.wake_body(*slot)));
        drop(state);
        if has_gap {
            // A message from another process came before it. Order counts, so the whole inbox is read.
            self.host.read_inbox(&self.resident);
        }
        answers
    }

    /// Handles the reply to a commit with a new state, or to one that was refused. Returns `true` if the run is over
    /// here.
    fn answered(&mut self, answer: Answer) -> bool {
        match (answer, &self.phase) {
            (Answer::WriteRefused { index, refusal }, phase) => {
                // Only what resumes a run that was paused by hand may send something and have a new state.
                let state = matches!(phase, RunPhase::Resuming).then(|| resumed(self.resident.now()));
                let outgoing = self.resident.lock().machine.refused(index, refusal);
                outgoing.into_iter().for_each(|outgoing| self.submit(outgoing, state.clone()));
                false
            }
            (Answer::Unseen(messages), phase) => {
                debug_assert!(!matches!(phase, RunPhase::Resuming), "a run that resumes has no unseen messages");
                let mut state = self.resident.lock();
                state.machine.inbox_mut().receive_all(messages);
                drop(state);
                if let RunPhase::Ending(end) = std::mem::replace(&mut self.phase, RunPhase::Running) {
                    self.end(end);
                }
                false
            }
            (Answer::Done, RunPhase::Ending(_)) => {
                self.drop_future();
                self.resident.mailbox.close();
                if let RunPhase::Ending(end) = std::mem::replace(&mut self.phase, RunPhase::Running) {
                    self.phase = RunPhase::Ended(end);
                }
                true
            }
            (Answer::Done, RunPhase::Pausing) => {
                let wake = {
                    let mut state = self.resident.lock();
                    state.machine.inbox_mut().forget_controls();
                    state.machine.pause().due()
                };
                self.phase = RunPhase::Paused;
                self.is_leaving = !self.host.paused(&self.resident, wake);
                // A message that came in the meantime is looked at first.
                self.is_leaving && !self.resident.lock().machine.inbox().has_new() && self.leave()
            }
            (Answer::Done, RunPhase::Resuming) => {
                self.is_leaving = false;
                self.host.resumed(&self.resident);
                self.resident.lock().machine.inbox_mut().forget_controls();
                self.phase = RunPhase::Running;
                false
            }
            _ => false,
        }
    }

    /// Advances the run until it is quiet and nothing is left to deliver.
    fn go_on(&mut self) {
        let mut turns = 0;
        loop {
            if let Some(end) = self.user.poll(&self.resident) {
                return self.end(end);
            }
            turns += 1;
            let mut state = self.resident.lock();
            state.regions.end_poll();
            if let Some(trouble) = state.machine.trouble() {
                let end = RunEnd::Stuck(trouble.0.clone());
                drop(state);
                return self.end(end);
            }
            if let Some(reason) = state.machine.inbox().terminate_reason() {
                let end = RunEnd::Terminated(reason.to_owned());
                drop(state);
                return self.end(end);
            }
            if let Some(input) = state.machine.restart().input().cloned() {
                drop(state);
                return self.end(RunEnd::Restarted(input));
            }
            if self.user.is_restless() {
                // The future is not quiet yet, and others want their turn. Nothing is delivered before it is quiet.
                drop(state);
                return self.flush(None);
            }
            // Deliveries first: between them, there are no polls to make up for.
            let delivered = self.user.deliver_next(&mut state);
            if let Some(wake_up) = delivered.or_else(|| self.user.wake_next(&mut state)) {
                drop(state);
                self.user.wake(&self.resident, &wake_up);
                if turns > TURNS_MAX && self.user.is_woken() {
                    return self.flush(None);
                }
                continue;
            }
            let turned_back = stuck::turned_back(&state.machine);
            if let Some(sentence) = turned_back.or_else(|| self.script.strict_trouble(&state.machine)) {
                drop(state);
                return self.end(RunEnd::Stuck(sentence));
            }
            let has_acted = state.act(self.resident.now()) || state.machine.next_delivery().is_some();
            self.user.add_wakes(state.machine.take_wakes());
            if let Some(input) = state.machine.restart().input().cloned() {
                drop(state);
                return self.end(RunEnd::Restarted(input));
            }
            if !has_acted && !self.user.has_wakes() {
                break;
            }
        }
        self.flush(None);
        self.rest();
    }

    /// Describes what is recorded and was never asked for.
    fn orphans(&self) -> Option<String> {
        let names = stuck::orphans(&self.resident.lock().machine)?;
        Some(format!("recorded but not asked for by this version of the code: {names}"))
    }

    /// Submits what is to be made durable, with a new state if there is one.
    fn flush(&mut self, state: Option<NewState>) {
        let (outgoing, seq_before) = {
            let mut locked = self.resident.lock();
            let outgoing = locked.machine.take_outgoing();
            let notices = locked.machine.attempts().take_notices();
            let seq_before = locked.machine.recorder().seq();
            drop(locked);
            if !notices.is_empty() {
                notices::report(&self.resident, notices);
            }
            (outgoing, seq_before)
        };
        if outgoing.is_none() && state.is_none() {
            return;
        }
        let outgoing = outgoing.unwrap_or_else(|| Outgoing { seq_before, ..Outgoing::default() });
        for entry in &outgoing.entries {
            logs::entry(&self.resident.info, entry);
            meters::entry(&self.resident.info, entry);
        }
        self.submit(outgoing, state);
    }

    fn submit(&mut self, outgoing: Outgoing, state: Option<NewState>) {
        let Outgoing { seq_before, entries, mut taken, mut writes, .. } = outgoing;
        if let Some(state) = &state {
            let locked = self.resident.lock();
            taken.extend_from_slice(locked.machine.inbox().controls_done());
            if state.status.is_ended() {
                writes.extend(family::notices(&self.resident.info, &locked.machine, state));
            }
        }
        for write in &mut writes {
            if let Write::Output(output) = write {
                (output.num, output.epoch) = (self.resident.info.num, self.epoch);
            }
        }
        if self.resident.env.is_paranoid {
            // What was refused before is replaced.
            let journal = &mut self.script.journal;
            journal.truncate(journal.partition_point(|entry| entry.seq <= seq_before));
            self.script.journal.extend(entries.iter().cloned());
        }
        let commit =
            Commit { num: self.resident.info.num, epoch: self.epoch, seq_before, entries, taken, writes, state };
        self.host.submit(&self.resident, commit);
    }

    /// Called when nothing moves by itself. Pauses the run if nothing of it is in progress, otherwise sets its next
    /// timer.
    fn rest(&mut self) {
        if self.is_stopping {
            return;
        }
        let state = self.resident.lock();
        let due = state.machine.pause().due();
        if !state.machine.operations().is_quiet() {
            drop(state);
            return self.set_timer(due);
        }
        let (status, is_held) = (state.machine.pause().status(), state.machine.inbox().is_held());
        if state.machine.pause().is_forsaken() {
            let sentence = stuck::foreign(&state.machine, "waits for");
            drop(state);
            return self.end(RunEnd::Stuck(sentence));
        }
        drop(state);
        if self.resident.env.is_paranoid
            && !is_held
            && let Err(sentence) = self.script.compare(&self.resident)
        {
            return self.end(RunEnd::Stuck(sentence));
        }
        self.pause(status, due);
    }

    fn pause(&mut self, status: Status, wake: Option<Timestamp>) {
        self.phase = RunPhase::Pausing;
        self.paused_until = wake;
        self.set_timer(None);
        let mut locked = self.resident.lock();
        locked.machine.inbox_mut().take_new();
        let state = NewState {
            status,
            wake,
            is_owned: false,
            seen: Some(locked.machine.inbox().seen()),
            outcome: None,
            note: awaited::note(&locked.machine, status),
            at: self.resident.now(),
        };
        drop(locked);
        self.flush(Some(state));
    }

    /// Looks at what came for a paused run, and resumes it if that changes anything.
    fn look_up(&mut self) {
        let now = self.resident.now();
        let mut state = self.resident.lock();
        let was_held = state.machine.inbox().is_held();
        if state.machine.trouble().is_some() {
            drop(state);
            self.phase = RunPhase::Running;
            return self.go_on();
        }
        let has_message = state.machine.inbox_mut().take_new();
        state.act(now);
        self.user.add_wakes(state.machine.take_wakes());
        let has_moved = state.machine.recorder().has_outgoing()
            || state.machine.next_delivery().is_some()
            || !state.machine.operations().is_quiet()
            || state.machine.inbox().is_held() != was_held;
        let (due, status) = (state.machine.pause().due(), state.machine.pause().status());
        drop(state);
        if has_moved {
            self.phase = RunPhase::Resuming;
            self.host.resuming(&self.resident);
            self.flush(Some(resumed(now)));
        } else if has_message || due != self.paused_until {
            // The message has set the stored wake to now, so the wake must be set back to where it was. Or an attempt is
            // held back for longer than the store says.
            self.host.resuming(&self.resident);
            self.pause(status, due);
        } else {
            due.into_iter().for_each(|due| self.host.keep_wake(&self.resident, due));
        }
    }

    fn set_timer(&mut self, due: Option<Timestamp>) {
        if self.timer != due {
            if let Some(old) = std::mem::replace(&mut self.timer, due) {
                self.host.clear_timer(&self.resident, old);
            }
            due.into_iter().for_each(|due| self.host.set_timer(&self.resident, due));
        }
    }

    /// Ends the run once what it has sent is durable.
    fn close(&mut self) {
        if !self.resident.lock().machine.recorder().is_sending()
            && let RunPhase::Closing(end) = std::mem::replace(&mut self.phase, RunPhase::Running)
        {
            self.end(end);
        }
    }

    /// Ends the run, or marks it stuck.
    fn end(&mut self, end: RunEnd) {
        // What user code does while it is dropped is part of the run.
        self.drop_future();
        self.set_timer(None);
        self.flush(None);
        if self.resident.lock().machine.recorder().is_sending() {
            self.phase = RunPhase::Closing(end);
            return;
        }
        if self.unwind(&end) {
            return;
        }
        let end = self.check_end(end);
        let end = self.take_last_messages(end);
        // A cancel may just have been taken.
        if self.unwind(&end) {
            return;
        }
        let state = self.last_state(&end);
        meters::run_ended(&self.resident.info, state.status, state.at);
        self.phase = RunPhase::Ending(end);
        self.flush(Some(state));
    }

    /// Returns the state that a run ends with.
    fn last_state(&self, end: &RunEnd) -> NewState {
        let now = self.resident.now();
        let mut state = NewState {
            status: Status::Completed,
            wake: None,
            is_owned: false,
            seen: Some(self.resident.lock().machine.inbox().seen()),
            outcome: None,
            note: None,
            at: now,
        };
        let cancelled = self.resident.lock().machine.inbox().cancel_reason().map(ToOwned::to_owned);
        match (end.clone(), cancelled) {
            (RunEnd::Stuck(sentence), cancelled) => {
                let sentence = stuck::with_cancel(sentence, cancelled.as_deref());
                tracing::warn!(run = self.resident.info.id, "run is stuck: {sentence}");
                state.status = Status::Stuck;
                state.note = Some(sentence);
                state.seen = None;
            }
            (RunEnd::Terminated(reason), _) => {
                state.status = Status::Cancelled;
                state.note = Some(reason);
                state.seen = None;
            }
            (RunEnd::Restarted(input), _) => {
                self.resident.lock().machine.restart().record(input, now);
                (state.status, state.wake, state.seen) = (Status::Running, Some(now), None);
            }
            (RunEnd::Completed(output), None) => {
                state.outcome = Some(output);
                state.note = self.orphans();
            }
            (RunEnd::Failed(failure), None) => {
                logs::run_failed(&self.resident.info, &failure);
                state.note = self.orphans();
                state.status = Status::Failed;
                let entry = self.resident.lock().machine.cause_of(&failure);
                state.outcome = Some(failure::of_run(&failure, entry));
            }
            (RunEnd::Completed(_) | RunEnd::Failed(_), Some(reason)) => {
                state.status = Status::Cancelled;
                state.note = Some(reason);
            }
        }
        state
    }

    /// Undoes what the run has done before it ends, if it has to. Returns `true` if that goes on.
    fn unwind(&mut self, end: &RunEnd) -> bool {
        let failure = match end {
            RunEnd::Completed(_) => None,
            RunEnd::Failed(failure) => Some(failure.to_string()),
            RunEnd::Terminated(_) | RunEnd::Stuck(_) | RunEnd::Restarted(_) => return false,
        };
        let Some(unwinding) = unwinding(&self.resident, failure.as_deref()) else { return false };
        self.user.unwind(unwinding, end.clone());
        self.phase = RunPhase::Running;
        true
    }

    /// Takes the messages that were not taken yet. The future is done, so they can only change how the run ends.
    fn take_last_messages(&mut self, end: RunEnd) -> RunEnd {
        let mut state = self.resident.lock();
        if !matches!(end, RunEnd::Restarted(_)) {
            // After a restart, the next run takes them.
            state.machine.take_controls(self.resident.now());
        }
        let terminated = state.machine.inbox().terminate_reason().map(|reason| RunEnd::Terminated(reason.to_owned()));
        drop(state);
        self.flush(None);
        match end {
            RunEnd::Completed(_) | RunEnd::Failed(_) | RunEnd::Restarted(_) => terminated.unwrap_or(end),
            other => other,
        }
    }

    /// Checks the result of a run. A result that cannot be stored makes the run stuck, and so does one that a replay
    /// would not give.
    fn check_end(&self, end: RunEnd) -> RunEnd {
        if matches!(end, RunEnd::Completed(_) | RunEnd::Failed(_) | RunEnd::Restarted(_))
            && let Some(sentence) = self.script.strict_trouble(&self.resident.lock().machine)
        {
            return RunEnd::Stuck(sentence);
        }
        if let RunEnd::Restarted(input) = &end {
            return self.check_restart(input).map_or_else(RunEnd::Stuck, |()| end);
        }
        let RunEnd::Completed(output) = &end else { return end };
        if let Some(sentence) = stuck::turned_back(&self.resident.lock().machine) {
            return RunEnd::Stuck(sentence);
        }
        if let Some(sentence) = stuck::too_long(output.len(), self.resident.env.max_payload) {
            return RunEnd::Stuck(sentence);
        }
        if !self.resident.env.is_paranoid {
            return end;
        }
        match self.script.compare_result(&self.resident, output) {
            Ok(()) => end,
            Err(sentence) => RunEnd::Stuck(sentence),
        }
    }

    /// Checks the input of a restart, which the next run has to read, and that a replay would restart too.
    fn check_restart(&self, input: &Payload) -> Result<(), String> {
        self.script.handler.check(input).map_err(|problem| stuck::bad_restart(&problem))?;
        if self.resident.env.is_paranoid { self.script.compare_restart(&self.resident) } else { Ok(()) }
    }

    fn is_idle(&self) -> bool {
        !matches!(self.phase, RunPhase::Closing(_) | RunPhase::Ending(_) | RunPhase::Pausing | RunPhase::Resuming)
            && self.resident.lock().machine.operations().is_quiet()
    }

    /// Leaves memory, if nothing has arrived in the meantime.
    fn leave(&mut self) -> bool {
        if !self.resident.mailbox.close_if_empty() {
            return false;
        }
        self.drop_future();
        if matches!(self.phase, RunPhase::Paused) && self.user.is_awaited_elsewhere(&self.resident) {
            // A later wake-up would find nothing to wake.
            let sentence = stuck::foreign(&self.resident.lock().machine, "waits for");
            self.end(RunEnd::Stuck(sentence));
        }
        true
    }

    fn drop_future(&mut self) {
        self.user.drop_future(&self.resident);
    }

    /// Returns how the run ended, if that is durable.
    fn take_end(&mut self) -> Option<RunEnd> {
        let RunPhase::Ended(end) = std::mem::replace(&mut self.phase, RunPhase::Running) else { return None };
        let is_cancelled = matches!(end, RunEnd::Completed(_) | RunEnd::Failed(_));
        let reason = self.resident.lock().machine.inbox().cancel_reason().map(ToOwned::to_owned);
        Some(reason.filter(|_| is_cancelled).map_or(end, RunEnd::Terminated))
    }
}

/// Returns the state of a run that resumes.
fn resumed(at: Timestamp) -> NewState {
    NewState { status: Status::Running, wake: None, is_owned: true, seen: None, outcome: None, note: None, at }
}

impl<S: RunHost + Unpin> Future for RunDriver<S> {
    /// How the run ended, if it did.
    type Output = Option<RunEnd>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.phase, RunPhase::New) {
            this.begin();
        }
        let mut is_due = this.user.is_woken() && matches!(this.phase, RunPhase::Running);
        for _ in 0..TURNS_MAX {
            if !is_due && !this.resident.mailbox.take(cx, &mut this.arrivals) {
                return Poll::Pending;
            }
            is_due = false;
            if this.turn() {
                return Poll::Ready(this.take_end());
            }
            if this.user.is_woken() && matches!(this.phase, RunPhase::Running) {
                // Others want their turn. This run continues right after.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        // The mailbox keeps filling, but others want their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: RunHost> Drop for RunDriver<S> {
    fn drop(&mut self) {
        self.resident.mailbox.close();
        self.set_timer(None);
        self.drop_future();
        self.user.drop_undos(&self.resident);
        self.host.gone(&self.resident);
    }
}
