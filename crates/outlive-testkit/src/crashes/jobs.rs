//! Crashes jobs everywhere: whatever people do to them is repeated until it is acknowledged, and what is left in the end
//! must be as it is without a crash.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use outlive::clock::Clock;
use outlive::{Builder, Client, Error, IntoDuration};
use outlive_core::memory::MemoryStore;

use crate::clock::TestClock;
use crate::engine::TestEngine;
use crate::faults::{Fault, Faults};

/// Where random numbers come from, so that each play is the same.
const SEED: u64 = 2027;
/// How many pairs of crashes are played.
const PAIRS_MAX: u64 = 100;
/// Longer than the engine waits before it asks the store again.
const TROUBLE: Duration = Duration::from_secs(3);
/// How often somebody repeats what is not acknowledged.
const REPEATS_MAX: usize = 50;

type Doing<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;
type Act = Arc<dyn Fn(Client) -> Doing<()> + Send + Sync>;
type Look = Arc<dyn Fn(Client) -> Doing<String> + Send + Sync>;
type Setup = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Crashes jobs everywhere, and checks that nobody can tell by what is left.
///
/// The acts are done once without a fault. Then all of it is played again for each write, with the process dying before
/// it and after it, its answer lost (whether it was written or not), and the store refusing it; then for pairs of
/// crashes. Who acts repeats an act until it is acknowledged, so give events a key
/// ([`send_once`](outlive::job::TaskClient::send_once)). What [`look`](CrashJobs::look) sees in the end must be the same.
///
/// ```
/// use outlive::job::{Task, TaskCtx};
/// use outlive::prelude::*;
/// use outlive_testkit::crash_jobs_everywhere;
///
/// const COUNTERS: Task<u32, u32> = Task::new("counter");
/// async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> { ctx.update_state(|sum| *sum += n); Ok(()) }
/// async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() { // in a test: #[tokio::test]
/// let report = crash_jobs_everywhere(|engine| engine.job(COUNTERS.on_event(add).execute(nothing)))
///     .act_at(0, |client| async move { client.job(COUNTERS).send_once("tea", &2, "first").await.map(drop) })
///     .act_at("1 minute", |client| async move { client.job(COUNTERS).send_once("tea", &3, "second").await.map(drop) })
///     .look(|client| async move { client.job(COUNTERS).state("tea").await })
///     .run()
///     .await;
/// assert_eq!(report.end, "Some(5)");
/// assert!(report.schedules > 20);
/// # }
/// ```
pub fn crash_jobs_everywhere(setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> CrashJobs {
    CrashJobs {
        setup: Arc::new(setup),
        acts: Vec::new(),
        look: Arc::new(|_| Box::pin(async { Ok(String::new()) })),
        until: Duration::from_secs(3_600),
    }
}

/// Jobs that are about to be crashed everywhere, made by [`crash_jobs_everywhere`].
#[must_use = "nothing is crashed until it is run"]
pub struct CrashJobs {
    setup: Setup,
    acts: Vec<(Duration, Act)>,
    look: Look,
    until: Duration,
}

/// What came of crashing jobs everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct JobReport {
    /// What was left, each time.
    pub end: String,
    /// How many writes there are without a fault.
    pub writes: u64,
    /// How many schedules of faults were played.
    pub schedules: u64,
}

impl CrashJobs {
    /// Somebody does this so long after the beginning, and repeats it until it is acknowledged.
    ///
    /// # Panics
    /// If it is no duration.
    pub fn act_at<F>(mut self, after: impl IntoDuration, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let after = after.into_duration().unwrap_or_else(|error| panic!("{error}"));
        self.acts.push((after, Arc::new(move |client| Box::pin(act(client)))));
        self
    }

    /// What must be the same in the end, whatever went wrong.
    pub fn look<T, F>(mut self, look: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        T: Debug,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.look = Arc::new(move |client| {
            let looking = look(client);
            Box::pin(async move { Ok(format!("{:?}", looking.await?)) })
        });
        self
    }

