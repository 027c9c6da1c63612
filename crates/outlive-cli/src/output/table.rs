//! Tables for people: columns without borders, truncated to the width of the terminal.

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use outlive::job::JobStatus;
use outlive::{RunInfo, StatusKind, Timestamp};

use crate::output::escape::plain;
use crate::output::time;

/// How much of a table is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// What the terminal has room for.
    Terminal,
    /// Everything.
    All,
}

/// The width without a terminal.
const WIDTH_WITHOUT_TERMINAL: u16 = 160;
/// The minimum width of the last column.
const LAST_MIN: u16 = 20;
/// The width below which columns are not truncated.
const COLUMN_MIN: u16 = 8;
/// The space between two columns.
const GAP: u16 = 2;
/// Longer texts are truncated before layout, which is slow for a megabyte.
const LAID_OUT_MAX: usize = 1_000;

/// A table filled row by row.
pub(crate) struct Grid {
    table: Table,
    fit: Fit,
    /// Columns to hide if there is no room, in this order.
    spare: &'static [usize],
    /// The minimum widths, so that parts of a table printed one after another line up.
    widths: Vec<u16>,
}

impl Grid {
    pub(crate) fn new(fit: Fit) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(match fit {
            Fit::Terminal => ContentArrangement::Dynamic,
            Fit::All => ContentArrangement::Disabled,
        });
        Self { table, fit, spare: &[], widths: Vec::new() }
    }

    pub(crate) fn header(mut self, names: &[&str]) -> Self {
        self.table.set_header(names.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        self
    }

    pub(crate) fn spare(mut self, columns: &'static [usize]) -> Self {
        self.spare = columns;
        self
    }

    pub(crate) fn widths(mut self, widths: &[u16]) -> Self {
        self.widths = widths.to_vec();
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        let mut row = Row::from(cells);
        if self.fit == Fit::Terminal {
            row.max_height(1);
        }
        self.table.add_row(row);
    }

    /// Lays out the table. Returns the text and the column widths.
    pub(crate) fn lay_out(mut self) -> (String, Vec<u16>) {
        let mut widths = self.table.column_max_content_widths();
        for (width, least) in widths.iter_mut().zip(&self.widths) {
            *width = (*width).max(*least);
        }
        if self.fit == Fit::Terminal {
            let room = self.table.width().or_else(columns).unwrap_or(WIDTH_WITHOUT_TERMINAL);
            self.fit_to(room, &widths);
        }
        self.table.column_iter_mut().for_each(|column| {
            column.set_padding((0, GAP));
        });
        (self.table.trim_fmt(), widths)
    }

    /// Makes all columns fit: hides spare ones, then truncates the widest, and gives the last one the rest.
    fn fit_to(&mut self, room: u16, widths: &[u16]) {
        let Some((last, firsts)) = widths.split_last() else { return };
        let mut shown: Vec<Option<u16>> = firsts.iter().copied().map(Some).collect();
        let used = |shown: &[Option<u16>]| {
            shown.iter().flatten().fold(0_u16, |sum, width| sum.saturating_add(*width).saturating_add(GAP))
        };
        for column in self.spare {
            if used(&shown).saturating_add(LAST_MIN) > room {
                shown[*column] = None;
                self.constrain(*column, ColumnConstraint::Hidden);
            }
        }
        while used(&shown).saturating_add(LAST_MIN) > room {
            match shown.iter_mut().flatten().max() {
                Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
                _ => break,
            }
        }
        for (column, width) in shown.iter().enumerate() {
            if let Some(width) = width {
                self.constrain(column, ColumnConstraint::Absolute(Width::Fixed(width.saturating_add(GAP))));
            }
        }
        let rest = room.saturating_sub(used(&shown)).max(LAST_MIN).min(last.saturating_add(GAP).max(1 + GAP));
        self.constrain(firsts.len(), ColumnConstraint::Absolute(Width::Fixed(rest)));
    }

    fn constrain(&mut self, column: usize, constraint: ColumnConstraint) {
        if let Some(column) = self.table.column_mut(column) {
            column.set_constraint(constraint);
        }
    }
}

/// Returns the width from the environment variable `COLUMNS`, if set.
fn columns() -> Option<u16> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// Returns a cell with arbitrary text, escaped.
pub(crate) fn text(content: &str, fit: Fit) -> Cell {
    match fit {
        Fit::All => Cell::new(plain(content)),
        Fit::Terminal => Cell::new(plain(&content.chars().take(LAID_OUT_MAX).collect::<String>())),
    }
}

/// Returns a cell with the status of a run.
pub(crate) fn status(run: &RunInfo, now: Timestamp) -> Cell {
    let cell = Cell::new(plain(&time::status(run, now)));
    match run.status.kind() {
        StatusKind::Completed => cell.fg(Color::Green),
        StatusKind::Failed | StatusKind::Stuck => cell.fg(Color::Red),
        StatusKind::Cancelled => cell.fg(Color::Yellow),
        StatusKind::Running => cell.fg(Color::Cyan),
        _ => cell,
    }
}

/// Returns a cell with the status of an instance.
pub(crate) fn job_status(status: JobStatus) -> Cell {
    let cell = Cell::new(status.as_str());
    match status {
        JobStatus::Running => cell.fg(Color::Cyan),
        JobStatus::Stopped => cell.fg(Color::Yellow),
        JobStatus::Stuck => cell.fg(Color::Red),
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_columns(fit: Fit, last: &str) -> String {
        let mut grid = Grid::new(fit).header(&["id", "note"]);
        grid.row(vec![Cell::new("a"), text(last, fit)]);
        grid.lay_out().0
    }

    #[test]
    fn last_column_is_truncated_unless_everything_is_requested() {
        let long = "word ".repeat(100);
        let cut = two_columns(Fit::Terminal, &long);
        assert!(cut.lines().all(|line| line.chars().count() <= usize::from(WIDTH_WITHOUT_TERMINAL)), "{cut}");
        assert!(cut.lines().count() == 2 && cut.ends_with('…') || cut.contains("..."), "{cut}");
        assert!(two_columns(Fit::All, &long).contains(long.trim()));
    }

    #[test]
    fn widest_columns_are_truncated_until_all_fit() {
        for room in [60, 80, 120] {
            let mut grid = Grid::new(Fit::Terminal).header(&["id", "workflow", "status", "note"]);
            grid.row(vec![
                Cell::new("x".repeat(200)),
                Cell::new("y".repeat(90)),
                Cell::new("paused"),
                Cell::new("z".repeat(300)),
            ]);
            let widths = grid.table.column_max_content_widths();
            grid.fit_to(room, &widths);
            let shown = grid.table.trim_fmt();
            let longest = shown.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(longest <= usize::from(room), "{longest} in {room}:\n{shown}");
            assert!(shown.contains("paused") && shown.contains("zzzzz"), "{shown}");
        }
    }

    #[test]
    fn spare_columns_are_dropped_when_there_is_no_room() {
        let mut grid = Grid::new(Fit::Terminal).header(&["id", "site", "note"]).spare(&[1]);
        grid.row(vec![Cell::new("x".repeat(100)), Cell::new("y".repeat(100)), Cell::new("z")]);
        let shown = grid.lay_out().0;
        assert!(!shown.contains('y') && shown.contains('z'), "{shown}");
    }
}
