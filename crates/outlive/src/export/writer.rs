//! Writes an export page by page, while the store may be executed.

use std::io::{self, Write};

use outlive_core::store::query::Filter;
use serde::Serialize;

use super::ExportProgress;
use super::feed::{Feed, Source};
use super::wire::{EndLine, FORMAT, HeaderLine, RunLine, VERSION};
use crate::clock::{Clock as _, SystemClock};
use crate::error::{Error, ExportError, ExportProblem};

/// Writes the runs that match a filter as an export, and returns their number. The source is not changed.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// # let engine = Engine::open(&path).workflow("nap", nap).start().await?;
/// # engine.start(nap, &()).id("n-1").await?;
/// let mut file = Vec::new();
/// let runs = outlive::export::write(&*path, Filter::runs().workflow("nap"), &mut file, |_| {}).await?;
/// assert_eq!((runs, String::from_utf8(file)?.lines().count()), (1, 3));
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the source cannot be read or the export cannot be written.
pub async fn write(
    source: impl Into<Source>,
    filter: Filter,
    out: &mut impl Write,
    mut progress: impl FnMut(ExportProgress),
) -> Result<u64, Error> {
    let source = source.into();
    let name = source.name();
    let mut feed = Feed::open(source, filter).await?.with_outputs();
    let at = SystemClock.now().as_millis();
    let header = HeaderLine { format: FORMAT.to_owned(), version: VERSION, source: name, at, runs: feed.total() };
    line(out, &header, 0)?;
    let mut done = 0;
    loop {
        let runs = feed.next().await?;
        if runs.is_empty() {
            break;
        }
        for run in runs {
            line(out, &RunLine::of(&run), done + 1)?;
            done += 1;
            progress(ExportProgress { done, total: feed.total().max(done) });
        }
    }
    line(out, &EndLine { end: done }, done + 1)?;
    out.flush().map_err(|error| unwritten(&error, done + 2))?;
    Ok(done)
}

fn line(out: &mut impl Write, what: &impl Serialize, before: u64) -> Result<(), Error> {
    let text = serde_json::to_vec(what).map_err(|error| unwritten(&error.into(), before + 1))?;
    out.write_all(&text).and_then(|()| out.write_all(b"\n")).map_err(|error| unwritten(&error, before + 1))
}

fn unwritten(error: &io::Error, line: u64) -> Error {
    Error::Export(ExportError { line, problem: ExportProblem::Unwritten(error.to_string()) })
}
