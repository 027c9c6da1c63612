//! Whether a store keeps its own rules: reads the file from end to end and says what does not hold, changing nothing.
//!
//! ```
//! use outlive_sqlite::{Options, SqliteStore, doctor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("shop.db");
//! let _open = SqliteStore::open(&file, Options::default())?; // it may be at work meanwhile
//! let report = doctor::examine(&file)?;
//! assert!(report.is_sound(), "{:?}", report.findings);
//! # Ok(())
//! # }
//! ```
//!
//! All but the check of SQLite's own pages is read from one snapshot. While that lasts, a program that executes the
//! file goes on, but its log cannot be used again and grows.

mod journals;
mod lines;
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

/// Of one kind of problem, this many are listed.
const LISTED_MAX: u64 = 1_000;

/// The settings besides those for readers: all pages are read once, most of them in the order of an index.
const SETTINGS: &str = "PRAGMA cache_size = -65536";

/// How often progress is reported.
const ROWS_PER_REPORT: u64 = 10_000;

const INTEGRITY: &str = "pages and indexes of the file";

/// What was found in a store.
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
    /// How many instances there are, of workflows and jobs.
    pub instances: u64,
    /// How many of them are instances of jobs; the others are runs.
    pub jobs: u64,
    /// How many entries all journals have together.
    pub entries: u64,
    /// How many messages lie in inboxes.
    pub messages: u64,
    /// What does not hold; of each kind of problem the first thousand.
    pub findings: Vec<Finding>,
    /// How many findings there are, listed or not.
    pub findings_count: u64,
}

impl Report {
    /// Whether all holds that should.
    ///
    /// ```
    /// assert!(outlive_sqlite::doctor::Report::default().is_sound());
    /// ```
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings_count == 0
    }
}

/// One thing that does not hold.
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
    /// Of which kind it is.
    pub problem: Problem,
    /// The instance it is about, if it is about one.
    pub num: Option<InstanceNum>,
    /// The id of that instance, if it is still there.
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
    /// A number of the whole file is missing or behind.
    Mark,
    /// A row of an instance is not what was written.
    Row,
    /// A status and what stands beside it cannot be together.
    Status,
    /// A live instance has nothing to bring it back: no wake, no lease, and it waits for nobody.
    NoWake,
    /// A wake or an owner that cannot be.
    Owner,
    /// A message that nobody will look at.
    Unheard,
    /// A message is not what was written, or lies where it cannot.
    Inbox,
    /// A journal with a gap, out of order, damaged, or that no machine can be made of.
    Journal,
    /// A message, a taken signal or a dedup key without its token, or two messages in one place.
    Token,
    /// Rows of an instance that is gone.
    Orphan,
    /// The index of tags has one too many or too few.
    Tag,
    /// A count that is not the number of rows.
    Counter,
    /// What was told of an instance has a gap, is out of order, or is not all there.
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

/// The check that is being made, to show progress. A check that takes long is reported again and again.
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
    /// What it looks at.
    pub name: &'static str,
    /// Which one it is, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// How many rows it has looked at so far, if it looks at them one by one.
    pub rows: u64,
}

/// Examines the store in this file. Nothing is changed; somebody may be at work on it, or nobody.
///
/// # Errors
/// If the file cannot be read, or is no store. Whatever is wrong inside of it is a finding.
///
/// ```
/// let error = outlive_sqlite::doctor::examine("mistyped.db".as_ref()).unwrap_err();
/// assert!(error.message.contains("mistyped.db does not exist"));
/// ```
pub fn examine(path: &Path) -> Result<Report, Error> {
    examine_with(path, |_| {})
}

/// The same, and tells which check is being made.
///
/// # Errors
/// As [`examine`].
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
        // The longest check needs nothing of the others, so it has a connection and a thread to itself.
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
        // What is wrong with the file itself explains the rest.
        sheet.report.findings.sort_by_key(|finding| finding.problem != Problem::File);
        Ok(sheet.report)
    })
}

type Examination = Box<dyn Fn(&mut Sheet<'_>) -> rusqlite::Result<()>>;

/// All that is looked at, in order.
fn checks() -> Vec<(&'static str, Examination)> {
    let mut checks: Vec<(&'static str, Examination)> = vec![
        // All is read from one snapshot, which ends with the connection.
        (
            "rows of instances",
            Box::new(|sheet| sheet.connection.execute_batch("BEGIN").and_then(|()| rows::instances(sheet))),
        ),
        ("messages", Box::new(rows::messages)),
        ("journals", Box::new(journals::examine)),
        ("lines of the feed", Box::new(lines::examine)),
    ];
    for rule in RULES.iter().chain(&OF_JOBS) {
        checks.push((rule.name, Box::new(|sheet| rule.apply(sheet))));
    }
    checks
}

/// What SQLite finds wrong with its own pages and indexes.
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

/// What the checks read from and write to.
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

    /// One more row was looked at.
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
        self.find(Problem::File, None, found, "the file is whole, and its indexes say what its tables say", remedy);
    }

    fn id_of(&self, num: i64) -> Option<String> {
        let mut statement = self.connection.prepare_cached("SELECT id FROM instance WHERE num = ?1").ok()?;
        statement.query_row([num], |row| Ok(row::text(row, 0).into_owned())).optional().ok()?
    }

    /// A check met an error: a finding, unless it is one of those that pass.
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
                self.damage(format!("the check of {name} came to an end: {e}"));
                Ok(())
            }
        }
    }
}
