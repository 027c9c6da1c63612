//! Many callers wait for runs while other processes write: only those with something to read do read the store.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
use outlive_core::store::touched::{Touch, Touched};
use outlive_sqlite::{Options, SqliteStore};
use tokio::task::JoinSet;

/// A store that counts its reads.
struct Counted {
    store: SqliteStore,
    /// Number of reads of an instance.
    instances: AtomicUsize,
    /// Number of reads of what others have changed.
    looks: AtomicUsize,
}

impl Counted {
    fn open(file: &std::path::Path) -> Arc<Self> {
        let store = SqliteStore::open(file, Options::default()).unwrap();
        Arc::new(Self { store, instances: AtomicUsize::new(0), looks: AtomicUsize::new(0) })
    }

    fn instances(&self) -> usize {
        self.instances.load(Ordering::SeqCst)
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Store for Counted {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.store.lease(now)
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        self.store.write(batch)
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.store.release(epoch)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.changed()
    }

    fn touched(&self, after: u64, touch: Touch) -> Answered<'_, Option<Touched>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.store.touched(after, touch)
    }

    fn durability(&self) -> String {
        self.store.durability()
    }
}

impl Query for Counted {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.instances.fetch_add(1, Ordering::SeqCst);
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

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.store.list(filter, before, limit)
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
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.store.mark(name)
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.store.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.store.outputs(num, read, limit)
    }
}

async fn parked(ctx: Ctx, n: usize) -> Result<usize> {
    ctx.wait::<()>("go").await?;
    Ok(n)
}

async fn quick(_: Ctx, _: ()) -> Result<()> {
    Ok(())
}

const WAITERS: usize = 200;
const LOOKS: usize = 30;

fn id_of(n: usize) -> String {
    format!("parked-{n}")
}

/// Waits for each run in its own task, and returns once all of them have read the store.
async fn wait_for_all(client: &Client, counted: &Counted) -> JoinSet<std::result::Result<usize, Error>> {
    let (mut tasks, before) = (JoinSet::new(), counted.instances());
    for n in 0..WAITERS {
        let run: Run<usize> = client.get_run(&id_of(n)).await.unwrap();
        tasks.spawn(async move { run.result().await });
    }
    while counted.instances() < before + 2 * WAITERS {
        tokio::task::yield_now().await;
    }
    tasks
}

/// A waiting caller reads the store once, once more when the position of the feed is first known, and when it has
/// something to read. A few reads may come in between.
#[track_caller]
fn assert_few(before: usize, counted: &Counted) {
    let read = counted.instances() - before;
    assert!(read <= 3 * WAITERS, "{read} reads by {WAITERS} waiting callers, in {} looks", counted.looks());
}

/// What broke: each write of another process made every waiting caller read the store, a core for a thousand of them.
#[tokio::test]
async fn callers_waiting_in_a_client_do_not_read_at_each_write_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let engine = Engine::open(&file).workflow("parked", parked).workflow("quick", quick).start().await.unwrap();
    for n in 0..WAITERS {
        engine.start(parked, &n).id(&id_of(n)).await.unwrap();
    }
    let counted = Counted::open(&file);
    let client = Client::with_store(counted.clone());
    let mut tasks = wait_for_all(&client, &counted).await;
    let before = counted.instances();
    while counted.looks() < LOOKS {
        engine.start(quick, &()).await.unwrap().result().await.unwrap();
    }
    for n in 0..WAITERS {
        engine.get_run::<usize>(&id_of(n)).await.unwrap().signal("go", &()).await.unwrap();
    }
    let mut sum = 0;
    while let Some(result) = tasks.join_next().await {
        sum += result.unwrap().unwrap();
    }
    assert_eq!(sum, WAITERS * (WAITERS - 1) / 2);
    assert_few(before, &counted);
}

#[tokio::test]
async fn callers_waiting_in_the_engine_do_not_read_at_each_write_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let counted = Counted::open(&file);
    let builder = Engine::with_store(counted.clone()).workflow("parked", parked).workflow("quick", quick);
    let engine = builder.start().await.unwrap();
    for n in 0..WAITERS {
        engine.start(parked, &n).id(&id_of(n)).await.unwrap();
    }
    let outside = Client::open(&file).unwrap();
    // From now on the engine knows that others write, and reads what they have changed.
    outside.start(Workflow::<(), ()>::new("quick"), &()).await.unwrap().result().await.unwrap();
    let mut tasks = wait_for_all(&engine.client(), &counted).await;
    let before = counted.instances();
    while counted.looks() < LOOKS {
        outside.start(Workflow::<(), ()>::new("quick"), &()).await.unwrap().result().await.unwrap();
    }
    // One of them is removed from outside.
    let replaced = outside.start(Workflow::<usize, usize>::new("parked"), &0).id(&id_of(0));
    replaced.on_conflict(OnConflict::Replace).await.unwrap();
    for n in 1..WAITERS {
        outside.get_run::<usize>(&id_of(n)).await.unwrap().signal("go", &()).await.unwrap();
    }
    let (mut sum, mut gone) = (0, 0);
    while let Some(result) = tasks.join_next().await {
        match result.unwrap() {
            Ok(n) => sum += n,
            Err(error) => gone += usize::from(error.is_not_found()),
        }
    }
    assert_eq!((sum, gone), (WAITERS * (WAITERS - 1) / 2, 1));
    assert_few(before, &counted);
}

/// A caller that waits for a run that its own client removes gets an error as well.
#[tokio::test]
async fn run_replaced_by_the_same_client_ends_the_wait_for_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::open(folder.path().join("runs.db")).unwrap();
    let parked = Workflow::<usize, usize>::new("parked");
    let run = client.start(parked, &0).id("a").await.unwrap();
    let waiting = tokio::spawn(async move { run.result().await });
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    client.start(parked, &0).id("a").on_conflict(OnConflict::Replace).await.unwrap();
    assert!(waiting.await.unwrap().unwrap_err().is_not_found());
}
