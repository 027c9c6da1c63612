//! `outlive tree`: shows a run with its ancestors, and its children to any depth.

mod walk;

use std::process::ExitCode;

use comfy_table::Cell;
use outlive::RunInfo;

use self::walk::{TreeStep, TreeWalk};
use crate::error::CliError;
use crate::open::{AnyRun, RunArgs};
use crate::output::counts::by_status;
use crate::output::escape::plain;
use crate::output::json::{self, RunJson};
use crate::output::json_stream::JsonStream;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

/// The column `took` is hidden if there is no room.
const SPARE: &[usize] = &[3];
/// How many rows are laid out at once.
const ROWS_PER_PART: usize = 100;

#[derive(clap::Args)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Maximum number of children to show of each run, newest first
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Show all children of each run
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(args: &TreeArgs, out: Printer) -> Result<ExitCode, CliError> {
    let client = args.run.store.read()?;
    let run = args.run.read().await?;
    let ancestors = Ancestors::of(&run).await?;
    let walk = TreeWalk::new(client, run, if args.all { usize::MAX } else { args.limit });
    match out.is_json() {
        true => write_json(&ancestors.ids, walk).await?,
        false => write_table(&ancestors, walk, args, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The runs above a run.
struct Ancestors {
    /// Their ids, from the top.
    ids: Vec<String>,
    /// Whether the top one was purged, so that what was above it is not known.
    is_top_purged: bool,
}

impl Ancestors {
    async fn of(run: &AnyRun) -> Result<Self, CliError> {
        let (mut found, mut run) = (Self { ids: Vec::new(), is_top_purged: false }, run.clone());
        while let (Some(id), false) = (run.info().await?.parent, found.is_top_purged) {
            found.ids.insert(0, id);
            match run.parent().await? {
                Some(parent) => run = parent,
                None => found.is_top_purged = true,
            }
        }
        Ok(found)
    }

    fn sentence(&self) -> Option<String> {
        let purged = if self.is_top_purged { "(purged) " } else { "" };
        (!self.ids.is_empty()).then(|| format!("child of {purged}{}", plain(&self.ids.join(" › "))))
    }
}

async fn write_json(ancestors: &[String], mut walk: TreeWalk) -> Result<(), CliError> {
    let mut stream = JsonStream::begin()?;
    stream.field("ancestors", &ancestors)?;
    let mut depth = 0_usize;
    while let Some(step) = walk.next().await? {
        match step {
            TreeStep::Run { info, .. } => {
                if depth > 0 {
                    stream.begin_item()?;
                }
                depth += 1;
                stream.field("run", &RunJson::new(&info, time::now()))?;
                stream.begin_list("children")?;
            }
            TreeStep::End { left_out, .. } => {
                stream.end_list()?;
                stream.field("left_out", &left_out.map_or(0, |left_out| left_out.children))?;
                depth -= 1;
                if depth > 0 {
                    stream.end_item()?;
                }
            }
        }
    }
    stream.end()
}

async fn write_table(ancestors: &Ancestors, mut walk: TreeWalk, args: &TreeArgs, out: Printer) -> Result<(), CliError> {
    if let Some(sentence) = ancestors.sentence() {
        out.line(format!("{sentence}\n"))?;
    }
    let mut table = TreeTable::new(if args.full { Fit::All } else { Fit::Terminal });
    while let Some(step) = walk.next().await? {
        match step {
            TreeStep::Run { info, branch } => table.run(&branch, &info),
            TreeStep::End { branch, left_out: Some(left_out) } => {
                let statuses = by_status(&left_out.counts);
                table.text(&format!("{branch}{} more, not shown (of all: {statuses})", left_out.children));
            }
            TreeStep::End { left_out: None, .. } => {}
        }
        if table.rows.len() >= ROWS_PER_PART {
            out.line(table.part())?;
        }
    }
    if !table.rows.is_empty() {
        out.line(table.part())?;
    }
    if walk.has_left_out() {
        out.line("\nuse --all to show all children, or `outlive ps FILE --parent ID` to filter them")?;
    }
    Ok(())
}

/// The table, printed in parts that line up.
struct TreeTable {
    fit: Fit,
    rows: Vec<Vec<Cell>>,
    /// The column widths so far.
    widths: Vec<u16>,
}

impl TreeTable {
    fn new(fit: Fit) -> Self {
        Self { fit, rows: Vec::new(), widths: Vec::new() }
    }

    fn run(&mut self, branch: &str, info: &RunInfo) {
        let (fit, now) = (self.fit, time::now());
        let failure = || info.failure.as_ref().map(ToString::to_string);
        let note = time::note(info).map(ToOwned::to_owned).or_else(failure);
        let detached = if info.is_detached { " (detached)" } else { "" };
        self.rows.push(vec![
            table::text(&format!("{branch}{}{detached}", info.id), fit),
            table::text(&info.workflow, fit),
            table::status(info, now),
            Cell::new(json::duration(info, now).map_or_else(|| "-".into(), time::length)),
            table::text(&note.unwrap_or_default(), fit),
        ]);
    }

    /// Adds a row with text only.
    fn text(&mut self, text: &str) {
        let empty = std::iter::repeat_with(|| Cell::new("")).take(4);
        self.rows.push([table::text(text, self.fit)].into_iter().chain(empty).collect());
    }

    /// Lays out the rows that were added since the last part.
    fn part(&mut self) -> String {
        let grid = Grid::new(self.fit);
        let grid = match self.widths.is_empty() {
            true => grid.header(&["run", "workflow", "status", "took", "note"]),
            false => grid.widths(&self.widths),
        };
        let mut grid = grid.spare(SPARE);
        self.rows.drain(..).for_each(|row| grid.row(row));
        let (text, mut widths) = grid.lay_out();
        // The width of the last column says nothing about the next part.
        widths.last_mut().into_iter().for_each(|width| *width = 0);
        self.widths = widths;
        text
    }
}
