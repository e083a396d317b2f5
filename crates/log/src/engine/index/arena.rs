//! The names of streams one after another in pieces of memory. Full pieces are shared with the lists of names, so
//! that a sorted list has no second copy of them.

use std::sync::Arc;

/// Bytes of one piece of the arena; a name does not span pieces.
const PIECE: usize = 1 << 20;

/// Number of pieces that 32-bit places reach, less the last two.
const PIECES_MAX: usize = 4_094;

/// The place that no name has.
const NOWHERE: u32 = u32::MAX;

/// Names, each with its length before it.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    full: Vec<Arc<Vec<u8>>>,
    /// The last piece.
    open: Vec<u8>,
}

impl Arena {
    /// Whether there is room for so many further names.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        // A new name may need 65 KiB of a new piece; 4 GiB of names are the bound of their 32-bit offsets.
        self.full.len().saturating_add(more / 15) < PIECES_MAX
    }

    /// Puts a name into the arena and returns its place. Names come from records, whose texts have at most 65,535 bytes.
    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        if self.open.len() + 2 + name.len() > PIECE {
            let full = std::mem::take(&mut self.open);
            self.full.push(Arc::new(full));
        }
        if self.open.capacity() < PIECE {
            self.open.reserve_exact(PIECE);
        }
        let place = self.full.len() * PIECE + self.open.len();
        self.open.extend_from_slice(&length.to_be_bytes());
        self.open.extend_from_slice(name.as_bytes());
        u32::try_from(place).unwrap_or(NOWHERE)
    }

    /// Returns the name at a place.
    pub(crate) fn name(&self, place: u32) -> Option<&str> {
        let place = place as usize;
        let piece = self.piece(place / PIECE)?.get(place % PIECE..)?;
        let (length, rest) = piece.split_first_chunk::<2>()?;
        std::str::from_utf8(rest.get(..usize::from(u16::from_be_bytes(*length)))?).ok()
    }

    /// Returns the byte at a place.
    pub(crate) fn byte(&self, place: u32) -> Option<u8> {
        self.piece(place as usize / PIECE)?.get(place as usize % PIECE).copied()
    }

    fn piece(&self, number: usize) -> Option<&[u8]> {
        match self.full.get(number) {
            Some(full) => Some(full),
            None if number == self.full.len() => Some(&self.open),
            None => None,
        }
    }

    /// Makes this a copy of another arena up to the end of the name at this place. It must be a copy of its beginning: the
    /// full pieces are shared, and only what is new of the last one is copied.
    pub(crate) fn follow(&mut self, other: &Self, place: u32) {
        let Some(name) = other.name(place) else { return };
        let (piece, end) = (place as usize / PIECE, place as usize % PIECE + 2 + name.len());
        let known = self.full.len();
        let shared = other.full.get(known..piece.saturating_add(1).min(other.full.len()));
        if let Some(shared) = shared.filter(|shared| !shared.is_empty()) {
            self.full.extend(shared.iter().cloned());
            self.open = Vec::new();
        }
        if piece == self.full.len()
            && let Some(new) = other.open.get(self.open.len()..end)
        {
            self.open.extend_from_slice(new);
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        (self.full.len() + usize::from(self.open.capacity() > 0)) * PIECE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_follows_has_each_name_and_shares_the_full_pieces() {
        let (mut arena, mut copy) = (Arena::default(), Arena::default());
        let mut places = Vec::new();
        for number in 0..3_000 {
            let name = format!("task-a/{number}-{}", "x".repeat(1_000));
            places.push((arena.intern(&name), name));
            // Of some names at once, of some alone, and over the ends of pieces.
            if number % 7 == 0 || number > 2_990 {
                let (place, _) = places.last().unwrap();
                copy.follow(&arena, *place);
                for (place, name) in &places {
                    assert_eq!(copy.name(*place), Some(name.as_str()));
                }
            }
        }
        assert_eq!(copy.full.len(), 2);
        assert!(copy.full.iter().zip(&arena.full).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert_eq!(copy.open, arena.open);
        assert_eq!((arena.name(3 << 20), arena.byte(9 << 20)), (None, None));
    }
}