    /// When it is over; an hour after the beginning unless said otherwise.
    ///
    /// # Panics
    /// If it is no duration.
    pub fn until(mut self, until: impl IntoDuration) -> Self {
        self.until = until.into_duration().unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Plays it, once for each thing that can go wrong.
    ///
    /// # Panics
    /// If what is left is not the same. The message says which faults lead to it.
    pub async fn run(self) -> JobReport {
        // What the engine does about trouble of its store takes real time, which need not pass.
        tokio::time::pause();
        let report = self.run_paused().await;
        tokio::time::resume();
        report
    }

    async fn run_paused(&self) -> JobReport {
        let (end, writes) = self.play(&[]).await;
        let mut schedules = 1;
        let kinds = [Fault::CrashBefore, Fault::CrashAfter, Fault::UnknownAfter, Fault::UnknownBefore, Fault::Refuse];
        for write in 1..=writes {
            for kind in kinds {
                self.check(&[kind(write)], &end).await;
                schedules += 1;
            }
        }
        let pairs = writes * writes;
        let step = (pairs / PAIRS_MAX).max(1);
        for pair in (0..pairs).step_by(usize::try_from(step).unwrap_or(1)) {
            let (first, second) = (1 + pair / writes, 1 + pair / writes + 1 + pair % writes);
            let kind = if pair % 2 == 0 { Fault::CrashAfter } else { Fault::CrashBefore };
            self.check(&[kind(first), Fault::CrashAfter(second)], &end).await;
            schedules += 1;
        }
        JobReport { end, writes, schedules }
    }

    async fn check(&self, faults: &[Fault], expected: &str) {
        let (end, _) = self.play(faults).await;
        assert!(end == expected, "with {faults:?}, this is left:\n{end}\nand without any fault:\n{expected}");
    }

    /// Plays it once. Answers what is left, and how many writes there were.
    async fn play(&self, schedule: &[Fault]) -> (String, u64) {
        let (clock, lives) = (TestClock::new(), Arc::new(AtomicU64::new(0)));
        let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        schedule.iter().for_each(|fault| faults.add(*fault));
        let (setup, count) = (self.setup.clone(), lives.clone());
        let setup = move |builder: Builder| {
            // Each life draws other numbers, or its writes would pass for repeats of earlier ones.
            let seed = SEED ^ (count.fetch_add(1, Ordering::Relaxed) << 32);
            setup(builder.seed(seed).recoveries_max(100))
        };
        let mut test = TestEngine::new(setup).store(faults.clone()).clock(clock.clone()).await;
        let begun = clock.now();
        let done = AtomicUsize::new(0);
        loop {
            let told = tokio::select! {
                biased;
                () = faults.died() => None,
                told = self.story(&test, begun, &done) => Some(told),
            };
            if let Some(end) = told {
                return (end, faults.writes());
            }
            faults.revive();
            test.crash().await;
        }
    }

    /// What people do, as far as it is not done, and what they see in the end.
    async fn story(&self, test: &TestEngine, begun: outlive::Timestamp, done: &AtomicUsize) -> String {
        for (n, (after, act)) in self.acts.iter().enumerate().skip(done.load(Ordering::Relaxed)) {
            let due = begun.after(*after);
            test.advance(due.since(test.clock().now())).await;
            for repeat in 0.. {
                match act(test.client()).await {
                    Ok(()) => break,
                    Err(error) => assert!(repeat < REPEATS_MAX, "act {} is not taken: {error}", n + 1),
                }
            }
            done.store(n + 1, Ordering::Relaxed);
            tokio::time::sleep(TROUBLE).await;
        }
        let end = begun.after(self.until);
        while test.next_due().await.is_some_and(|due| due <= end) {
            test.skip_to_next(end).await;
            tokio::time::sleep(TROUBLE).await;
        }
        test.advance(end.since(test.clock().now())).await;
        tokio::time::sleep(TROUBLE).await;
        (self.look)(test.client()).await.unwrap_or_else(|error| panic!("nothing can be seen in the end: {error}"))
    }
}
