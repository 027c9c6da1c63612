//! `outlive ps`: lists the runs of a store.

use std::process::ExitCode;

use comfy_table::Cell;
use outlive::{Client, Counts, PageMark, RunInfo, Share, StatusKind};
use serde::Serialize;

use crate::error::CliError;
use crate::filter::FilterArgs;
use crate::open::{AnyRun, NOBODY, StoreArgs};
use crate::output::counts::by_status;
use crate::output::json::{self, RunJson};
use crate::output::json_stream::JsonStream;
use crate::output::printer::Printer;
use crate::output::published;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

/// The columns `took` and `started` are hidden if there is no room.
const SPARE: &[usize] = &[4, 3];

#[derive(clap::Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only children of this run
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Maximum number of runs to list
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(args: &PsArgs, out: Printer) -> Result<ExitCode, CliError> {
    let client = args.store.read()?;
    let parent = match &args.parent {
        Some(id) => Some(client.get_run(id).await?),
        None => None,
    };
    let pages = RunPages { client, parent, args, next: None, left: args.limit, is_last: false };
    match out.is_json() {
        true => write_json(args, pages).await?,
        false => write_table(args, pages, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn write_json(args: &PsArgs, mut pages: RunPages<'_>) -> Result<(), CliError> {
    let mut stream = JsonStream::begin()?;
    stream.begin_list("runs")?;
    while let Some(runs) = pages.next().await? {
        let now = time::now();
        runs.iter().try_for_each(|(run, progress)| {
            stream.item(&ListedRun { run: RunJson::new(run, now), progress: *progress })
        })?;
    }
    stream.end_list()?;
    let counts = pages.count().await?;
    stream.field("counts", &json::counts(&counts))?;
    stream.field("executed", &args.store.is_executed())?;
    stream.end()
}

async fn write_table(args: &PsArgs, mut pages: RunPages<'_>, out: Printer) -> Result<(), CliError> {
    let mut table = RunTable { fit: if args.full { Fit::All } else { Fit::Terminal }, widths: Vec::new() };
    let mut listed = 0;
    while let Some(runs) = pages.next().await? {
        listed += runs.len() as u64;
        out.line(table.part(&runs))?;
    }
    if listed == 0 {
        out.line(table.part(&[]))?;
    }
    let counts = pages.count().await?;
    out.line("")?;
    out.line(summary(&counts, listed))?;
    let unfinished = StatusKind::ALL.into_iter().filter(|kind| !kind.is_ended() && *kind != StatusKind::Stuck);
    if unfinished.map(|kind| counts.of(kind)).sum::<u64>() > 0 && args.store.is_executed() == Some(false) {
        out.line(format!("{NOBODY}; unfinished runs continue once one does"))?;
    }
    Ok(())
}

/// A run in the list, with how far it is.
#[derive(Serialize)]
struct ListedRun {
    #[serde(flatten)]
    run: RunJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Share>,
}

/// Reads the requested runs page by page, without keeping them in memory.
struct RunPages<'a> {
    client: Client,
    /// The run whose children to list, if not all runs.
    parent: Option<AnyRun>,
    args: &'a PsArgs,
    next: Option<PageMark>,
    /// How many more runs to list.
    left: usize,
    is_last: bool,
}

impl RunPages<'_> {
    /// Returns the next runs with how far they are, or `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<(RunInfo, Option<Share>)>>, CliError> {
        while self.left > 0 && !self.is_last {
            let filter = self.args.filter.filter();
            let mut page = match &self.parent {
                Some(parent) => parent.children().filter(filter).after(self.next).await?,
                None => self.client.list_after(filter, self.next).await?,
            };
            self.next = page.next;
            self.is_last = page.next.is_none();
            page.runs.truncate(self.left);
            self.left -= page.runs.len();
            // An empty page need not be the last: its runs may have been purged.
            if !page.runs.is_empty() {
                let mut runs = Vec::with_capacity(page.runs.len());
                for run in page.runs {
                    let progress = published::progress(&self.client, &run).await;
                    runs.push((run, progress));
                }
                return Ok(Some(runs));
            }
        }
        Ok(None)
    }

    /// Counts the runs on all pages, however many are listed.
    async fn count(&self) -> Result<Counts, CliError> {
        let filter = self.args.filter.filter();
        Ok(match &self.parent {
            Some(parent) => parent.children().filter(filter).count().await?,
            None => self.client.count(filter).await?,
        })
    }
}

/// A table that is printed in parts that line up.
struct RunTable {
    fit: Fit,
    widths: Vec<u16>,
}

impl RunTable {
    fn part(&mut self, runs: &[(RunInfo, Option<Share>)]) -> String {
        let (fit, now) = (self.fit, time::now());
        let mut grid = match self.widths.is_empty() {
            true => Grid::new(fit).header(&["id", "workflow", "status", "started (UTC)", "took", "note"]),
            false => Grid::new(fit).widths(&self.widths),
        };
        for (run, progress) in runs {
            let failure = || run.failure.as_ref().map(ToString::to_string);
            let note = time::note(run).map(ToOwned::to_owned).or_else(failure);
            let note: Vec<String> = progress.map(|share| share.to_string()).into_iter().chain(note).collect();
            grid.row(vec![
                table::text(&run.id, fit),
                table::text(&run.workflow, fit),
                table::status(run, now),
                Cell::new(run.started_at.map_or_else(|| "-".into(), time::moment)),
                Cell::new(json::duration(run, now).map_or_else(|| "-".into(), time::length)),
                table::text(&note.join("; "), fit),
            ]);
        }
        let (text, mut widths) = grid.spare(SPARE).lay_out();
        // The width of the last column says nothing about the next part.
        widths.last_mut().into_iter().for_each(|width| *width = 0);
        self.widths = widths;
        text
    }
}

/// Returns the number of runs by status, and how to list all of them.
fn summary(counts: &Counts, listed: u64) -> String {
    let total = counts.total();
    let mut text = format!("{total} {}", if total == 1 { "run" } else { "runs" });
    if total > 0 {
        text += &format!(": {}", by_status(counts));
    }
    if total > listed {
        text += &format!("; showing the newest {listed}, use --limit {total} to list all");
    }
    text
}
