//! Durable workflows for Rust: plain async functions that outlive the process.
//!
//! A workflow is an `async fn` whose side effects are [steps](Ctx::step). Each step's result is recorded in an embedded
//! file before anything that depends on it begins. When the process dies, through a crash, a deploy or a power cut, the
//! next one resumes exactly where it left off: recorded steps do not run again, and sleeps and waits continue. A workflow
//! can [run others as children](Ctx::run), and reach other runs and [jobs](job) [exactly once](Ctx::signal).
//!
//! ```
//! use outlive::prelude::*;
//!
//! async fn charge(cents: &u32) -> Result<String> { Ok(format!("paid {cents}")) }
//!
//! async fn checkout(ctx: Ctx, cents: u32) -> Result<String> {
//!     let payment = ctx.step("charge card", || charge(&cents)).retry(5).await?;
//!     let by: String = ctx.wait("approval").timeout("3 days").await?;
//!     Ok(format!("{payment}, approved by {by}"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     # let dir = tempfile::tempdir()?; std::env::set_current_dir(dir.path())?;
//!     let engine = Engine::open("shop.db").workflow("checkout", checkout).start().await?;
//!     let run = engine.start(checkout, &500).id("order-42").await?;
//!     run.signal("approval", "ada").await?;
//!     assert_eq!(run.result().await?, "paid 500, approved by ada");
//!     engine.shutdown().await?;
//!     Ok(())
//! }
//! ```

#![cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "without the engine, much of the crate is unused"))]

pub mod clock;
pub mod ctx;
mod error;
mod instance;
mod output;
mod question;
mod runtime;
mod signal;
pub mod workflow;

#[cfg(feature = "tokio")]
mod bulk;
#[cfg(feature = "tokio")]
pub mod check;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod engine;
#[cfg(feature = "tokio")]
mod events;
#[cfg(feature = "tokio")]
pub mod export;
#[cfg(feature = "tokio")]
pub mod job;
#[cfg(feature = "tokio")]
mod keep;
#[cfg(feature = "tokio")]
mod run;
#[cfg(feature = "http")]
mod sink;
#[cfg(feature = "tokio")]
mod start;

pub use ctx::{Attempt, Ctx, Reply};
pub use error::{BoxError, Error, ErrorKind, ExportError, ExportProblem, Permanent};
#[cfg(feature = "testing")]
pub use instance::env::{HookAction, StepCall, StepHook};
#[cfg(feature = "tokio")]
pub use keep::{IntoKeepRuns, KeepRuns};
pub use outlive_core::duration::{DurationError, IntoDuration};
pub use outlive_core::failure::{Cause, Failure};
pub use outlive_core::journal::{Entry, EntryKind, SentTo};
pub use outlive_core::payload::Payload;
pub use outlive_core::retry::{Backoff, Breaker, Jitter, PolicyError, Reason, Retry, RetryBudget};
pub use outlive_core::status::{Status, StatusKind};
pub use outlive_core::store;
pub use outlive_core::store::commit::OnConflict;
pub use outlive_core::store::memory::MemoryStore;
pub use outlive_core::store::query::{Counts, Filter};
pub use outlive_core::time::Timestamp;
pub use outlive_core::workflow::RewindPoint;
pub use output::{Recordable, Share};
pub use question::{QuestionName, QuestionNamed};
pub use serde::de::IgnoredAny;
pub use signal::{SignalName, SignalNamed, SignalValue};
pub use workflow::{Strict, Workflow};

