//! The page that says what was tried, made of the figures that the tools have kept.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::figures::Figures;
use crate::tools::Tool;

const HEAD: &str = "# Proof

What was tried to break the promises of [GUARANTEES](../GUARANTEES.md), how often, and how to try again. This page is
written by the tools themselves: `./prove --page docs/PROOF.md`.
";

/// How much of a text is shown in a table.
const CELL_MAX: usize = 160;

/// Writes the page from what is kept.
pub(crate) fn write(path: &Path) -> io::Result<()> {
    let mut kept = Figures::kept()?;
    let place = |figures: &Figures| Tool::all().iter().position(|tool| tool.name() == figures.tool);
    kept.sort_by_key(|figures| (place(figures), figures.is_long));
    let mut page = HEAD.to_owned();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Writing to a string cannot fail.
    let _ = writeln!(page, "\nAll figures are from {} with {cores} cores.", std::env::consts::OS);
    for figures in &kept {
        add(&mut page, figures);
    }
    fs::write(path, page)
}

fn add(page: &mut String, figures: &Figures) {
    let form = if figures.is_long { "long form" } else { "short form, as in CI" };
    let _ = write!(
        page,
        "\n## {} ({form})\n{}\n\n```sh\n{}\n```\n\n| | |\n|---|---|\n",
        figures.tool, figures.sentence, figures.command
    );
    for (what, figure) in &figures.lines {
        let _ = writeln!(page, "| {} | {} |", cell(what), cell(figure));
    }
    let _ = writeln!(page, "| time | {:.1} s, {:.1} CPU-s |", figures.secs, figures.cpu_secs);
}

/// A text that fits into a table.
fn cell(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(CELL_MAX).collect();
    let end = if short.len() < line.len() { "…" } else { "" };
    format!("{}{end}", short.replace('|', "\\|"))
}
