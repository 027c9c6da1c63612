//! What was done to a disk, in order, with marks that say what was promised meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A file, by the order in which files were made. A name may lead to one file after another.
pub(crate) type FileNum = usize;

/// What lies on a disk: files by name.
pub(crate) type Image = BTreeMap<Arc<str>, Vec<u8>>;

/// One thing that was done, or promised.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A name now leads to this new file.
    Create {
        name: Arc<str>,
        file: FileNum,
    },
    /// A name leads nowhere any more.
    Delete {
        name: Arc<str>,
    },
    /// All names are as they are now for good.
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
    /// All that was written to this file is there for good.
    Sync {
        file: FileNum,
    },
    /// A sync failed. What was waiting for it can be read until the power goes; it may be on the disk or not, and no
    /// later sync makes it durable: this is what Linux does.
    SyncFailed {
        file: FileNum,
    },
    /// The store was asked for this step.
    Begun(usize),
    /// The store has said that this step is done.
    Acked(usize),
}

/// Writes into a file, which grows as it must.
pub(crate) fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}
