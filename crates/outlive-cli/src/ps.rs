//! `outlive ps`: which runs there are.

use std::collections::BTreeMap;
use std::process::ExitCode;

use comfy_table::Cell;
use outlive::{Client, Counts, RunInfo, StatusKind};
use serde::Serialize;

use crate::error::Error;
use crate::facts::{self, RunFacts};
use crate::filter::FilterArgs;
use crate::open::StoreArgs;
use crate::out::Out;
use crate::table::{self, Fit, Grid};
use crate::time;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// How many to list at most
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Nothing shortened
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Listing {
    runs: Vec<RunFacts>,
    counts: BTreeMap<&'static str, u64>,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let client = args.store.open()?;
    let runs = list(&client, args).await?;
    let counts = client.count(args.filter.filter()).await?;
    if out.is_json() {
        let now = time::now();
        let facts: Vec<RunFacts> = runs.iter().map(|run| RunFacts::new(run, now)).collect();
        out.json(&Listing { runs: facts, counts: facts::counts(&counts) })?;
    } else {
        out.line(table(&runs, if args.full { Fit::All } else { Fit::Terminal }))?;
        out.line("")?;
        out.line(summary(&counts, runs.len()))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, args: &Args) -> Result<Vec<RunInfo>, Error> {
    let mut runs = Vec::new();
    let mut next = None;
    while runs.len() < args.limit {
        let page = client.list_after(args.filter.filter(), next).await?;
        runs.extend(page.runs);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    runs.truncate(args.limit);
    Ok(runs)
}

fn table(runs: &[RunInfo], fit: Fit) -> String {
    let now = time::now();
    let mut grid = Grid::new(fit).header(&["id", "workflow", "status", "started (UTC)", "took", "note"]);
    for run in runs {
        let note = run.note.clone().or_else(|| run.failure.as_ref().map(ToString::to_string));
        grid.row(vec![
            table::text(&run.id, fit),
            table::text(&run.workflow, fit),
            table::status(run.status, now),
            Cell::new(run.started_at.map_or_else(|| "-".into(), time::moment)),
            Cell::new(facts::duration(run, now).map_or_else(|| "-".into(), time::length)),
            table::text(&note.unwrap_or_default(), fit),
        ]);
    }
    grid.lay_out().0
}

/// How many there are, by status, and how to see those that are not listed.
fn summary(counts: &Counts, listed: usize) -> String {
    let total = counts.total();
    let each = StatusKind::ALL.into_iter().filter(|kind| counts.of(*kind) > 0);
    let each: Vec<String> = each.map(|kind| format!("{} {}", counts.of(kind), kind.as_str())).collect();
    let mut text = format!("{total} {}", if total == 1 { "run" } else { "runs" });
    if !each.is_empty() {
        text += &format!(": {}", each.join(", "));
    }
    if total > u64::try_from(listed).unwrap_or(u64::MAX) {
        text += &format!("; the newest {listed} are listed, --limit {total} lists all");
    }
    text
}
