//! Kills real processes at random moments, while another one keeps a ledger of what was acknowledged.
#![expect(clippy::disallowed_methods, reason = "real processes run in real time")]

mod asker;
mod child;
mod disk;
mod effects;
mod hunt;
mod plan;
mod process;
mod programs;
mod records;
mod tally;
mod verdict;

pub(crate) use child::run_if_asked;

use crate::tools::{Lines, Order};
use hunt::Caught;

/// How many workers are killed: in CI, and by hand.
const KILLS: (u64, u64) = (500, 5_000);
/// How often the disk fills up: in CI, and by hand.
const FULL: (u64, u64) = (3, 25);

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let folder = tempfile::tempdir().map_err(|e| format!("failed to create a folder for the store: {e}"))?;
    let kills = order.amount(KILLS.0, KILLS.1);
    let caught = hunt::hunt(folder.path(), order.seed, kills).map_err(|problem| {
        // The leftovers are worth more than a clean disk.
        let kept = folder.keep();
        format!(
            "{problem}; the store and the ledger are kept in {}; reproduce with --seed {}: it repeats the plan and \
             the delays, but the moments of the kills are only approximate",
            kept.display(),
            order.seed
        )
    })?;
    let mut lines = tell(&caught);
    lines.extend(disk::run(order.seed, if order.is_long { FULL.1 } else { FULL.0 })?);
    Ok(lines)
}

fn tell(caught: &Caught) -> Lines {
    let Caught { acks, counted, .. } = caught;
    let lines = [
        ("workers killed", caught.kills),
        ("of them during startup", caught.early),
        ("clients killed", caught.client_kills),
        ("times all processes were killed at once", caught.blackouts),
        ("runs owned by a worker when it was killed, in total", caught.driven),
        ("starts acknowledged", acks.starts),
        ("signals acknowledged", acks.signals),
        ("cancels acknowledged", acks.cancels),
        ("calls repeated because the store was busy", acks.troubles),
        ("runs that completed", counted.completed),
        ("runs that were cancelled", counted.cancelled),
        ("step executions", counted.effects),
        ("step executions repeated because of a kill", counted.repeated),
        ("steps seen as recorded, none of which ran again", counted.entries),
        ("at-most-once steps that were interrupted, none of which ran twice", counted.interrupted),
        ("examinations by the doctor, without findings", caught.examinations),
    ];
    let mut lines: Lines = lines.map(|(what, count)| (what.to_owned(), count.to_string())).into();
    lines.push(("all runs ended after the last kill within".to_owned(), format!("{:.1} s", caught.rest.as_secs_f64())));
    lines
}
