//! The inputs of a workload.

use std::path::PathBuf;

/// The default number of worker threads; the store has its own threads besides.
pub(crate) const THREADS: usize = 2;

/// The place and amount of a measurement.
pub(crate) struct Setup {
    /// An empty folder on the disk to be measured.
    pub(crate) dir: PathBuf,
    /// How many; of what depends on the workload.
    pub(crate) n: u64,
    /// A store to use instead of a new one in the folder.
    pub(crate) file: Option<PathBuf>,
    /// How long workloads with a fixed duration last.
    pub(crate) minutes: f64,
    /// Worker threads of the runtime.
    pub(crate) threads: usize,
}

impl Setup {
    /// Returns the store to use.
    pub(crate) fn store(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.dir.join("bench.db"))
    }
}
