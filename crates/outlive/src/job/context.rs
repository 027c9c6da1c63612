//! Typed state of an instance while a handler runs, and the methods of all job contexts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::payload::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::instance::codec;
use crate::runtime::handlers::{CallContext, CallPolicy, Calling, HandlerFuture, run};

/// The state as the handler sees it.
pub(crate) struct Held<S> {
    value: Option<S>,
    is_changed: bool,
}

/// The content of a context with state.
pub(crate) struct StateCell<S> {
    pub(crate) context: CallContext,
    held: Mutex<Held<S>>,
}

impl<S: Serialize + DeserializeOwned> StateCell<S> {
    /// Decodes the state. The error names the type it does not decode as.
    pub(crate) fn new(context: CallContext, state: Option<&Payload>) -> Result<Arc<Self>, String> {
        let value = match state {
            Some(payload) => Some(read_as("the state", payload)?),
            None => None,
        };
        Ok(Arc::new(Self { context, held: Mutex::new(Held { value, is_changed: false }) }))
    }

    fn lock(&self) -> MutexGuard<'_, Held<S>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> Option<S>
    where
        S: Clone,
    {
        self.lock().value.clone()
    }

    pub(crate) fn set(&self, state: S) {
        *self.lock() = Held { value: Some(state), is_changed: true };
    }

    /// Changes the state in place, starting with a new one if there is none.
    pub(crate) fn update<R>(&self, new: impl FnOnce() -> S, change: impl FnOnce(&mut S) -> R) -> R {
        let mut held = self.lock();
        held.is_changed = true;
        change(held.value.get_or_insert_with(new))
    }

    /// Runs a handler on this state.
    pub(crate) fn run(
        self: Arc<Self>,
        call_policy: CallPolicy,
        begin: impl FnOnce() -> HandlerFuture + Send + 'static,
    ) -> Calling
    where
        S: Send + Sync + 'static,
    {
        Calling::new(async move { run(begin, call_policy, &self.context, || self.changed()).await })
    }

    /// Returns the state to store, if it changed. A state that does not decode again is refused, or the instance would
    /// be stuck with it.
    fn changed(&self) -> Result<Option<Payload>, Error> {
        let held = self.lock();
        let Some(value) = held.value.as_ref().filter(|_| held.is_changed) else { return Ok(None) };
        let payload = codec::encode("the state", value, self.context.outbox.env().max_payload)?;
        codec::check::<S>("the new state", &payload)?;
        Ok(Some(payload))
    }
}

/// Decodes an event. The error is a sentence with a way out.
pub(crate) fn read<T: DeserializeOwned>(event: &Payload) -> Result<T, String> {
    read_as("the event", event)
}

fn read_as<T: DeserializeOwned>(what: &str, payload: &Payload) -> Result<T, String> {
    codec::read(payload).map_err(|error| {
        let shown: String = payload.as_str().chars().take(120).collect();
        let wanted = std::any::type_name::<T>();
        format!("{what} {shown} does not read as {wanted}: {error}; deploy code that reads it, then retry")
    })
}

/// The methods of every context.
macro_rules! common_methods {
    () => {
        /// Returns the id of the instance.
        #[must_use]
        pub fn instance_id(&self) -> &str {
            self.context().own_id()
        }

        /// Returns the name of the job.
        #[must_use]
        pub fn job_name(&self) -> &str {
            self.context().job_name()
        }

        /// Returns the number of this attempt, starting at 1.
        #[must_use]
        pub fn attempt(&self) -> u32 {
            self.context().attempt
        }

        /// Returns `true` if an attempt was made before.
        #[must_use]
        pub fn is_retry(&self) -> bool {
            self.context().attempt > 1
        }

        /// Returns a key that all attempts of this call share, and no other call does.
        #[must_use]
        pub fn idempotency_key(&self) -> &str {
            &self.context().key
        }

        /// Returns when the instance was created.
        #[must_use]
        pub fn created_at(&self) -> Timestamp {
            self.context().created_at
        }

        /// Returns when this call started.
        #[must_use]
        pub fn started_at(&self) -> Timestamp {
            self.context().started_at
        }

        /// Returns the value given to [`Builder::provide`](crate::Builder::provide).
        ///
        /// # Panics
        /// If no value of this type was provided; see [`try_get`](Self::try_get).
        #[must_use]
        pub fn get<T: Send + Sync + 'static>(&self) -> &T {
            match self.try_get() {
                Ok(value) => value,
                Err(error) => panic!("{error}"),
            }
        }

        /// Like [`get`](Self::get), but returns an error if there is no such value.
        ///
        /// # Errors
        /// [`Error::NotProvided`] if no such value was provided.
        pub fn try_get<T: Send + Sync + 'static>(&self) -> Result<&T, Error> {
            self.context().try_get()
        }

        /// Sends an event to a task, as part of this call's commit.
        ///
        /// # Errors
        /// If the id or the event cannot be accepted.
        pub fn send<E2: Serialize, S2>(
            &self,
            task: crate::job::Task<E2, S2>,
            id: &str,
            event: &E2,
        ) -> Result<(), Error> {
            self.context().outbox.push_value(&task.job_name()?, id, event, PushTarget::Inbox).map(drop)
        }

        /// Adds an event to a batch, as part of this call's commit.
        ///
        /// # Errors
        /// If the id or the event cannot be accepted.
        pub fn add<E2: Serialize, B2>(
            &self,
            batch: crate::job::Debounce<E2, B2>,
            id: &str,
            event: &E2,
        ) -> Result<(), Error> {
            self.context().outbox.push_value(&batch.job_name()?, id, event, PushTarget::Inbox).map(drop)
        }

        /// Pushes an event to a pool, as part of this call's commit. What is returned has the options.
        ///
        /// # Errors
        /// If the event cannot be accepted.
        pub fn push<E2: Serialize>(
            &self,
            pool: crate::job::WorkerPool<E2>,
            event: &E2,
        ) -> Result<crate::job::PushInCommit<'_>, Error> {
            let (outbox, main) = (&self.context().outbox, crate::job::WorkerPool::<E2>::MAIN);
            let index = outbox.push_value(&pool.job_name()?, main, event, PushTarget::Queue)?;
            Ok(crate::job::PushInCommit { outbox, index })
        }

        /// Starts a run of a workflow, as part of this call's commit. If a run with the same id and input exists,
        /// nothing is started; if the id belongs to another run, the call fails when it is committed.
        ///
        /// # Errors
        /// If the id or the input cannot be accepted.
        pub fn start<T: crate::workflow::Target<M>, M>(
            &self,
            target: T,
            input: &T::Input,
            id: &str,
        ) -> Result<(), Error> {
            self.context().outbox.start(target, input, id)
        }

        /// Signals a run, as part of this call's commit. If there is no such run, the call fails when it is committed.
        ///
        /// # Errors
        /// If the name or the value cannot be accepted.
        pub fn signal<T: Serialize + ?Sized>(&self, run: &str, name: &str, value: &T) -> Result<(), Error> {
            self.context().outbox.signal(run, name, value)
        }
    };
}
pub(crate) use common_methods;

/// The method of contexts whose instance can end. A pool's instance is not the user's, so no call ends it.
macro_rules! terminate_method {
    () => {
        /// Ends this instance: its state, events and wake are removed with this call, whatever the handler returns.
        pub fn terminate(&self, reason: &str) {
            self.context().outbox.lock().terminate.get_or_insert_with(|| reason.to_owned());
        }
    };
}
pub(crate) use terminate_method;
