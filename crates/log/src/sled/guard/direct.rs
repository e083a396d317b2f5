//! Writing past the operating system's cache. After a failed write the cache may hold data that is not on the
//! disk, and ext4 a place for it that still counts as never written: writing the data again through the cache
//! changes neither. Where the file system offers no way past its cache, data is written through it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::sled::guard::disk::{read_up_to, write_at};

/// Bytes of a block: places and lengths are multiples of it, as devices want it.
const BLOCK_BYTES: usize = 4096;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1024 * 1024;

/// A buffer that begins at a multiple of a block in memory.
struct AlignedBuffer {
    bytes: Vec<u8>,
    from: usize,
}

impl AlignedBuffer {
    fn new() -> Self {
        let bytes = vec![0; PIECE_BYTES + BLOCK_BYTES];
        let from = bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        Self { bytes, from }
    }

    fn piece(&mut self, length: usize) -> &mut [u8] {
        let to = (self.from + length).min(self.bytes.len());
        self.bytes.get_mut(self.from..to).unwrap_or_default()
    }
}

/// Writes the bytes of these places of a file again, in the order given, and syncs the file. Past the cache they
/// are then read back and compared.
///
/// # Errors
/// The reason, if a place could not be read or written, or if the disk has something else there.
pub(crate) fn write_again(path: &Path, db: &File, places: &[Range<u64>]) -> io::Result<()> {
    let mut direct = open_direct(path);
    let (mut buffer, mut sums) = (AlignedBuffer::new(), Vec::new());
    for (offset, length) in block_ranges(places) {
        let piece = buffer.piece(length);
        let filled = read_up_to(db, piece, offset)?;
        piece.iter_mut().skip(filled).for_each(|byte| *byte = 0);
        match direct.as_ref().map(|direct| write_at(direct, piece, offset)) {
            Some(Ok(())) => sums.push(crc32c::crc32c(piece)),
            // The file system, or its device, has no way past the cache.
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => direct = None,
            Some(Err(error)) => return Err(error),
            None => {}
        }
        if direct.is_none() {
            write_at(db, piece.get(..filled).unwrap_or_default(), offset)?;
        }
    }
    db.sync_all()?;
    let Some(direct) = direct else { return Ok(()) };
    for ((offset, length), sum) in block_ranges(places).zip(sums) {
        let piece = buffer.piece(length);
        let filled = read_up_to(&direct, piece, offset)?;
        if filled != length || crc32c::crc32c(piece) != sum {
            let told = format!("the disk has something else at byte {offset} than what was written to it");
            return Err(io::Error::other(told));
        }
    }
    Ok(())
}

/// Returns the places in pieces of whole blocks.
fn block_ranges(places: &[Range<u64>]) -> impl Iterator<Item = (u64, usize)> {
    let whole = places.iter().filter(|place| !place.is_empty()).map(|place| {
        let block = BLOCK_BYTES as u64;
        (place.start / block * block)..place.end.next_multiple_of(block)
    });
    whole.flat_map(|place| {
        let end = place.end;
        place.step_by(PIECE_BYTES).map(move |offset| {
            let left = usize::try_from(end - offset).unwrap_or(PIECE_BYTES);
            (offset, left.min(PIECE_BYTES))
        })
    })
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_in_whole_blocks_and_the_file_keeps_its_bytes() {
        let places = [0..0, 5..9_000, 4_096 * 600..4_096 * 600 + 1];
        let taken: Vec<_> = block_ranges(&places).collect();
        assert_eq!(taken, [(0, 12_288), (4_096 * 600, 4_096)]);
        let large = 0..3 * PIECE_BYTES as u64 - 1;
        assert_eq!(
            block_ranges(std::slice::from_ref(&large)).map(|(_, length)| length).sum::<usize>(),
            3 * PIECE_BYTES
        );
        for dir in [tempfile::tempdir(), tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))] {
            let dir = dir.unwrap();
            let path = dir.path().join("db");
            let bytes: Vec<u8> = (0..3_000_001_u32).flat_map(u32::to_le_bytes).take(3_000_001).collect();
            std::fs::write(&path, &bytes).unwrap();
            let db = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let end = bytes.len() as u64;
            write_again(&path, &db, &[7..4_097, 50_000..end]).unwrap();
            let after = std::fs::read(&path).unwrap();
            assert!(after.starts_with(&bytes) && after[bytes.len()..].iter().all(|byte| *byte == 0));
        }
    }
}
