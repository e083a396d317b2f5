//! Numbers by chance, the same ones for the same seed.

/// A row of pseudo-random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    pub(super) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        let last = choices.len() as u64;
        choices[usize::try_from(self.below(last)).unwrap()].clone()
    }
}
