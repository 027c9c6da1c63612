//! `outlive events`: what has happened in a store, and what happens.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::Cell;
use outlive::{EntryKind, Payload, Timestamp};
use outlive_core::query::{Line, Query as _, Told};
use outlive_sqlite::SqliteReader;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::facts::raw;
use crate::open::StoreArgs;
use crate::out::Out;
use crate::table::{self, Fit, Grid};
use crate::time;

/// How often a store is asked for what is new.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many events are read at once.
const PAGE: usize = 500;

#[derive(clap::Args)]
#[command(after_help = "With `-o json`, each event is a line of JSON. Its `cursor` is where --since goes on.")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Go on with what happens, until interrupted; from now on, unless --since is given
    #[arg(short, long)]
    follow: bool,
    /// Only what happened behind this cursor
    #[arg(long, value_name = "CURSOR")]
    since: Option<u64>,
    /// Only what happens to this run, or this instance of a job
    #[arg(long, value_name = "ID")]
    of: Option<String>,
    /// Nothing shortened
    #[arg(long)]
    full: bool,
}

/// One thing that happened.
#[derive(Serialize)]
struct EventFacts<'a> {
    cursor: u64,
    at: String,
    instance: &'a str,
    name: &'a str,
    number: u64,
    kind: String,
    operation: Option<&'a str>,
    attempt: Option<u32>,
    detail: Option<Box<RawValue>>,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let feed = Feed::open(&args.store.file()?)?;
    let mut after = match args.since {
        Some(cursor) => cursor,
        None if args.follow => feed.last().await?,
        None => 0,
    };
    let mut sheet = Sheet { fit: if args.full { Fit::All } else { Fit::Terminal }, widths: Vec::new() };
    loop {
        let page = feed.after(after).await?;
        let Some(last) = page.last() else {
            if !args.follow {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        after = last.pos;
        let is_meant = |told: &&Told| args.of.as_deref().is_none_or(|id| told.id.as_str() == id);
        let meant: Vec<&Told> = page.iter().filter(is_meant).collect();
        if out.is_json() {
            meant.iter().try_for_each(|told| json(told, out))?;
        } else if !meant.is_empty() {
            out.line(sheet.part(&meant))?;
        }
    }
}

/// The store as it tells what happens. All that this command knows of stores is here.
struct Feed(SqliteReader);

impl Feed {
    fn open(file: &Path) -> Result<Self, Error> {
        SqliteReader::open(file).map(Self).map_err(|error| outlive::Error::from(error).into())
    }

    async fn last(&self) -> Result<u64, Error> {
        Ok(self.0.mark(None).await.map_err(outlive::Error::from)?.unwrap_or(0))
    }

    async fn after(&self, cursor: u64) -> Result<Vec<Told>, Error> {
        Ok(self.0.feed(cursor, PAGE).await.map_err(outlive::Error::from)?)
    }
}

/// The parts of one table that lines up.
struct Sheet {
    fit: Fit,
    widths: Vec<u16>,
}

impl Sheet {
    fn part(&mut self, told: &[&Told]) -> String {
        let columns = ["cursor", "time (UTC)", "what", "attempt", "instance", "detail"];
        let mut grid = match self.widths.is_empty() {
            true => Grid::new(self.fit).header(&columns),
            false => Grid::new(self.fit).widths(&self.widths),
        };
        for told in told {
            let seen = Seen::of(told);
            let detail = seen.detail.map(|detail| detail.to_string()).unwrap_or_default();
            let detail = [seen.operation.unwrap_or_default(), &detail].join(" ");
            grid.row(vec![
                Cell::new(told.pos),
                Cell::new(time::exact(seen.at, time::now())),
                Cell::new(seen.kind),
                Cell::new(seen.attempt.map(|attempt| attempt.to_string()).unwrap_or_default()),
                table::text(told.id.as_str(), self.fit),
                table::text(detail.trim(), self.fit),
            ]);
        }
        let (text, mut widths) = grid.lay_out();
        widths.last_mut().into_iter().for_each(|width| *width = 0);
        self.widths = widths;
        text
    }
}

/// What a line says, be it an entry of a journal or anything else.
struct Seen<'a> {
    at: Timestamp,
    kind: &'static str,
    operation: Option<&'a str>,
    attempt: Option<u32>,
    detail: Option<&'a Payload>,
}

impl<'a> Seen<'a> {
    fn of(told: &'a Told) -> Self {
        let attempt = |attempt: u32| Some(attempt).filter(|attempt| *attempt > 0);
        match &told.line {
            Line::Entry(entry) => Self {
                at: entry.at,
                kind: EntryKind::as_str(entry.kind),
                operation: Some(&entry.op),
                attempt: attempt(entry.attempt),
                detail: entry.payload.as_ref(),
            },
            Line::News(news) => Self {
                at: news.at,
                kind: news.kind.as_str(),
                operation: None,
                attempt: attempt(news.attempt),
                detail: news.detail.as_ref(),
            },
        }
    }
}

fn json(told: &Told, out: Out) -> Result<(), Error> {
    let seen = Seen::of(told);
    let facts = EventFacts {
        cursor: told.pos,
        at: seen.at.to_string(),
        instance: told.id.as_str(),
        name: told.workflow.as_str(),
        number: told.number,
        kind: seen.kind.replace(' ', "_"),
        operation: seen.operation,
        attempt: seen.attempt,
        detail: seen.detail.map(raw),
    };
    let line = serde_json::to_string(&facts);
    out.line(line.map_err(|error| Error::said(format!("the event cannot be written as JSON: {error}")))?)
}
