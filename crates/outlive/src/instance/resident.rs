//! The state shared by a run's context and its driver: the machine, the wakers of its operations, and who is polling.

use std::cell::Cell as ThreadCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Polled, Slot};

use crate::instance::env::Env;
use crate::instance::info::Info;
use crate::instance::mailbox::Mailbox;
use crate::instance::polls::Regions;
use crate::instance::undos::ReadyUndos;

/// A resident run.
pub(crate) struct ResidentRun {
    pub(crate) info: Info,
    pub(crate) env: Arc<Env>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// In the copy of a check: what operations may have been called before, by identity without the count.
    pub(crate) trial: Option<Guesses>,
    state: Mutex<ResidentState>,
}

/// New identities and the ones they may have had before, both without the count.
pub(crate) type Guesses = BTreeMap<Arc<str>, Arc<str>>;

/// The state behind the lock. The lock is never held while user code is polled.
pub(crate) struct ResidentState {
    pub(crate) machine: Machine,
    /// How operations are polled, by slot.
    polling: Vec<Polling>,
    /// How often parts of the user's future are polled.
    pub(crate) regions: Regions,
    /// Whether a step used a durable operation since this was last checked.
    pub(crate) is_misplaced: bool,
    /// What a check wants to know, once there is something. Most runs have nothing of it.
    findings: Option<Box<Findings>>,
    /// The number of draws from each random stream, by scope and stream.
    pub(crate) draws: BTreeMap<(Arc<str>, &'static str), u64>,
    /// What to do if the run fails; allocated with the first undo.
    pub(crate) undos: Option<Box<ReadyUndos>>,
}

/// What is found out about the code of a run while it is replayed.
#[derive(Default)]
pub(crate) struct Findings {
    /// The operation whose record does not decode as its type, once there is one.
    pub(crate) mistyped: Option<String>,
    /// In the copy of a check: outstanding operations whose record does not decode, each with its name and a sentence.
    pub(crate) unread: BTreeMap<Slot, (String, String)>,
    /// The type of a value that was requested and that a check does not make, once there is one.
    pub(crate) unmade: Option<&'static str>,
}

/// How one operation is polled.
#[derive(Default)]
struct Polling {
    /// The waker its future was last polled with.
    waker: Option<Waker>,
    /// The waker for the body of its step, while no step has it. Kept because slots are reused.
    body_waker: Option<Waker>,
    /// The body's own waker has fired, so the body needs a poll.
    is_body_woken: bool,
}

thread_local! {
    /// Whether this thread is inside a machine, which may call a custom backoff or decode a signal, and holds the lock
    /// of its run.
    static IN_MACHINE: ThreadCell<bool> = const { ThreadCell::new(false) };
    /// The run this thread is polling (by address), and whether it is inside one of the run's steps.
    static POLLING: ThreadCell<(usize, bool)> = const { ThreadCell::new((0, false)) };
}

/// Where the caller is, as seen from one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CalledFrom {
    /// In the workflow function.
    Workflow,
    /// In the body of one of its steps.
    Step,
    /// Somewhere else: a spawned task, another run.
    Elsewhere,
}

impl ResidentRun {
    pub(crate) fn new(info: Info, env: Arc<Env>, mailbox: Arc<Mailbox>, machine: Machine) -> Self {
        let state = ResidentState {
            machine,
            polling: Vec::new(),
            regions: Regions::default(),
            is_misplaced: false,
            findings: None,
            draws: Default::default(),
            undos: None,
        };
        Self { info, env, mailbox, trial: None, state: Mutex::new(state) }
    }

