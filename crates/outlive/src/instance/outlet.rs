//! The way out for what the attempt of a step appends, which is durable on its own.

use std::pin::Pin;

use outlive_core::output::OutputWrite;
use outlive_core::store::commit::Answer;

use crate::error::Error;

/// An append that is being made durable.
pub(crate) type Giving = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

/// Makes outputs of attempts durable.
pub(crate) trait Outlet: Send + Sync {
    /// Stores an output under the epoch of the engine, and resolves when it is durable.
    fn give(&self, output: OutputWrite) -> Giving;
}
