//! The bar that shows how far a measurement has come, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on stderr; none if that is no terminal.
pub(crate) fn of(n: u64, what: &'static str) -> ProgressBar {
    styled(n, what, "{spinner:.cyan} {wide_bar:.cyan} {human_pos} of {human_len} {msg}, {eta} left")
}

/// A bar whose length is a guess in seconds, and that says what is being done.
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
