//! An in-memory disk that records what was done to it, in order.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::fault::{Fault, Faults, Io};
use crate::locks::{HandleNum, Locks};
use crate::log::{self, FileNum, Image, Op};

/// Size of a shared memory region in bytes: SQLite asks for no other size.
pub(crate) const REGION_BYTES: usize = 32_768;

/// The effect of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Syncs {
    /// Makes data durable.
    #[default]
    Honest,
    /// Does nothing, and reports success.
    Lying,
}

/// A disk, shared by everything that has it open.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<State>);

/// An open file.
#[derive(Debug)]
pub(crate) struct Handle {
    num: HandleNum,
    file: FileNum,
    /// Whether its next sync makes names durable too.
    syncs_folder: bool,
    /// The name of a file that is removed when it is closed.
    is_passing: Option<Arc<str>>,
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Whether to create it if it does not exist.
    pub(crate) makes: bool,
    /// Whether its first sync makes names durable too.
    pub(crate) syncs_folder: bool,
    /// Whether it is removed when it is closed.
    pub(crate) is_passing: bool,
}

/// Memory that connections share, by file. Atomics, as several threads write it through SQLite.
type Region = Box<[AtomicU64]>;

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<Arc<str>, FileNum>,
    files: Vec<File>,
    handle_last: HandleNum,
    open_count: usize,
    log: Vec<Op>,
    is_recording: bool,
    syncs: Syncs,
    faults: Faults,
}

#[derive(Debug, Default)]
struct File {
    content: Vec<u8>,
    locks: Locks,
    shared: Vec<Region>,
}

/// The interface for tests.
impl Disk {
    /// Replaces the contents of the disk.
    pub(crate) fn insert(&self, image: Image, syncs: Syncs) {
        let mut state = self.state();
        assert_eq!(state.open_count, 0, "all files must be closed before the disk is replaced");
        let mut names = BTreeMap::new();
        let mut files = Vec::new();
        for (name, content) in image {
            names.insert(name, files.len());
            files.push(File { content, ..File::default() });
        }
        let handle_last = state.handle_last;
        *state = State { names, files, handle_last, syncs, ..State::default() };
    }

    /// Starts recording operations.
    pub(crate) fn record(&self) {
        self.state().is_recording = true;
    }

    /// Stops recording and returns the operations.
    pub(crate) fn stop(&self) -> Vec<Op> {
        let mut state = self.state();
        state.is_recording = false;
        std::mem::take(&mut state.log)
    }

    /// Returns the operations recorded so far.
    pub(crate) fn log(&self) -> Vec<Op> {
        self.state().log.clone()
    }

    /// Adds a mark to the recorded operations.
    pub(crate) fn mark(&self, mark: Op) {
        self.state().remember(mark);
    }

    /// Blocks all operations on the disk while `act` runs, which must not touch the disk itself.
    pub(crate) fn hold<T>(&self, act: impl FnOnce() -> T) -> T {
        let _held = self.state();
        act()
    }

    /// Makes I/O fail, or succeed again.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.state().faults.set(fault);
    }

    /// Returns how many files are open.
    pub(crate) fn open_count(&self) -> usize {
        self.state().open_count
    }

    /// Returns how many I/O operations have failed.
    pub(crate) fn failed(&self) -> u64 {
        self.state().faults.failed()
    }
}

/// The interface for SQLite.
impl Disk {
    pub(crate) fn open(&self, name: Option<&str>, opening: Opening) -> Result<Handle, c_int> {
        let mut state = self.state();
        state.faults.meet(Io::Open)?;
        let (name, found) = match name {
            Some(name) => (Some(Arc::from(name)), state.names.get(name).copied()),
            None => (None, None),
        };
        let file = match found {
            Some(file) => file,
            None if !opening.makes => return Err(ffi::SQLITE_CANTOPEN),
            None => state.make(name.clone()),
        };
        state.handle_last += 1;
        state.open_count += 1;
        Ok(Handle {
            num: state.handle_last,
            file,
            syncs_folder: opening.syncs_folder,
            is_passing: name.filter(|_| opening.is_passing),
        })
    }

    pub(crate) fn close(&self, handle: &Handle) {
        let mut state = self.state();
        state.open_count -= 1;
        state.files[handle.file].locks.free(handle.num);
        if let Some(name) = &handle.is_passing {
            state.unlink(name);
        }
    }

