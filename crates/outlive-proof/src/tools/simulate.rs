//! Seeded worlds of random programs.

use outlive_testkit::programs;
use outlive_testkit::simulate::simulate_with;

use crate::tools::{Lines, Order, bar};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let count = order.amount(200_000, 20_000_000);
    let from = order.seed.wrapping_mul(1 << 32);
    let bar = bar(count);
    let report = simulate_with((0..count).map(|i| from.wrapping_add(i)), programs, |worlds| bar.inc(worlds));
    bar.finish_and_clear();
    let report = report.map_err(|broken| broken.to_string())?;
    let lines = [
        ("schedules", report.worlds),
        ("runs", report.runs),
        ("moves", report.moves),
        ("crashes", report.crashes),
        ("leases taken from a live worker", report.takeovers),
        ("answers lost or refused", report.lost_answers),
        ("bodies begun", report.effects),
    ];
    Ok(lines.map(|(what, number)| (what.to_owned(), number.to_string())).to_vec())
}
