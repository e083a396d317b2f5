//! A buffer that each thread keeps for encoding: what is encoded grows in it and is then copied once, at its length.

use std::cell::Cell;

/// The largest buffer that a thread keeps, in bytes (64 KiB): a larger one is given back after its use.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with an empty buffer.
pub(super) fn with<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = KEPT.take();
    buffer.clear();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT_BYTES {
        KEPT.set(buffer);
    }
    result
}
