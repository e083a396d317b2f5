//! The sizes of the trees of a log, for its operator.

use crate::api::error::ReadError;
use crate::sled::index::BLOCKS_TREE;
use crate::sled::sink::catch_sled;
use crate::sled::store::SledStore;

/// The size of one tree of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeSize {
    /// The name of the tree.
    pub name: &'static str,
    /// The number of values, without spacers.
    pub values: u64,
    /// Bytes of the values.
    pub bytes: u64,
}

impl SledStore {
    /// Returns the size of each tree. Reads all of them.
    ///
    /// # Errors
    /// [`ReadError`] if the database cannot be read.
    pub fn trees(&self) -> Result<Vec<TreeSize>, ReadError> {
        self.read(|trees| {
            let all = [("log", &trees.log), ("chunks", &trees.chunks), (BLOCKS_TREE, &trees.blocks)];
            all.into_iter().map(|(name, tree)| size(name, tree)).collect()
        })
    }
}

fn size(name: &'static str, tree: &::sled::Tree) -> Result<TreeSize, ReadError> {
    let count = || {
        let mut size = TreeSize { name, values: 0, bytes: 0 };
        // Ends at the first error: sled's iterator would repeat it forever.
        for item in tree {
            let (_, value) = item?;
            if !value.is_empty() {
                size.values += 1;
                size.bytes += value.len() as u64;
            }
        }
        Ok(size)
    };
    catch_sled(count).map_err(ReadError::Io)
}