#[cfg(feature = "tokio")]
pub use bulk::{Bulk, BulkOutcome, BulkProgress};
#[cfg(feature = "tokio")]
pub use check::is_check;
#[cfg(feature = "tokio")]
pub use client::Client;
#[cfg(feature = "tokio")]
pub use engine::{Builder, Engine};
#[cfg(feature = "tokio")]
pub use events::{Cursor, Events, JobWork, LifecycleEvent, LifecycleKind, RetryScheduled, Subscribe};
#[cfg(feature = "tokio")]
pub use run::{
    Branch, CancelOutcome, Children, DeadSignal, Fork, ItemAttempt, ItemStream, PageMark, Progress, Rewind, RewindPlan,
    Run, RunInfo, RunPage, RunQuestion, Signal, StreamItem, ValueWatch,
};
#[cfg(feature = "tokio")]
pub use runtime::open::Durability;
#[cfg(feature = "http")]
pub use sink::HttpSink;
#[cfg(feature = "tokio")]
pub use start::Start;

/// Shorthand for `Ok::<_, BoxError>(value)`, for bodies whose error type cannot be inferred.
///
/// ```
/// # use outlive::prelude::*;
/// async fn count(ctx: Ctx, n: u32) -> Result<u32> {
///     Ok(ctx.step("add", || async { outlive::Ok(n + 1) }).await?)
/// }
/// ```
///
/// # Errors
/// Never.
#[expect(non_snake_case, reason = "named like the variant it stands for")]
pub fn Ok<T>(value: T) -> Result<T, BoxError> {
    Result::Ok(value)
}

/// Layers: code around runs, steps and handlers. See [`Layer`](layer::Layer).
pub mod layer {
    #[cfg(feature = "tokio")]
    pub use crate::instance::layers::ObservedHandler;
    pub use crate::instance::layers::{Inner, Layer, LayerFuture, ObservedRun, ObservedStep, OnExit, RunExit};
    #[cfg(feature = "opentelemetry")]
    pub use crate::instance::traces::OpenTelemetry;
}

/// The items most programs need.
///
/// ```
/// use outlive::prelude::*;
/// async fn double(ctx: Ctx, n: u32) -> Result<u32> {
///     ctx.sleep("1 second").await?;
///     Ok(n * 2)
/// }
/// ```
pub mod prelude {
    pub use crate::{
        Attempt, BoxError, Ctx, Error, Filter, OnConflict, Permanent, Retry, Status, StatusKind, Timestamp, Workflow,
    };
    #[cfg(feature = "tokio")]
    pub use crate::{Client, Engine, Run};

    /// The result type of workflows and steps: any error can be returned with `?`.
    ///
    /// ```
    /// use outlive::prelude::*;
    /// async fn read(path: &str) -> Result<u32> { Ok(std::fs::read_to_string(path)?.trim().parse()?) }
    /// ```
    pub type Result<T, E = BoxError> = std::result::Result<T, E>;
}

/// Compiles the README and the guide as doctests.
#[cfg(all(doctest, feature = "sqlite"))]
mod guide {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/guide/first-workflow.md")]
    mod first_workflow {}
    #[doc = include_str!("../../../docs/guide/retry-and-timeout.md")]
    mod retry_and_timeout {}
    #[doc = include_str!("../../../docs/guide/testing.md")]
    mod testing {}
    #[doc = include_str!("../../../docs/guide/children.md")]
    mod children {}
    #[doc = include_str!("../../../docs/guide/undo.md")]
    mod undo {}
    #[doc = include_str!("../../../docs/guide/long-lives.md")]
    mod long_lives {}
    #[doc = include_str!("../../../docs/guide/values.md")]
    mod values {}
    #[doc = include_str!("../../../docs/guide/repair.md")]
    mod repair {}
    #[doc = include_str!("../../../docs/guide/proving.md")]
    mod proving {}
    #[doc = include_str!("../../../docs/guide/changing-code.md")]
    mod changing_code {}
    #[doc = include_str!("../../../docs/guide/errors.md")]
    mod errors {}
    #[doc = include_str!("../../../docs/guide/observing.md")]
    mod observing {}
    #[doc = include_str!("../../../docs/guide/jobs.md")]
    mod jobs {}
    #[doc = include_str!("../../../docs/guide/schedules.md")]
    mod schedules {}
    #[cfg(feature = "http")]
    #[doc = include_str!("../../../docs/guide/events.md")]
    mod events {}
}
