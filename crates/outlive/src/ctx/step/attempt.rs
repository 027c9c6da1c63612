//! The attempt of a step, as its body sees it: number, idempotency key, heartbeats.

use std::sync::{Arc, Weak};
use std::time::Duration;

use outlive_core::payload::Payload;
use outlive_core::workflow::{HeartbeatSource, Slot, StepAttempt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::call::CallSite;
use crate::ctx::operation::OpenOperation;
use crate::error::Error;
use crate::instance::codec;
use crate::instance::env::StepHook;
use crate::instance::resident::{CalledFrom, ResidentRun};

/// One attempt of a step. A body can take it as its argument.
///
/// ```
/// # use outlive::prelude::*;
/// async fn charge(attempt: Attempt) -> Result<String> {
///     Ok(format!("attempt {}, Idempotency-Key: {}", attempt.number, attempt.idempotency_key()))
/// }
/// async fn pay(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
/// let run = engine.start(pay, &()).id("order-42").await?;
/// assert!(run.result().await?.starts_with("attempt 1, Idempotency-Key: order-42/"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// The number of the attempt, from 1.
    pub number: u32,
    /// `true` if this is not the first attempt.
    pub is_retry: bool,
    /// How long the attempt may take, if it has a timeout.
    pub remaining: Option<Duration>,
    idempotency_key: String,
    pub(in crate::ctx) source: AttemptSource,
    /// The last heartbeat before this attempt.
    progress: Option<Payload>,
    /// The hook that observes calls to `idempotency_key`; `None` outside tests.
    hook: Option<Arc<dyn StepHook>>,
}

/// What an attempt needs to send heartbeats and to append to streams.
#[derive(Clone)]
pub(in crate::ctx) struct AttemptSource {
    /// The run, as long as it is in memory: a body may leave behind a task that outlives it.
    resident: Weak<ResidentRun>,
    pub(in crate::ctx) attempt: HeartbeatSource,
    step: Arc<CallSite>,
}

impl AttemptSource {
    /// Returns the run.
    ///
    /// # Errors
    /// [`Error::AttemptOver`] if it is no longer in memory.
    pub(in crate::ctx) fn resident(&self) -> Result<Arc<ResidentRun>, Error> {
        self.resident.upgrade().ok_or_else(|| self.over())
    }

    /// Returns the error that the attempt is over.
    pub(in crate::ctx) fn over(&self) -> Error {
        Error::AttemptOver { step: self.step.name.to_string(), attempt: self.attempt.attempt }
    }
}

impl Attempt {
    pub(super) fn new(operation: &OpenOperation, attempt: &StepAttempt, idempotency_key: String) -> Self {
        let resident = &operation.resident;
        let slot = operation.slot().unwrap_or(Slot(usize::MAX));
        let (op, progress) = {
            let mut state = resident.lock();
            let op = state.machine.operations().key(slot).unwrap_or_else(|| Arc::from(""));
            (op, state.machine.attempts().progress(slot).cloned())
        };
        let source = AttemptSource {
            resident: Arc::downgrade(resident),
            attempt: HeartbeatSource { slot, op, attempt: attempt.number },
            step: operation.call.clone(),
        };
        Self {
            number: attempt.number,
            is_retry: attempt.number > 1,
            remaining: attempt.deadline.map(|deadline| deadline.since(resident.now())),
            idempotency_key,
            source,
            progress,
            hook: resident.env.hook.clone(),
        }
    }

    /// Reports that the body is alive, and how far it has come. The next attempt gets the value from
    /// [`progress`](Self::progress), even if the process dies in this one.
    ///
    /// Call it as often as you like, from the body or from what it has spawned: it returns at once, and a value is
    /// recorded at most once a second. A value that comes sooner waits for its second to pass, and is replaced by the
    /// next one. The last one before an attempt fails is always recorded; if the process dies, the last second may be
    /// lost. With [`heartbeat_timeout`](crate::ctx::Step::heartbeat_timeout), an attempt that stops calling it fails.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn import(_row: u64) -> Result<()> { Ok(()) }
    /// async fn import_rows(attempt: Attempt) -> Result<u64> {
    ///     let first = attempt.progress()?.unwrap_or(0);
    ///     for row in first..1_000 {
    ///         import(row).await?;
    ///         attempt.heartbeat(&(row + 1))?;
    ///     }
    ///     Ok(1_000)
    /// }
    /// async fn nightly(ctx: Ctx, _: ()) -> Result<u64> {
    ///     Ok(ctx.step("import", import_rows).heartbeat_timeout("1 minute").retry(5).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("nightly", nightly).start().await?;
    /// # assert_eq!(engine.start(nightly, &()).await?.result().await?, 1_000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Payload`] or [`Error::PayloadTooLarge`] if the value cannot be recorded; nothing changes then.
    /// [`Error::AttemptOver`] if the attempt has ended, timed out or was cancelled: stop what it has left running.
    pub fn heartbeat<T: Serialize + ?Sized>(&self, progress: &T) -> Result<(), Error> {
        let resident = self.source.resident()?;
        let value = codec::encode("the heartbeat", progress, resident.env.max_payload)?;
        let now = resident.now();
        if !resident.lock().machine.attempts().heartbeat(&self.source.attempt, value, now) {
            return Err(self.source.over());
        }
        if resident.place() != CalledFrom::Step {
            // The driver is not polling the body, so nothing else makes it commit.
            resident.mailbox.post(|_| {});
        }
        Ok(())
    }

    /// Returns the last recorded [heartbeat](Self::heartbeat) of the attempts before this one, if there is one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn upload(attempt: Attempt) -> Result<u64> {
    ///     let sent: u64 = attempt.progress()?.unwrap_or(0);
    ///     // Continue after `sent` bytes.
    ///     Ok(sent)
    /// }
    /// # async fn backup(ctx: Ctx, _: ()) -> Result<u64> { Ok(ctx.step("upload", upload).await?) }
    /// # fn main() { let _ = Engine::open("memory:").workflow("backup", backup); }
    /// ```
    ///
    /// # Errors
    /// [`Error::Payload`] if it does not read as a `T`: an earlier version of the code may have sent something else.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.progress.as_ref().map(|value| codec::decode("the last heartbeat", value)).transpose()
    }

    /// Returns a key that is the same for every attempt of this step in this run, and differs for every other step.
    /// Pass it to services that drop a repeated request.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn charge(attempt: Attempt) -> Result<String> {
    ///     Ok(format!("POST /charges Idempotency-Key: {}", attempt.idempotency_key()))
    /// }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.step("charge", charge).await?) }
    /// # fn main() { let _ = Engine::open("memory:").workflow("pay", pay); }
    /// ```
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        if let Some(hook) = &self.hook {
            hook.key_asked(&self.idempotency_key);
        }
        &self.idempotency_key
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Attempt");
        shown.field("number", &self.number).field("is_retry", &self.is_retry).field("remaining", &self.remaining);
        shown.field("idempotency_key", &self.idempotency_key).finish()
    }
}
