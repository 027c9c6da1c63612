//! What can be started, and how its name is found.

use std::any::TypeId;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Something that can be started: a registered workflow function, or a [`Workflow`](crate::Workflow) contract.
///
/// ```
/// use outlive::workflow::Target;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// /// Starts any workflow with our tag.
/// async fn start<T: Target<M>, M>(client: &Client, target: T, input: &T::Input) -> Result<Run<T::Output>, Error>
/// where
///     T::Output: Send + 'static,
/// {
///     client.start(target, input).tag("team", "maths").await
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// const DOUBLE: Workflow<u32, u32> = Workflow::new("double");
/// assert_eq!(start(&engine.client(), double, &21).await?.result().await?, 42);
/// assert_eq!(start(&engine.client(), DOUBLE, &21).await?.result().await?, 42);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be started",
    label = "expected a workflow function or a `Workflow` contract"
)]
pub trait Target<M> {
    /// The input type.
    type Input: Serialize;
    /// The output type.
    type Output: DeserializeOwned;

    /// Returns how to look up the name.
    fn reference(&self) -> Reference;
}

/// How a [`Target`] is looked up.
///
/// ```
/// use outlive::workflow::Reference;
/// fn shown(reference: Reference) -> &'static str {
///     match reference {
///         Reference::Name(name) => name,
///         Reference::Function { type_name, .. } => type_name,
///     }
/// }
/// assert_eq!(shown(Reference::Name("checkout")), "checkout");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference {
    /// By its name.
    Name(&'static str),
    /// By its type.
    Function {
        /// The type of the function.
        type_id: TypeId,
        /// The name of that type, for messages.
        type_name: &'static str,
    },
}

/// The instance of a pool that has its queue.
pub(crate) const POOL_INSTANCE: &str = "main";

/// A job whose instances take events of one type: a task or a debounce.
///
/// ```
/// use outlive::job::{EventTarget, Task};
/// # use outlive::prelude::*;
/// const ORDERS: Task<u32, u32> = Task::new("orders");
/// /// Sends the same event to several instances.
/// async fn send_all<J: EventTarget + Copy>(ctx: &Ctx, job: J, ids: &[&str], event: &J::Event) -> Result<(), Error> {
///     for id in ids {
///         ctx.send(job, id, event).await?;
///     }
///     Ok(())
/// }
/// # async fn all(ctx: Ctx, n: u32) -> Result<()> { Ok(send_all(&ctx, ORDERS, &["a", "b"], &n).await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("all", all); }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take events by instance",
    label = "expected the contract of a `Task` or a `Debounce`",
    note = "use `push` for a `WorkerPool`; a `Continuous` job takes no events"
)]
pub trait EventTarget {
    /// The type of its events.
    type Event: Serialize;

    /// Returns the name of the job, with its kind.
    ///
    /// # Errors
    /// If the name is not valid.
    #[doc(hidden)]
    fn job_name(self) -> Result<Name, Error>;
}

/// A job that takes events into one queue: a worker pool.
///
/// ```
/// use outlive::job::{QueueTarget, WorkerPool};
/// # use outlive::prelude::*;
/// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// async fn urgent<J: QueueTarget>(ctx: &Ctx, pool: J, event: &J::Event) -> Result<(), Error> {
///     ctx.push(pool, event).priority(10).await
/// }
/// # async fn all(ctx: Ctx, to: String) -> Result<()> { Ok(urgent(&ctx, MAIL, &to).await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("all", all); }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no queue",
    label = "expected the contract of a `WorkerPool`",
    note = "use `send` for a `Task` or a `Debounce`"
)]
pub trait QueueTarget {
    /// The type of its events.
    type Event: Serialize;

    /// Returns the name of the job, with its kind.
    ///
    /// # Errors
    /// If the name is not valid.
    #[doc(hidden)]
    fn job_name(self) -> Result<Name, Error>;
}

/// Resolves workflow names and checks events.
pub(crate) trait Names: Send + Sync {
    /// Returns the name of a workflow to start.
    fn name_of(&self, reference: Reference) -> Result<Name, Error>;
    /// Returns an error if the workflow is not registered here or does not take this input.
    fn check_input(&self, workflow: &Name, input: &Payload) -> Result<(), Error>;
    /// Returns an error if the job is not registered here or does not take this event.
    fn check_event(&self, job: &Name, event: &Payload) -> Result<(), Error>;
}

/// Parses the id of a run, which must not look like the id of a job instance.
pub(crate) fn run_id(id: &str) -> Result<Name, Error> {
    let id = Name::new("run id", id)?;
    match JobKind::of(&id) {
        Some(kind) => Err(Error::Setup(format!(
            "run id {:?} starts with \"{kind}:\", which is reserved for jobs; use another id",
            id.as_str()
        ))),
        None => Ok(id),
    }
}

/// Parses how long a run may take.
pub(crate) fn deadline(limit: impl IntoDuration) -> Result<Duration, Error> {
    let limit = limit.into_duration()?;
    if limit.is_zero() {
        return Err(Error::Setup("the deadline of a run must be greater than zero".to_owned()));
    }
    Ok(limit)
}
