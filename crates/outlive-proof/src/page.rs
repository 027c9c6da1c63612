//! The page that says what was tried, made of the figures that the tools have kept.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::figures::Figures;

const HEAD: &str = "# Proof

What was tried to break the promises of [GUARANTEES](../GUARANTEES.md), how often, and how to try again. This page is
written by the tools themselves: `./prove --page docs/PROOF.md`.
";

/// Writes the page from what is kept.
pub(crate) fn write(path: &Path) -> io::Result<()> {
    let mut page = HEAD.to_owned();
    for figures in Figures::kept()? {
        add(&mut page, &figures);
    }
    fs::write(path, page)
}

fn add(page: &mut String, figures: &Figures) {
    let form = if figures.is_long { "long form" } else { "short form, as in CI" };
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "\n## {} ({form})\n{}\n\n```sh\n{}\n```\n\n| | |\n|---|---|\n",
        figures.tool, figures.sentence, figures.command
    );
    for (what, figure) in &figures.lines {
        let _ = writeln!(page, "| {what} | {figure} |");
    }
    let _ = writeln!(page, "| time | {:.1} s, {:.1} CPU-s |", figures.secs, figures.cpu_secs);
}
