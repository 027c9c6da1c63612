//! `outlive rewind`: makes a run forget what it did after a point, and continue from there.

use std::process::ExitCode;

use outlive::{RewindPlan, RewindPoint};
use serde::Serialize;

use super::bulk::{ManyArgs, Selection};
use crate::error::CliError;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    to: PointArgs,
}

#[derive(clap::Args)]
pub(crate) struct PointArgs {
    /// What to run again, with all that follows: a step by name, key or identity, the number of a journal entry, or
    /// "start"
    #[arg(long = "to", visible_alias = "at", value_name = "POINT")]
    point: String,
}

impl PointArgs {
    pub(crate) fn point(&self) -> RewindPoint {
        match (self.point.as_str(), self.point.parse()) {
            ("start", _) => RewindPoint::Start,
            (_, Ok(seq)) => RewindPoint::Entry(seq),
            (operation, Err(_)) => RewindPoint::from(operation),
        }
    }
}

/// A plan as JSON.
#[derive(Serialize)]
pub(crate) struct PlanJson<'a> {
    id: &'a str,
    dry_run: bool,
    kept_to: u64,
    kept: &'a [String],
    runs_again: &'a [String],
    signals: &'a [String],
    children_kept: &'a [String],
    children_forgotten: &'a [String],
}

impl<'a> PlanJson<'a> {
    pub(crate) fn new(plan: &'a RewindPlan, dry_run: bool) -> Self {
        let RewindPlan { id, kept_to, kept, runs_again, signals, children_kept, children_forgotten, .. } = plan;
        Self { id, dry_run, kept_to: *kept_to, kept, runs_again, signals, children_kept, children_forgotten }
    }
}

pub(crate) async fn run(args: &RewindArgs, out: Printer) -> Result<ExitCode, CliError> {
    let (many, point) = (&args.many, args.to.point());
    let run = match many.selection()? {
        Selection::One(run) => run,
        Selection::Many(filter) => {
            return many.change("rewound", |client| client.rewind_where(filter, point), out).await;
        }
    };
    let plan = match many.is_dry() {
        true => run.read().await?.rewind(point).dry_run().await?,
        false => run.open().await?.rewind(point).await?,
    };
    let effect = match many.is_dry() {
        true => "it would continue from there".to_owned(),
        false => run.store.outlook("it continues from there", "it continues from there"),
    };
    out.result(format!("{plan}\n{effect}"), &PlanJson::new(&plan, many.is_dry()))?;
    Ok(ExitCode::SUCCESS)
}
