//! A list that grows while it is read: entries are added at its end and stay.

use std::sync::OnceLock;

/// A list to which entries are added while others read it. A reader never waits, and what it has read stays where it is.
#[derive(Debug)]
pub(crate) struct AppendOnlyList<T>(OnceLock<Box<ListEntry<T>>>);

#[derive(Debug)]
struct ListEntry<T> {
    value: T,
    behind: AppendOnlyList<T>,
}

impl<T> Default for AppendOnlyList<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> AppendOnlyList<T> {
    /// Adds an entry at the end.
    pub(crate) fn push(&self, value: T) {
        let mut entry = Box::new(ListEntry { value, behind: Self::default() });
        let mut end = self;
        // Another thread that adds at the same time takes this place: the next one is behind it.
        while let Err(refused) = end.0.set(entry) {
            entry = refused;
            while let Some(known) = end.0.get() {
                end = &known.behind;
            }
        }
    }

    /// Returns the entries in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(self.0.get(), |entry| entry.behind.0.get()).map(|entry| &entry.value)
    }
}

impl<T> Drop for AppendOnlyList<T> {
    fn drop(&mut self) {
        // One after another: a long list must not be dropped by as many nested calls.
        let mut next = self.0.take();
        while let Some(mut entry) = next {
            next = entry.behind.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_added_at_once_are_all_there_and_a_long_list_is_dropped() {
        let list = AppendOnlyList::default();
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let list = &list;
                scope.spawn(move || (0..5_000).for_each(|number| list.push((thread, number))));
            }
        });
        let of_thread =
            |wanted: u32| list.iter().filter(move |(thread, _)| *thread == wanted).map(|(_, n)| *n);
        for thread in 0..4 {
            assert!(of_thread(thread).eq(0..5_000), "{thread}");
        }
        // From the front: adding at the end of so long a list would take long.
        let long = (0..200_000).fold(AppendOnlyList::default(), |list, number| front(number, list));
        assert_eq!(long.iter().next(), Some(&199_999));
    }

    fn front(value: u32, behind: AppendOnlyList<u32>) -> AppendOnlyList<u32> {
        let list = AppendOnlyList::default();
        list.0.set(Box::new(ListEntry { value, behind })).unwrap();
        list
    }
}
