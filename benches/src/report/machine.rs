//! Describes the machine a benchmark ran on: enough to compare figures, and nothing that identifies it.

use std::fs;
use std::path::Path;

/// A description of a machine.
pub(crate) struct Machine {
    pub(crate) hardware: String,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
}

impl Machine {
    /// Describes this machine, and the file system of a folder.
    pub(crate) fn look(dir: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".to_owned());
        let memory = field("/proc/meminfo", "MemTotal");
        let kib = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let dir = dir.canonicalize().unwrap_or_default();
        Self {
            hardware: format!("{cores} cores, {cpu}, {} GiB", (kib + (1 << 19)) >> 20),
            kernel: format!("{} {}", std::env::consts::OS, release.trim()),
            file_system: file_system(&mounts, &dir).unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// Returns the value of the first line `name : value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

/// Returns the type of the file system mounted closest above a folder; the last one if several are mounted there.
fn file_system(mounts: &str, dir: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounts.filter(|(place, _)| dir.starts_with(place));
    above.max_by_key(|(place, _)| place.len()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_is_the_nearest_mount_above() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/b /run/disk xfs rw 0 0\n";
        let kind = |dir: &str| file_system(mounts, Path::new(dir)).expect("there is a root");
        assert_eq!(
            [kind("/home"), kind("/run/x"), kind("/run/disk/x"), kind("/runner")],
            ["ext4", "tmpfs", "xfs", "ext4"]
        );
    }
}
