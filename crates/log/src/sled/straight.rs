//! Values read from the database's file past the database's cache. The database reads each piece of a page by itself, into
//! new memory that it keeps: a pass over the whole log, or the first look at a long stream, is mostly that.
//!
//! The places are those that the database itself would read: they come from its page table as it was when the log was
//! opened, and lead through its tree to the leaf of a value. A piece is believed only if it is whole (its checksum), was
//! written for the same segment of the log and the same page, and sets the key of the value. Pages that later changed were
//! not overwritten but written elsewhere, and a segment that was used again has another number. Where anything differs, or
//! a read fails, nothing is returned and the database is asked: it knows what to say of it.
//!
//! So the file may also be that of a log that other programs open and write meanwhile: a reader's private copy then has only
//! a part of the database ([`Original`]).

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use ::sled::IVec;

use crate::engine::keys::value_key;
use crate::engine::values::Values;
use crate::sled::dir::DATA_FILE;
use crate::sled::guard::disk::read_up_to;
use crate::sled::guard::node::{TreeNode, root_of};
use crate::sled::guard::pages::{PagePiece, PageTable};
use crate::sled::guard::segment::{Message, SEGMENT_BYTES, SEGMENT_LSN, message};

/// The page with the roots of all trees.
const ROOTS: u64 = 0;

/// The most pieces of a page table that is kept: about 16 MiB.
const PIECES_MAX: usize = 400_000;

/// The most leaves whose places are kept.
const LEAVES_MAX: usize = 4_096;

/// The most pages between the root of a tree and a leaf, and the most leaves beside the one that an index leads to: a tree of
/// so many levels cannot be had, and a database that was damaged leads nowhere.
const STEPS_MAX: usize = 64;

/// The longest piece that sets no value: a spacer, or the removal of a key.
const SMALL_BYTES: u64 = 64;

