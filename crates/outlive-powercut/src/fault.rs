//! Which I/O fails, how, and for how long.

use std::ffi::c_int;

use rusqlite::ffi;

/// What is asked of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Io {
    Open,
    Read,
    Write,
    Truncate,
    Sync,
    Delete,
    /// Memory that connections share.
    Map,
}

/// What is wrong with a disk.
///
/// ```
/// use outlive_powercut::Trouble;
/// assert_eq!(Trouble::ALL.len(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It fails: opens, reads, writes, truncations, syncs, deletions and maps.
    Failing,
    /// It is full: writes fail.
    Full,
}

impl Trouble {
    /// All of them.
    ///
    /// ```
    /// # use outlive_powercut::Trouble;
    /// assert!(Trouble::ALL.contains(&Trouble::Full));
    /// ```
    pub const ALL: [Self; 2] = [Self::Failing, Self::Full];
}

/// How long it is wrong.
///
/// ```
/// use outlive_powercut::Lasting;
/// assert_ne!(Lasting::Once, Lasting::UntilRepaired);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// One I/O fails.
    Once,
    /// From that one on all of them fail, until somebody repairs the disk.
    UntilRepaired,
}

/// What goes wrong from the `nth` I/O on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) trouble: Trouble,
    pub(crate) lasting: Lasting,
    /// Which one fails first: 1 is the next.
    pub(crate) nth: u64,
}

/// Counts I/O, and has it fail when it is time.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    fault: Option<Fault>,
    /// How many I/O that could have failed there have been since the fault was set.
    count: u64,
    /// How many have failed.
    failed: u64,
}

impl Faults {
    pub(crate) fn set(&mut self, fault: Option<Fault>) {
        *self = Self { fault, count: 0, failed: self.failed };
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// # Errors
    /// What SQLite is to be told, if it is time.
    pub(crate) fn meet(&mut self, io: Io) -> Result<(), c_int> {
        let Some(Fault { trouble, lasting, nth }) = self.fault else { return Ok(()) };
        if trouble == Trouble::Full && io != Io::Write {
            return Ok(());
        }
        self.count += 1;
        if self.count == nth || self.count > nth && lasting == Lasting::UntilRepaired {
            self.failed += 1;
            return Err(code(trouble, io));
        }
        Ok(())
    }
}

/// What SQLite's own VFS would say.
fn code(trouble: Trouble, io: Io) -> c_int {
    match (trouble, io) {
        (Trouble::Full, _) => ffi::SQLITE_FULL,
        (Trouble::Failing, Io::Open) => ffi::SQLITE_CANTOPEN,
        (Trouble::Failing, Io::Read) => ffi::SQLITE_IOERR_READ,
        (Trouble::Failing, Io::Write) => ffi::SQLITE_IOERR_WRITE,
        (Trouble::Failing, Io::Truncate) => ffi::SQLITE_IOERR_TRUNCATE,
        (Trouble::Failing, Io::Sync) => ffi::SQLITE_IOERR_FSYNC,
        (Trouble::Failing, Io::Delete) => ffi::SQLITE_IOERR_DELETE,
        (Trouble::Failing, Io::Map) => ffi::SQLITE_IOERR_SHMMAP,
    }
}
