//! Checks the invariants of a store: reads the whole file, reports what does not hold, and changes nothing.
//!
//! ```
//! use outlive_sqlite::{Options, SqliteStore, doctor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("shop.db");
//! let _open = SqliteStore::open(&file, Options::default())?; // it may be in use meanwhile
//! let report = doctor::examine(&file)?;
//! assert!(report.is_sound(), "{:?}", report.findings);
//! # Ok(())
//! # }
//! ```
//!
//! Every check except SQLite's own integrity check reads from one snapshot. Meanwhile a program that executes the file
//! keeps running, but its WAL cannot be reused and grows.

mod feed;
mod journals;
mod rows;
mod rules;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::thread;

use outlive_core::id::InstanceNum;
use outlive_core::store::Error;
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use crate::error;
use crate::open;
use crate::place;
use crate::row;
use rules::{OF_JOBS, RULES};

/// The maximum number of listed findings per kind of problem.
const LISTED_MAX: u64 = 1_000;

/// Settings in addition to those of readers: every page is read once, most of them in index order.
const SETTINGS: &str = "PRAGMA cache_size = -65536";

/// The number of rows between two progress reports.
const ROWS_PER_REPORT: u64 = 10_000;

const INTEGRITY: &str = "pages and indexes";

/// The result of examining a store.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// let report = doctor::examine(&file).unwrap();
/// assert_eq!((report.instances, report.entries, report.findings_count), (0, 0, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The number of instances, runs and jobs together.
    pub instances: u64,
    /// The number of instances that belong to jobs; the others are runs.
    pub jobs: u64,
    /// The number of journal entries.
    pub entries: u64,
    /// The number of messages in inboxes and queues.
    pub messages: u64,
    /// The findings, at most a thousand for each kind of problem.
    pub findings: Vec<Finding>,
    /// The number of findings, listed or not.
    pub findings_count: u64,
}

impl Report {
    /// Returns `true` if there are no findings.
    ///
    /// ```
    /// assert!(outlive_sqlite::doctor::Report::default().is_sound());
    /// ```
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings_count == 0
    }
}

/// One violated invariant.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// for finding in doctor::examine(&file).unwrap().findings {
///     println!("{:?}: {} ({}); {}", finding.id, finding.found, finding.holds, finding.remedy);
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of problem.
    pub problem: Problem,
    /// The instance concerned, if any.
    pub num: Option<InstanceNum>,
    /// The id of that instance, if it still exists.
    pub id: Option<String>,
    /// What was found.
    pub found: String,
    /// What should hold.
    pub holds: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// The kinds of problems.
///
/// ```
/// use outlive_sqlite::doctor::Problem;
/// assert_eq!(Problem::NoWake.to_string(), "no wake");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A page, an index or a table of the file is damaged.
    File,
    /// A file-wide number is missing or behind.
    Mark,
    /// The row of an instance is not what was written.
    Row,
    /// A status contradicts the columns that belong to it.
    Status,
    /// A live instance that nothing will resume: no wake, no lease, and it does not wait for anybody.
    NoWake,
    /// An impossible wake or owner.
    Owner,
    /// A message that nobody will process.
    Unheard,
    /// A message that is not what was written, or is in the wrong place.
    Inbox,
    /// A journal that is damaged, out of order, has a gap, or cannot be replayed.
    Journal,
    /// A message, taken signal or dedup key without its token, or two messages at one position.
    Token,
    /// Rows of an instance that no longer exists.
    Orphan,
    /// The tag index has an entry too many or too few.
    Tag,
    /// A counter that differs from the number of rows.
    Counter,
    /// The lifecycle events of an instance have a gap, are out of order, or are incomplete.
    Feed,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "damaged file",
            Self::Mark => "mark",
            Self::Row => "damaged row",
            Self::Status => "status",
            Self::NoWake => "no wake",
            Self::Owner => "owner",
            Self::Unheard => "unheard message",
            Self::Inbox => "inbox",
            Self::Journal => "journal",
            Self::Token => "token",
            Self::Orphan => "orphan rows",
            Self::Tag => "tag",
            Self::Counter => "counter",
            Self::Feed => "feed",
        })
    }
}

/// The check in progress, for progress displays. A long check is reported repeatedly.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// let mut made = 0;
/// doctor::examine_with(&file, |check: doctor::Check| made = check.number).unwrap();
/// assert!(made > 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Check {
    /// What the check examines.
    pub name: &'static str,
    /// The number of the check, from 1.
    pub number: usize,
    /// The number of checks.
    pub of: usize,
    /// How many rows the check has read so far, if it reads them one by one.
    pub rows: u64,
}

/// Examines the store in this file. Changes nothing, and works whether or not a process executes the store.
///
/// # Errors
/// Returns an error if the file cannot be read or is not a store. Whatever is wrong inside the store is a finding.
///
/// ```
/// let error = outlive_sqlite::doctor::examine("mistyped.db".as_ref()).unwrap_err();
/// assert!(error.message.contains("mistyped.db does not exist"));
/// ```
pub fn examine(path: &Path) -> Result<Report, Error> {
    examine_with(path, |_| {})
}

