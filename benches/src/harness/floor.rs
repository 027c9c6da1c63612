//! Measures the disk itself: the floor under every durable write.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use outlive::prelude::Result;

use crate::harness::numbers::percentile;

/// Number of syncs in one measurement, and the limit on its duration: some disks take long for each.
pub(crate) const SYNCS: usize = 300;
const ASKING_MAX: Duration = Duration::from_millis(250);
/// Number of steps in the append log, and how many it syncs at a time.
const LOGGED: u64 = 200_000;
const LOGGED_AT_ONCE: u64 = 1_000;

/// Syncs of the disk, measured around a workload.
pub(crate) struct Floor {
    syncs: Vec<Duration>,
}

impl Floor {
    /// Measures the disk before the workload.
    pub(crate) fn before(dir: &Path) -> Result<Self> {
        Ok(Self { syncs: syncs(dir)? })
    }

    /// Measures it again: a shared disk may be slower by now.
    pub(crate) fn after(mut self, dir: &Path) -> Result<Self> {
        self.syncs.extend(syncs(dir)?);
        self.syncs.sort();
        Ok(self)
    }

    /// Returns a percentile of appending a page with an fdatasync.
    pub(crate) fn sync_us(&self, percent: usize) -> Option<f64> {
        percentile(&self.syncs, percent).map(|sync| sync.as_nanos() as f64 / 1e3)
    }
}

fn syncs(dir: &Path) -> Result<Vec<Duration>> {
    let mut file = File::create(dir.join("floor"))?;
    let page = [7_u8; 4096];
    let mut times = Vec::with_capacity(SYNCS);
    let begun = Instant::now();
    while times.len() < SYNCS && begun.elapsed() < ASKING_MAX {
        let start = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Returns the steps per second of a plain append log that syncs after as many bytes as a batch of steps has.
pub(crate) fn append_log(dir: &Path) -> Result<f64> {
    let path = dir.join("log");
    let mut file = File::create(&path)?;
    let bytes = vec![b'x'; 200 * usize::try_from(LOGGED_AT_ONCE)?];
    let (start, mut logged) = (Instant::now(), 0);
    while logged < LOGGED && start.elapsed() < 2 * ASKING_MAX {
        file.write_all(&bytes)?;
        file.sync_data()?;
        logged += LOGGED_AT_ONCE;
    }
    let rate = logged as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}