    /// Fills `into` as far as the file goes, the rest with zeros.
    pub(crate) fn read(&self, handle: &Handle, at: usize, into: &mut [u8]) -> Result<(), c_int> {
        let mut state = self.state();
        into.fill(0);
        state.faults.meet(Io::Read)?;
        let content = &state.files[handle.file].content;
        let from = content.get(at..).unwrap_or_default();
        let len = from.len().min(into.len());
        into[..len].copy_from_slice(&from[..len]);
        if len < into.len() { Err(ffi::SQLITE_IOERR_SHORT_READ) } else { Ok(()) }
    }

    pub(crate) fn write(&self, handle: &Handle, at: usize, bytes: &[u8]) -> Result<(), c_int> {
        let mut state = self.state();
        let met = state.faults.meet(Io::Write);
        // A failed write has often been done in part. One that finds no space has not where the file is long enough.
        let is_growing = at + bytes.len() > state.files[handle.file].content.len();
        let bytes = match met {
            Ok(()) => bytes,
            Err(ffi::SQLITE_FULL) if !is_growing => &[],
            Err(_) => &bytes[..bytes.len() / 2],
        };
        log::write(&mut state.files[handle.file].content, at, bytes);
        if state.is_recording {
            state.remember(Op::Write { file: handle.file, at, bytes: bytes.to_vec() });
        }
        met
    }

    pub(crate) fn truncate(&self, handle: &Handle, len: usize) -> Result<(), c_int> {
        let mut state = self.state();
        state.faults.meet(Io::Truncate)?;
        state.files[handle.file].content.resize(len, 0);
        state.remember(Op::Truncate { file: handle.file, len });
        Ok(())
    }

    pub(crate) fn sync(&self, handle: &mut Handle) -> Result<(), c_int> {
        let mut state = self.state();
        if let Err(code) = state.faults.meet(Io::Sync) {
            state.remember(Op::SyncFailed { file: handle.file });
            return Err(code);
        }
        if state.syncs == Syncs::Honest {
            state.remember(Op::Sync { file: handle.file });
            if handle.syncs_folder {
                state.remember(Op::SyncFolder);
            }
        }
        handle.syncs_folder = false;
        Ok(())
    }

    pub(crate) fn len(&self, handle: &Handle) -> usize {
        self.state().files[handle.file].content.len()
    }

    pub(crate) fn delete(&self, name: &str, syncs_folder: bool) -> Result<(), c_int> {
        let mut state = self.state();
        state.faults.meet(Io::Delete)?;
        if !state.unlink(name) {
            return Err(ffi::SQLITE_IOERR_DELETE_NOENT);
        }
        if syncs_folder && state.syncs == Syncs::Honest {
            state.remember(Op::SyncFolder);
        }
        Ok(())
    }

    /// Returns the length of the file with this name, if it exists.
    pub(crate) fn len_of(&self, name: &str) -> Option<usize> {
        let state = self.state();
        state.names.get(name).map(|file| state.files[*file].content.len())
    }

    /// Runs `act` on the locks of a file.
    pub(crate) fn with_locks<T>(&self, handle: &Handle, act: impl FnOnce(&mut Locks, HandleNum) -> T) -> T {
        act(&mut self.state().files[handle.file].locks, handle.num)
    }

    /// Returns a region of the memory shared by everything that has this file open, created if `makes`. It stays in
    /// place until the last of them has given it back.
    pub(crate) fn share(&self, handle: &Handle, index: usize, makes: bool) -> Result<Option<*const AtomicU64>, c_int> {
        let mut state = self.state();
        state.faults.meet(Io::Map)?;
        let file = &mut state.files[handle.file];
        file.locks.share(handle.num);
        while makes && file.shared.len() <= index {
            file.shared.push((0..REGION_BYTES / size_of::<AtomicU64>()).map(|_| AtomicU64::new(0)).collect());
        }
        Ok(file.shared.get(index).map(|region| region.as_ptr()))
    }

    /// Gives back the shared memory.
    pub(crate) fn unshare(&self, handle: &Handle) {
        let mut state = self.state();
        let file = &mut state.files[handle.file];
        if file.locks.free_slots(handle.num) {
            file.shared.clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, op: Op) {
        if self.is_recording {
            self.log.push(op);
        }
    }

    fn make(&mut self, name: Option<Arc<str>>) -> FileNum {
        let file = self.files.len();
        self.files.push(File::default());
        if let Some(name) = name {
            self.names.insert(name.clone(), file);
            self.remember(Op::Create { name, file });
        }
        file
    }

    /// Removes a name. Handles that have the file open keep it.
    fn unlink(&mut self, name: &str) -> bool {
        let Some((name, _)) = self.names.remove_entry(name) else { return false };
        self.remember(Op::Delete { name });
        true
    }
}
