//! A reusable per-thread buffer for building text.

use std::cell::Cell;
use std::sync::Arc;

/// The largest buffer that is kept for reuse.
const KEPT_MAX: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns the text that `write` writes. `write` may call this function again.
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
