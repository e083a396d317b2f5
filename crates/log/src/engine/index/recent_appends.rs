//! The set ids of the newest appends and the values they begin in, so that a repeated append gets its first
//! result.

use std::collections::{HashMap, VecDeque};

use crate::limits::APPENDS_REMEMBERED;

/// The newest appends.
#[derive(Debug, Default)]
pub(crate) struct RecentAppends {
    ordinals: HashMap<[u8; 16], u32>,
    order: VecDeque<[u8; 16]>,
}

impl RecentAppends {
    pub(crate) fn add(&mut self, set_id: [u8; 16], ordinal: u32) {
        if self.order.len() >= APPENDS_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ordinals.remove(&oldest);
        }
        self.order.push_back(set_id);
        self.ordinals.insert(set_id, ordinal);
    }

    pub(crate) fn find(&self, set_id: [u8; 16]) -> Option<u32> {
        self.ordinals.get(&set_id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_8192_are_known_and_older_ones_forgotten() {
        let mut remembered = RecentAppends::default();
        let id = |n: u32| {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&n.to_be_bytes());
            id
        };
        for n in 0..10_000 {
            remembered.add(id(n), n);
        }
        assert_eq!(remembered.find(id(9_999)), Some(9_999));
        assert_eq!(remembered.find(id(10_000 - 8_192)), Some(1_808));
        assert_eq!(remembered.find(id(1_807)), None);
        assert_eq!(remembered.ordinals.len(), 8_192);
    }
}
