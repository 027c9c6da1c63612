//! A disk as SQLite sees it: each has its own VFS with its own name.

mod file;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::ffi;

use self::file::VfsFile;
use crate::disk::{Disk, Opening};

/// The longest file name, in bytes.
const PATH_MAX: c_int = 1_024;

/// Number of disks registered so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A registered VFS. Every file opened through it must be closed before this is dropped.
#[derive(Debug)]
pub(crate) struct Vfs {
    name: CString,
    disk: Arc<Disk>,
    raw: *mut ffi::sqlite3_vfs,
}

impl Vfs {
    /// Registers an empty disk with SQLite.
    pub(crate) fn register() -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("outlive-powercut-{number}")).unwrap_or_default();
        let disk = Arc::new(Disk::default());
        let raw = Box::into_raw(Box::new(table(name.as_ptr(), Arc::as_ptr(&disk))));
        // SAFETY: the table is complete, and it, the name and the disk live until `drop` has unregistered it.
        let code = unsafe { ffi::sqlite3_vfs_register(raw, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite registers any VFS that has a name");
        Self { name, disk, raw }
    }

    /// Returns the name under which SQLite knows it.
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    pub(crate) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        assert_eq!(self.disk.open_count(), 0, "a file is still open");
        // SAFETY: `raw` was registered by `register` and is unregistered only here.
        unsafe { ffi::sqlite3_vfs_unregister(self.raw) };
        // SAFETY: it came from `Box::into_raw`, and SQLite, which has no file open in it, no longer knows it.
        drop(unsafe { Box::from_raw(self.raw) });
    }
}

fn table(name: *const c_char, disk: *const Disk) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 1,
        szOsFile: c_int::try_from(size_of::<VfsFile>()).unwrap_or(c_int::MAX),
        mxPathname: PATH_MAX,
        pNext: ptr::null_mut(),
        zName: name,
        pAppData: disk.cast_mut().cast::<c_void>(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: None,
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// Returns the code for SQLite.
fn code(done: Result<(), c_int>) -> c_int {
    done.err().unwrap_or(ffi::SQLITE_OK)
}

/// # Safety
/// `vfs` must be one that [`Vfs::register`] made and that is still registered.
unsafe fn disk_of(vfs: *mut ffi::sqlite3_vfs) -> Arc<Disk> {
    // SAFETY: the caller guarantees that `vfs` is valid, and its data is the disk that `Vfs` keeps alive.
    let disk = unsafe { (*vfs).pAppData.cast::<Disk>() };
    // SAFETY: the disk is held in an `Arc`, and this adds one reference.
    unsafe { Arc::increment_strong_count(disk) };
    // SAFETY: this takes the reference that was just added.
    unsafe { Arc::from_raw(disk) }
}

/// Returns the name of a file without its folder: a disk has only one.
///
/// # Safety
/// `path` must be a C string.
unsafe fn name_of<'a>(path: *const c_char) -> Option<&'a str> {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    path.rsplit('/').next()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let journals = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;
    let opening = Opening {
        // The store creates an empty file before SQLite opens it, and does so outside the VFS.
        makes: flags & (ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_MAIN_DB) != 0,
        // As in SQLite's own VFS: only for a log or journal that may be new.
        syncs_folder: flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & journals != 0,
        is_passing: flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0,
    };
    // SAFETY: SQLite calls this with the table that was registered.
    let disk = unsafe { disk_of(vfs) };
    // SAFETY: SQLite gives a C string, or null for a file without a name.
    let name = if name.is_null() { None } else { unsafe { name_of(name) } };
    if !flags_out.is_null() {
        // SAFETY: it is not null, so SQLite has space for the result there.
        unsafe { *flags_out = flags };
    }
    let opened = disk.open(name, opening);
    // SAFETY: SQLite provides `szOsFile` bytes, which is the size of a `VfsFile`.
    unsafe { file::put(file, disk, opened) }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, syncs_folder: c_int) -> c_int {
    // SAFETY: SQLite calls this with the table that was registered.
    let disk = unsafe { disk_of(vfs) };
    // SAFETY: SQLite gives a C string.
    let Some(name) = (unsafe { name_of(name) }) else { return ffi::SQLITE_IOERR_DELETE };
    code(disk.delete(name, syncs_folder != 0))
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with the table that was registered.
    let disk = unsafe { disk_of(vfs) };
    // SAFETY: SQLite gives a C string.
    let len = unsafe { name_of(name) }.and_then(|name| disk.len_of(name));
    // As in SQLite's own VFS: an empty file does not count as existing.
    let is_there = len.is_some_and(|len| len > 0 || flags != ffi::SQLITE_ACCESS_EXISTS);
    // SAFETY: SQLite has space for the result there.
    unsafe { *answer = c_int::from(is_there) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_path(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    answer: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a C string.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if bytes.len() > usize::try_from(room).unwrap_or(0) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: there is space for `room` bytes, which is enough, and it does not overlap the name.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast::<c_char>(), answer, bytes.len()) };
    ffi::SQLITE_OK
}

/// SQLite seeds its random numbers from the system's VFS; none that matter come from this one.
unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, len: c_int, answer: *mut c_char) -> c_int {
    // SAFETY: SQLite has space for `len` bytes there.
    unsafe { ptr::write_bytes(answer, 7, usize::try_from(len).unwrap_or(0)) };
    len
}

/// Sleeps much less than requested: no lock is held for long here.
unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    thread::sleep(Duration::from_micros(50));
    micros
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, answer: *mut f64) -> c_int {
    // SAFETY: SQLite has space for the result there.
    unsafe { *answer = 2_460_000.5 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    ffi::SQLITE_OK
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, ErrorCode, OpenFlags};

    use super::*;

    fn connect(vfs: &Vfs) -> Connection {
        let connection = Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), vfs.name()).expect("opens");
        connection.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())).expect("is in WAL mode");
        connection
    }

    #[test]
    fn two_connections_share_a_file_and_take_turns_writing() {
        let vfs = Vfs::register();
        let (first, second) = (connect(&vfs), connect(&vfs));
        first.execute_batch("CREATE TABLE t (n INTEGER); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").expect("writes");
        second.busy_timeout(Duration::ZERO).expect("does not wait");
        let busy = second.execute_batch("BEGIN IMMEDIATE").expect_err("the first one is writing");
        assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
        let count = || second.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(count(), Ok(0));
        first.execute_batch("COMMIT").expect("commits");
        assert_eq!(count(), Ok(1));
        second.execute_batch("INSERT INTO t VALUES (2)").expect("the first one is done");
    }

    #[test]
    fn disks_are_independent() {
        let (one, other) = (Vfs::register(), Vfs::register());
        connect(&one).execute_batch("CREATE TABLE t (n INTEGER)").expect("writes");
        connect(&other).execute_batch("CREATE TABLE t (n INTEGER)").expect("the other one has no such table");
    }

    #[test]
    fn last_connection_to_close_removes_the_wal() {
        let vfs = Vfs::register();
        let (first, second) = (connect(&vfs), connect(&vfs));
        first.execute_batch("CREATE TABLE t (n INTEGER)").expect("writes");
        drop(first);
        assert!(vfs.disk().len_of("a.db-wal").is_some_and(|len| len > 0));
        drop(second);
        assert_eq!((vfs.disk().len_of("a.db-wal"), vfs.disk().open_count()), (None, 0));
    }
}
