//! Reading and writing at places of the database file, with every error told.

use std::fs::File;
use std::io;

use crate::sled::guard::segment::SEGMENT_BYTES;

/// Bytes that are read at once where a larger piece could not be read.
const BLOCK_BYTES: usize = 4096;

/// Reads the segment at an offset, as far as the file has it.
pub(crate) fn read_segment(db: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; SEGMENT_BYTES];
    let filled = read_up_to(db, &mut bytes, offset)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads what can be read of the segment at an offset. Returns zeros for the rest, and their number.
pub(crate) fn read_readable(db: &File, offset: u64) -> (Vec<u8>, u64) {
    if let Ok(segment) = read_segment(db, offset) {
        return (segment, 0);
    }
    let (mut bytes, mut unreadable) = (vec![0; SEGMENT_BYTES], 0);
    for (number, block) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
        if read_up_to(db, block, offset + (number * BLOCK_BYTES) as u64).is_err() {
            block.fill(0);
            unreadable += block.len() as u64;
        }
    }
    (bytes, unreadable)
}

/// Reads as many bytes as there are, up to the size of the buffer.
pub(crate) fn read_up_to(db: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read_at(db, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Writes all bytes at an offset.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Writes all bytes at an offset.
#[cfg(windows)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    match std::os::windows::fs::FileExt::seek_write(file, bytes, offset)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
