//! Who waits for the end of which run. A hint only: who is woken asks the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use outlive_core::id::InstanceNum;
use tokio::sync::Notify;

/// Who waits for the end of which run.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<HashMap<InstanceNum, Arc<Notify>>>);

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceNum, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What is told when the run ends. Register with it before asking the store.
    pub(crate) fn of(&self, num: InstanceNum) -> Arc<Notify> {
        self.lock().entry(num).or_default().clone()
    }

    /// A run has ended.
    pub(crate) fn tell(&self, num: InstanceNum) {
        if let Some(notify) = self.lock().remove(&num) {
            notify.notify_waiters();
        }
    }

    /// Any run may have ended.
    pub(crate) fn tell_all(&self) {
        // Who waits holds a handle; what nobody holds nobody waits for.
        self.lock().retain(|_, notify| {
            notify.notify_waiters();
            Arc::strong_count(notify) > 1
        });
    }
}
