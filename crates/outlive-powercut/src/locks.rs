//! File locks by SQLite's rules: who may read or write a file at the same time.

use std::collections::BTreeMap;
use std::ffi::c_int;

use rusqlite::ffi;

/// An open file, numbered in order of opening.
pub(crate) type HandleNum = u64;

/// The locks on one file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    levels: BTreeMap<HandleNum, c_int>,
    /// Slots of the memory that connections share: eight of them.
    slots: BTreeMap<HandleNum, Slots>,
}

/// The slots that one handle holds, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    shared: u32,
    exclusive: u32,
}

impl Locks {
    /// Raises the lock of a handle, or returns busy if others are in the way.
    pub(crate) fn raise(&mut self, handle: HandleNum, level: c_int) -> Result<(), c_int> {
        let own = self.level(handle);
        if own >= level {
            return Ok(());
        }
        let highest = self.highest_of_others(handle);
        match level {
            ffi::SQLITE_LOCK_SHARED if highest >= ffi::SQLITE_LOCK_PENDING => return Err(ffi::SQLITE_BUSY),
            ffi::SQLITE_LOCK_RESERVED if highest >= ffi::SQLITE_LOCK_RESERVED => return Err(ffi::SQLITE_BUSY),
            ffi::SQLITE_LOCK_EXCLUSIVE if highest >= ffi::SQLITE_LOCK_RESERVED => return Err(ffi::SQLITE_BUSY),
            ffi::SQLITE_LOCK_EXCLUSIVE if highest >= ffi::SQLITE_LOCK_SHARED => {
                // It keeps new readers out until the current ones are gone.
                self.levels.insert(handle, ffi::SQLITE_LOCK_PENDING);
                return Err(ffi::SQLITE_BUSY);
            }
            _ => {}
        }
        self.levels.insert(handle, level);
        Ok(())
    }

    /// Lowers the lock of a handle.
    pub(crate) fn lower(&mut self, handle: HandleNum, level: c_int) {
        if self.level(handle) > level {
            self.levels.insert(handle, level);
        }
    }

    /// Whether any handle is about to write.
    pub(crate) fn is_reserved(&self) -> bool {
        self.levels.values().any(|level| *level >= ffi::SQLITE_LOCK_RESERVED)
    }

    /// Takes or frees slots, or returns busy if others are in the way.
    pub(crate) fn slots(&mut self, handle: HandleNum, mask: u32, flags: c_int) -> Result<(), c_int> {
        let others = self.slots.iter().filter(|(other, _)| **other != handle).map(|(_, slots)| *slots);
        let taken = others.fold(Slots::default(), |all, one| Slots {
            shared: all.shared | one.shared,
            exclusive: all.exclusive | one.exclusive,
        });
        let own = self.slots.entry(handle).or_default();
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            *own = Slots { shared: own.shared & !mask, exclusive: own.exclusive & !mask };
        } else if flags & ffi::SQLITE_SHM_EXCLUSIVE != 0 {
            if (taken.shared | taken.exclusive) & mask != 0 {
                return Err(ffi::SQLITE_BUSY);
            }
            own.exclusive |= mask;
        } else {
            if taken.exclusive & mask != 0 {
                return Err(ffi::SQLITE_BUSY);
            }
            own.shared |= mask;
        }
        Ok(())
    }

    /// Frees the slots of a handle. Returns `true` if no other handle has any.
    pub(crate) fn free_slots(&mut self, handle: HandleNum) -> bool {
        self.slots.remove(&handle);
        self.slots.is_empty()
    }

    /// Registers a handle as sharing memory, with or without a slot.
    pub(crate) fn share(&mut self, handle: HandleNum) {
        self.slots.entry(handle).or_default();
    }

    /// Frees everything that a handle holds.
    pub(crate) fn free(&mut self, handle: HandleNum) {
        self.levels.remove(&handle);
        self.slots.remove(&handle);
    }

    fn level(&self, handle: HandleNum) -> c_int {
        self.levels.get(&handle).copied().unwrap_or(ffi::SQLITE_LOCK_NONE)
    }

    fn highest_of_others(&self, handle: HandleNum) -> c_int {
        let others = self.levels.iter().filter(|(other, _)| **other != handle);
        others.map(|(_, level)| *level).max().unwrap_or(ffi::SQLITE_LOCK_NONE)
    }
}