    /// Turns it into the copy of a check, which tries what operations may have been called before.
    pub(crate) fn guessing(self, guesses: Guesses) -> Self {
        Self { trial: Some(guesses), ..self }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ResidentState> {
        assert!(
            !IN_MACHINE.get(),
            "a backoff or the type of a signal used the context of a run; take what it needs before the operation"
        );
        // User code never panics under this lock, so the state behind it is consistent.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Runs `f` as part of this run's poll: wake-ups in it are the run's own.
    pub(crate) fn polling<R>(&self, f: impl FnOnce() -> R) -> R {
        within((self.address(), false), f)
    }

    /// Runs `f` as part of one of this run's steps.
    pub(crate) fn in_step<R>(&self, f: impl FnOnce() -> R) -> R {
        within((self.address(), true), f)
    }

    pub(crate) fn place(&self) -> CalledFrom {
        match POLLING.get() {
            (address, false) if address == self.address() => CalledFrom::Workflow,
            (address, true) if address == self.address() => CalledFrom::Step,
            _ => CalledFrom::Elsewhere,
        }
    }

    /// Returns the waker for the body of a step, which [finishing](ResidentState::finish) the attempt gives back, and
    /// whether it has fired since the last call. A step that has the waker passes it in.
    pub(crate) fn take_body_waker(&self, slot: Slot, waker: Option<Waker>) -> (Waker, bool) {
        let (waker, is_woken) = {
            let mut state = self.lock();
            let polling = state.polling_mut(slot);
            (waker.or_else(|| polling.body_waker.take()), std::mem::take(&mut polling.is_body_woken))
        };
        (waker.unwrap_or_else(|| self.bell(slot)), is_woken)
    }

    /// Returns a waker that has the driver look at an operation: its body can continue, or its breaker has changed.
    pub(crate) fn bell(&self, slot: Slot) -> Waker {
        Waker::from(Arc::new(BodyWaker { mailbox: self.mailbox.clone(), slot }))
    }
}

impl ResidentState {
    /// Calls [`Machine::poll`], which may call user code.
    pub(crate) fn poll(&mut self, slot: Slot, now: Timestamp) -> Polled {
        self.in_machine(|machine| machine.poll(slot, now))
    }

    /// Calls [`Machine::act`], which may call user code.
    pub(crate) fn act(&mut self, now: Timestamp) -> bool {
        self.in_machine(|machine| machine.act(now))
    }

    /// Calls [`Machine::finish`], which may call user code.
    pub(crate) fn finish(
        &mut self,
        slot: Slot,
        result: Result<Payload, Failure>,
        body_waker: Option<Waker>,
        now: Timestamp,
    ) {
        self.polling_mut(slot).body_waker = body_waker;
        self.in_machine(|machine| machine.finish(slot, result, now));
    }

    fn in_machine<R>(&mut self, f: impl FnOnce(&mut Machine) -> R) -> R {
        struct Out;
        impl Drop for Out {
            fn drop(&mut self) {
                IN_MACHINE.set(false);
            }
        }
        IN_MACHINE.set(true);
        let _out = Out;
        f(&mut self.machine)
    }

    fn polling_mut(&mut self, slot: Slot) -> &mut Polling {
        if self.polling.len() <= slot.0 {
            // Most runs have one outstanding operation at a time.
            self.polling.reserve_exact(usize::from(self.polling.is_empty()));
            self.polling.resize_with(slot.0 + 1, Polling::default);
        }
        &mut self.polling[slot.0]
    }

    /// Notes that an operation was polled and is not ready.
    pub(crate) fn polled(&mut self, slot: Slot, waker: &Waker) {
        let polling = self.polling_mut(slot);
        if !polling.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            let old = polling.waker.replace(waker.clone());
            old.into_iter().for_each(|old| self.regions.leave(&old));
            self.regions.enter(waker);
        }
        self.regions.polled(waker);
    }

    pub(crate) fn waker(&self, slot: Slot) -> Option<&Waker> {
        self.polling.get(slot.0)?.waker.as_ref()
    }

    /// Notes that the body of a step can continue. Returns `false` if that was known or the step is over.
    pub(crate) fn wake_body(&mut self, slot: Slot) -> bool {
        if !self.machine.operations().is_working(slot) {
            self.machine.attempts().ask_again(slot);
            return false;
        }
        !std::mem::replace(&mut self.polling_mut(slot).is_body_woken, true)
    }

    /// Returns `true` if at most one operation is outstanding and only operations hold wakers of the run. Then no two
    /// branches are in progress, and their order cannot matter.
    pub(crate) fn is_sequential(&self, run_waker: &Arc<RunWaker>, waker: &Waker) -> bool {
        self.machine.operations().is_single() && self.holds_all(run_waker, waker)
    }

    /// Returns `true` if nothing but operations, and the driver that polls the run, holds a waker of it.
    pub(crate) fn holds_all(&self, run_waker: &Arc<RunWaker>, waker: &Waker) -> bool {
        let is_own = |polling: &&Polling| polling.waker.as_ref().is_some_and(|own| own.will_wake(waker));
        Arc::strong_count(run_waker) == 2 + self.polling.iter().filter(is_own).count()
    }

    pub(crate) fn close(&mut self, slot: Slot) {
        self.machine.close(slot);
        self.forget_unread(slot);
        let waker = self.polling.get_mut(slot.0).and_then(|polling| polling.waker.take());
        waker.into_iter().for_each(|waker| self.regions.leave(&waker));
    }

    /// Notes that an operation is ready, so its slot is free. The run's waker is kept, as the next operation is most
    /// likely polled with it.
    pub(crate) fn consumed(&mut self, slot: Slot) {
        self.forget_unread(slot);
        let polling = self.polling.get_mut(slot.0);
        let waker = polling.and_then(|polling| polling.waker.take_if(|own| !self.regions.is_run(own)));
        if let Some(waker) = waker {
            self.regions.polled(&waker);
            self.regions.leave(&waker);
        }
    }

    /// Returns what was found out, if anything.
    pub(crate) fn findings(&self) -> Option<&Findings> {
        self.findings.as_deref()
    }

    /// Returns what was found out, for adding to it.
    pub(crate) fn findings_mut(&mut self) -> &mut Findings {
        self.findings.get_or_insert_default()
    }

    /// Notes that an operation is no longer outstanding.
    fn forget_unread(&mut self, slot: Slot) {
        if let Some(findings) = &mut self.findings {
            findings.unread.remove(&slot);
        }
    }

    /// Drops all wakers of the run.
    pub(crate) fn forget_wakers(&mut self) {
        self.polling.iter_mut().for_each(|polling| polling.waker = None);
        self.regions.clear();
    }
}

fn within<R>(place: (usize, bool), f: impl FnOnce() -> R) -> R {
    struct Restore((usize, bool));
    impl Drop for Restore {
        fn drop(&mut self) {
            POLLING.set(self.0);
        }
    }
    let _restore = Restore(POLLING.replace(place));
    f()
}

/// Wakes a run because the body of a step can continue.
struct BodyWaker {
    mailbox: Arc<Mailbox>,
    slot: Slot,
}

impl Wake for BodyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.post(|arrivals| arrivals.woken.push(self.slot));
    }
}

/// The waker the user's future is polled with. A wake-up from outside a poll of the run comes from a foreign future.
pub(crate) struct RunWaker {
    address: usize,
    mailbox: Arc<Mailbox>,
    is_woken: AtomicBool,
}

impl RunWaker {
    pub(crate) fn new(resident: &ResidentRun) -> Arc<Self> {
        let waker = Arc::new(Self {
            address: resident.address(),
            mailbox: resident.mailbox.clone(),
            is_woken: AtomicBool::new(false),
        });
        resident.lock().regions.set_run(&Waker::from(waker.clone()));
        waker
    }

    /// Returns `true` if the future was woken in its own poll since the last call.
    pub(crate) fn take(&self) -> bool {
        self.is_woken.swap(false, Ordering::Relaxed)
    }
}

impl Wake for RunWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if POLLING.get().0 == self.address {
            self.is_woken.store(true, Ordering::Relaxed);
        } else {
            self.mailbox.post(|arrivals| arrivals.is_foreign = true);
        }
    }
}
