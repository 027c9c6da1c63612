//! Crashes workflows of every shape before and after every commit, and at pairs of commits.

#[path = "../../../outlive/tests/it/programs.rs"]
mod programs;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use indicatif::ProgressBar;
use outlive_testkit::crashes::Report;

use crate::tools::{Lines, Order};

pub(super) use programs::PROGRAMS;

/// State shared by all threads.
struct Work<'a> {
    order: &'a Order,
    /// Minimum number of schedules to run.
    schedules_min: u64,
    /// The next program in the next world.
    next: AtomicU64,
    schedules: AtomicU64,
    reports: Mutex<Vec<Report>>,
    broken: Mutex<Option<String>>,
    bar: ProgressBar,
}

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let schedules_min = order.amount(10_000, 1_000_000);
    let work = Work {
        order,
        schedules_min,
        next: AtomicU64::new(0),
        schedules: AtomicU64::new(0),
        reports: Mutex::default(),
        broken: Mutex::default(),
        bar: ProgressBar::new(schedules_min),
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work.play());
        }
    });
    work.bar.finish_and_clear();
    match work.broken.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(broken) => Err(broken),
        None => Ok(lines(&work.reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))),
    }
}

impl Work<'_> {
    /// Takes programs, one world after the other, until there are enough schedules and every program had its turn.
    fn play(&self) {
        let programs = PROGRAMS.len() as u64;
        loop {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let is_enough = turn >= programs && self.schedules.load(Ordering::Relaxed) >= self.schedules_min;
            let seed = self.order.seed + turn / programs;
            let found = PROGRAMS.iter().cycle().nth((turn % programs) as usize);
            let Some((name, program)) = found.filter(|_| !is_enough && !self.is_broken()) else { return };
            // The short form has all pairs; the long one extends each of them.
            let triples_max = if self.order.is_long { usize::MAX } else { 0 };
            let crashes = program(seed).pairs(usize::MAX).triples(triples_max);
            match block_on(crashes.try_run()) {
                Ok(Ok(report)) => self.keep(report),
                Ok(Err(broken)) => {
                    let repeat = format!("./prove crashes --seed {seed} --count 1");
                    self.fail(format!("program {name:?} with seed {seed}; reproduce with: {repeat}\n{broken}"));
                }
                Err(problem) => self.fail(problem),
            }
        }
    }

    fn keep(&self, report: Report) {
        self.schedules.fetch_add(report.schedules(), Ordering::Relaxed);
        self.bar.inc(report.schedules());
        self.reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(report);
    }

    fn fail(&self, broken: String) {
        self.broken.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(broken);
    }

    fn is_broken(&self) -> bool {
        self.broken.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_some()
    }
}

/// Runs a future on a runtime of this thread.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| format!("failed to create a tokio runtime: {error}"))?.block_on(future))
}

fn lines(reports: &[Report]) -> Lines {
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    let line = |what: &str, figure: u64| (what.to_owned(), figure.to_string());
    vec![
        line("programs", PROGRAMS.len() as u64),
        line("programs, each in worlds of several seeds", reports.len() as u64),
        line("crash points (before and after each commit of an uncrashed run)", sum(|report| 2 * report.commits())),
        line("schedules of one crash", sum(|report| report.schedules_of(1))),
        line("schedules of two crashes", sum(|report| report.schedules_of(2))),
        line("schedules of three crashes", sum(|report| report.schedules_of(3))),
        line("schedules in total", sum(Report::schedules)),
        line("step executions", sum(Report::bodies)),
        line("broken promises", 0),
    ]
}
