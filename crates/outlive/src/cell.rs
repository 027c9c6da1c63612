//! What a run's context and its driver share: the machine, the wakers of its operations, and who is polling.

use std::cell::Cell as ThreadCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Slot};

use crate::env::Env;
use crate::info::Info;
use crate::mailbox::Mailbox;

/// One resident run.
pub(crate) struct Cell {
    pub(crate) info: Info,
    pub(crate) env: Arc<Env>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Set in the copy of a check: what operations may have been called before, by identity without the count.
    pub(crate) trial: Option<Guesses>,
    state: Mutex<State>,
}

/// New identities and those they may have had before, both without the count.
pub(crate) type Guesses = BTreeMap<Arc<str>, Arc<str>>;

/// What is behind the lock. It is never held while user code is polled.
pub(crate) struct State {
    pub(crate) machine: Machine,
    /// Whom to wake so that an operation is polled, by slot.
    wakers: Vec<Option<Waker>>,
    /// What the body of a step is polled with, by slot; kept, because slots are used again.
    body_wakers: Vec<Option<Waker>>,
    /// Whether a step used a durable operation since this was last asked.
    pub(crate) is_misplaced: bool,
    /// The operation whose record does not read as its type, once there is one.
    pub(crate) mistyped: Option<String>,
    /// Outstanding operations of a check's copy with a record that will not read: what each is, and a sentence.
    pub(crate) unread: BTreeMap<Slot, (String, String)>,
    /// The type of a value that was asked for and that a check does not make, once there is one.
    pub(crate) unmade: Option<&'static str>,
    /// Draws so far of each random stream, by scope and stream.
    pub(crate) draws: BTreeMap<(Arc<str>, &'static str), u64>,
}

thread_local! {
    /// Whether this thread is in a machine, which may call a custom backoff, and holds the lock of its run.
    static IN_MACHINE: ThreadCell<bool> = const { ThreadCell::new(false) };
    /// Which run this thread is polling (by address), and whether inside one of its steps.
    static POLLING: ThreadCell<(usize, bool)> = const { ThreadCell::new((0, false)) };
}

/// Where the caller is, seen from one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the workflow function.
    Workflow,
    /// In the body of one of its steps.
    Step,
    /// Somewhere else: a spawned task, another run.
    Elsewhere,
}

impl Cell {
    pub(crate) fn new(info: Info, env: Arc<Env>, mailbox: Arc<Mailbox>, machine: Machine) -> Self {
        let state = State {
            machine,
            wakers: Vec::new(),
            body_wakers: Vec::new(),
            is_misplaced: false,
            mistyped: None,
            unread: BTreeMap::new(),
            unmade: None,
            draws: Default::default(),
        };
        Self { info, env, mailbox, trial: None, state: Mutex::new(state) }
    }

    /// The same for the copy of a check, which tries what operations may have been called before.
    pub(crate) fn guessing(self, guesses: Guesses) -> Self {
        Self { trial: Some(guesses), ..self }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        assert!(!IN_MACHINE.get(), "a backoff used the context of a run; take what it needs before the step");
        // A panic in user code never happens under this lock, so what is behind it is whole.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Runs `f` as a part of this run's poll: wake-ups that happen in it are the run's own.
    pub(crate) fn polling<R>(&self, f: impl FnOnce() -> R) -> R {
        within((self.address(), false), f)
    }

    /// Runs `f` as a part of one of this run's steps.
    pub(crate) fn in_step<R>(&self, f: impl FnOnce() -> R) -> R {
        within((self.address(), true), f)
    }

    pub(crate) fn place(&self) -> Place {
        match POLLING.get() {
            (address, false) if address == self.address() => Place::Workflow,
            (address, true) if address == self.address() => Place::Step,
            _ => Place::Elsewhere,
        }
    }

    /// The waker for the body of a step: it knows whose it is.
    pub(crate) fn body_waker(self: &Arc<Self>, state: &mut State, slot: Slot) -> Waker {
        if state.body_wakers.len() <= slot.0 {
            state.body_wakers.resize(slot.0 + 1, None);
        }
        let waker = state.body_wakers[slot.0]
            .get_or_insert_with(|| Waker::from(Arc::new(BodyWaker { mailbox: self.mailbox.clone(), slot })));
        waker.clone()
    }
}

impl State {
    /// [`Machine::act`], which may call user code.
    pub(crate) fn act(&mut self, now: Timestamp) -> bool {
        self.in_machine(|machine| machine.act(now))
    }

    /// [`Machine::finish`], which may call user code.
    pub(crate) fn finish(&mut self, slot: Slot, result: Result<Payload, Failure>, now: Timestamp) {
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

    pub(crate) fn set_waker(&mut self, slot: Slot, waker: &Waker) {
        if self.wakers.len() <= slot.0 {
            self.wakers.resize(slot.0 + 1, None);
        }
        match &mut self.wakers[slot.0] {
            Some(old) if old.will_wake(waker) => {}
            place => *place = Some(waker.clone()),
        }
    }

    pub(crate) fn waker(&self, slot: Slot) -> Option<&Waker> {
        self.wakers.get(slot.0)?.as_ref()
    }

    pub(crate) fn close(&mut self, slot: Slot) {
        self.machine.close(slot);
        self.unread.remove(&slot);
        if let Some(waker) = self.wakers.get_mut(slot.0) {
            *waker = None;
        }
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

/// Wakes a run because a step's body can go on.
struct BodyWaker {
    mailbox: Arc<Mailbox>,
    slot: Slot,
}

impl Wake for BodyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.post(|letters| letters.woken.push(self.slot));
    }
}

/// The waker that the user's future is polled with. Who wakes it outside a poll of the run is a stranger.
pub(crate) struct RunWaker {
    address: usize,
    mailbox: Arc<Mailbox>,
    is_woken: AtomicBool,
}

impl RunWaker {
    pub(crate) fn new(cell: &Cell) -> Arc<Self> {
        Arc::new(Self { address: cell.address(), mailbox: cell.mailbox.clone(), is_woken: AtomicBool::new(false) })
    }

    /// Whether the future was woken in its own poll since the last call.
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
            self.mailbox.post(|letters| letters.is_foreign = true);
        }
    }
}
