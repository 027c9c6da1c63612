//! Lays out the details of a run, one per line.

use outlive::{Counts, RunInfo};

use crate::output::counts::by_status;
use crate::output::json;
use crate::output::published::{self, Published};
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

/// Returns the details of a run as text, with the number of its children and what it has published.
pub(crate) fn of(info: &RunInfo, children: &Counts, published: &Published, fit: Fit) -> String {
    let now = time::now();
    let tags: Vec<String> = info.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let detached = if info.is_detached { " (detached)" } else { "" };
    let total = children.total();
    let moment = |at| format!("{} UTC", time::moment(at));
    let lines = [
        ("run", Some(info.id.clone())),
        ("workflow", Some(info.workflow.clone())),
        ("status", Some(time::status(info, now))),
        ("note", time::note(info).map(ToOwned::to_owned)),
        ("parent", info.parent.as_ref().map(|parent| format!("{parent}{detached}"))),
        ("children", (total > 0).then(|| format!("{total}: {}", by_status(children)))),
        ("tags", Some(tags.join(" ")).filter(|tags| !tags.is_empty())),
        ("version", info.version.clone()),
        ("trace", info.traceparent.clone()),
        ("created", Some(moment(info.created_at))),
        ("started", info.started_at.map(moment)),
        ("ended", info.ended_at.map(moment)),
        ("took", json::duration(info, now).map(time::length)),
        ("run number", Some(info.run_number.to_string()).filter(|_| info.run_number > 1)),
        ("deadline", info.deadline.filter(|_| !info.status.is_ended()).map(moment)),
        ("recoveries", Some(info.recoveries.to_string()).filter(|_| info.recoveries > 0)),
        ("input", Some(info.input.to_string())),
        ("output", info.output.as_ref().map(ToString::to_string)),
        ("failure", info.failure.as_ref().map(ToString::to_string)),
    ];
    let mut grid = Grid::new(fit);
    for (name, value) in lines {
        if let Some(value) = value {
            let value = if name == "status" { table::status(info, now) } else { table::text(&value, fit) };
            grid.row(vec![name.into(), value]);
        }
    }
    for (name, value) in published {
        let shown = published::shown(name, value);
        grid.row(vec!["published".into(), table::text(&format!("{name} = {shown}"), fit)]);
    }
    grid.lay_out().0
}
