//! The operations on a disk, in order, with marks that say what was promised when.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A file, numbered in order of creation. A name may point to one file after another.
pub(crate) type FileNum = usize;

/// The contents of a disk: files by name.
pub(crate) type Image = BTreeMap<Arc<str>, Vec<u8>>;

/// An operation, or a mark.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A name now points to this new file.
    Create {
        name: Arc<str>,
        file: FileNum,
    },
    /// A name is removed.
    Delete {
        name: Arc<str>,
    },
    /// All names are durable as they are now.
    SyncFolder,
    Write {
        file: FileNum,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: FileNum,
        len: usize,
    },
    /// Everything written to this file is durable.
    Sync {
        file: FileNum,
    },
    /// A sync failed. The pending data can be read until the power goes; it may be on the disk or not, and no later
    /// sync makes it durable: this is what Linux does.
    SyncFailed {
        file: FileNum,
    },
    /// The store was asked for this step.
    Begun(usize),
    /// The store has acknowledged this step.
    Acked(usize),
}

/// Writes into a file, which grows as needed.
pub(crate) fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}
