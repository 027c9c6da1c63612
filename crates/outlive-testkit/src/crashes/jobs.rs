//! Crashes jobs everywhere. Every action on them is repeated until it is acknowledged, and the final state must be the
//! same as without a crash.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use outlive::clock::Clock;
use outlive::{Builder, Client, Error, IntoDuration};
use outlive_core::store::memory::MemoryStore;

use crate::clock::TestClock;
use crate::engine::TestEngine;
use crate::faults::{Fault, Faults};

/// Seed for random numbers, so that every trial is the same.
const SEED: u64 = 2027;
/// Limit on pairs of crashes.
const PAIRS_MAX: u64 = 100;
/// Longer than the engine waits before it asks the store again.
const TROUBLE: Duration = Duration::from_secs(3);
/// How often an action that is not acknowledged is repeated.
const REPEATS_MAX: usize = 50;

type Doing<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;
type Act = Arc<dyn Fn(Client) -> Doing<()> + Send + Sync>;
type Look = Arc<dyn Fn(Client) -> Doing<String> + Send + Sync>;
type Setup = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Crashes jobs at every write and checks that the final state is always the same.
///
/// The actions are first performed once without a fault. Everything then runs again for each write, with the process
/// dying before it and after it, its reply lost (whether or not it was written), and the store refusing it; then for
/// pairs of crashes. Each action is repeated until it is acknowledged, so give events a key
/// ([`dedup_key`](outlive::job::SendEvent::dedup_key)). What [`look`](CrashJobs::look) returns in the end must be the
/// same each time.
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
///     .act_at(0, |client| async move { client.job(COUNTERS).send("tea", &2).dedup_key("first").await.map(drop) })
///     .act_at("1 minute", |client| async move { client.job(COUNTERS).send("tea", &3).dedup_key("second").await.map(drop) })
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

/// Builder for a crash test of jobs, created by [`crash_jobs_everywhere`].
#[must_use = "nothing runs until `.run()` is awaited"]
pub struct CrashJobs {
    setup: Setup,
    acts: Vec<(Duration, Act)>,
    look: Look,
    until: Duration,
}

/// Report of a crash test of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct JobReport {
    /// The final state, which was the same each time.
    pub end: String,
    /// Number of writes without a fault.
    pub writes: u64,
    /// Number of fault schedules that ran.
    pub schedules: u64,
}

impl CrashJobs {
    /// Performs an action this long after the beginning, and repeats it until it is acknowledged.
    ///
    /// # Panics
    /// If the duration is not valid.
    pub fn act_at<F>(mut self, after: impl IntoDuration, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let after = after.into_duration().unwrap_or_else(|error| panic!("{error}"));
        self.acts.push((after, Arc::new(move |client| Box::pin(act(client)))));
        self
    }

    /// Sets how to read the final state, which must be the same whatever went wrong.
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

    /// Sets how long after the beginning the test ends. Defaults to one hour.
    ///
    /// # Panics
    /// If the duration is not valid.
    pub fn until(mut self, until: impl IntoDuration) -> Self {
        self.until = until.into_duration().unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Runs the test once for each thing that can go wrong.
    ///
    /// # Panics
    /// If the final state differs. The message says which faults lead to it.
    pub async fn run(self) -> JobReport {
        // The engine handles store trouble in real time, which need not pass here.
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
        assert!(end == expected, "the final state with {faults:?} is:\n{end}\nwithout any fault it is:\n{expected}");
    }

    /// Runs one schedule. Returns the final state and the number of writes.
    async fn play(&self, schedule: &[Fault]) -> (String, u64) {
        let (clock, lives) = (TestClock::new(), Arc::new(AtomicU64::new(0)));
        let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        schedule.iter().for_each(|fault| faults.add(*fault));
        let (setup, count) = (self.setup.clone(), lives.clone());
        let setup = move |builder: Builder| {
            // Each process lifetime draws different numbers, or its writes would be taken for repeats of earlier ones.
            let seed = SEED ^ (count.fetch_add(1, Ordering::Relaxed) << 32);
            setup(builder.seed(seed).max_recoveries(100))
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

    /// Performs the actions that are not done yet, and returns the final state.
    async fn story(&self, test: &TestEngine, begun: outlive::Timestamp, done: &AtomicUsize) -> String {
        for (n, (after, act)) in self.acts.iter().enumerate().skip(done.load(Ordering::Relaxed)) {
            let due = begun.after(*after);
            test.advance(due.since(test.clock().now())).await;
            for repeat in 0.. {
                match act(test.client()).await {
                    Ok(()) => break,
                    Err(error) => assert!(repeat < REPEATS_MAX, "action {} is not accepted: {error}", n + 1),
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
        (self.look)(test.client()).await.unwrap_or_else(|error| panic!("failed to read the final state: {error}"))
    }
}
