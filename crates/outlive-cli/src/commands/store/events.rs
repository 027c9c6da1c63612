//! `outlive events`: prints and follows the lifecycle events of a store.

use std::process::ExitCode;

use comfy_table::Cell;
use outlive::{Cursor, Events, LifecycleEvent};

use crate::error::CliError;
use crate::open::StoreArgs;
use crate::output::escape;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

/// The maximum number of events printed at once.
const PAGE: usize = 500;
/// The columns `number` and `name` are hidden if there is no room.
const SPARE: &[usize] = &[4, 2];

#[derive(clap::Args)]
#[command(after_help = "With `-o json`, each event is one line of JSON, as described in \
    docs/lifecycle-events.schema.json. Pass its `cursor` to --since to continue after it.")]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Keep printing new events until interrupted, from now on unless --since is given
    #[arg(short, long)]
    follow: bool,
    /// Print only events after this cursor; 0 is the beginning
    #[arg(long, value_name = "CURSOR")]
    since: Option<Cursor>,
    /// Print only events of this run or job instance
    #[arg(long, value_name = "ID")]
    of: Option<String>,
    /// Stop after this many events
    #[arg(long)]
    limit: Option<usize>,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(args: &EventsArgs, out: Printer) -> Result<ExitCode, CliError> {
    let mut events = follow(args).await?;
    let mut table = EventTable { fit: if args.full { Fit::All } else { Fit::Terminal }, widths: Vec::new() };
    let mut left = args.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let mut page = events.read(left.min(PAGE)).await?;
        if page.is_empty() {
            if !args.follow {
                break;
            }
            page.push(events.next().await?);
        }
        left -= page.len();
        if out.is_json() {
            page.iter().try_for_each(|event| json(event, out))?;
        } else {
            out.line(table.part(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Subscribes to the requested events, from the requested cursor.
async fn follow(args: &EventsArgs) -> Result<Events, CliError> {
    let mut events = args.store.read()?.events();
    if let Some(cursor) = args.since.or((!args.follow).then_some(Cursor::START)) {
        events = events.since(cursor);
    }
    if let Some(id) = &args.of {
        events = events.of(id);
    }
    Ok(events.await?)
}

/// A table that is printed in parts that line up.
struct EventTable {
    fit: Fit,
    widths: Vec<u16>,
}

impl EventTable {
    fn part(&mut self, events: &[LifecycleEvent]) -> String {
        let mut grid = match self.widths.is_empty() {
            true => Grid::new(self.fit).header(&["cursor", "time (UTC)", "name", "instance", "number", "event"]),
            false => Grid::new(self.fit).widths(&self.widths),
        };
        for event in events {
            grid.row(vec![
                Cell::new(event.cursor()),
                Cell::new(time::exact(event.at, time::now())),
                table::text(&event.name, self.fit),
                table::text(&event.instance, self.fit),
                Cell::new(event.number),
                table::text(&event.kind.to_string(), self.fit),
            ]);
        }
        let (text, mut widths) = grid.spare(SPARE).lay_out();
        // The width of the last column says nothing about the next part.
        widths.last_mut().into_iter().for_each(|width| *width = 0);
        self.widths = widths;
        text
    }
}

fn json(event: &LifecycleEvent, out: Printer) -> Result<(), CliError> {
    let line = serde_json::to_string(event);
    let line = line.map_err(|error| CliError::message(format!("cannot write the event as JSON: {error}")))?;
    out.line(escape::json(&line))
}
