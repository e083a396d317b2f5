//! A count of the SHA-256 blocks that this process has hashed, for benches: a cost that no load of the machine changes.

use std::sync::atomic::{AtomicU64, Ordering};

static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// The bytes of a block.
const BLOCK_BYTES: u64 = 64;

/// The bytes that padding adds at least: one bit and the length.
const PADDING_BYTES: u64 = 9;

/// Counts the blocks of a text of this length.
pub(crate) fn count(bytes: usize) {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    BLOCKS.fetch_add(bytes.saturating_add(PADDING_BYTES).div_ceil(BLOCK_BYTES), Ordering::Relaxed);
}

/// Returns the number of blocks that were hashed so far.
pub fn blocks() -> u64 {
    BLOCKS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use crate::id::Digest;

    #[test]
    fn a_text_is_as_many_blocks_as_it_and_its_padding_fill() {
        let hashed = |bytes: usize| {
            let before = super::blocks();
            let _ = Digest::compute(&vec![0; bytes]);
            // Other tests of this process hash too.
            super::blocks() - before
        };
        assert!(hashed(0) >= 1 && hashed(55) >= 1 && hashed(56) >= 2 && hashed(600) >= 10);
    }
}
