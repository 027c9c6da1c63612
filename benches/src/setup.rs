//! What a workload is given to work with.

use std::path::PathBuf;

/// Where, and how much.
pub(crate) struct Setup {
    /// A folder on the disk that is measured, empty.
    pub(crate) dir: PathBuf,
    /// How many; of what, each workload says.
    pub(crate) n: u64,
    /// A store to work on, if not a new one in the folder.
    pub(crate) file: Option<PathBuf>,
    /// How long a soak lasts, or j3.
    pub(crate) minutes: f64,
    /// Worker threads of the runtime.
    pub(crate) threads: usize,
}

impl Setup {
    /// The store to work on.
    pub(crate) fn store(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.dir.join("bench.db"))
    }
}
