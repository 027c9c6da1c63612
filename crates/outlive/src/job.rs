//! Jobs: handlers with durable state, an inbox and a wake.
//!
//! There are four kinds. Each has a contract that names it, a definition to register, a context for its handlers, and a
//! client.
//!
//! ```
//! use outlive::prelude::*;
//! use outlive::job::{Task, TaskCtx};
//!
//! const COUNTERS: Task<u32, u32> = Task::new("counter");
//!
//! async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<u32> {
//!     ctx.update_state(|sum| *sum += n);
//!     Ok(ctx.state().unwrap_or_default())
//! }
//! async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
//! let engine = Engine::open("memory:").job(COUNTERS.on_event(add).execute(nothing)).start().await?;
//! let counters = engine.job(COUNTERS);
//! counters.send("tea", &2).await?;
//! let sum: u32 = counters.ask("tea", &3).await?;
//! assert_eq!(sum, 5);
//! # Ok(()) }
//! ```

mod by_name;
mod client;
mod context;
mod continuous;
mod debounce;
mod macros;
mod order;
mod outcome;
mod pool;
mod stateful;
mod task;

pub use self::by_name::{AnyJob, JobInstance, JobPage, JobSummary, Waiting};
pub use self::continuous::{Continuous, ContinuousBuilder, ContinuousClient, ContinuousCtx};
pub use self::debounce::{Add, Debounce, DebounceBuilder, DebounceClient, DebounceCtx};
pub use self::order::{Order, ResolveDead};
pub use self::outcome::{Added, DeadLetter, JobInfo, JobStatus, Pushed, Sent, Started};
pub use self::pool::{
    PoolEvent, Push, PushInCommit, PushOne, WorkerPool, WorkerPoolBuilder, WorkerPoolClient, WorkerPoolCtx,
    WorkerPoolStatus,
};
pub use self::task::{Ask, SendEvent, Task, TaskBuilder, TaskClient, TaskCtx};
pub use crate::client::Contract;
pub use crate::instance::target::{EventTarget, QueueTarget};
pub use crate::runtime::handlers::{
    Definition, Executes, HandlerFuture, JobDefinition, JobHandler, RetryTest, Unfinished,
};
pub use outlive_core::job::{Exhausted, FlushReason, HandlerKind};
pub use outlive_core::kind::JobKind;
pub use outlive_core::schedule::{Cron, Missed, Schedule, ScheduleError};
