//! ExportProgress bars for long operations, drawn on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlive::export::ExportProgress;

/// Creates a bar for runs, drawn on stderr if that is a terminal.
pub(crate) fn of_runs(done: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let template = "{spinner:.cyan} {wide_bar:.cyan} {human_pos} of {human_len} runs {msg}, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(done);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Creates a bar for the events of a queue.
pub(crate) fn of_events() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let template = "{spinner:.cyan} {wide_bar:.cyan} {human_pos} of {human_len} events handled, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Updates a bar.
pub(crate) fn show(bar: &ProgressBar, progress: ExportProgress) {
    bar.set_length(progress.total.max(progress.done));
    bar.set_position(progress.done);
}
