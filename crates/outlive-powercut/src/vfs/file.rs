//! An open file as SQLite sees it.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rusqlite::ffi;

use super::code;
use crate::disk::{Disk, Handle, REGION_BYTES};

/// The contents of the memory that SQLite provides for an open file.
#[repr(C)]
pub(super) struct VfsFile {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

struct Open {
    disk: Arc<Disk>,
    handle: Handle,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shared_map),
    xShmLock: Some(shared_lock),
    xShmBarrier: Some(shared_barrier),
    xShmUnmap: Some(shared_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Stores an open file where SQLite expects it, or returns the error code.
///
/// # Safety
/// There must be space for a [`VfsFile`] at `file`.
pub(super) unsafe fn put(file: *mut ffi::sqlite3_file, disk: Arc<Disk>, opened: Result<Handle, c_int>) -> c_int {
    let (methods, open, done) = match opened {
        Ok(handle) => (&raw const METHODS, Box::into_raw(Box::new(Open { disk, handle })), ffi::SQLITE_OK),
        // SQLite never closes a file without methods.
        Err(code) => (ptr::null(), ptr::null_mut(), code),
    };
    let base = ffi::sqlite3_file { pMethods: methods };
    // SAFETY: the caller guarantees the space, and SQLite aligns it for pointers.
    unsafe { file.cast::<VfsFile>().write(VfsFile { base, open }) };
    done
}

/// # Safety
/// `file` must have been opened by [`put`], must not be closed yet, and must not be used by anything else meanwhile.
unsafe fn open_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: guaranteed by the caller; SQLite uses a file from one thread at a time.
    unsafe { &mut *(*file.cast::<VfsFile>()).open }
}

/// Converts a length or an offset from SQLite.
fn place(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(0)
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes each file once, and `open` came from `Box::into_raw`.
    let open = unsafe { Box::from_raw((*file.cast::<VfsFile>()).open) };
    open.disk.close(&open.handle);
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite reads open files only.
    let open = unsafe { open_of(file) };
    // SAFETY: SQLite has space for `len` bytes there, used by nothing else.
    let into = unsafe { slice::from_raw_parts_mut(into.cast::<u8>(), place(len)) };
    code(open.disk.read(&open.handle, place(at), into))
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite writes open files only.
    let open = unsafe { open_of(file) };
    // SAFETY: SQLite has `len` bytes there that do not change meanwhile.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), place(len)) };
    code(open.disk.write(&open.handle, place(at), from))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: SQLite truncates open files only.
    let open = unsafe { open_of(file) };
    code(open.disk.truncate(&open.handle, place(len)))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite syncs open files only.
    let open = unsafe { open_of(file) };
    code(open.disk.sync(&mut open.handle))
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, answer: *mut i64) -> c_int {
    // SAFETY: SQLite measures open files only.
    let open = unsafe { open_of(file) };
    // SAFETY: SQLite has space for the result there.
    unsafe { *answer = i64::try_from(open.disk.len(&open.handle)).unwrap_or(i64::MAX) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite locks open files only.
    let open = unsafe { open_of(file) };
    code(open.disk.with_locks(&open.handle, |locks, handle| locks.raise(handle, level)))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite unlocks open files only.
    let open = unsafe { open_of(file) };
    open.disk.with_locks(&open.handle, |locks, handle| locks.lower(handle, level));
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved(file: *mut ffi::sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: SQLite asks about open files only.
    let open = unsafe { open_of(file) };
    let is_reserved = open.disk.with_locks(&open.handle, |locks, _| locks.is_reserved());
    // SAFETY: SQLite has space for the result there.
    unsafe { *answer = c_int::from(is_reserved) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

/// The value of SQLite's own VFS for ordinary disks.
unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4_096
}

/// The value of SQLite's own VFS for ordinary disks: a torn write harms no byte outside of it.
unsafe extern "C" fn characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shared_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    len: c_int,
    makes: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    assert_eq!(place(len), REGION_BYTES, "SQLite shares memory in regions of one size");
    // SAFETY: SQLite shares memory for open files only.
    let open = unsafe { open_of(file) };
    let shared = open.disk.share(&open.handle, place(index), makes != 0);
    let region = shared.ok().flatten().map_or(ptr::null_mut(), |region| region.cast_mut().cast::<c_void>());
    // SAFETY: SQLite has space for the result there.
    unsafe { *answer = region };
    code(shared.map(drop))
}

unsafe extern "C" fn shared_lock(file: *mut ffi::sqlite3_file, first: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite locks shared memory of open files only.
    let open = unsafe { open_of(file) };
    let mask = ((1_u32 << count) - 1) << first;
    code(open.disk.with_locks(&open.handle, |locks, handle| locks.slots(handle, mask, flags)))
}

unsafe extern "C" fn shared_barrier(_: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shared_unmap(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite gives back shared memory of open files only.
    let open = unsafe { open_of(file) };
    open.disk.unshare(&open.handle);
    ffi::SQLITE_OK
}
