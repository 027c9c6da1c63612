//! Progress bars for measurements, shown on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a bar on stderr, hidden if that is not a terminal.
pub(crate) fn of(n: u64, what: &'static str) -> ProgressBar {
    styled(n, what, "{spinner:.cyan} {wide_bar:.cyan} {human_pos} of {human_len} {msg}, {eta} left")
}

/// Creates a bar whose length is an estimate in seconds, and that shows what is being done.
pub(crate) fn of_stages(secs: u64) -> ProgressBar {
    styled(secs, "", "{spinner:.cyan} {wide_bar:.cyan} {percent} % {elapsed} {msg}")
}

fn styled(n: u64, what: &'static str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(n);
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
