//! A disk in memory that remembers what was done to it, and in which order.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::fault::{Fault, Faults, Io};
use crate::locks::{HandleNum, Locks};
use crate::log::{self, FileNum, Image, Op};

/// How much memory connections share at a time, in bytes: SQLite asks for no other size.
pub(crate) const REGION_BYTES: usize = 32_768;

/// What a sync does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Syncs {
    /// What it says.
    #[default]
    Honest,
    /// Nothing, and says that it did.
    Lying,
}

/// A disk. Whoever has it open shares it.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<State>);

/// What is known of an open file.
#[derive(Debug)]
pub(crate) struct Handle {
    num: HandleNum,
    file: FileNum,
    /// Whether its next sync makes names durable too.
    syncs_folder: bool,
    /// A file without a name, or one that is to go when it is closed.
    is_passing: Option<Arc<str>>,
}

/// How a file is to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Whether to make it if it is not there.
    pub(crate) makes: bool,
    /// Whether its first sync makes names durable too.
    pub(crate) syncs_folder: bool,
    /// Whether it goes when it is closed.
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

/// For whoever runs the tests.
impl Disk {
    /// A disk that holds this, and remembers what is done to it from now on.
    pub(crate) fn insert(&self, image: Image, syncs: Syncs) {
        let mut state = self.state();
        assert_eq!(state.open_count, 0, "the files of a disk are closed before another one takes its place");
        let mut names = BTreeMap::new();
        let mut files = Vec::new();
        for (name, content) in image {
            names.insert(name, files.len());
            files.push(File { content, ..File::default() });
        }
        let handle_last = state.handle_last;
        *state = State { names, files, handle_last, syncs, ..State::default() };
    }

    /// From now on all that is done is remembered.
    pub(crate) fn record(&self) {
        self.state().is_recording = true;
    }

    /// What was done. Nothing is remembered any more.
    pub(crate) fn stop(&self) -> Vec<Op> {
        let mut state = self.state();
        state.is_recording = false;
        std::mem::take(&mut state.log)
    }

    /// What was done so far.
    pub(crate) fn log(&self) -> Vec<Op> {
        self.state().log.clone()
    }

    /// Puts a mark into what is remembered.
    pub(crate) fn mark(&self, mark: Op) {
        self.state().remember(mark);
    }

    /// Nothing is done to the disk while `act` runs. It must not touch the disk itself.
    pub(crate) fn hold<T>(&self, act: impl FnOnce() -> T) -> T {
        let _held = self.state();
        act()
    }

    /// Has I/O fail, or be good again.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.state().faults.set(fault);
    }

    /// How many files are open.
    pub(crate) fn open_count(&self) -> usize {
        self.state().open_count
    }

    /// How many I/O have failed.
    pub(crate) fn failed(&self) -> u64 {
        self.state().faults.failed()
    }
}

/// For SQLite.
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
        // A write that fails has often done half of it. One that finds no room has not where the file is long enough.
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

    /// How long the file of this name is, if there is one.
    pub(crate) fn len_of(&self, name: &str) -> Option<usize> {
        let state = self.state();
        state.names.get(name).map(|file| state.files[*file].content.len())
    }

    /// Does something with the locks on a file.
    pub(crate) fn with_locks<T>(&self, handle: &Handle, act: impl FnOnce(&mut Locks, HandleNum) -> T) -> T {
        act(&mut self.state().files[handle.file].locks, handle.num)
    }

    /// A piece of the memory that those who have this file open share, made if it `makes`. It stays where it is until
    /// the last of them has given it back.
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

    /// Has a name lead nowhere. Whoever has the file open keeps it.
    fn unlink(&mut self, name: &str) -> bool {
        let Some((name, _)) = self.names.remove_entry(name) else { return false };
        self.remember(Op::Delete { name });
        true
    }
}
