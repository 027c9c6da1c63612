//! Times that workflows record while they are measured, in memory only.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A list shared by all runs of an engine.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Duration>>>);

impl Notes {
    pub(crate) fn add(&self, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(time);
    }

    /// Takes what was recorded since the last call.
    pub(crate) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
