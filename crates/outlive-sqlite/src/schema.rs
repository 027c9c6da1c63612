//! The tables of the file, and how to recognize a file that is a store.

use std::path::Path;

use outlive_core::id::Name;
use outlive_core::store::{Error, ErrorKind};
use rusqlite::Connection;

use crate::error;

/// The version of this layout. A file with a larger one was written by a newer release.
pub(crate) const VERSION: i64 = 6;

/// "Outl" in the file's header, which distinguishes our files from those of other applications.
pub(crate) const APPLICATION_ID: i64 = 0x4f75_746c;

/// Counter codes besides those of statuses: events in the queues of a job, and its dead letters.
pub(crate) const QUEUED: u8 = 20;
pub(crate) const DEAD: u8 = 21;

/// Returns the key of a user's mark in `meta`, which also holds the store's own marks.
pub(crate) fn mark_key(name: &Name) -> String {
    format!("mark:{name}")
}

/// Small columns that change come first and long texts last, so that reading the former never touches the pages the
/// latter overflow to. Wakes are an index on the instance rather than a table, so that the two cannot disagree.
/// Queries must repeat the condition of a partial index word for word, or SQLite does not use it.
const TABLES: &str = "
CREATE TABLE meta (
    key         TEXT NOT NULL PRIMARY KEY,
    value       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE instance (
    num         INTEGER PRIMARY KEY,
    status      INTEGER NOT NULL,
    owner       INTEGER NOT NULL,
    wake        INTEGER,
    until       INTEGER,
    recoveries  INTEGER NOT NULL,
    blamed      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    seed        INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    sum         INTEGER NOT NULL,
    reported    INTEGER NOT NULL,
    parent      INTEGER,
    is_detached INTEGER,
    deadline    INTEGER,
    restarts    INTEGER NOT NULL DEFAULT 0,
    journal     INTEGER NOT NULL DEFAULT 1,
    id          TEXT NOT NULL UNIQUE,
    workflow    TEXT NOT NULL,
    tags        TEXT,
    version     TEXT,
    trace       TEXT,
    parent_id   TEXT,
    note        TEXT,
    input       TEXT NOT NULL,
    outcome     TEXT
) STRICT;
CREATE INDEX instance_by_workflow ON instance (workflow);
CREATE INDEX instance_by_status ON instance (status) WHERE status <> 4;
CREATE INDEX instance_by_owner ON instance (owner) WHERE owner <> 0;
CREATE INDEX instance_by_wake ON instance (wake) WHERE wake IS NOT NULL;
CREATE INDEX instance_by_parent ON instance (parent) WHERE parent IS NOT NULL;

CREATE TABLE entry (
    pos         INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    op          TEXT NOT NULL,
    site        TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    started     INTEGER,
    due         INTEGER,
    payload     TEXT,
    sum         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_by_instance ON entry (instance, seq);

-- Journals that ended with a restart, by the feed position of that: their entries are kept for the feed alone, and their
-- numbers are below `until`. The column `journal` of the instance is the number that its current journal begins with.
CREATE TABLE past (
    pos         INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    at          INTEGER NOT NULL
) STRICT;
CREATE INDEX past_by_instance ON past (instance);

-- Lifecycle events other than journal entries. Both share one sequence of positions, the feed.
CREATE TABLE lifecycle (
    pos         INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    detail      TEXT
) STRICT;

-- The names of removed instances, for their lifecycle events.
CREATE TABLE gone (
    num         INTEGER PRIMARY KEY,
    pos         INTEGER NOT NULL,
    reported    INTEGER NOT NULL,
    id          TEXT NOT NULL,
    workflow    TEXT NOT NULL
) STRICT;
CREATE INDEX gone_by_pos ON gone (pos);

-- Rank 0 is the inbox, in order of arrival. Other ranks are the queue of a job: by priority, with lanes taking turns.
-- The last rank holds delayed events, whose lane is the time they wait for.
CREATE TABLE inbox (
    instance    INTEGER NOT NULL,
    rank        INTEGER NOT NULL,
    lane        TEXT NOT NULL,
    pos         INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    text        TEXT,
    payload     TEXT,
    sum         INTEGER NOT NULL,
    PRIMARY KEY (instance, rank, lane, pos)
) STRICT, WITHOUT ROWID;

-- The position of each message by its token. Kept after the message is taken, as the reply to its sender may be lost.
CREATE TABLE sent (
    instance    INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    pos         INTEGER NOT NULL,
    PRIMARY KEY (instance, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE dedup (
    instance    INTEGER NOT NULL,
    key         TEXT NOT NULL,
    pos         INTEGER NOT NULL,
    PRIMARY KEY (instance, key)
) STRICT, WITHOUT ROWID;

-- Pushes by their token, for the same reason. There are many, so only recent ones are kept: two tables take turns.
CREATE TABLE pushed_a (
    token       INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    positions   TEXT
) STRICT;
CREATE TABLE pushed_b (
    token       INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    positions   TEXT
) STRICT;

CREATE TABLE dead (
    pos         INTEGER PRIMARY KEY,
    job         TEXT NOT NULL,
    id          TEXT NOT NULL,
    at          INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    queued      INTEGER NOT NULL,
    text        TEXT,
    failure     TEXT NOT NULL,
    payload     TEXT NOT NULL
) STRICT;
CREATE INDEX dead_by_job ON dead (job, pos);

CREATE TABLE reply (
    pos         INTEGER PRIMARY KEY,
    outcome     TEXT NOT NULL
) STRICT;

-- What runs give out: the latest value of a name (kind 1), items of streams (2), answers to questions (3), and how
-- attempts ended that appended items (4).
CREATE TABLE output (
    instance    INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    name        TEXT NOT NULL,
    item        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    op          TEXT,
    payload     TEXT NOT NULL,
    sum         INTEGER NOT NULL,
    PRIMARY KEY (instance, kind, name, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE counter (
    workflow    TEXT NOT NULL,
    status      INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    PRIMARY KEY (workflow, status)
) STRICT, WITHOUT ROWID;

-- An index of the tags in the rows of instances.
CREATE TABLE tag (
    key         TEXT NOT NULL,
    value       TEXT NOT NULL,
    num         INTEGER NOT NULL,
    PRIMARY KEY (key, value, num)
) STRICT, WITHOUT ROWID;

INSERT INTO meta (key, value) VALUES ('schema', 6), ('epoch', 0), ('num', 0), ('pos', 0), ('feed', 0), ('pushed', 0);
PRAGMA application_id = 0x4f75746c;
";

/// What a file contains.
pub(crate) enum Content {
    /// Nothing yet.
    Empty,
    /// A store of this layout.
    Store,
}

/// Determines what the file contains, without changing it.
///
/// # Errors
/// Returns an error if the file belongs to another application or has another layout.
pub(crate) fn inspect(connection: &Connection, path: &Path) -> Result<Content, Error> {
    let read =
        |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|e| error::on_open(path, &e));
    let application = read("PRAGMA application_id")?;
    if application == 0 && read("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(Content::Empty);
    }
    let name = path.display();
    if application != APPLICATION_ID {
        let message = format!("{name} is a SQLite database of another application; give outlive a file of its own");
        return Err(Error::new(ErrorKind::Open, message));
    }
    let version = read("SELECT value FROM meta WHERE key = 'schema'")?;
    if version > VERSION {
        let message = format!(
            "{name} was written by a newer outlive (schema {version}, this one knows {VERSION}); use that release or \
             a later one"
        );
        return Err(Error::new(ErrorKind::Open, message));
    }
    if version < VERSION {
        let message = format!(
            "{name} was written by a pre-release of outlive (schema {version}, this one knows {VERSION}); finish its runs \
             with that build, then start with a new file"
        );
        return Err(Error::new(ErrorKind::Open, message));
    }
    Ok(Content::Store)
}

/// Creates the tables in an empty file, all or nothing. It is fine if another process does so first.
///
/// # Errors
/// Returns an error if the file cannot be written, or if what the other process created is not a store.
pub(crate) fn prepare(connection: &Connection, path: &Path) -> Result<(), Error> {
    let run = |sql: &str| connection.execute_batch(sql).map_err(|e| error::on_open(path, &e));
    run("BEGIN IMMEDIATE")?;
    let made = match inspect(connection, path) {
        Ok(Content::Empty) => run(TABLES).and_then(|()| run("COMMIT")),
        Ok(Content::Store) => run("COMMIT"),
        Err(foreign) => Err(foreign),
    };
    if made.is_err() && !connection.is_autocommit() {
        run("ROLLBACK")?;
    }
    made
}
