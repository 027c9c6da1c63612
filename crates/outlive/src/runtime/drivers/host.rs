//! Connects the driver of a run to the services: its commits, its timers, and its place in memory.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::store::commit::{Commit, Write};
use outlive_core::time::Timestamp;

use super::run::RunHost;
use crate::instance::mailbox::Mailbox;
use crate::instance::resident::ResidentRun;
use crate::runtime::committer::WriteReply;
use crate::runtime::services::Services;
use crate::runtime::wakes::HORIZON;

/// How long a run in a long pause stays in memory all the same, so that a foreign future it awaits is noticed.
const IDLE: Duration = Duration::from_secs(10);

impl RunHost for Arc<Services> {
    fn submit(&self, resident: &Arc<ResidentRun>, mut commit: Commit) {
        commit.writes.iter_mut().for_each(|write| self.drive_from_start(write));
        let seq = commit.seq_before + commit.entries.len() as u64;
        let has_state = commit.state.is_some();
        let reply = WriteReply::Run { mailbox: resident.mailbox.clone(), seq, has_state };
        self.committer.submit(Write::Commit(commit), reply);
    }

    fn set_timer(&self, resident: &ResidentRun, due: Timestamp) {
        self.wakes.add(due, resident.info.num);
    }

    fn clear_timer(&self, resident: &ResidentRun, due: Timestamp) {
        self.wakes.remove(due, resident.info.num);
    }

    fn read_inbox(&self, resident: &Arc<ResidentRun>) {
        Services::read_inbox(self, resident.info.num, &resident.mailbox);
    }

    fn resumed(&self, resident: &Arc<ResidentRun>) {
        // A message from outside may have come just before, and its wake was removed with the pause.
        if self.has_foreign() {
            Services::read_inbox(self, resident.info.num, &resident.mailbox);
        }
    }

    fn keep_wake(&self, resident: &ResidentRun, wake: Timestamp) {
        self.wakes.add_stored(wake, resident.info.num);
    }

    fn paused(&self, resident: &ResidentRun, wake: Option<Timestamp>) -> bool {
        let (num, now) = (resident.info.num, self.env.clock.now());
        wake.into_iter().for_each(|wake| self.keep_wake(resident, wake));
        let is_far = wake.is_some_and(|wake| wake > now.after(HORIZON));
        !self.is_stopping() && self.residency.pause(num, wake, is_far.then(|| now.after(IDLE)))
    }

    fn resuming(&self, resident: &ResidentRun) {
        self.resume(resident.info.num);
    }

    fn fenced(&self, resident: &ResidentRun) {
        let num = resident.info.num;
        let is_here = |mailbox: Arc<Mailbox>| Arc::ptr_eq(&mailbox, &resident.mailbox);
        if !self.is_stopping() && self.residency.mailbox(num).is_some_and(is_here) {
            // If it was rewound by another process, it continues with a new copy.
            self.due.add(num);
        }
    }

    fn gone(&self, resident: &ResidentRun) {
        self.touch();
        if self.residency.leave(resident.info.num, &resident.mailbox) {
            // The run may come back, here or elsewhere.
            self.waiters.ask(resident.info.num);
        }
        self.due.wakeup.notify_one();
    }
}

impl Services {
    /// Lets a run that is due at once be driven here from its start, without a claim, if there is room for it.
    fn drive_from_start(&self, write: &mut Write) {
        if let Write::Start(start) = write
            && start.due <= self.now()
            && !self.is_stopping()
            && self.due.is_empty()
            && self.residency.reserve(1) == 1
        {
            start.owner = self.epoch;
        }
    }
}
