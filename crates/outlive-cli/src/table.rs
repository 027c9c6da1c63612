//! Tables for people: columns without lines, the last one cut to the width of the terminal.

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use outlive::{Status, StatusKind, Timestamp};

use crate::escape::plain;
use crate::time;

/// How much of a table is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// What the terminal has room for.
    Terminal,
    /// All of it.
    All,
}

/// The width where there is no terminal.
const WIDTH_WITHOUT_TERMINAL: u16 = 160;
/// The last column has at least this much room.
const LAST_MIN: u16 = 20;
/// Between two columns.
const GAP: u16 = 2;
/// Longer texts are cut before they are laid out, which is slow for a megabyte.
const LAID_OUT_MAX: usize = 1_000;

/// A table that is filled row by row.
pub(crate) struct Grid {
    table: Table,
    fit: Fit,
    /// Columns that go if there is no room, the first to go first.
    spare: &'static [usize],
    /// The least widths, so that parts of one table that are written one after the other line up.
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

    /// Lays it out. Gives the text and the widths it came to.
    pub(crate) fn lay_out(mut self) -> (String, Vec<u16>) {
        let mut widths = self.table.column_max_content_widths();
        for (width, least) in widths.iter_mut().zip(&self.widths) {
            *width = (*width).max(*least);
        }
        if self.fit == Fit::Terminal {
            self.fit_to(self.table.width().unwrap_or(WIDTH_WITHOUT_TERMINAL), &widths);
        }
        self.table.column_iter_mut().for_each(|column| {
            column.set_padding((0, GAP));
        });
        (self.table.trim_fmt(), widths)
    }

    fn fit_to(&mut self, room: u16, widths: &[u16]) {
        let Some(last) = widths.len().checked_sub(1) else { return };
        let mut used: u16 = widths[..last].iter().fold(0, |sum, width| sum.saturating_add(width + GAP));
        for column in self.spare {
            if used.saturating_add(LAST_MIN) > room {
                used = used.saturating_sub(widths[*column] + GAP);
                self.constrain(*column, ColumnConstraint::Hidden);
            }
        }
        for (column, width) in widths[..last].iter().enumerate() {
            if self.table.column(column).is_some_and(|column| !column.is_hidden()) {
                self.constrain(column, ColumnConstraint::Absolute(Width::Fixed(width + GAP)));
            }
        }
        let rest = room.saturating_sub(used).max(LAST_MIN).min(widths[last].max(1) + GAP);
        self.constrain(last, ColumnConstraint::Absolute(Width::Fixed(rest)));
    }

    fn constrain(&mut self, column: usize, constraint: ColumnConstraint) {
        if let Some(column) = self.table.column_mut(column) {
            column.set_constraint(constraint);
        }
    }
}

/// A cell of text that may hold anything.
pub(crate) fn text(content: &str, fit: Fit) -> Cell {
    match fit {
        Fit::All => Cell::new(plain(content)),
        Fit::Terminal => Cell::new(plain(&content.chars().take(LAID_OUT_MAX).collect::<String>())),
    }
}

/// A cell with a status.
pub(crate) fn status(status: Status, now: Timestamp) -> Cell {
    let cell = Cell::new(plain(&time::status(status, now)));
    match status.kind() {
        StatusKind::Completed => cell.fg(Color::Green),
        StatusKind::Failed | StatusKind::Stuck => cell.fg(Color::Red),
        StatusKind::Cancelled => cell.fg(Color::Yellow),
        StatusKind::Running => cell.fg(Color::Cyan),
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
    fn the_last_column_is_cut_unless_all_is_asked_for() {
        let long = "word ".repeat(100);
        let cut = two_columns(Fit::Terminal, &long);
        assert!(cut.lines().all(|line| line.chars().count() <= usize::from(WIDTH_WITHOUT_TERMINAL)), "{cut}");
        assert!(cut.lines().count() == 2 && cut.ends_with('…') || cut.contains("..."), "{cut}");
        assert!(two_columns(Fit::All, &long).contains(long.trim()));
    }

    #[test]
    fn spare_columns_go_when_there_is_no_room() {
        let mut grid = Grid::new(Fit::Terminal).header(&["id", "site", "note"]).spare(&[1]);
        grid.row(vec![Cell::new("x".repeat(100)), Cell::new("y".repeat(100)), Cell::new("z")]);
        let shown = grid.lay_out().0;
        assert!(!shown.contains('y') && shown.contains('z'), "{shown}");
    }
}
