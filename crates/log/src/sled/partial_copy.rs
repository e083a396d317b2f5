//! The part of a closed log's database that a reader needs of its own, where it reads the values at their places in the
//! log's own file ([`Straight`]): all pages but the leaves with the values, of which only the last ones are needed. In the
//! copy's file these are at their places, and the rest is a hole.
//!
//! The database takes a hole for damage. So nothing is said of a log because of such a copy: whatever fails is asked of a whole
//! one, and a log that is not surely closed, torn, or damaged has a whole one from the beginning.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::api::durability::Durability;
use crate::engine::head::Head;
use crate::engine::index::image;
use crate::sled::guard::disk::{read_up_to, write_at};
use crate::sled::guard::pages::PageTable;
use crate::sled::guard::segment::{HEADER_BYTES, SEGMENT_BYTES};
use crate::sled::guard::walk::SegmentWalk;
use crate::sled::guard::{cache, tear};
use crate::sled::index::{BLOCKS_TREE, IMAGE_FILE};
use crate::sled::straight::Straight;

/// The last leaves of a tree that are copied: the leaves at its end, with the spacers that stand ahead of its values.
const LAST_LEAVES: usize = 12;

/// The most bytes of the beginning of an image of the index that are read.
const BEGINNING_BYTES: u64 = 64 * 1024;

/// Bytes between two pieces that are copied together with them.
const GAP_BYTES: u64 = 16 * 1024;

/// Most bytes that are copied at once.
const PIECE_BYTES: u64 = 1024 * 1024;

/// The places of a database's file that are copied, its page table at the end of the log, and the values that are read from it.
pub(crate) struct PartialCopy {
    pub(crate) straight: Straight,
    table: PageTable,
    places: Vec<(u64, u64)>,
    length: u64,
}

impl PartialCopy {
    /// Returns what is to be copied of the log with this database file, whose small files were copied to `copy`; `None` if all of
    /// it is.
    pub(crate) fn new(db: &File, copy: &Path, durability: Durability) -> Option<Self> {
        let mut notes = Vec::new();
        let mut table = cache::check(copy, db, &mut notes).ok().filter(|_| notes.is_empty())?;
        let head = Head::read(copy).ok()?;
        let from = table.stable.unwrap_or(0);
        let walk = SegmentWalk::from(db, from).ok()?;
        let is_torn = !matches!(tear::find(db, (&walk, from), head.as_ref(), durability), Ok(None));
        let is_possible = matches!(walk.impossible_page(db), Ok(None));
        if is_torn
            || !is_possible
            || walk.doubled.is_some()
            || walk.segments.iter().any(|segment| segment.headless)
        {
            return None;
        }
        walk.add_to(&mut table);
        table.end_segment();
        let straight = Straight::over(db.try_clone().ok()?, table.clone())?;
        let most_leaves = |tree: &[u8]| {
            let mut leaves = straight.leaves_of(tree)?;
            leaves.truncate(leaves.len().saturating_sub(LAST_LEAVES));
            Some(leaves)
        };
        // The database has to have all that cannot be read past it.
        let log = most_leaves(b"log")?;
        let mut left_out: HashSet<u64> = log.into_iter().filter(|leaf| straight.has_all_of(*leaf)).collect();
        // No opening reads chunks but the last ones.
        left_out.extend(most_leaves(b"chunks")?);
        if let Some(covered) = blocks_covered(copy) {
            let mut blocks = most_leaves(BLOCKS_TREE.as_bytes())?;
            let begins_before = |leaf: &u64| straight.begin_of(*leaf).is_some_and(|begin| begin <= covered);
            blocks.truncate(blocks.iter().rposition(begins_before).unwrap_or(0));
            left_out.extend(blocks);
        }
        let length = db.metadata().ok()?.len();
        let headers = (0..length).step_by(SEGMENT_BYTES).map(|offset| (offset, HEADER_BYTES as u64));
        let wanted = table.all_present().filter(|(page, _)| !left_out.contains(page));
        let pieces = wanted.flat_map(|(_, pieces)| pieces).map(|piece| (piece.offset, piece.bytes));
        let places = headers.chain(pieces).filter(|(offset, _)| *offset < length);
        let places = together(places.map(|(offset, bytes)| (offset, bytes.min(length - offset))).collect());
        Some(Self { straight: straight.needed(), table, places, length })
    }

    /// Returns the number of bytes that are copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.places.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Copies the places to an empty file in `copy`, and writes the page table there, which the database takes for its own.
    ///
    /// # Errors
    /// If the log's file cannot be read, or the copy not be written.
    pub(crate) fn write(&self, db: &File, to: &File, copy: &Path) -> io::Result<()> {
        to.set_len(self.length)?;
        let mut buffer = Vec::new();
        for (offset, bytes) in &self.places {
            let end = offset.saturating_add(*bytes);
            let mut at = *offset;
            while at < end {
                let count = (end - at).min(PIECE_BYTES);
                buffer.resize(usize::try_from(count).map_err(io::Error::other)?, 0);
                let filled = read_up_to(db, &mut buffer, at)?;
                write_at(to, buffer.get(..filled).unwrap_or_default(), at)?;
                at += count;
            }
        }
        self.table.replace_snapshot_unsynced(copy)
    }
}

/// Returns the first block of the index that its image does not cover, if there is one.
fn blocks_covered(copy: &Path) -> Option<u64> {
    let mut beginning = Vec::new();
    File::open(copy.join(IMAGE_FILE)).ok()?.take(BEGINNING_BYTES).read_to_end(&mut beginning).ok()?;
    image::blocks_covered(&beginning)
}

/// Returns places in order, those that are near each other as one.
fn together(mut places: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    places.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (offset, bytes) in places {
        let end = offset.saturating_add(bytes);
        match joined.last_mut() {
            Some((begin, length)) if offset <= begin.saturating_add(*length).saturating_add(GAP_BYTES) => {
                *length = (*length).max(end - *begin);
            }
            _ => joined.push((offset, bytes)),
        }
    }
    joined
}
