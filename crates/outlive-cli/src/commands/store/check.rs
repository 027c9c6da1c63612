//! `outlive check`: replays unfinished runs with the code of a program, and reports how they would continue.

mod program;
mod tail;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Cell, Color};
use outlive::IntoDuration as _;
use outlive::check::{Allow, Checked, Report, ReportLine};
use serde::Serialize;
use tokio::time::Instant;

use self::program::Program;
use crate::error::CliError;
use crate::open::StoreArgs;
use crate::output::escape::plain;
use crate::output::printer::Printer;
use crate::output::progress;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

/// How often the report is polled.
const LOOK_EVERY: Duration = Duration::from_millis(30);
/// The exit code if the check could not be made.
const NOT_MADE: u8 = 3;

#[derive(clap::Args)]
#[command(
    after_help = "The program must call `.check_from_env()` on its `Engine` builder. It is started with OUTLIVE_CHECK \
    and OUTLIVE_CHECK_REPORT in its environment, which make that engine replay the unfinished runs of FILE with the workflows it registers, instead of executing a \
    store: no step runs and nothing is written, even if another program executes FILE.\n\n\
    Exit codes: 0 if all runs are fine or reach new steps, 1 if some are not or a check cannot tell, 2 if the command \
    line is wrong, 3 if the check could not be made."
)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Program with the new code, and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// How long the program may take to start its engine
    #[arg(long, default_value = "1 minute", value_name = "TIME")]
    wait: String,
    /// Accept a kind of difference that you know to be safe
    #[arg(long, value_enum, value_name = "WHAT")]
    allow: Vec<Allowed>,
    /// Also list runs that are fine
    #[arg(long)]
    all: bool,
    /// Maximum number of runs to list
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

/// A kind of difference that can be accepted.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Allowed {
    /// Unrecorded operations before recorded ones: all are new, none is a recorded one under a new name, key or scope
    NewBeforeRecorded,
    /// Operations that look renamed: they are not the recorded ones
    LooksRenamed,
}

impl From<Allowed> for Allow {
    fn from(allowed: Allowed) -> Self {
        match allowed {
            Allowed::NewBeforeRecorded => Self::NewBeforeRecorded,
            Allowed::LooksRenamed => Self::Renamed,
        }
    }
}

#[derive(Serialize)]
struct CheckJson<'a> {
    runs: &'a [Checked],
    counts: BTreeMap<&'static str, usize>,
    /// The counts by version; runs without one are under the empty text.
    versions: BTreeMap<String, BTreeMap<&'static str, usize>>,
    exit_code: u8,
}

pub(crate) async fn run(args: &CheckArgs, out: Printer) -> Result<ExitCode, CliError> {
    let report = match check(args).await {
        Ok(report) => args.allow.iter().fold(report, |report, allowed| report.allow((*allowed).into())),
        Err(error) => {
            out.error(&error);
            return Ok(ExitCode::from(NOT_MADE));
        }
    };
    let written = match out.is_json() {
        true => {
            let counts = |report: &Report| report.counts().into_iter().collect();
            let versions = report.by_version();
            let versions =
                versions.iter().map(|(version, report)| (version.clone().unwrap_or_default(), counts(report)));
            out.json(&CheckJson {
                runs: report.runs(),
                counts: counts(&report),
                versions: versions.collect(),
                exit_code: report.exit_code(),
            })
        }
        false => show(args, &report, out),
    };
    out.verdict(ExitCode::from(report.exit_code()), written)
}

/// Makes the program check the file, and returns its report.
async fn check(args: &CheckArgs) -> Result<Report, CliError> {
    let file = args.store.path()?;
    let patience = args.wait.as_str().into_duration().map_err(|error| CliError::message(error.to_string()))?;
    let mut program = Program::start(&args.program, &file)?;
    let bar = progress::of_runs("checked");
    let report = follow(&mut program, patience, &bar).await;
    bar.finish_and_clear();
    program.end().await;
    report
}

/// Reads the report as it is written, to its last line.
async fn follow(program: &mut Program, patience: Duration, bar: &indicatif::ProgressBar) -> Result<Report, CliError> {
    let begun = Instant::now();
    let mut runs = Vec::new();
    let mut is_silent = true;
    loop {
        // Checked first: once the program has ended, the report is complete.
        let ended = program.ended()?;
        for line in program.report.read()? {
            is_silent = false;
            match line {
                ReportLine::Progress { done, total } => {
                    bar.set_length(total);
                    bar.set_position(done);
                }
                ReportLine::Run(run) => runs.push(run),
                ReportLine::Done { .. } => return Ok(runs.into_iter().collect()),
                ReportLine::Error(sentence) => return Err(CliError::message(sentence)),
                other => {
                    let message = format!("unknown line {other:?} in the report; use a later release");
                    return Err(CliError::message(message));
                }
            }
        }
        if let Some(status) = ended {
            return Err(program.without_report(&format!("exited ({status})")));
        }
        if is_silent && begun.elapsed() > patience {
            return Err(program.without_report(&format!("took longer than {}", time::length(patience))));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn show(args: &CheckArgs, report: &Report, out: Printer) -> Result<(), CliError> {
    let fit = if args.full { Fit::All } else { Fit::Terminal };
    let is_listed = |run: &&Checked| args.all || run.verdict != outlive::check::Verdict::Fine;
    let mut listed: Vec<&Checked> = report.runs().iter().filter(is_listed).collect();
    // Worst first, because a long list is cut at its end.
    listed.sort_by_key(|run| std::cmp::Reverse(run.verdict.severity()));
    let left_out = listed.len().saturating_sub(args.limit);
    listed.truncate(args.limit);
    if !listed.is_empty() {
        out.line(rows(&listed, fit))?;
        out.line("")?;
    }
    let more = if left_out > 0 { format!("; {left_out} more not listed, see --limit") } else { String::new() };
    out.line(format!("{}{more}", report.summary()))?;
    report.version_lines().iter().try_for_each(|line| out.line(plain(line)))
}

fn rows(runs: &[&Checked], fit: Fit) -> String {
    let mut grid = Grid::new(fit).header(&["id", "workflow", "verdict", "details"]);
    for run in runs {
        let word = Cell::new(run.verdict.word());
        grid.row(vec![
            table::text(&run.id, fit),
            table::text(&run.workflow, fit),
            match run.verdict.severity() {
                0 => word.fg(Color::Green),
                1 => word.fg(Color::Yellow),
                _ => word.fg(Color::Red),
            },
            table::text(&run.verdict.details(), fit),
        ]);
    }
    grid.lay_out().0
}
