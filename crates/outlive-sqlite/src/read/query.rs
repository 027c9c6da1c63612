//! Implements `Query` for the reader: each call makes short reads only.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::page::Room;
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::store::{Answered, Error, ErrorKind};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, Row, params};

use super::lists::{self, Counting, Listing};
use super::view::SqliteReader;
use super::{feed, output, queue};
use crate::row::{self, InstanceRow};

/// The wakes at one moment, and those after it, which together make a page. With a single condition, SQLite would start
/// at the first wake of that moment each time, and there may be very many.
const WAKES_AT: &str = "SELECT wake, num FROM instance WHERE wake IS NOT NULL AND wake = ?1 AND wake <= ?2 AND num > ?3 ORDER BY num LIMIT ?4";
const WAKES_PAST: &str =
    "SELECT wake, num FROM instance WHERE wake IS NOT NULL AND wake > ?1 AND wake <= ?2 ORDER BY wake, num LIMIT ?3";

const SUSPECTS: &str =
    "SELECT num, recoveries FROM instance WHERE wake IS NOT NULL AND wake <= ?1 AND recoveries > 1 ORDER BY wake, num";

impl Query for SqliteReader {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        let id = id.clone();
        self.lookups.ask(move |connection| Ok(row::by_id(connection, &id)?.map(InstanceRow::annotated)))
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        let read = self.lookups.ask(move |connection| row::entries(connection, num.0, after, Room::new(limit)));
        Box::pin(async move { read.await?.map_err(|damage| self.damaged(num, &damage)) })
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        let read = self.lookups.ask(move |connection| row::messages(connection, num.0, after, Room::new(limit)));
        Box::pin(async move { read.await?.map_err(|damage| self.damaged(num, &damage)) })
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.lookups.ask(move |connection| wakes(connection, after, until, limit))
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.lists.ask(move |connection| suspects(connection, until))
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.lists.ask_in_parts(Listing::new(filter, before, limit), Listing::read)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.lists.ask_in_parts(Counting::new(filter), Counting::read)
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.lookups.ask(move |connection| queue::read(connection, num.0, &read))
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        let job = job.clone();
        self.lists.ask(move |connection| queue::depth(connection, &job, now))
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        let job = job.clone();
        self.lists.ask(move |connection| queue::dead(connection, &job, after, limit))
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.lists.ask(lists::jobs)
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.lists.ask(move |connection| feed::read(connection, after, limit))
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        let name = name.cloned();
        self.lookups.ask(move |connection| feed::mark(connection, name.as_ref()))
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.lookups.ask(move |connection| queue::reply(connection, pos))
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        let read = self.lookups.ask(move |connection| output::read(connection, num.0, &read, Room::new(limit)));
        Box::pin(async move { read.await?.map_err(|damage| self.damaged(num, &damage)) })
    }
}

impl SqliteReader {
    fn damaged(&self, num: InstanceNum, damage: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("instance {num} in {}: {damage}", self.path().display()))
    }
}

fn wakes(connection: &Connection, after: Wake, until: Timestamp, limit: usize) -> rusqlite::Result<Vec<Wake>> {
    let wake = |row: &Row<'_>| {
        Ok(Wake { due: Timestamp::from_millis(row.get(0)?), num: InstanceNum(row.get::<_, i64>(1)?.cast_unsigned()) })
    };
    let left = |wakes: &Vec<Wake>| i64::try_from(limit - wakes.len()).unwrap_or(i64::MAX);
    let (due, until, num) = (after.due.as_millis(), until.as_millis(), after.num.0.cast_signed());
    let mut wakes = Vec::new();
    let mut at = connection.prepare_cached(WAKES_AT)?;
    for found in at.query_map(params![due, until, num, left(&wakes)], wake)? {
        wakes.push(found?);
    }
    let mut past = connection.prepare_cached(WAKES_PAST)?;
    for found in past.query_map(params![due, until, left(&wakes)], wake)? {
        wakes.push(found?);
    }
    Ok(wakes)
}

fn suspects(connection: &Connection, until: Timestamp) -> rusqlite::Result<Vec<Suspect>> {
    let mut statement = connection.prepare_cached(SUSPECTS)?;
    let found = statement.query_map([until.as_millis()], |row| {
        Ok(Suspect { num: InstanceNum(row.get::<_, i64>(0)?.cast_unsigned()), recoveries: row::count(row, 1) })
    })?;
    found.collect()
}
