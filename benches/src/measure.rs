//! Measures a workload in a temporary folder, together with the disk below it.

use std::path::Path;

use outlive::prelude::Result;

use crate::harness::figures::{Figures, Measured, WorkloadName};
use crate::harness::floor::Floor;
use crate::harness::setup::{Setup, THREADS};
use crate::workloads::runs::{many_short_runs, one_long_run};

/// Measures `n` runs of ten steps each, all started at once, in a temporary store below a folder.
///
/// ```no_run
/// # fn main() -> outlive::prelude::Result<()> {
/// println!("{}", outlive_bench::measure_many_short_runs(".".as_ref(), 20_000)?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If no store can be created there.
pub fn measure_many_short_runs(dir: &Path, n: u64) -> Result<Figures> {
    let folder = folder(dir)?;
    let setup = setup(folder.path(), n);
    measure(WorkloadName { id: "w1", name: "many-short-runs" }, &setup, many_short_runs::run(&setup))
}

/// Measures one run of `n` steps in sequence, in a temporary store below a folder.
///
/// ```no_run
/// # fn main() -> outlive::prelude::Result<()> {
/// println!("{}", outlive_bench::measure_one_long_run(".".as_ref(), 1_000)?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If no store can be created there.
pub fn measure_one_long_run(dir: &Path, n: u64) -> Result<Figures> {
    let folder = folder(dir)?;
    let setup = setup(folder.path(), n);
    measure(WorkloadName { id: "w2", name: "one-long-run" }, &setup, one_long_run::run(&setup))
}

fn setup(dir: &Path, n: u64) -> Setup {
    Setup { dir: dir.to_owned(), n, file: None, minutes: 0.0, threads: THREADS }
}

/// Runs a workload between two measurements of the disk.
pub(crate) fn measure(
    workload: WorkloadName<'_>,
    setup: &Setup,
    running: impl Future<Output = Result<Measured>>,
) -> Result<Figures> {
    if setup.n == 0 {
        return Err("n must be greater than zero".into());
    }
    let floor = Floor::before(&setup.dir)?;
    let measured = runtime(setup)?.block_on(running)?;
    Figures::of(workload, setup, measured, &floor.after(&setup.dir)?)
}

/// Creates a temporary folder on the disk to be measured.
pub(crate) fn folder(parent: &Path) -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("outlive-bench-").tempdir_in(parent);
    made.map_err(|error| {
        format!("failed to create a temporary folder in {parent:?}: {error}; choose another one with --dir").into()
    })
}

/// Creates the runtime of a workload.
pub(crate) fn runtime(setup: &Setup) -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(setup.threads.max(1)).enable_all().build()?)
}
