//! Exports of runs: files that people and programs can read, to be kept, sent and checked elsewhere.
//!
//! An export is JSON lines: a header, a line for each run with its journal and its inbox, and a last line with the
//! number of runs. The format is described in `docs/design/export-format.md`.

mod feed;
mod reader;
mod wire;
mod writer;

use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::Output;
use outlive_core::store::query::Instance;

pub use feed::Source;
pub(crate) use feed::{Feed, Reread};
pub use reader::{Header, Reader};
pub use writer::write;

pub use crate::error::{ExportError, ExportProblem};

/// Everything stored about one run.
///
/// ```
/// use outlive::export::Exported;
/// fn line(run: &Exported) -> String {
///     let entries = run.journal.as_ref().map_or(0, Vec::len);
///     format!("{}: {entries} entries", run.instance.id)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Exported {
    /// The run itself.
    pub instance: Instance,
    /// The journal, or what is wrong with the stored one.
    pub journal: Result<Vec<Entry>, String>,
    /// The messages not yet taken, or what is wrong with the stored ones.
    pub inbox: Result<Vec<Inbound>, String>,
    /// What the run has given out: values, streams and answers, or what is wrong with what is stored. Empty in a check.
    pub outputs: Result<Vec<Output>, String>,
}

/// The progress of an export or a check.
///
/// ```
/// fn percent(progress: outlive::export::ExportProgress) -> u64 {
///     progress.done * 100 / progress.total.max(1)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ExportProgress {
    /// The number of runs done.
    pub done: u64,
    /// The number of runs, as far as known; it may grow while the store is executed.
    pub total: u64,
}
