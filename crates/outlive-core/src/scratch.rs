//! Memory in which text is put together before it gets a place of its own.

use std::cell::Cell;
use std::sync::Arc;

/// The most that is kept for the next text.
const KEPT_MAX: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The text that `write` writes. It may itself put texts together.
pub(crate) fn text<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Arc<str>, E> {
    let mut buffer = BUFFER.take();
    buffer.clear();
    let written = write(&mut buffer);
    let text =
        written.map(|()| str::from_utf8(&buffer).map_or_else(|_| String::from_utf8_lossy(&buffer).into(), Arc::from));
    if buffer.capacity() <= KEPT_MAX {
        BUFFER.set(buffer);
    }
    text
}
