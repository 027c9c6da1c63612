//! Live attempts: merges those that begin in this process into what is read from the feed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::retry::BreakerChange;
use outlive_core::store::query::{FeedContent, FeedItem};

use super::event::{Cursor, LifecycleEvent};
use super::kind::LifecycleKind;
use crate::instance::attempts::{AttemptListener, Attempts, Begun};

/// What one subscriber receives besides the feed.
pub(super) struct Live {
    listener: AttemptListener,
    /// How many had been reported when the feed was last read: those come after everything that was committed before
    /// them.
    told: u64,
}

impl Live {
    pub(super) fn new(attempts: &Arc<Attempts>) -> Self {
        Self { listener: Attempts::listen(attempts.clone()), told: 0 }
    }

    /// Notes that the feed is about to be read.
    pub(super) fn look(&mut self) {
        self.told = self.listener.told();
    }

    /// Handles the end of the feed: what began before that has its place now, unless an entry before it is still to be
    /// committed. Returns `true` if there may be more.
    pub(super) fn at_the_end(&self, of: Option<&Name>, waiting: &mut VecDeque<LifecycleEvent>) -> bool {
        let is_other = |begun: &Begun| of.is_some_and(|of| of.as_str() != begun.instance);
        self.listener.take(|_, begun| is_other(begun));
        let count = waiting.len();
        waiting.extend(self.take(|number, begun| number < self.told && begun.is_durable));
        waiting.len() > count || self.listener.told() > self.told
    }

    /// Adds the attempts that began before this feed entry.
    pub(super) fn before(&self, item: &FeedItem, waiting: &mut VecDeque<LifecycleEvent>) {
        if let FeedContent::Entry(entry) = &item.content {
            waiting.extend(self.take(|_, begun| begun.num == item.num && begun.seq < entry.seq));
        }
    }

    /// Adds the attempts that began right after this feed entry, before it was committed.
    pub(super) fn behind(&self, item: &FeedItem, waiting: &mut VecDeque<LifecycleEvent>) {
        if let FeedContent::Entry(entry) = &item.content {
            let is_next = |begun: &Begun| begun.seq == entry.seq && !begun.is_durable;
            waiting.extend(self.take(|_, begun| begun.num == item.num && is_next(begun)));
        }
    }

    /// Returns once more attempts have begun than were known when the feed was last read.
    pub(super) async fn more(&self) {
        poll_fn(|cx| self.listener.poll_more(self.told, cx)).await;
    }

    fn take(&self, is_wanted: impl Fn(u64, &Begun) -> bool) -> impl Iterator<Item = LifecycleEvent> {
        self.listener.take(is_wanted).into_iter().map(|begun| event(&begun))
    }
}

fn event(begun: &Begun) -> LifecycleEvent {
    let Begun { at, num, instance, workflow, operation, attempt, .. } = begun;
    let kind = kind(begun);
    let what = if begun.breaker.is_some() { format!("-{}-{}", kind.as_str(), at.as_millis()) } else { String::new() };
    LifecycleEvent {
        id: format!("{}-{operation}-{attempt}{what}", num.0),
        at: *at,
        number: 0,
        instance: instance.clone(),
        name: workflow.clone(),
        kind,
        // Set when the event is returned to the subscriber.
        cursor: Cursor::START,
    }
}

fn kind(begun: &Begun) -> LifecycleKind {
    let (step, operation, attempt) = (begun.step.clone(), begun.operation.to_string(), begun.attempt);
    let Some((breaker, change)) = begun.breaker.as_deref().cloned() else {
        return LifecycleKind::StepStarted { step, operation, attempt };
    };
    match change {
        BreakerChange::Opened { until } => LifecycleKind::BreakerOpened { breaker, until, operation },
        BreakerChange::HalfOpened => LifecycleKind::BreakerHalfOpened { breaker, operation },
        BreakerChange::Closed => LifecycleKind::BreakerClosed { breaker, operation },
    }
}

#[cfg(test)]
mod tests {
    use outlive_core::id::InstanceNum;
    use outlive_core::journal::{Entry, EntryKind};
    use outlive_core::time::Timestamp;

    use super::*;

    fn begun(num: u64, seq: u64, is_durable: bool) -> Begun {
        let (at, attempt) = (Timestamp::AT_ONCE, 1);
        let (instance, workflow, step) = (format!("run-{num}"), "shop".into(), "charge".into());
        Begun {
            at,
            num: InstanceNum(num),
            instance,
            workflow,
            step,
            operation: "charge".into(),
            attempt,
            seq,
            is_durable,
            breaker: None,
        }
    }

    /// A feed entry for a journal entry of run 1.
    fn line(seq: u64) -> FeedItem {
        let entry = Entry::of_run(seq, Timestamp::AT_ONCE, EntryKind::Retried);
        let (id, workflow) = (Name::recorded("run-1"), Name::recorded("shop"));
        FeedItem { pos: seq, num: InstanceNum(1), id, workflow, number: seq, content: FeedContent::Entry(entry) }
    }

    fn live() -> (Arc<Attempts>, Live) {
        let attempts = Arc::default();
        let live = Live::new(&attempts);
        (attempts, live)
    }

    /// Returns the number of events at the end of the feed, and whether to read again.
    fn end(live: &Live, of: Option<&Name>) -> (usize, bool) {
        let mut waiting = VecDeque::new();
        let is_more = live.at_the_end(of, &mut waiting);
        (waiting.len(), is_more)
    }

    /// Returns the number of events before a feed entry, and after it.
    fn around(live: &Live, item: &FeedItem) -> (usize, usize) {
        let (mut before, mut behind) = (VecDeque::new(), VecDeque::new());
        live.before(item, &mut before);
        live.behind(item, &mut behind);
        (before.len(), behind.len())
    }

    #[test]
    fn attempt_begun_during_a_read_waits_for_the_next_read() {
        let (attempts, mut live) = live();
        live.look();
        attempts.report(|| begun(1, 0, true));
        assert_eq!(end(&live, None), (0, true), "something may have been committed before it began");
        live.look();
        assert_eq!(end(&live, None), (1, true));
        live.look();
        assert_eq!(end(&live, None), (0, false));
    }

    #[test]
    fn attempt_after_an_uncommitted_entry_waits_for_it() {
        let (attempts, mut live) = live();
        attempts.report(|| begun(1, 3, false));
        live.look();
        assert_eq!(end(&live, None), (0, false), "no read follows until something is committed");
        assert_eq!(around(&live, &line(2)), (0, 0));
        assert_eq!(around(&live, &line(3)), (0, 1));
    }

    #[test]
    fn attempt_before_an_entry_of_its_run_comes_first() {
        let (attempts, live) = live();
        attempts.report(|| begun(1, 3, true));
        attempts.report(|| begun(2, 3, true));
        assert_eq!(around(&live, &line(3)), (0, 0), "earlier feed entries may still follow");
        assert_eq!(around(&live, &line(4)), (1, 0), "the attempt of the other run stays");
    }

    #[test]
    fn follower_of_one_run_gets_only_its_attempts() {
        let (attempts, mut live) = live();
        (1..=3).for_each(|num| attempts.report(|| begun(num, 0, true)));
        live.look();
        assert_eq!(end(&live, Some(&Name::recorded("run-2"))), (1, true));
        assert_eq!(end(&live, None).0, 0, "attempts of other runs are not kept");
    }

    #[test]
    fn attempts_without_a_listener_are_not_built() {
        let (attempts, live) = live();
        drop(live);
        attempts.report(|| panic!("there is no listener"));
    }
}
