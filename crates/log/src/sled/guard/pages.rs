//! sled's page table, as its files `snap.*` hold it: for each page, the places of its pieces in the file `db`.
//! sled makes one from its log whenever it opens, and takes a read error for the log's end while it does so. We
//! make it first, in the same form, and then sled has nothing left to read but the last segment.
//!
//! | bytes of a snapshot | field |
//! |---|---|
//! | 8 | lsn up to which it goes, plus 1, little-endian; 0 if it goes nowhere |
//! | varint | offset of the segment that is being filled, plus 1; 0 if the next one begins a new segment |
//! | … | for each page: 0 and its last piece if it is free, else the number of its pieces and these |
//! | 8 | bytes of the above, little-endian |
//! | 4 | CRC32 of the above without that length, little-endian |
//!
//! A piece is its lsn (8, little-endian), a zero, its offset in the file and its length as varints. A free page
//! has no length.

#[cfg(test)]
pub(crate) mod tests;

use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::engine::{files, rights};
use crate::sled::guard::segment::{PageChange, PageWrite, SEGMENT_LSN, put_varint, varint};

/// Prefix of the names of sled's snapshots. No other file may have it, or sled would read it as a snapshot.
pub(crate) const SNAPSHOT: &str = "snap.";

/// Suffix of the names of unfinished snapshots.
pub(crate) const UNFINISHED: &str = ".generating";

/// Most pieces of a page that a snapshot can hold.
const PIECES_MAX: usize = 255;

/// A piece of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PagePiece {
    pub(crate) lsn: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The state of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PageState {
    /// No piece of it was read yet.
    Unknown,
    Free(PagePiece),
    /// The page was written as a whole, and then linked to, in this order.
    Present(Vec<PagePiece>),
}

/// The pages of a database up to a place in its log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PageTable {
    /// The lsn up to which the log was read.
    pub(crate) stable: Option<u64>,
    /// The offset of the segment that is being filled.
    pub(crate) active: Option<u64>,
    pages: Vec<PageState>,
}

impl PageTable {
    /// Applies a change of a page, as sled does. Those before `stable` were applied before.
    pub(crate) fn apply(&mut self, write: &PageWrite) {
        if self.stable.is_some_and(|stable| write.lsn < stable) {
            return;
        }
        let Ok(number) = usize::try_from(write.page) else { return };
        let piece = PagePiece { lsn: write.lsn, offset: write.offset, bytes: write.bytes };
        let page = match write.change {
            PageChange::Replaced => PageState::Present(vec![piece]),
            PageChange::Freed => PageState::Free(piece),
            PageChange::Linked => {
                // A link to a page of which nothing is known yet: it was moved to a later place, which follows.
                if let Some(PageState::Present(pieces)) = self.pages.get_mut(number)
                    && pieces.last().is_none_or(|last| last.lsn < piece.lsn)
                {
                    pieces.push(piece);
                }
                return;
            }
        };
        if self.pages.len() <= number {
            self.pages.resize(number + 1, PageState::Unknown);
        }
        if let Some(known) = self.pages.get_mut(number) {
            *known = page;
        }
    }

    /// Ends the segment that is being filled, as if it were full: the next one begins a new segment.
    pub(crate) fn end_segment(&mut self) {
        if self.active.take().is_some() {
            self.stable = self.stable.map(|stable| (stable / SEGMENT_LSN + 1) * SEGMENT_LSN);
        }
    }

    /// Returns the piece in which a page was written as a whole, and those that were linked to it, in their order.
    pub(crate) fn present(&self, page: u64) -> Option<(PagePiece, &[PagePiece])> {
        match self.pages.get(usize::try_from(page).ok()?)? {
            PageState::Present(pieces) => pieces.split_first().map(|(whole, links)| (*whole, links)),
            PageState::Unknown | PageState::Free(_) => None,
        }
    }

    /// Returns the pages that are present, each with its pieces.
    pub(crate) fn all_present(&self) -> impl Iterator<Item = (u64, &[PagePiece])> {
        (0..).zip(&self.pages).filter_map(|(number, page)| match page {
            PageState::Present(pieces) => Some((number, pieces.as_slice())),
            PageState::Unknown | PageState::Free(_) => None,
        })
    }

