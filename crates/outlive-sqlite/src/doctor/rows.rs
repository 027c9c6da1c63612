//! Rows of instances and messages, one by one: each says what was written.

use super::{Problem, Sheet};
use crate::row;

pub(super) fn instances(sheet: &mut Sheet<'_>) -> rusqlite::Result<()> {
    let mut statement = sheet.connection.prepare(row::ALL_INSTANCES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        sheet.report.instances += 1;
        if let Some(damage) = row::instance(row).damage {
            let holds = "what never changes of an instance fits its checksum, and its status exists";
            let remedy = "restore the file from a backup, or purge the instance";
            sheet.find(Problem::Row, row::int(row, 0), without_way_out(&damage), holds, remedy);
        }
    }
    Ok(())
}

pub(super) fn messages(sheet: &mut Sheet<'_>) -> rusqlite::Result<()> {
    let mut statement = sheet.connection.prepare(row::ALL_MESSAGES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        sheet.report.messages += 1;
        if let Err(damage) = row::message(row) {
            let holds = "a message fits its checksum, and is of a kind there is";
            let remedy = "restore the file from a backup, or purge the instance";
            sheet.find(Problem::Inbox, row::int(row, 6), without_way_out(&damage), holds, remedy);
        }
    }
    Ok(())
}

/// A finding has its remedy beside it.
pub(super) fn without_way_out(damage: &str) -> String {
    damage.split_once("; ").map_or(damage, |(found, _)| found).to_owned()
}
