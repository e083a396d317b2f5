//! A list that grows at its end and is shared in pieces, so that a copy of a long one costs as little as that of a short one.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// The number of items in a piece. A change to a shared list copies at most one piece.
const PIECE: usize = 32;

/// A list of items, oldest first. Items are added at the end; a copy shares all of them with the original.
#[derive(Clone)]
pub struct GrowingList<T> {
    /// The pieces that are full, if there are any.
    full: Option<Arc<Vec<Piece<T>>>>,
    /// The items behind them, if there are any.
    newest: Option<Piece<T>>,
}

type Piece<T> = Arc<Vec<T>>;

impl<T> Default for GrowingList<T> {
    fn default() -> Self {
        Self { full: None, newest: None }
    }
}

impl<T> GrowingList<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.full().len() * PIECE + self.newest().len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn full(&self) -> &[Piece<T>] {
        self.full.as_ref().map_or(&[], |full| full.as_slice())
    }

    fn newest(&self) -> &[T] {
        self.newest.as_ref().map_or(&[], |newest| newest.as_slice())
    }

    /// The item at this place, counted from 0.
    pub fn get(&self, at: usize) -> Option<&T> {
        match self.full().get(at / PIECE) {
            Some(piece) => piece.get(at % PIECE),
            None => self.newest().get(at - self.full().len() * PIECE),
        }
    }

    /// The oldest item.
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// The newest item.
    pub fn last(&self) -> Option<&T> {
        self.newest().last().or_else(|| self.full().last()?.last())
    }

    /// All items, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.full().iter().flat_map(|piece| piece.iter()).chain(self.newest())
    }

    /// The place of the newest item of which this holds.
    pub(crate) fn rposition(&self, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let back = self.iter().rev().position(is_it)?;
        self.len().checked_sub(back.saturating_add(1))
    }
}

impl<T: Clone> GrowingList<T> {
    /// Adds an item at the end.
    pub(crate) fn push(&mut self, item: T) {
        let newest = Arc::make_mut(self.newest.get_or_insert_default());
        newest.push(item);
        if newest.len() == PIECE
            && let Some(piece) = self.newest.take()
        {
            Arc::make_mut(self.full.get_or_insert_default()).push(piece);
        }
    }

    /// The item at this place, to change it: of a shared list, its piece is copied.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let full = self.full().len();
        if at / PIECE < full {
            let piece = Arc::make_mut(self.full.as_mut()?).get_mut(at / PIECE)?;
            return Arc::make_mut(piece).get_mut(at % PIECE);
        }
        Arc::make_mut(self.newest.as_mut()?).get_mut(at - full * PIECE)
    }

    /// Copies the items into one piece of memory.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().cloned().collect()
    }
}

impl<T> Index<usize> for GrowingList<T> {
    type Output = T;

    /// Returns the item at this place.
    ///
    /// # Panics
    /// If the index is out of bounds, as a slice does.
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("an index is smaller than the length of its list")
    }
}

impl<T: Clone> FromIterator<T> for GrowingList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::default();
        items.into_iter().for_each(|item| list.push(item));
        list
    }
}

impl<'a, T> IntoIterator for &'a GrowingList<T> {
    type Item = &'a T;
    type IntoIter = Box<dyn DoubleEndedIterator<Item = &'a T> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl<T: PartialEq> PartialEq for GrowingList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for GrowingList<T> {}

impl<T: fmt::Debug> fmt::Debug for GrowingList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_holds_what_was_added_in_order() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7] {
            let list: GrowingList<usize> = (0..length).collect();
            assert_eq!(list.to_vec(), (0..length).collect::<Vec<_>>());
            assert_eq!(list.iter().rev().copied().collect::<Vec<_>>(), (0..length).rev().collect::<Vec<_>>());
            assert_eq!((list.len(), list.is_empty()), (length, length == 0));
            assert_eq!((list.last().copied(), list.get(length)), (length.checked_sub(1), None));
            for at in 0..length {
                assert_eq!((list.get(at), list.rposition(|item| *item == at)), (Some(&at), Some(at)));
            }
        }
    }

    #[test]
    fn a_copy_keeps_its_items_while_the_original_changes_and_grows() {
        let mut list: GrowingList<usize> = (0..PIECE + 3).collect();
        let before = list.clone();
        *list.get_mut(1).unwrap() = 100;
        *list.get_mut(PIECE + 1).unwrap() = 200;
        (0..PIECE).for_each(|item| list.push(item));
        assert_eq!(before.to_vec(), (0..PIECE + 3).collect::<Vec<_>>());
        assert_eq!((list[1], list[PIECE + 1], list.len()), (100, 200, 2 * PIECE + 3));
        assert_ne!(list, before);
        assert_eq!(list.get_mut(2 * PIECE + 3), None);
    }

    #[test]
    fn a_copy_of_a_long_list_shares_all_its_pieces() {
        let list: GrowingList<usize> = (0..5_000).collect();
        let mut copy = list.clone();
        copy.push(0);
        let shared = list.full().iter().zip(copy.full()).filter(|(own, other)| Arc::ptr_eq(own, other));
        assert_eq!(shared.count(), 5_000 / PIECE);
    }
}
