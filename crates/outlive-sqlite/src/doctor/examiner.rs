//! Runs the checks of an examination and gathers what they find.

use std::collections::BTreeMap;

use outlive_core::id::InstanceNum;
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::report::{CheckProgress, Diagnosis, Finding, FindingKind};
use crate::row;

/// The maximum number of listed findings of each kind.
const LISTED_MAX: u64 = 1_000;

/// The number of rows between two progress reports.
const ROWS_PER_REPORT: u64 = 10_000;

/// Runs checks: what they read from, and the diagnosis they add to.
pub(super) struct Examiner<'a> {
    pub(super) connection: &'a Connection,
    pub(super) diagnosis: Diagnosis,
    counts: BTreeMap<FindingKind, u64>,
    now: CheckProgress,
    report: &'a mut dyn FnMut(CheckProgress),
}

impl<'a> Examiner<'a> {
    /// Creates an examiner for `of` checks, which calls `report` as they proceed.
    pub(super) fn new(connection: &'a Connection, of: usize, report: &'a mut dyn FnMut(CheckProgress)) -> Self {
        let now = CheckProgress { name: "", number: 0, of, rows: 0 };
        Self { connection, diagnosis: Diagnosis::default(), counts: BTreeMap::new(), now, report }
    }

    pub(super) fn begin(&mut self, name: &'static str, number: usize) {
        self.now = CheckProgress { name, number, rows: 0, ..self.now };
        (self.report)(self.now);
    }

    /// Counts one more row.
    pub(super) fn count_row(&mut self) {
        self.now.rows += 1;
        if self.now.rows.is_multiple_of(ROWS_PER_REPORT) {
            (self.report)(self.now);
        }
    }

    /// Adds a finding. Beyond a number of each kind, they are only counted.
    pub(super) fn find(
        &mut self,
        kind: FindingKind,
        num: Option<i64>,
        found: String,
        holds: &'static str,
        remedy: &'static str,
    ) {
        self.diagnosis.findings_count += 1;
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= LISTED_MAX {
            let id = num.and_then(|num| self.id_of(num));
            let num = num.map(|num| InstanceNum(num.cast_unsigned()));
            self.diagnosis.findings.push(Finding { kind, num, id, found, holds, remedy });
        }
    }

    /// Adds a finding about the file itself.
    pub(super) fn damage(&mut self, found: String) {
        let remedy = "keep a copy, then try `sqlite3 FILE .recover`, or restore a backup";
        self.find(FindingKind::File, None, found, "the file is intact, and its indexes match its tables", remedy);
    }

    pub(super) fn id_of(&self, num: i64) -> Option<String> {
        let mut statement = self.connection.prepare_cached("SELECT id FROM instance WHERE num = ?1").ok()?;
        statement.query_row([num], |row| Ok(row::text(row, 0).into_owned())).optional().ok()?
    }

    /// Returns the number that the journal of an instance begins with.
    pub(super) fn journal_of(&self, num: i64) -> rusqlite::Result<u64> {
        let mut statement = self.connection.prepare_cached("SELECT journal FROM instance WHERE num = ?1")?;
        let from = statement.query_row([num], |row| Ok(row::int(row, 0).unwrap_or(1))).optional()?;
        Ok(from.map_or(1, i64::cast_unsigned))
    }

    /// Records an error of a check as a finding, unless it is temporary.
    pub(super) fn could_not(&mut self, name: &str, e: &rusqlite::Error) -> Result<(), ()> {
        let passes = [
            ErrorCode::DatabaseBusy,
            ErrorCode::DatabaseLocked,
            ErrorCode::OutOfMemory,
            ErrorCode::SystemIoFailure,
            ErrorCode::CannotOpen,
            ErrorCode::DiskFull,
        ];
        match e.sqlite_error_code() {
            Some(code) if passes.contains(&code) => Err(()),
            _ => {
                self.damage(format!("the check of {name} failed: {e}"));
                Ok(())
            }
        }
    }
}
