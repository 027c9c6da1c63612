//! The progress of the order, redrawn on a terminal below the log of events.

use std::io;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlive::EntryKind;

use super::snapshot::{OrderSnapshot, RUN_ID};
use crate::output::time;

/// The lines of the picture: title, operation in the journal, and the entry kind that ends it.
const LINES: [(&str, &str, EntryKind); 5] = [
    ("charge card", "step:charge card", EntryKind::StepDone),
    ("reserve stock", "step:reserve stock", EntryKind::StepDone),
    ("sleep 2 s", "sleep", EntryKind::SleepDone),
    ("approval", "wait:approval", EntryKind::SignalTaken),
    ("ship", "step:ship", EntryKind::StepDone),
];

/// The picture: a line per operation, and a status line.
pub(crate) struct Picture {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
    status: ProgressBar,
}

impl Picture {
    pub(crate) fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let status = all.add(ProgressBar::new_spinner());
        status.set_style(style("────────  {msg}"));
        let add = |title: &'static str| {
            let line = all.add(ProgressBar::new_spinner().with_prefix(title));
            line.set_style(style("  · {prefix:.dim}"));
            line.tick();
            line
        };
        let lines = LINES.iter().map(|(title, _, _)| add(title)).collect();
        Self { all, lines, status }
    }

    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        self.all.println(text)
    }

    pub(crate) fn show(&self, snapshot: &OrderSnapshot) {
        for (bar, (_, op, end)) in self.lines.iter().zip(LINES) {
            show_line(bar, snapshot, op, end);
        }
        self.status.set_message(format!("run {RUN_ID} is {}", time::status(&snapshot.info, time::now())));
        self.status.tick();
    }

    pub(crate) fn clear(&self) {
        // If the terminal cannot be written, writing the report fails too and reports it.
        let _ = self.all.clear();
    }
}

fn show_line(bar: &ProgressBar, snapshot: &OrderSnapshot, op: &str, end: EntryKind) {
    let attempts =
        snapshot.executions.iter().filter(|execution| op.strip_prefix("step:") == Some(&execution.step)).count();
    let times = match attempts {
        0 => String::new(),
        1 => "ran once".into(),
        times => format!("ran {times} times"),
    };
    let is_begun = attempts > 0 || snapshot.journal.iter().any(|entry| &*entry.op == op);
    if snapshot.journal.iter().any(|entry| &*entry.op == op && entry.kind == end) {
        bar.set_style(style("  ✓ {prefix:15} {msg:.dim}"));
        bar.set_message(times);
    } else if is_begun {
        bar.set_style(style("  {spinner:.cyan} {prefix:15.bold} {msg}"));
        bar.set_message(times);
    }
    bar.tick();
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
