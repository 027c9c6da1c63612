//! Decides which I/O operation fails, how, and for how long.

use std::ffi::c_int;

use rusqlite::ffi;

/// A kind of I/O operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Io {
    Open,
    Read,
    Write,
    Truncate,
    Sync,
    Delete,
    /// Mapping memory that connections share.
    Map,
}

/// A kind of disk trouble.
///
/// ```
/// use outlive_powercut::Trouble;
/// assert_eq!(Trouble::ALL.len(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// I/O errors: opens, reads, writes, truncations, syncs, deletions and maps fail.
    Failing,
    /// The disk is full: writes fail.
    Full,
}

impl Trouble {
    /// All kinds of trouble.
    ///
    /// ```
    /// # use outlive_powercut::Trouble;
    /// assert!(Trouble::ALL.contains(&Trouble::Full));
    /// ```
    pub const ALL: [Self; 2] = [Self::Failing, Self::Full];
}

/// The duration of the trouble.
///
/// ```
/// use outlive_powercut::Lasting;
/// assert_ne!(Lasting::Once, Lasting::UntilRepaired);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// One I/O operation fails.
    Once,
    /// All I/O operations fail from that one on, until the disk is repaired.
    UntilRepaired,
}

/// A fault from the `nth` I/O operation on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) trouble: Trouble,
    pub(crate) lasting: Lasting,
    /// The first operation that fails: 1 is the next.
    pub(crate) nth: u64,
}

/// Counts I/O operations, and makes them fail when due.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    fault: Option<Fault>,
    /// Number of operations since the fault was set that could have failed.
    count: u64,
    /// Number of operations that have failed.
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
    /// The code to return to SQLite, if this operation fails.
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

/// Returns the code that SQLite's own VFS would.
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
