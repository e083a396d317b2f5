//! Ids derived from a number, so that two executions of a test make the same ones.

use std::sync::atomic::{AtomicU64, Ordering};

use proto_events::id::Digest;
use taskreel_log::ports::IdSource;

/// A source of ids that look random and are derived from a seed.
#[derive(Debug, Default)]
pub struct CountedIds {
    seed: u64,
    made: AtomicU64,
}

impl CountedIds {
    /// Returns the ids of this seed. Two systems over one log need two seeds.
    pub fn new(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0) }
    }
}

impl IdSource for CountedIds {
    fn random(&self) -> [u8; 16] {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let digest =
            Digest::of_parts(&[b"taskreel.testing", &self.seed.to_be_bytes(), &number.to_be_bytes()]);
        let mut sixteen = [0; 16];
        sixteen.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
        sixteen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_the_seed_and_never_repeat() {
        let make = |seed| {
            let ids = CountedIds::new(seed);
            [ids.random(), ids.random()]
        };
        assert_eq!(make(1), make(1));
        let (one, two) = (make(1), make(2));
        assert!(one[0] != one[1] && one.iter().all(|id| !two.contains(id)));
    }
}
