//! Checks the rows of instances and messages one by one: each is as it was written.

use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::queue::Spot;
use rusqlite::Row;

use super::examiner::Examiner;
use super::report::FindingKind;
use crate::read::output;
use crate::row;

pub(super) fn instances(examiner: &mut Examiner<'_>) -> rusqlite::Result<()> {
    let mut statement = examiner.connection.prepare(row::ALL_INSTANCES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        examiner.diagnosis.instances += 1;
        examiner.count_row();
        let read = row::instance(row);
        examiner.diagnosis.jobs += u64::from(JobKind::of(&read.instance.workflow).is_some());
        if let Some(damage) = read.damage {
            let holds = "the fixed part of an instance matches its checksum, and its status is known";
            let remedy = "restore the file from a backup, or purge the instance";
            examiner.find(FindingKind::Row, row::int(row, 0), without_way_out(&damage), holds, remedy);
        }
    }
    Ok(())
}

pub(super) fn messages(examiner: &mut Examiner<'_>) -> rusqlite::Result<()> {
    let mut statement = examiner.connection.prepare(row::ALL_MESSAGES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        examiner.diagnosis.messages += 1;
        examiner.count_row();
        if let Err(damage) = row::message(row).and_then(|inbound| lies_well(row, &inbound)) {
            let holds = "a message matches its checksum, has a known kind, and is where it belongs";
            let remedy = "restore the file from a backup, or purge the instance";
            examiner.find(FindingKind::Inbox, row::int(row, 6), without_way_out(&damage), holds, remedy);
        }
    }
    Ok(())
}

pub(super) fn outputs(examiner: &mut Examiner<'_>) -> rusqlite::Result<()> {
    let mut statement = examiner.connection.prepare(output::ALL_OUTPUTS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        examiner.count_row();
        if let Err(damage) = output::output(row) {
            let holds = "what was given out matches its checksum and has a known kind";
            let remedy = "restore the file from a backup, or purge the instance";
            examiner.find(FindingKind::Output, row::int(row, 9), damage, holds, remedy);
        }
    }
    Ok(())
}

/// Checks that a message is in the inbox, or an event in the queue spot that its priority, key and time determine.
fn lies_well(row: &Row<'_>, inbound: &Inbound) -> Result<(), String> {
    let spot = Spot { rank: row::int(row, 7).unwrap_or(0), lane: row::text(row, 8).into_owned() };
    let is_well = match &inbound.message {
        _ if spot.rank == 0 => spot.lane.is_empty(),
        Message::Event(event) => Spot::of(event) == spot,
        _ => false,
    };
    let Spot { rank, lane } = spot;
    if is_well { Ok(()) } else { Err(format!("message {} is at rank {rank} in lane {lane:?}", inbound.pos)) }
}

/// Strips the remedy from a message: a finding has its own.
pub(super) fn without_way_out(damage: &str) -> String {
    damage.split_once("; ").map_or(damage, |(found, _)| found).to_owned()
}
