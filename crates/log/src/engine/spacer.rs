//! Tiny keys ahead of the values, so that sled splits its leaves early and never rewrites one that holds
//! large values: without them it writes every byte five to ten times. If this ever fails, only that cost
//! returns.

use crate::engine::keys::{SPACERS, spacer_key};

/// Values between one group of spacers and the next: with nine spacers a leaf then holds 14 entries and a
/// chain of 6, below sled's limits for splitting (16) and for consolidating (10).
const STRIDE: u64 = 5;

/// Distance by which the spacers are ahead of the next value: three strides.
const AHEAD: u64 = 3 * STRIDE;

/// The end of the spacers written so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spacer {
    next_group: u64,
}

impl Spacer {
    /// Continues after the last ordinal that has spacers; from the start if none has.
    pub(crate) fn after(last_spaced: Option<u64>) -> Self {
        Self { next_group: last_spaced.map_or(0, |ordinal| ordinal / STRIDE + 1) }
    }

    /// Returns the spacers that must be written before the value `ordinal`, in order. They count as written
    /// from now on.
    pub(crate) fn before(&mut self, ordinal: u64) -> impl Iterator<Item = [u8; 9]> + use<> {
        // Spacers before the value would be of no use. They are missing only where a key of the tree is not one of ours.
        let first = self.next_group.max(ordinal / STRIDE);
        let last = (ordinal + AHEAD) / STRIDE;
        self.next_group = first.max(last + 1);
        (first..=last).flat_map(|group| (1..=SPACERS).map(move |number| spacer_key(group * STRIDE, number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::keys::{Key, parse};

    #[test]
    fn nine_spacers_for_five_values_at_least_15_ordinals_ahead() {
        let mut spacer = Spacer::after(None);
        let mut laid = Vec::new();
        for ordinal in 0..100 {
            laid.extend(spacer.before(ordinal));
            let Some(Key::Spacer(last)) = parse(laid.last().unwrap()) else {
                panic!("a spacer is expected");
            };
            assert!(last + STRIDE > ordinal + AHEAD, "{last} for {ordinal}");
        }
        assert!(laid.is_sorted());
        assert_eq!(laid.len(), (99 + 15) / 5 * 9 + 9);
    }

    #[test]
    fn the_number_of_spacers_does_not_depend_on_how_far_a_value_is_from_the_one_before() {
        let mut spacer = Spacer::after(Some(20));
        let laid: Vec<_> = spacer.before(1 << 50).take(1_000).collect();
        assert_eq!(laid.len(), 4 * usize::from(SPACERS));
    }

    #[test]
    fn after_reopening_no_spacer_is_laid_twice() {
        let mut first = Spacer::after(None);
        let laid: Vec<_> = first.before(3).collect();
        let Some(Key::Spacer(last)) = parse(laid.last().unwrap()) else {
            panic!("a spacer is expected");
        };
        let mut second = Spacer::after(Some(last));
        assert_eq!(second.before(3).count(), 0);
        assert_eq!(second.before(5).next(), Some(spacer_key(20, 1)));
    }
}
