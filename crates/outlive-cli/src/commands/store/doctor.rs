//! `outlive doctor`: checks the invariants of a store.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlive_sqlite::doctor::{self, Diagnosis, Finding};
use serde::Serialize;

use crate::error::CliError;
use crate::open::StoreArgs;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};

#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Do not truncate anything
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct DoctorJson {
    is_sound: bool,
    instances: u64,
    runs: u64,
    jobs: u64,
    entries: u64,
    messages: u64,
    findings_count: u64,
    findings: Vec<FindingJson>,
}

#[derive(Serialize)]
struct FindingJson {
    problem: String,
    id: Option<String>,
    num: Option<u64>,
    found: String,
    holds: &'static str,
    remedy: &'static str,
}

pub(crate) async fn run(args: &DoctorArgs, out: Printer) -> Result<ExitCode, CliError> {
    let report = examine(args.store.file()?).await?;
    let code = if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    out.verdict(code, write(args, &report, out))
}

fn write(args: &DoctorArgs, report: &Diagnosis, out: Printer) -> Result<(), CliError> {
    if out.is_json() {
        return out.json(&DoctorJson::from(report));
    }
    if !report.is_sound() {
        out.line(table(&report.findings, if args.full { Fit::All } else { Fit::Terminal }))?;
        out.line("")?;
    }
    out.line(summary(report))
}

async fn examine(file: PathBuf) -> Result<Diagnosis, CliError> {
    let bar = bar();
    let examination = tokio::task::spawn_blocking({
        let bar = bar.clone();
        move || {
            doctor::examine_with(&file, |check| {
                bar.set_length(check.of as u64);
                bar.set_position(check.number.saturating_sub(1) as u64);
                bar.set_message(match check.rows {
                    0 => check.name.to_owned(),
                    rows => format!("{} ({rows})", check.name),
                });
            })
        }
    });
    let examined = examination.await.map_err(|error| CliError::message(format!("the examination failed: {error}")))?;
    bar.finish_and_clear();
    examined.map_err(|error| CliError::message(error.message))
}

fn bar() -> ProgressBar {
    let is_watched = io::stderr().is_terminal();
    let target = if is_watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(
        ProgressStyle::with_template("{spinner:.cyan} {elapsed} {bar:24.cyan} {pos}/{len} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn table(findings: &[Finding], fit: Fit) -> String {
    let mut grid = Grid::new(fit).header(&["id", "problem", "found; expected; what to do"]);
    for finding in findings {
        let number = || finding.num.map(|num| format!("number {} (removed)", num.0));
        let whose = finding.id.clone().or_else(number).unwrap_or_else(|| "-".to_owned());
        let sentence = format!("{}; {}; {}", finding.found, finding.holds, finding.remedy);
        grid.row(vec![
            table::text(&whose, fit),
            table::text(&finding.kind.to_string(), fit),
            table::text(&sentence, fit),
        ]);
    }
    grid.lay_out().0
}

fn summary(report: &Diagnosis) -> String {
    let count = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let jobs = Some(report.jobs).filter(|jobs| *jobs > 0).map(|jobs| count(jobs, "job instance, ", "job instances, "));
    let what = format!(
        "{}, {}{}, {}",
        count(report.instances - report.jobs, "run", "runs"),
        jobs.unwrap_or_default(),
        count(report.entries, "journal entry", "journal entries"),
        count(report.messages, "pending message", "pending messages"),
    );
    if report.is_sound() {
        return format!("sound: {what}");
    }
    let listed = u64::try_from(report.findings.len()).unwrap_or(u64::MAX);
    let rest = match report.findings_count - listed {
        0 => String::new(),
        rest => format!(" ({rest} not listed)"),
    };
    format!("{}{rest}: {what}", count(report.findings_count, "finding", "findings"))
}

impl From<&Diagnosis> for DoctorJson {
    fn from(report: &Diagnosis) -> Self {
        Self {
            is_sound: report.is_sound(),
            instances: report.instances,
            runs: report.instances - report.jobs,
            jobs: report.jobs,
            entries: report.entries,
            messages: report.messages,
            findings_count: report.findings_count,
            findings: report.findings.iter().map(FindingJson::from).collect(),
        }
    }
}

impl From<&Finding> for FindingJson {
    fn from(finding: &Finding) -> Self {
        Self {
            problem: finding.kind.to_string(),
            id: finding.id.clone(),
            num: finding.num.map(|num| num.0),
            found: finding.found.clone(),
            holds: finding.holds,
            remedy: finding.remedy,
        }
    }
}
