//! Stores for the tests of jobs: one whose queue reads are stale on arrival, and what every store keeps.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use outlive::store::Store;
use outlive_core::event::Event;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, PushTarget, PushWrite, QueuePage, QueueRead};
use outlive_core::status::Status;
use outlive_core::store::Answered;
use outlive_core::store::commit::{Answer, Epoch, NewState, Reopen, Turn, Write};
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::time::Timestamp;

pub(crate) struct SlowQueue(Arc<dyn Store>);

impl SlowQueue {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self(inner)
    }
}

impl Store for SlowQueue {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.0.lease(now)
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        self.0.write(batch)
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.0.release(epoch)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.changed()
    }

    fn durability(&self) -> String {
        self.0.durability()
    }
}

impl Query for SlowQueue {
    /// Reads at once, and returns a moment later.
    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        Box::pin(async move {
            let page = self.0.queue(num, read).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            page
        })
    }

    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.0.instance(id)
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.0.journal(num, after, limit)
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.0.inbox(num, after, limit)
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.0.wakes_after(after, until, limit)
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.0.suspects(until)
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.0.list(filter, before, limit)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.0.count(filter)
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.0.depth(job, now)
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.0.dead(job, after, limit)
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.0.feed(after, limit)
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.0.mark(name)
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.0.jobs()
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.0.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.0.outputs(num, read, limit)
    }
}

#[tokio::test]
async fn each_store_keeps_the_state_of_a_stuck_job_when_it_is_retried() {
    let dir = tempfile::tempdir().unwrap();
    let file = outlive_sqlite::SqliteStore::open(&dir.path().join("jobs.db"), outlive_sqlite::Options::default());
    let stores: [Arc<dyn Store>; 2] = [Arc::new(outlive::MemoryStore::new()), Arc::new(file.unwrap())];
    for store in stores {
        let (id, at) = (Name::recorded("task:orders:a"), Timestamp::from_millis(1));
        let epoch = store.lease(at).await.unwrap();
        let event = Event::new(Payload::recorded("1"));
        let (job, events, place) = (Name::recorded("task:orders"), vec![event], PushTarget::Inbox);
        let push = PushWrite { id: id.clone(), job, events, place, at, seed: 7, token: 1 };
        let answers = store.write(Arc::new(vec![Write::Push(push)])).await.unwrap();
        let Answer::Pushed { num, .. } = answers[0] else { panic!("{answers:?}") };
        let kept = Payload::recorded(r#"{"state":5,"events":1}"#);
        let (status, note) = (Status::Stuck, Some("it cannot be read".to_owned()));
        let outcome = Some(kept.clone());
        let state = NewState { status, wake: None, is_owned: false, seen: None, outcome, note, at };
        let turn = Turn { state: Some(state), ..Turn::new(num, epoch, 0) };
        let reopen = Reopen { id: id.clone(), num: None, at };
        for write in [Write::Turn(Box::new(turn)), Write::Reopen(reopen)] {
            let answers = store.write(Arc::new(vec![write])).await.unwrap();
            assert!(!matches!(answers[0], Answer::Refused(_) | Answer::Fenced), "{answers:?}");
        }
        let instance = store.instance(&id).await.unwrap().unwrap();
        assert_eq!((instance.status, instance.outcome), (Status::Pending, Some(kept)), "{}", store.durability());
    }
}
