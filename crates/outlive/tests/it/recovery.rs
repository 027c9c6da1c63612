//! Recovery after the process died: all runs come back soon, and only the run that crashed the process becomes stuck.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outlive::clock::{Clock, SystemClock};
use outlive::prelude::*;
use outlive::{Builder, Timestamp};
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;

const INNOCENTS: usize = 100;

/// State that the steps of a life share.
#[derive(Clone)]
struct Life {
    /// The run that crashes the process; none if past the last one.
    culprit: usize,
    /// `true` once the culprit has begun to crash.
    is_dying: Arc<AtomicBool>,
    /// Number of steps begun in all lives.
    begun: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Life {
    fn new(culprit: usize) -> Self {
        Self { culprit, is_dying: Arc::default(), begun: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

async fn long(ctx: Ctx, n: usize) -> Result<usize> {
    let life = ctx.get::<Life>().clone();
    let body = || async {
        life.begun.fetch_add(1, Ordering::Relaxed);
        life.is_dying.fetch_or(life.culprit == n, Ordering::Relaxed);
        life.gate.acquire().await?.forget();
        Ok::<_, outlive::BoxError>(n)
    };
    Ok(ctx.step("long", body).await?)
}

async fn engine(life: &Life) -> TestEngine {
    let life = life.clone();
    let test = TestEngine::new(move |engine| engine.workflow("long", long).provide(life.clone()));
    let test = test.patience(Duration::ZERO).paranoid(false).await;
    for n in 0..=INNOCENTS {
        test.start(long, &n).id(&format!("run-{n}")).await.unwrap();
    }
    test.settle().await;
    test
}

async fn status(test: &TestEngine, n: usize) -> Status {
    test.get_run::<usize>(&format!("run-{n}")).await.unwrap().status().await.unwrap()
}

/// Asserts that all runs but the culprit finish once the gate opens, without another crash.
async fn assert_finish(test: &TestEngine, life: &Life) {
    life.gate.add_permits(2 * INNOCENTS);
    for n in (0..=INNOCENTS).filter(|n| *n != life.culprit) {
        let run = test.get_run::<usize>(&format!("run-{n}")).await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), n);
    }
}

/// Suspects came back one at a time, and all became stuck if the process died a few more times.
#[tokio::test]
async fn culprit_is_found_by_halving_and_is_the_only_stuck_run() {
    for culprit in [0, 37, INNOCENTS] {
        let life = Life::new(culprit);
        let mut test = engine(&life).await;
        let mut deaths = 0;
        while status(&test, culprit).await != Status::Stuck {
            match life.is_dying.swap(false, Ordering::Relaxed) {
                true => {
                    deaths += 1;
                    assert!(deaths < 16, "the process still dies");
                    test.crash().await;
                    test.settle().await;
                }
                false => test.advance("1 second").await,
            }
        }
        // Two before there are suspects, seven until one is left, and four to be sure.
        assert!((11..=13).contains(&deaths), "{deaths} deaths for run {culprit}");
        let note = test.get_run::<usize>(&format!("run-{culprit}")).await.unwrap().info().await.unwrap().note.unwrap();
        assert!(note.contains("crashed the process 4 times"), "{note}");
        test.settle().await;
        assert_eq!(test.resident(), INNOCENTS, "all others are back as soon as the culprit is found");
        assert_finish(&test, &life).await;
    }
}

#[tokio::test]
async fn slow_culprit_is_found() {
    let life = Life::new(80);
    let mut test = engine(&life).await;
    for deaths in 0.. {
        assert!(deaths < 40, "the process still dies");
        // The culprit takes three seconds to crash the process.
        while !life.is_dying.swap(false, Ordering::Relaxed) && status(&test, 80).await != Status::Stuck {
            test.advance("1 second").await;
        }
        if status(&test, 80).await == Status::Stuck {
            break;
        }
        test.advance("3 seconds").await;
        test.crash().await;
        test.settle().await;
    }
    assert_finish(&test, &life).await;
}

#[tokio::test]
async fn kills_from_outside_make_no_run_stuck() {
    let life = Life::new(usize::MAX);
    let mut test = engine(&life).await;
    for _ in 0..10 {
        test.crash().await;
        test.settle().await;
    }
    test.advance("2 minutes").await;
    assert_eq!(test.resident(), INNOCENTS + 1);
    for n in 0..=INNOCENTS {
        assert_eq!(status(&test, n).await, Status::Running);
    }
    life.gate.add_permits(INNOCENTS + 1);
    test.skip_time().await;
    assert_eq!(status(&test, 7).await, Status::Completed);
}

#[tokio::test]
async fn after_two_kills_half_comes_back_at_once_and_the_rest_soon_after() {
    let life = Life::new(usize::MAX);
    let mut test = engine(&life).await;
    for _ in 0..2 {
        test.crash().await;
        test.settle().await;
    }
    assert_eq!(test.resident(), INNOCENTS.div_ceil(2));
    let new = test.start(long, &1_000).await.unwrap();
    test.settle().await;
    assert_eq!(new.status().await.unwrap(), Status::Running, "new work runs meanwhile");
    // A signal does not bring a run back before its turn, and is not lost.
    for n in 0..=INNOCENTS {
        test.get_run::<usize>(&format!("run-{n}")).await.unwrap().signal("hello", &1).await.unwrap();
    }
    test.settle().await;
    assert_eq!(test.resident(), INNOCENTS.div_ceil(2) + 1);
    test.advance("2 seconds").await;
    assert_eq!(test.resident(), INNOCENTS + 2);
}

#[tokio::test]
async fn group_that_makes_progress_lets_the_next_one_in_at_once() {
    let life = Life::new(usize::MAX);
    let mut test = engine(&life).await;
    for _ in 0..2 {
        test.crash().await;
        test.settle().await;
    }
    life.gate.add_permits(INNOCENTS / 2);
    test.settle().await;
    assert_eq!(test.resident(), INNOCENTS + 1 - INNOCENTS / 2);
}

#[tokio::test]
async fn run_that_survives_for_a_while_is_no_longer_suspected() {
    let life = Life::new(usize::MAX);
    let mut test = engine(&life).await;
    for _ in 0..8 {
        test.crash().await;
        test.settle().await;
        assert_eq!(test.resident(), INNOCENTS + 1, "all are back at once");
        test.advance("11 seconds").await;
        let info = test.get_run::<usize>("run-7").await.unwrap().info().await.unwrap();
        assert_eq!(info.recoveries, 0);
    }
}

// ---- with real processes ----

const STORE: &str = "OUTLIVE_TEST_RECOVERY";

/// A clock that runs twenty times as fast, so that the test does not have to wait for groups to survive.
struct Fast;

impl Clock for Fast {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() * 20)
    }

