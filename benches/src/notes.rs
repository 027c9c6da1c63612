//! Times that workflows note while they are measured, in memory only.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A list that all runs of an engine share.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Duration>>>);

impl Notes {
    pub(crate) fn add(&self, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(time);
    }

    /// What was noted since the last time it was asked for.
    pub(crate) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
