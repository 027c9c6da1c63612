//! Runs in a file that people and programs can read, to be kept, sent and checked elsewhere.
//!
//! An export is JSON lines: a header, a line for each run with its journal and its inbox, and a last line that says how
//! many there are. The format is described in `docs/design/export-format.md`.

mod feed;
mod reader;
mod wire;
mod writer;

use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::query::Instance;

pub use feed::Source;
pub(crate) use feed::{Again, Feed};
pub use reader::{Header, Reader};
pub use writer::write;

pub use crate::error::{ExportError, ExportProblem};

/// All that is kept of one run.
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
    /// What it has done, or what is wrong with what is stored of that.
    pub journal: Result<Vec<Entry>, String>,
    /// What has come and is not taken yet, or what is wrong with what is stored of that.
    pub inbox: Result<Vec<Inbound>, String>,
}

/// How far something has come.
///
/// ```
/// fn percent(progress: outlive::export::Progress) -> u64 {
///     progress.done * 100 / progress.total.max(1)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// How many runs are done.
    pub done: u64,
    /// How many there are, as far as that is known; it may grow in a store that is at work.
    pub total: u64,
}