    fn sleep_toward(&self, until: Timestamp) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(until.since(self.now()) / 20))
    }
}

struct Folder(PathBuf);

impl Folder {
    fn released(&self) -> PathBuf {
        self.0.join("released")
    }

    fn begun(&self) -> PathBuf {
        self.0.join("begun")
    }
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Crashes the process if it is the culprit; otherwise ends when released.
async fn real(ctx: Ctx, n: usize) -> Result<usize> {
    let (folder, life) = (ctx.get::<Folder>(), ctx.get::<Life>());
    let body = || async {
        life.begun.fetch_add(1, Ordering::Relaxed);
        if n == life.culprit {
            // Not before the others are running.
            until(|| folder.begun().exists()).await;
            std::process::abort();
        }
        until(|| folder.released().exists()).await;
        Ok::<_, outlive::BoxError>(n)
    };
    Ok(ctx.step("real", body).await?)
}

fn open(folder: &Path, life: &Life) -> Builder {
    let engine = Engine::open(folder.join("runs.db")).workflow("real", real);
    engine.provide(Folder(folder.to_owned())).provide(life.clone())
}

/// Not a test by itself: the process that crashes, when [`start_child`] starts it.
#[tokio::test]
async fn child() {
    let Ok(plan) = std::env::var(STORE) else { return };
    let (folder, culprit): (PathBuf, usize) = serde_json::from_str(&plan).unwrap();
    let (life, files) = (Life::new(culprit), Folder(folder.clone()));
    let builder = open(&folder, &life);
    let builder = if culprit <= INNOCENTS { builder.clock(Fast) } else { builder };
    let engine = builder.start().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..=INNOCENTS {
        runs.push(engine.start(real, &n).id(&format!("run-{n}")).await.unwrap());
    }
    if culprit > INNOCENTS || !files.begun().exists() {
        // Signals to the parent that all runs are running.
        until(|| life.begun.load(Ordering::Relaxed) > INNOCENTS).await;
        std::fs::write(files.begun(), "").unwrap();
    }
    if culprit <= INNOCENTS {
        assert!(runs[culprit].result().await.is_err(), "the culprit ends up stuck");
        std::fs::write(files.released(), "").unwrap();
    }
    for (n, run) in runs.iter().enumerate().filter(|(n, _)| *n != culprit) {
        assert_eq!(run.result().await.unwrap(), n);
    }
    engine.shutdown().await.unwrap();
}

fn start_child(folder: &Path, culprit: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["recovery::child", "--exact", "--nocapture"]);
    command.env(STORE, serde_json::to_string(&(folder, culprit)).unwrap());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn run_that_aborts_the_process_is_found_among_a_hundred_in_long_steps() {
    for culprit in [0, 60] {
        let folder = tempfile::tempdir().unwrap();
        let is_over = |_: &u32| {
            let status = start_child(folder.path(), culprit).wait().unwrap();
            assert!(status.success() || status.code().is_none(), "the process did not crash, but failed");
            status.success()
        };
        (1..=40).find(is_over).expect("the process still crashes after 40 starts");
        let client = Client::open(folder.path().join("runs.db")).unwrap();
        for n in 0..=INNOCENTS {
            let status = client.get_run::<usize>(&format!("run-{n}")).await.unwrap().status().await.unwrap();
            assert_eq!(status, if n == culprit { Status::Stuck } else { Status::Completed }, "run {n}");
        }
    }
}

#[tokio::test]
async fn runs_in_long_steps_are_back_soon_after_two_kills() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder(folder.path().to_owned());
    for _ in 0..2 {
        let mut child = start_child(folder.path(), usize::MAX);
        until(|| files.begun().exists()).await;
        std::fs::remove_file(files.begun()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = start_child(folder.path(), usize::MAX);
    let back = tokio::time::timeout(Duration::from_secs(60), until(|| files.begun().exists())).await;
    std::fs::write(files.released(), "").unwrap();
    assert!(child.wait().unwrap().success());
    back.expect("all runs come back");
}
