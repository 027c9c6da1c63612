//! Checks the invariants of a store: reads the whole file, reports what does not hold, and changes nothing.
//!
//! ```
//! use outlive_sqlite::{Options, SqliteStore, doctor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("shop.db");
//! let _open = SqliteStore::open(&file, Options::default())?; // it may be in use meanwhile
//! let diagnosis = doctor::examine(&file)?;
//! assert!(diagnosis.is_sound(), "{:?}", diagnosis.findings);
//! # Ok(())
//! # }
//! ```
//!
//! Every check except SQLite's own integrity check reads from one snapshot. Meanwhile a program that executes the file
//! keeps running, but its WAL cannot be reused and grows.

mod examiner;
mod feed;
mod journals;
mod report;
mod rows;
mod rules;

use std::path::Path;
use std::thread;

use outlive_core::store::Error;

use crate::error;
use crate::open;
use crate::place;
use crate::row;
use examiner::Examiner;
use rules::{OF_JOBS, OF_OUTPUTS, RULES};

pub use report::{CheckProgress, Diagnosis, Finding, FindingKind};

/// Settings in addition to those of readers: every page is read once, most of them in index order.
const SETTINGS: &str = "PRAGMA cache_size = -65536";

const INTEGRITY: &str = "pages and indexes";

/// Examines the store in this file. Changes nothing, and works whether or not a process executes the store.
///
/// # Errors
/// Returns an error if the file cannot be read or is not a store. Whatever is wrong inside the store is a finding.
///
/// ```
/// let error = outlive_sqlite::doctor::examine("mistyped.db".as_ref()).unwrap_err();
/// assert!(error.message.contains("mistyped.db does not exist"));
/// ```
pub fn examine(path: &Path) -> Result<Diagnosis, Error> {
    examine_with(path, |_| {})
}

/// Like [`examine`], and calls `report` for each check.
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
pub fn examine_with(path: &Path, mut report: impl FnMut(CheckProgress)) -> Result<Diagnosis, Error> {
    let path = &place::canonical(path)?;
    let connection = open::existing(path)?;
    let trouble = |e: rusqlite::Error| error::while_reading(path, &e);
    connection.execute_batch(SETTINGS).map_err(trouble)?;
    thread::scope(|scope| {
        // The longest check does not depend on the others, so it gets its own connection and thread.
        let integrity = scope.spawn(|| integrity(path));
        let checks = checks();
        let of = checks.len() + 1;
        let mut examiner = Examiner::new(&connection, of, &mut report);
        for (number, (name, check)) in (1..).zip(&checks) {
            examiner.begin(name, number);
            if let Err(e) = check(&mut examiner) {
                examiner.could_not(name, &e).map_err(|()| trouble(e))?;
            }
        }
        examiner.begin(INTEGRITY, of);
        let lines = integrity.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match lines {
            Ok(lines) => lines.into_iter().for_each(|line| examiner.damage(line)),
            Err(e) => examiner.could_not(INTEGRITY, &e).map_err(|()| trouble(e))?,
        }
        // Damage to the file itself comes first, as it explains the rest.
        examiner.diagnosis.findings.sort_by_key(|finding| finding.kind != FindingKind::File);
        Ok(examiner.diagnosis)
    })
}

/// One check of the whole file.
type Examination = Box<dyn Fn(&mut Examiner<'_>) -> rusqlite::Result<()>>;

/// Returns all checks, in order.
fn checks() -> Vec<(&'static str, Examination)> {
    let mut checks: Vec<(&'static str, Examination)> = vec![
        // Begins the snapshot that all checks read from; it ends with the connection.
        (
            "instances",
            Box::new(|examiner| examiner.connection.execute_batch("BEGIN").and_then(|()| rows::instances(examiner))),
        ),
        ("messages", Box::new(rows::messages)),
        ("outputs", Box::new(rows::outputs)),
        ("journals", Box::new(journals::examine)),
        ("feed", Box::new(feed::examine)),
    ];
    for rule in RULES.iter().chain(&OF_JOBS).chain(&OF_OUTPUTS) {
        checks.push((rule.name, Box::new(|examiner| rule.apply(examiner))));
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
