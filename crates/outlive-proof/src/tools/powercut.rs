//! Checks every state a power cut may leave the file in, under the real SQLite store, and every I/O operation that can
//! fail.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use indicatif::ProgressBar;
use outlive_powercut::{Lasting, Outcome, Setting, Tally, Trouble, cut_power, fail_io};

use crate::tools::{Lines, Order};

/// Number of states checked in one world.
const STATES_PER_WORLD: u64 = 5_000;
/// Number of states needed to show that a weaker setting is caught.
const STATES_WEAKER: u64 = 5_000;

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let mut lines = power(order)?;
    lines.extend(weaker(order.seed)?);
    lines.extend(failing(order)?);
    Ok(lines)
}

/// The promise itself: nothing acknowledged is lost, and nothing is there in part.
fn power(order: &Order) -> Result<Lines, String> {
    let states = order.amount(40_000, 1_000_000);
    let bar = ProgressBar::new(states);
    let worlds = states.div_ceil(STATES_PER_WORLD);
    let tallies = side_by_side(worlds, |world| {
        let states = STATES_PER_WORLD.min(states - world * STATES_PER_WORLD);
        let seed = order.seed + world;
        let tally = cut_power(seed, Setting::Full, states, &|| bar.inc(1))?;
        match &tally.first {
            None => Ok(Some(tally)),
            Some(first) => Err(format!("{} lost, {} torn; {first}; {}", tally.lost, tally.torn, again(seed))),
        }
    })?;
    bar.finish_and_clear();
    let tally = tallies.into_iter().fold(Tally::default(), Tally::plus);
    if tally.checkpoints < 3 * tally.lives {
        return Err(format!(
            "the log was checkpointed {} times in {} store lifetimes, too few to test checkpoints",
            tally.checkpoints, tally.lives
        ));
    }
    Ok(vec![
        ("different states after a power cut".to_owned(), figure(tally.states)),
        ("of them opened as a whole store, compared, and written to again".to_owned(), figure(tally.whole)),
        ("moments at which the power was cut".to_owned(), figure(tally.cuts)),
        ("store lifetimes, most of them on what a power cut had left".to_owned(), figure(tally.lives)),
        ("steps acknowledged in them".to_owned(), figure(tally.steps)),
        ("checkpoints of the log into the file".to_owned(), figure(tally.checkpoints)),
        ("states without an acknowledged step".to_owned(), figure(tally.lost)),
        ("states that were damaged or torn".to_owned(), figure(tally.torn)),
    ])
}

/// Tests the test: without syncs, the same check finds losses.
fn weaker(seed: u64) -> Result<Lines, String> {
    let relaxed = cut_power(seed, Setting::Relaxed, STATES_WEAKER, &|| ())?;
    if relaxed.lost == 0 || relaxed.torn > 0 {
        return Err(format!("synchronous=NORMAL must lose but not tear, seed {seed}: {relaxed:?}"));
    }
    let lying = cut_power(seed, Setting::LyingSync, STATES_WEAKER, &|| ())?;
    if lying.lost == 0 || lying.torn == 0 {
        return Err(format!("a disk whose syncs do nothing must lose and tear, seed {seed}: {lying:?}"));
    }
    let found = |tally: &Tally| {
        format!("{} lost, {} torn, of {}", figure(tally.lost), figure(tally.torn), figure(tally.states))
    };
    Ok(vec![
        ("the same with synchronous=NORMAL, which must lose".to_owned(), found(&relaxed)),
        ("the same on a disk whose syncs do nothing, which must lose and tear".to_owned(), found(&lying)),
    ])
}

/// Makes the n-th I/O operation fail, for every n, in every way.
fn failing(order: &Order) -> Result<Lines, String> {
    let seeds = if order.is_long { 3 } else { 1 };
    let mut lines = Lines::new();
    for (trouble, what) in [(Trouble::Failing, "I/O failed"), (Trouble::Full, "writes found the disk full")] {
        for (lasting, how) in [(Lasting::Once, "once"), (Lasting::UntilRepaired, "until the disk was repaired")] {
            let mut outcomes = Vec::new();
            for seed in order.seed..order.seed + seeds {
                outcomes.extend(every_nth(seed, trouble, lasting)?);
            }
            let errors: u64 = outcomes.iter().map(|outcome| outcome.errors).sum();
            let runs = outcomes.len() as u64;
            let found = format!("{}, each in its own run; {} typed errors, 0 lost", figure(runs), figure(errors));
            lines.push((format!("{what} {how}"), found));
        }
    }
    Ok(lines)
}

/// Fails the first I/O operation, then the second, and so on, until the store needs fewer than that.
fn every_nth(seed: u64, trouble: Trouble, lasting: Lasting) -> Result<Vec<Outcome>, String> {
    side_by_side(u64::MAX, |number| {
        let outcome = fail_io(seed, trouble, lasting, number + 1)?;
        Ok(Some(outcome).filter(|outcome| outcome.failed > 0))
    })
}

/// Does this for each number below `count` on all cores, until one returns nothing.
fn side_by_side<T: Send>(count: u64, work: impl Fn(u64) -> Result<Option<T>, String> + Sync) -> Result<Vec<T>, String> {
    let next = AtomicU64::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            match if number < count { work(number) } else { Ok(None) } {
                Ok(Some(value)) => done.push(value),
                Ok(None) => return Ok(done),
                Err(problem) => {
                    // No thread begins anything more.
                    next.store(count, Ordering::Relaxed);
                    return Err(problem);
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let done = workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread panicked".to_owned())?);
        done.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().flatten().collect())
    })
}

/// Returns how to reproduce a world.
fn again(seed: u64) -> String {
    format!("reproduce with: ./prove powercut --seed {seed} --count {STATES_PER_WORLD}")
}

/// Formats a number with thousands separators.
fn figure(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}
