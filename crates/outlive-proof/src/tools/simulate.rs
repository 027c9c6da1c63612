//! Simulates seeded worlds of random programs, with some worlds of random jobs.

use outlive_testkit::Sim;
use outlive_testkit::proof::{jobs, programs};
use outlive_testkit::simulate::simulate_with;

use crate::tools::{Lines, Order, bar};

/// One in this many worlds has jobs.
const JOBS_EVERY: u64 = 8;

fn describe(sim: &mut Sim) {
    if sim.seed().is_multiple_of(JOBS_EVERY) { jobs(sim) } else { programs(sim) }
}

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let count = order.amount(200_000, 20_000_000);
    let from = order.seed.wrapping_mul(1 << 32);
    let bar = bar(count);
    let report = simulate_with((0..count).map(|i| from.wrapping_add(i)), describe, |worlds| bar.inc(worlds));
    bar.finish_and_clear();
    let report = report.map_err(|broken| broken.to_string())?;
    let lines = [
        ("schedules", report.worlds),
        ("runs", report.runs),
        ("moves", report.moves),
        ("crashes", report.crashes),
        ("leases taken from a live worker", report.takeovers),
        ("replies lost or refused", report.lost_answers),
        ("step executions", report.effects),
        ("job events", report.events),
    ];
    Ok(lines.map(|(what, number)| (what.to_owned(), number.to_string())).to_vec())
}