    /// Returns the offset and the lsn of every piece.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        let pieces = self.pages.iter().flat_map(|page| match page {
            PageState::Present(pieces) => pieces.as_slice(),
            PageState::Free(piece) => std::slice::from_ref(piece),
            PageState::Unknown => &[],
        });
        pieces.map(|piece| (piece.offset, piece.lsn))
    }

    /// Returns the number of all pieces.
    pub(crate) fn pieces(&self) -> usize {
        let pieces = |page: &PageState| if let PageState::Present(pieces) = page { pieces.len() } else { 1 };
        self.pages.iter().map(pieces).sum()
    }

    /// Returns the contents of the snapshot's file, or why there can be none.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut body = self.stable.map_or(0, |lsn| lsn + 1).to_le_bytes().to_vec();
        put_varint(&mut body, self.active.map_or(0, |offset| offset + 1));
        for (number, page) in self.pages.iter().enumerate() {
            match page {
                PageState::Unknown => return Err(format!("nothing is known of page {number}")),
                PageState::Free(piece) => {
                    body.push(0);
                    put_place(&mut body, *piece);
                }
                PageState::Present(pieces) if (1..=PIECES_MAX).contains(&pieces.len()) => {
                    body.push(u8::try_from(pieces.len()).unwrap_or(u8::MAX));
                    for piece in pieces {
                        put_place(&mut body, *piece);
                        put_varint(&mut body, piece.bytes);
                    }
                }
                PageState::Present(pieces) => {
                    return Err(format!("page {number} has {} pieces", pieces.len()));
                }
            }
        }
        let (crc, length) = (crc32fast::hash(&body), body.len() as u64);
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(&crc.to_le_bytes());
        Ok(body)
    }

    /// Reads the contents of a snapshot's file; `None` if they are not whole.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (rest, crc) = bytes.split_last_chunk::<4>()?;
        let (body, length) = rest.split_last_chunk::<8>()?;
        let is_whole =
            crc32fast::hash(body).to_le_bytes() == *crc && u64::from_le_bytes(*length) == body.len() as u64;
        let (stable, mut rest) = body.split_first_chunk::<8>().filter(|_| is_whole)?;
        let stable = u64::from_le_bytes(*stable).checked_sub(1);
        let active = take_varint(&mut rest)?.checked_sub(1);
        let mut pages = Vec::new();
        while let Some((count, after)) = rest.split_first() {
            rest = after;
            pages.push(match count {
                0 => PageState::Free(take_place(&mut rest)?),
                count => {
                    let mut pieces = Vec::with_capacity(usize::from(*count));
                    for _ in 0..*count {
                        let place = take_place(&mut rest)?;
                        pieces.push(PagePiece { bytes: take_varint(&mut rest)?, ..place });
                    }
                    PageState::Present(pieces)
                }
            });
        }
        Some(Self { stable, active, pages })
    }

    /// Replaces the snapshot in `dir` by this one, durably. What it points to must be durable already.
    ///
    /// # Errors
    /// The reason, if it could not be written. The earlier snapshot is then still there.
    pub(crate) fn replace_snapshot(&self, dir: &Path) -> io::Result<()> {
        self.replace(dir, true)
    }

    /// Replaces the snapshot in `dir`, where nothing has to survive a loss of power.
    ///
    /// # Errors
    /// As [`PageTable::replace_snapshot`].
    pub(crate) fn replace_snapshot_unsynced(&self, dir: &Path) -> io::Result<()> {
        self.replace(dir, false)
    }

    fn replace(&self, dir: &Path, is_synced: bool) -> io::Result<()> {
        let bytes = self.to_bytes().map_err(io::Error::other)?;
        let name = format!("{SNAPSHOT}{:016X}", self.stable.unwrap_or(0));
        let unfinished = dir.join(format!("{name}{UNFINISHED}"));
        let mut file = rights::file(dir, &format!("{name}{UNFINISHED}"))?;
        file.write_all(&bytes)?;
        if is_synced {
            file.sync_all()?;
        }
        fs::rename(&unfinished, dir.join(&name))?;
        if is_synced {
            files::sync_dir(dir)?;
        }
        for older in snapshot_names(dir)?.into_iter().filter(|older| **older < *name) {
            fs::remove_file(dir.join(older))?;
        }
        Ok(())
    }
}

/// Returns the names of the snapshots in `dir`, the oldest first.
pub(crate) fn snapshot_names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        names.extend(name.into_string().ok().filter(|name| name.starts_with(SNAPSHOT)));
    }
    names.sort();
    Ok(names)
}

fn put_place(out: &mut Vec<u8>, piece: PagePiece) {
    // sled adds nothing to the lsn of a piece, and writes a kind before its offset.
    out.extend_from_slice(&piece.lsn.to_le_bytes());
    out.push(0);
    put_varint(out, piece.offset);
}

fn take_place(bytes: &mut &[u8]) -> Option<PagePiece> {
    let (lsn, rest) = bytes.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    *bytes = rest;
    let offset = take_varint(bytes)?;
    (*kind == 0).then_some(PagePiece { lsn: u64::from_le_bytes(*lsn), offset, bytes: 0 })
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (value, used) = varint(bytes)?;
    *bytes = bytes.get(used..)?;
    Some(value)
}
