//! Loads claimed instances into memory and spawns their drivers.

mod jobs;

use std::sync::Arc;

use outlive_core::journal::{Entry, EntryKind};
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::beginning::Beginning;
use outlive_core::store::commit::{Claimed, Commit, NewState, Write};
use outlive_core::workflow::{DEADLINE_PASSED, Machine, Mode};
use tokio::task::AbortHandle;

use crate::instance::info::Info;
use crate::instance::layers::{self, ObservedRun};
use crate::instance::mailbox::Mailbox;
use crate::instance::meters;
use crate::instance::resident::ResidentRun;
use crate::runtime::committer::WriteReply;
use crate::runtime::drivers::run::{Begin, RunDriver, RunEnd, Script};
use crate::runtime::registry::{Registered, Registry};
use crate::runtime::services::Services;
use crate::runtime::{family, stuck};

/// Loads runs and job instances, with the code that is registered for them.
pub(crate) struct Loader {
    pub(crate) services: Arc<Services>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) max_recoveries: u32,
}

impl Loader {
    /// Loads a claimed run into memory, or marks it stuck if that is not possible.
    pub(super) fn bring_back(&self, claimed: Claimed) {
        if JobKind::of(&claimed.instance.workflow).is_some() {
            return self.bring_back_job(claimed);
        }
        let Claimed { is_first, had_paused, instance, journal, inbox } = claimed;
        let (journal, inbox) = match (journal, inbox) {
            (Ok(journal), Ok(inbox)) => (journal, inbox),
            (Err(problem), _) | (_, Err(problem)) => {
                let info = Info::of(&instance, &Beginning::of(&instance, &[]));
                return self.end_unloaded(info, Status::Stuck, stuck::damaged(&problem), 0);
            }
        };
        let beginning = Beginning::of(&instance, &journal);
        let info = Info::of(&instance, &beginning);
        let seq = journal.last().map_or(0, |entry| entry.seq);
        if instance.blamed > self.max_recoveries {
            self.services.due.admit_all();
            return self.end_unloaded(info, Status::Stuck, stuck::deadly(instance.blamed), seq);
        }
        // A run cancelled before its first line of code has run ends without running any.
        let is_late = instance.deadline.is_some_and(|deadline| deadline <= self.services.now());
        let late = is_late.then(|| DEADLINE_PASSED.to_owned());
        if is_first
            && journal.is_empty()
            && let Some(reason) = ends_at_once(&inbox).or(late)
        {
            return self.end_unloaded(info, Status::Cancelled, reason, seq);
        }
        let is_held = instance.status == Status::Paused;
        // What follows the last outcome is certainly repeated if the run had paused, and may be if the process died.
        let is_new = match &journal[..] {
            [] => is_first,
            [only] => only.kind == EntryKind::Restarted,
            _ => false,
        };
        let new_from = if is_new { 0 } else { seq + u64::from(had_paused) };
        self.spawn(info, Brought { input: beginning.input, journal, inbox, is_held, new_from });
    }

    pub(super) fn spawn(&self, info: Info, brought: Brought) {
        let Brought { input, journal, inbox, is_held, new_from } = brought;
        let num = info.num;
        let Some(registered) = self.registry.get(&outlive_core::id::Name::recorded(&info.workflow)).cloned() else {
            let sentence = stuck::unregistered(&info.workflow, &self.registry.known());
            let seq = journal.last().map_or(0, |entry| entry.seq);
            return self.end_unloaded(info, Status::Stuck, sentence, seq);
        };
        let mut machine = match Machine::new(Mode::Live, info.seed, info.started_at, &journal) {
            Ok(machine) => machine.with_limits(info.deadline, self.services.env.max_entries),
            Err(trouble) => {
                return self.end_unloaded(info, Status::Stuck, trouble.0, journal.last().map_or(0, |e| e.seq));
            }
        };
        machine.inbox_mut().receive_all(inbox);
        if is_held {
            machine.inbox_mut().hold();
        }
        let mailbox = Arc::new(Mailbox::default());
        let resident = Arc::new(ResidentRun::new(info, self.services.env.clone(), mailbox, machine));
        self.services.residency.enter(num, resident.info.id.clone(), resident.mailbox.clone());
        if self.services.is_stopping() {
            resident.mailbox.post(|arrivals| arrivals.is_stopping = true);
        }
        meters::execution(&resident.info.workflow, new_from > 0);
        let services = self.services.clone();
        let journal = if self.services.env.is_paranoid { journal } else { Vec::new() };
        let Registered { handler, is_strict } = registered;
        let script = Script { handler, is_strict, input, journal };
        let begin = Begin { script, epoch: self.services.epoch, new_from };
        let abort = match services.env.layers.is_empty() {
            true => spawn(RunDriver::new(resident, services, begin)),
            false => spawn(observed(resident, services, begin)),
        };
        self.services.residency.set_abort(num, abort);
    }

    /// Ends a run that is not loaded into memory, or marks it stuck.
    fn end_unloaded(&self, info: Info, status: Status, note: String, seq: u64) {
        self.services.unreserve(1);
        tracing::warn!(run = info.id, "run is {status}: {note}");
        meters::run_ended(&info, status, self.services.now());
        let state = NewState {
            status,
            wake: None,
            is_owned: false,
            seen: None,
            outcome: None,
            note: Some(note),
            at: self.services.now(),
        };
        self.submit_state(&info, seq, state);
    }

    fn submit_state(&self, info: &Info, seq: u64, state: NewState) {
        let writes = family::to_parent(info, &state, seq).into_iter().collect();
        let (num, epoch, state) = (info.num, self.services.epoch, Some(state));
        let commit = Commit { num, epoch, seq_before: seq, entries: Vec::new(), taken: Vec::new(), writes, state };
        let reply = WriteReply::Run { mailbox: Arc::new(Mailbox::default()), seq: 0, has_state: true };
        self.services.committer.submit(Write::Commit(commit), reply);
    }
}

/// Starts the task of a run.
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> AbortHandle {
    // With a cooperative budget, tokio's own macros would wake the run from outside.
    tokio::spawn(tokio::task::unconstrained(task)).abort_handle()
}

/// Drives a run with the layers around its execution.
async fn observed(resident: Arc<ResidentRun>, services: Arc<Services>, begin: Begin) {
    let (run, layers) = (resident.clone(), &services.env.clone().layers);
    let seen = ObservedRun { info: &run.info, number: run.info.num.0, is_replay: begin.new_from > 0 };
    let exits = layers::begin(layers, &seen);
    let end = RunDriver::new(resident, services, begin).await;
    layers::end(exits, &run.info, &RunEnd::exit(end.as_ref()));
}

/// What a run is loaded with.
pub(super) struct Brought {
    input: Payload,
    journal: Vec<Entry>,
    inbox: Vec<Inbound>,
    is_held: bool,
    /// The number of the first delivery after which the code may do something new.
    new_from: u64,
}

impl Brought {
    /// Returns the parts of a run that was never driven.
    pub(super) fn new(input: Payload) -> Self {
        Self { input, journal: Vec::new(), inbox: Vec::new(), is_held: false, new_from: 0 }
    }
}

/// Returns the reason of a cancel or terminate among the messages.
fn ends_at_once(inbox: &[Inbound]) -> Option<String> {
    inbox.iter().find_map(|inbound| match &inbound.message {
        Message::Cancel { reason } | Message::Terminate { reason } => Some(reason.clone()),
        _ => None,
    })
}
