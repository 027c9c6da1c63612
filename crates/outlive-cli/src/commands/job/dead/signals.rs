//! Dead letters of a run: signals whose value could not be read as the type it waited for.

use comfy_table::Cell;
use outlive::DeadSignal;
use serde_json::json;

use super::resolution::Resolution;
use crate::error::CliError;
use crate::open::AnyRun;
use crate::output::json::raw;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

pub(super) async fn list(run: &AnyRun, fit: Fit, out: Printer) -> Result<(), CliError> {
    let dead = run.dead_signals().await?;
    if out.is_json() {
        return out.json(&json!({ "dead": dead.iter().map(to_json).collect::<Vec<_>>() }));
    }
    if dead.is_empty() {
        return out.line(format!("run {:?} has no dead letters", run.id()));
    }
    let now = time::now();
    let mut grid = Grid::new(fit).header(&["number", "time", "signal", "value", "problem"]);
    for signal in &dead {
        grid.row(vec![
            Cell::new(signal.seq),
            Cell::new(time::clock(signal.at, now)),
            table::text(&signal.name, fit),
            table::text(signal.value.as_str(), fit),
            table::text(&signal.problem, fit),
        ]);
    }
    out.line(grid.lay_out().0)
}

fn to_json(signal: &DeadSignal) -> serde_json::Value {
    let (at, value) = (signal.at.to_string(), raw(&signal.value));
    json!({ "number": signal.seq, "at": at, "signal": signal.name, "value": value, "problem": signal.problem })
}

/// Retries or discards dead signals: one, or all.
pub(super) async fn resolve(
    run: &AnyRun,
    number: Option<u64>,
    resolution: Resolution,
    out: Printer,
) -> Result<(), CliError> {
    let dead = run.dead_signals().await?;
    let meant: Vec<_> = dead.iter().filter(|dead| number.is_none_or(|number| number == dead.seq)).collect();
    if let (Some(number), true) = (number, meant.is_empty()) {
        let way_out = "`outlive dead list` lists them";
        return Err(CliError::message(format!("run {:?} has no dead letter {number}; {way_out}", run.id())));
    }
    for signal in &meant {
        match resolution {
            Resolution::Retry => run.retry_dead_signal(signal.seq).await?,
            Resolution::Discard => run.discard_dead_signal(signal.seq).await?,
        }
    }
    let words = if meant.len() == 1 { "1 dead letter".into() } else { format!("{} dead letters", meant.len()) };
    out.result(
        format!("{words} of run {:?} {}", run.id(), resolution.done()),
        &json!({ "run": run.id(), "count": meant.len() }),
    )
}
