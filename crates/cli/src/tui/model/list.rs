//! The chosen row of a list, and the first one on the screen.

/// A list's place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// The chosen row.
    pub(crate) at: usize,
    /// The first row on the screen.
    pub(crate) top: usize,
}

impl List {
    /// Moves by so many rows.
    pub(crate) fn step(&mut self, rows: isize, len: usize) {
        self.at = self.at.saturating_add_signed(rows).min(len.saturating_sub(1));
    }

    /// Goes to a row.
    pub(crate) fn select(&mut self, at: usize) {
        self.at = at;
    }

    /// Keeps the chosen row in the list and on the screen.
    pub(crate) fn settle(&mut self, len: usize, height: usize) {
        let height = height.max(1);
        self.at = self.at.min(len.saturating_sub(1));
        self.top = self.top.min(self.at).min(len.saturating_sub(height.min(len)));
        if self.at >= self.top + height {
            self.top = self.at + 1 - height;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_chosen_row_is_in_the_list_and_on_the_screen(
            at in 0_usize..200, top in 0_usize..200, len in 0_usize..100, height in 0_usize..50, rows in -150_isize..150,
        ) {
            let mut list = List { at, top };
            list.step(rows, len);
            list.settle(len, height);
            prop_assert!(len == 0 || list.at < len);
            prop_assert!(list.top <= list.at && list.at < list.top + height.max(1));
            prop_assert!(list.top == 0 || list.top + height.max(1) <= len);
        }
    }
}
