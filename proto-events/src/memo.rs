//! A value that follows from others and is kept once it was counted. It is not a part of a state.

use std::sync::OnceLock;

/// A kept value. Two states that differ only in what was kept are equal.
#[derive(Debug, Clone)]
pub(crate) struct Memo<T>(OnceLock<T>);

impl<T> Memo<T> {
    /// Returns the value, which `count` returns at its first use.
    pub(crate) fn get(&self, count: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(count)
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> PartialEq for Memo<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Memo<T> {}
