//! A check of a store whose runs make progress during the check.

use std::pin::Pin;
use std::sync::Arc;

use outlive::prelude::*;
use outlive::store::{Answered, Store};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::query::{Counts, FeedItem, Instance, Page, Query, Suspect, Wake};
use outlive_testkit::{TestEngine, check};

/// A store whose listing is older than everything else it returns.
struct Late {
    store: Arc<dyn Store>,
    listed: Instance,
}

impl Query for Late {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.store.instance(id)
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.store.journal(num, after, limit)
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.store.inbox(num, after, limit)
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.store.wakes_after(after, until, limit)
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.store.suspects(until)
    }

    fn list<'a>(&'a self, _: &'a Filter, _: Option<InstanceNum>, _: usize) -> Answered<'a, Page> {
        Box::pin(async { Ok(Page { instances: vec![self.listed.clone()], next: None }) })
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.store.count(filter)
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.store.queue(num, read)
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.store.depth(job, now)
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.store.dead(job, after, limit)
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.store.jobs()
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.store.feed(after, limit)
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.store.mark(name)
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.store.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.store.outputs(num, read, limit)
    }
}

impl Store for Late {
    fn lease(&self, _: Timestamp) -> Answered<'_, Epoch> {
        panic!("a check takes no lease")
    }

    fn write(&self, _: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        panic!("a check writes nothing")
    }

    fn release(&self, _: Epoch) -> Answered<'_, ()> {
        panic!("a check has no lease to release")
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.changed()
    }

    fn durability(&self) -> String {
        self.store.durability()
    }
}

/// Sleeps, then runs a step that never ends if the flag says so.
async fn nap_and_work(ctx: Ctx, is_endless: bool) -> Result<()> {
    ctx.sleep("1 hour").await?;
    let body = || async move { if is_endless { std::future::pending().await } else { Ok::<_, BoxError>(()) } };
    Ok(ctx.step("work", body).await?)
}

/// A store that lists a run as sleeping, although its sleep is over by the time the rest is read.
async fn late(is_endless: bool) -> (TestEngine, Arc<dyn Store>) {
    let test = TestEngine::new(|engine| engine.workflow("w", nap_and_work)).await;
    test.start(nap_and_work, &is_endless).id("r").await.unwrap();
    test.settle().await;
    let listed = test.store().instance(&Name::recorded("r")).await.unwrap().unwrap();
    assert_eq!(listed.status.kind(), StatusKind::Sleeping);
    test.advance("1 hour").await;
    let store = Arc::new(Late { store: test.store().clone(), listed });
    (test, store)
}

/// What would break: a run that is listed as sleeping but is running when its journal is read seems to ask for a step
/// that any idle run would have recorded.
#[tokio::test]
async fn run_that_advances_during_a_check_is_checked_again() {
    let (_test, store) = late(true).await;
    let report = check(store, |engine| engine.workflow("w", nap_and_work)).await;
    assert_eq!((report.count("fine"), report.runs().len()), (1, 1), "{report}");
}

#[tokio::test]
async fn run_that_ends_during_a_check_is_not_in_the_report() {
    let (_test, store) = late(false).await;
    let report = check(store, |engine| engine).await;
    assert!(report.runs().is_empty(), "{report}");
}