/// Like [`examine`], and reports each check to `tell`.
///
/// # Errors
/// Same as [`examine`].
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// doctor::examine_with(&file, |check| eprintln!("{} of {}: {}", check.number, check.of, check.name)).unwrap();
/// ```
pub fn examine_with(path: &Path, mut tell: impl FnMut(Check)) -> Result<Report, Error> {
    let path = &place::canonical(path)?;
    let connection = open::existing(path)?;
    let trouble = |e: rusqlite::Error| error::while_reading(path, &e);
    connection.execute_batch(SETTINGS).map_err(trouble)?;
    thread::scope(|scope| {
        // The longest check does not depend on the others, so it gets its own connection and thread.
        let integrity = scope.spawn(|| integrity(path));
        let checks = checks();
        let of = checks.len() + 1;
        let now = Check { name: "", number: 0, of, rows: 0 };
        let mut sheet =
            Sheet { connection: &connection, report: Report::default(), counts: BTreeMap::new(), now, tell: &mut tell };
        for (number, (name, check)) in (1..).zip(&checks) {
            sheet.begin(name, number);
            if let Err(e) = check(&mut sheet) {
                sheet.could_not(name, &e).map_err(|()| trouble(e))?;
            }
        }
        sheet.begin(INTEGRITY, of);
        let lines = integrity.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match lines {
            Ok(lines) => lines.into_iter().for_each(|line| sheet.damage(line)),
            Err(e) => sheet.could_not(INTEGRITY, &e).map_err(|()| trouble(e))?,
        }
        // Damage to the file itself comes first, as it explains the rest.
        sheet.report.findings.sort_by_key(|finding| finding.problem != Problem::File);
        Ok(sheet.report)
    })
}

type Examination = Box<dyn Fn(&mut Sheet<'_>) -> rusqlite::Result<()>>;

/// Returns all checks, in order.
fn checks() -> Vec<(&'static str, Examination)> {
    let mut checks: Vec<(&'static str, Examination)> = vec![
        // Begins the snapshot that all checks read from; it ends with the connection.
        ("instances", Box::new(|sheet| sheet.connection.execute_batch("BEGIN").and_then(|()| rows::instances(sheet)))),
        ("messages", Box::new(rows::messages)),
        ("journals", Box::new(journals::examine)),
        ("feed", Box::new(feed::examine)),
    ];
    for rule in RULES.iter().chain(&OF_JOBS) {
        checks.push((rule.name, Box::new(|sheet| rule.apply(sheet))));
    }
    checks
}

/// Returns what SQLite finds wrong with its own pages and indexes.
fn integrity(path: &Path) -> Result<rusqlite::Result<Vec<String>>, Error> {
    let connection = open::existing(path)?;
    let read = || {
        connection.execute_batch(SETTINGS)?;
        let mut statement = connection.prepare("PRAGMA integrity_check")?;
        let lines = statement.query_map([], |line| Ok(row::text(line, 0).into_owned()))?;
        lines.filter(|line| !matches!(line, Ok(line) if line == "ok")).collect()
    };
    Ok(read())
}

/// What the checks read from, and the report they write to.
struct Sheet<'a> {
    connection: &'a Connection,
    report: Report,
    counts: BTreeMap<Problem, u64>,
    now: Check,
    tell: &'a mut dyn FnMut(Check),
}

impl Sheet<'_> {
    fn begin(&mut self, name: &'static str, number: usize) {
        self.now = Check { name, number, rows: 0, ..self.now };
        (self.tell)(self.now);
    }

    /// Counts one more row.
    fn count_row(&mut self) {
        self.now.rows += 1;
        if self.now.rows.is_multiple_of(ROWS_PER_REPORT) {
            (self.tell)(self.now);
        }
    }

    fn find(&mut self, problem: Problem, num: Option<i64>, found: String, holds: &'static str, remedy: &'static str) {
        self.report.findings_count += 1;
        let count = self.counts.entry(problem).or_default();
        *count += 1;
        if *count <= LISTED_MAX {
            let id = num.and_then(|num| self.id_of(num));
            let num = num.map(|num| InstanceNum(num.cast_unsigned()));
            self.report.findings.push(Finding { problem, num, id, found, holds, remedy });
        }
    }

    fn damage(&mut self, found: String) {
        let remedy = "keep a copy, then try `sqlite3 FILE .recover`, or restore a backup";
        self.find(Problem::File, None, found, "the file is intact, and its indexes match its tables", remedy);
    }

    fn id_of(&self, num: i64) -> Option<String> {
        let mut statement = self.connection.prepare_cached("SELECT id FROM instance WHERE num = ?1").ok()?;
        statement.query_row([num], |row| Ok(row::text(row, 0).into_owned())).optional().ok()?
    }

    /// Records an error of a check as a finding, unless it is temporary.
    fn could_not(&mut self, name: &str, e: &rusqlite::Error) -> Result<(), ()> {
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