thread_local! {
    /// The buffer of what is read.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The log of which a private copy has only a part.
pub(crate) struct Original {
    /// The values that are read from the file of its database.
    pub(crate) straight: Straight,
    /// The values and chunks of its whole database, for what is not found otherwise.
    pub(crate) whole: WholeValues,
}

/// The values and chunks of a log as its whole database has them.
pub(crate) type WholeValues = Arc<dyn Values<Bytes = IVec> + Send + Sync>;

/// The values of the tree `log` in the database's file.
#[derive(Debug)]
pub(crate) struct Straight {
    db: File,
    table: PageTable,
    root: u64,
    /// The ordinal after the last value that is read so.
    end: u64,
    /// Whether the database beside it has only a part of the log.
    pub(crate) is_needed: bool,
    /// The leaves that were found, by the first ordinal of each.
    leaves: RwLock<BTreeMap<u64, Arc<Leaf>>>,
}

/// A leaf of the tree.
#[derive(Debug)]
struct Leaf {
    page: u64,
    next: Option<u64>,
    /// The first ordinal of the next leaf.
    end: u64,
    /// The places of its values in the order of their ordinals; none if they are not all written one by one.
    pieces: Vec<PagePiece>,
}

impl Straight {
    /// Returns the values of the log in `dir` as this page table has them; `None` if they can only be read by the database.
    pub(crate) fn of(dir: &Path, table: PageTable) -> Option<Self> {
        Self::over(File::open(dir.join(DATA_FILE)).ok()?, table)
    }

    /// Returns the values of the log in this file of a database; `None` as for [`Straight::of`].
    pub(crate) fn over(db: File, table: PageTable) -> Option<Self> {
        // Windows lets nobody read a file that is locked.
        if cfg!(windows) || table.pieces() > PIECES_MAX {
            return None;
        }
        let mut straight =
            Self { db, table, root: ROOTS, end: u64::MAX, is_needed: false, leaves: RwLock::default() };
        straight.root = straight.with_page(ROOTS, |page| root_of(b"log", page.roots()?))?;
        Some(straight)
    }

    /// Notes that the database beside it has only a part of the log.
    pub(crate) fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }

    /// Leaves values from this ordinal on to the database: those that an opening has removed may be written again.
    pub(crate) fn before(self, end: u64) -> Self {
        Self { end, ..self }
    }

    /// Returns the value with this ordinal, if it can be had past the database.
    pub(crate) fn get(&self, ordinal: u64) -> Option<IVec> {
        let (begin, leaf) = self.leaf(ordinal).filter(|_| ordinal < self.end)?;
        let piece = leaf.pieces.get(usize::try_from(ordinal - begin).ok()?)?;
        self.with_piece(leaf.page, *piece, |message| {
            let (key, value) = message.set()?;
            // The database leaves out of a key what all keys of its page begin with.
            value_key(ordinal).ends_with(key).then(|| IVec::from(value))
        })
    }

    /// Returns the leaf that has this ordinal, and its first one.
    fn leaf(&self, ordinal: u64) -> Option<(u64, Arc<Leaf>)> {
        let before = {
            let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
            let before = leaves.range(..=ordinal).next_back();
            before.map(|(begin, leaf)| (*begin, Arc::clone(leaf)))
        };
        let next = match before {
            Some((begin, leaf)) if ordinal < leaf.end => return Some((begin, leaf)),
            // Most who read a value have read those before it.
            Some((_, leaf)) if ordinal == leaf.end => leaf.next,
            _ => None,
        };
        let mut page = match next {
            Some(next) => next,
            None => self.descend(ordinal)?,
        };
        for _ in 0..STEPS_MAX {
            let (begin, leaf) = self.read_leaf(page)?;
            if ordinal < begin {
                return None;
            }
            if ordinal < leaf.end {
                return Some((begin, self.keep(begin, leaf)));
            }
            // An index may not know yet of the newest leaf beside the one it leads to.
            page = leaf.next?;
        }
        None
    }

    fn keep(&self, begin: u64, leaf: Leaf) -> Arc<Leaf> {
        let leaf = Arc::new(leaf);
        let mut leaves = self.leaves.write().unwrap_or_else(PoisonError::into_inner);
        if leaves.len() >= LEAVES_MAX {
            leaves.clear();
        }
        leaves.insert(begin, Arc::clone(&leaf));
        leaf
    }

    /// Whether all values of this leaf of the tree `log` are read here.
    pub(crate) fn has_all_of(&self, page: u64) -> bool {
        let Some((begin, leaf)) = self.read_leaf(page) else { return false };
        !self.keep(begin, leaf).pieces.is_empty()
    }

    /// Returns the first ordinal of a leaf.
    pub(crate) fn begin_of(&self, page: u64) -> Option<u64> {
        self.with_page(page, |message| first_ordinal(TreeNode::from_page(message.node()?)?.low))
    }

    /// Returns the leaves of a tree that its index knows, in the order of their keys. There may be others.
    pub(crate) fn leaves_of(&self, tree: &[u8]) -> Option<Vec<u64>> {
        let mut level = vec![self.with_page(ROOTS, |page| root_of(tree, page.roots()?))?];
        for _ in 0..STEPS_MAX {
            if self.children(*level.first()?)?.is_empty() {
                return Some(level);
            }
            let mut next = Vec::new();
            for page in level {
                next.extend(self.children(page)?);
                if next.len() > PIECES_MAX {
                    return None;
                }
            }
            level = next;
        }
        None
    }

    fn children(&self, page: u64) -> Option<Vec<u64>> {
        self.with_page(page, |message| TreeNode::from_page(message.node()?)?.children())
    }

    /// Returns the page of the leaf to which the index of the tree leads.
    fn descend(&self, ordinal: u64) -> Option<u64> {
        let (key, mut page) = (value_key(ordinal), self.root);
        for _ in 0..STEPS_MAX {
            match self.with_page(page, |message| TreeNode::from_page(message.node()?)?.child(&key))? {
                Some(child) => page = child,
                None => return Some(page),
            }
        }
        None
    }

    fn read_leaf(&self, page: u64) -> Option<(u64, Leaf)> {
        let (begin, end, next, is_empty) = self.with_page(page, |message| {
            let node = TreeNode::from_page(message.node()?).filter(|node| !node.is_merging)?;
            let has_no_value = node.entries()?.iter().all(|(_, value)| value.is_empty());
            let end = if node.high.is_empty() { u64::MAX } else { first_ordinal(node.high)? };
            Some((first_ordinal(node.low)?, end, node.next, has_no_value))
        })?;
        let (_, links) = self.table.present(page)?;
        let mut pieces: Vec<PagePiece> =
            links.iter().filter(|piece| piece.bytes > SMALL_BYTES).copied().collect();
        let sets =
            |piece: &PagePiece| self.with_piece(page, *piece, |message| message.set().map(drop)).is_some();
        let nothing_removed = links.iter().filter(|piece| piece.bytes <= SMALL_BYTES).all(sets);
        // Each of its ordinals once, or they cannot be told apart without reading them.
        if !(is_empty && nothing_removed && end.checked_sub(begin) == Some(pieces.len() as u64)) {
            pieces = Vec::new();
        }
        Some((begin, Leaf { page, next, end, pieces }))
    }

    /// Reads a page as it was last written as a whole.
    fn with_page<R>(&self, page: u64, read: impl FnOnce(&Message<'_>) -> Option<R>) -> Option<R> {
        let (whole, _) = self.table.present(page)?;
        self.with_piece(page, whole, read)
    }

    fn with_piece<R>(
        &self,
        page: u64,
        piece: PagePiece,
        read: impl FnOnce(&Message<'_>) -> Option<R>,
    ) -> Option<R> {
        let bytes = usize::try_from(piece.bytes).ok().filter(|bytes| *bytes <= SEGMENT_BYTES)?;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < bytes {
                buffer.resize(bytes, 0);
            }
            let buffer = buffer.get_mut(..bytes)?;
            let filled = read_up_to(&self.db, buffer, piece.offset).ok()?;
            let message = message(buffer.get(..filled)?, 0, Some(piece.lsn / SEGMENT_LSN))?;
            (message.next == bytes && message.page == page).then(|| read(&message)).flatten()
        })
    }
}

/// Returns the first ordinal whose value has this key or a later one. The database cuts off the end of a key that separates
/// two leaves.
fn first_ordinal(key: &[u8]) -> Option<u64> {
    let mut digits = [0; 8];
    let (ordinal, last) = key.split_at(key.len().min(8));
    digits.get_mut(..ordinal.len())?.copy_from_slice(ordinal);
    let ordinal = u64::from_be_bytes(digits);
    match last {
        [] | [0] => Some(ordinal),
        [_] => ordinal.checked_add(1),
        _ => None,
    }
}
