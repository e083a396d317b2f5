//! Tiny keys ahead of the values, so that sled splits its leaves early and never rewrites one that holds large
//! values: without them it writes every byte five to ten times. If the trick ever fails, only that comes back.

use super::keys::{SPACERS, spacer_key};

/// Values between one run of spacers and the next: with nine spacers a leaf then holds 14 entries and a chain of
/// 6, below sled's limits for splitting (16) and for consolidating (10).
const BLOCK: u64 = 5;

/// How far ahead of the next value the spacers stand: three blocks.
const AHEAD: u64 = 3 * BLOCK;

/// Knows up to where spacers were laid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spacer {
    next_block: u64,
}

impl Spacer {
    /// Goes on behind the last ordinal that has spacers; from the start if none has.
    pub(super) fn behind(last_spaced: Option<u64>) -> Self {
        Self { next_block: last_spaced.map_or(0, |ordinal| ordinal / BLOCK + 1) }
    }

    /// The spacers that must be laid before the value `ordinal` is, in order. They count as laid from now on.
    pub(super) fn before(&mut self, ordinal: u64) -> impl Iterator<Item = [u8; 9]> + use<> {
        let first = self.next_block;
        let last = (ordinal + AHEAD) / BLOCK;
        self.next_block = first.max(last + 1);
        (first..=last).flat_map(|block| (1..=SPACERS).map(move |number| spacer_key(block * BLOCK, number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::keys::{Key, parse};

    #[test]
    fn nine_spacers_for_five_values_at_least_15_ordinals_ahead() {
        let mut spacer = Spacer::behind(None);
        let mut laid = Vec::new();
        for ordinal in 0..100 {
            laid.extend(spacer.before(ordinal));
            let Some(Key::Spacer(last)) = parse(laid.last().unwrap()) else {
                panic!("a spacer is expected");
            };
            assert!(last + BLOCK > ordinal + AHEAD, "{last} for {ordinal}");
        }
        assert!(laid.is_sorted());
        assert_eq!(laid.len(), (99 + 15) / 5 * 9 + 9);
    }

    #[test]
    fn after_reopening_no_spacer_is_laid_twice() {
        let mut first = Spacer::behind(None);
        let laid: Vec<_> = first.before(3).collect();
        let Some(Key::Spacer(last)) = parse(laid.last().unwrap()) else {
            panic!("a spacer is expected");
        };
        let mut second = Spacer::behind(Some(last));
        assert_eq!(second.before(3).count(), 0);
        assert_eq!(second.before(5).next(), Some(spacer_key(20, 1)));
    }
}
