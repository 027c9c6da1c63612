//! Prints a journal as a table, whole or in parts that line up.

use comfy_table::Cell;
use outlive::{Entry, Timestamp};

use crate::output::entry::{self, EntryPayload};
use crate::output::table::{self, Fit, Grid};
use crate::output::time;

const COLUMNS: [&str; 9] = ["seq", "time", "kind", "operation", "attempt", "took", "due", "site", "value"];
/// The columns `due`, `took` and `site` are hidden if there is no room.
const SPARE: &[usize] = &[6, 5, 7];

/// The table of one journal, printed in parts.
pub(crate) struct JournalTable {
    fit: Fit,
    /// The day of the run: times on it are shown without a date.
    day: Timestamp,
    /// The column widths so far, or the initial ones.
    widths: Vec<u16>,
    /// `true` once the heading is printed.
    is_begun: bool,
}

impl JournalTable {
    pub(crate) fn new(fit: Fit, day: Timestamp) -> Self {
        Self { fit, day, widths: Vec::new(), is_begun: false }
    }

    /// Starts with widths that fit most journals, for a run whose later entries are not known yet.
    pub(crate) fn with_room(mut self) -> Self {
        self.widths = vec![3, 12, 14, 20, 7, 6, 8, 16, 0];
        self
    }

    /// Lays out the next entries, with the heading before the first.
    pub(crate) fn part(&mut self, entries: &[Entry]) -> String {
        let grid = Grid::new(self.fit);
        let grid = if self.is_begun { grid } else { grid.header(&COLUMNS) };
        self.is_begun = true;
        let mut grid = grid.spare(SPARE).widths(&self.widths);
        entries.iter().for_each(|entry| grid.row(self.cells(entry)));
        let (text, mut widths) = grid.lay_out();
        // The width of the last column says nothing about the next part.
        widths.last_mut().into_iter().for_each(|width| *width = 0);
        self.widths = widths;
        text
    }

    fn cells(&self, entry: &Entry) -> Vec<Cell> {
        let took = entry.started.map(|started| time::length(entry.at.since(started)));
        let due = entry::due(entry).map(|due| time::clock(due, self.day));
        vec![
            Cell::new(entry.seq),
            Cell::new(time::exact(entry.at, self.day)),
            Cell::new(entry::kind(entry)),
            table::text(&entry.op, self.fit),
            Cell::new(if entry.attempt > 0 { entry.attempt.to_string() } else { String::new() }),
            Cell::new(took.unwrap_or_default()),
            Cell::new(due.unwrap_or_default()),
            table::text(self.site(&entry.site), self.fit),
            table::text(&payload_text(entry), self.fit),
        ]
    }

    /// Returns the file with its directory, which is enough to find it, or the whole path.
    fn site<'a>(&self, site: &'a str) -> &'a str {
        match (self.fit, site.rmatch_indices(['/', '\\']).nth(1)) {
            (Fit::Terminal, Some((slash, _))) => &site[slash + 1..],
            _ => site,
        }
    }
}

fn payload_text(entry: &Entry) -> String {
    match EntryPayload::of(entry) {
        EntryPayload::Nothing => String::new(),
        EntryPayload::Value(value) => value.to_string(),
        EntryPayload::Reason(reason) => reason,
        EntryPayload::Failure { ended: Some(ended), failure } if ended != "error" => format!("{ended}: {failure}"),
        EntryPayload::Failure { failure, .. } => failure.to_string(),
        EntryPayload::Sent(to) if to.detached == Some(true) => format!("to {} (detached)", to.id),
        EntryPayload::Sent(to) => format!("to {}", to.id),
        EntryPayload::SendRefused { id, why } => format!("not to {id}: {why}"),
        EntryPayload::ChildCompleted(value) => format!("completed: {value}"),
        EntryPayload::ChildFailed { status: "cancelled", failure } => failure.to_string(),
        EntryPayload::ChildFailed { status, failure } => format!("{status}: {failure}"),
    }
}
