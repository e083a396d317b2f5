//! The last segment of the log, kept aside while sled opens it. It is the only one that sled still reads then,
//! and sled clears it if a read fails. The copy stays until the log was found whole; an opening that finds
//! one puts back what is missing.
//!
//! | bytes of the file `tip` | field, integers big-endian |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 8 | offset of the segment in `db` |
//! | 8 | lsn of the segment |
//! | n | the segment, up to the end of the log |

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::api::error::OpenError;
use crate::engine::{files, rights};
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::disk::{read_segment, read_up_to, write_at};
use crate::sled::guard::lock::lock;
use crate::sled::guard::segment::{Header, SEGMENT_BYTES, header};

/// Name of the file.
pub(crate) const TIP_FILE: &str = "tip";

/// Longest time for which a process that is being started may hold our lock.
const LOCK_WITHIN: Duration = Duration::from_secs(2);

/// The last segment of a log, up to the log's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tip {
    offset: u64,
    lsn: u64,
    bytes: Vec<u8>,
}

impl Tip {
    /// Reads the segment at an offset as far as the log goes, and keeps it aside in `dir`, durably.
    pub(crate) fn copy_aside(
        dir: &Path,
        db: &File,
        (offset, lsn): (u64, u64),
        end: usize,
    ) -> io::Result<Self> {
        let mut bytes = read_segment(db, offset)?;
        bytes.truncate(end);
        let tip = Self { offset, lsn, bytes };
        let new = dir.join(format!("{TIP_FILE}{}", files::NEW));
        let mut file = rights::file(dir, &format!("{TIP_FILE}{}", files::NEW))?;
        file.write_all(&tip.to_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, dir.join(TIP_FILE))?;
        files::sync_dir(dir)?;
        Ok(tip)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut rest = self.offset.to_be_bytes().to_vec();
        rest.extend_from_slice(&self.lsn.to_be_bytes());
        rest.extend_from_slice(&self.bytes);
        [&crc32c::crc32c(&rest).to_be_bytes()[..], &rest].concat()
    }

    fn parse(file: &[u8]) -> Option<Self> {
        let (crc, rest) = file.split_first_chunk::<4>()?;
        let is_whole = u32::from_be_bytes(*crc) == crc32c::crc32c(rest);
        let (offset, rest) = rest.split_first_chunk::<8>().filter(|_| is_whole)?;
        let (lsn, bytes) = rest.split_first_chunk::<8>()?;
        let (offset, lsn) = (u64::from_be_bytes(*offset), u64::from_be_bytes(*lsn));
        Some(Self { offset, lsn, bytes: bytes.to_vec() })
    }

    /// Whether the database file still has what was kept.
    fn is_in(&self, db: &File) -> io::Result<bool> {
        let mut found = vec![0; self.bytes.len()];
        let filled = read_up_to(db, &mut found, self.offset)?;
        Ok(filled == found.len() && found == self.bytes)
    }

    /// Writes back what the database file has lost. What was written after the kept part followed from the
    /// loss, and is cleared. Returns false if nothing was lost.
    fn put_back(&self, db: &File) -> io::Result<bool> {
        if self.is_in(db)? {
            return Ok(false);
        }
        let mut head = [0; crate::sled::guard::segment::HEADER_BYTES];
        read_up_to(db, &mut head, self.offset)?;
        // The database gives a segment that it no longer needs to a later part of the log.
        if matches!(header(&head), Header::Good(lsn) if lsn != self.lsn) {
            return Ok(false);
        }
        let mut segment = self.bytes.clone();
        segment.resize(SEGMENT_BYTES, 0);
        write_at(db, &segment, self.offset)?;
        db.sync_all()?;
        Ok(true)
    }
}

/// Puts back what an earlier opening lost, if it was cut off before it could do so itself. Returns whether
/// anything had been lost.
pub(crate) fn put_back(dir: &Path, db: &File) -> io::Result<bool> {
    let path = dir.join(TIP_FILE);
    let file = match std::fs::read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let lost = Tip::parse(&file).map_or(Ok(false), |tip| tip.put_back(db))?;
    std::fs::remove_file(&path)?;
    Ok(lost)
}

/// Checks that sled, which has just opened the log, has left its end in place.
///
/// # Errors
/// [`OpenError::Io`] if it has not, since a read failed. [`recover`] then puts the end back.
pub(crate) fn check(dir: &Path, tip: Option<&Tip>) -> Result<(), OpenError> {
    let path = dir.join(DATA_FILE);
    // Windows lets nobody read a file that is locked. The end is still put back if the opening fails.
    let Some(tip) = tip.filter(|_| cfg!(not(windows))) else { return Ok(()) };
    let db = File::open(&path).map_err(io_error(&path, "the database file could not be opened"))?;
    if tip.is_in(&db).map_err(io_error(&path, "its end could not be read"))? {
        return Ok(());
    }
    let told = io_error(&path, "the database could not read the end of the log; nothing is lost");
    Err(told(io::Error::other("a read failed; see the messages of the operating system, then open it again")))
}

/// Puts back what an opening that failed has lost, once the database has released the directory.
pub(crate) fn recover(dir: &Path) {
    let path = dir.join(DATA_FILE);
    let recovered = || -> Result<(), OpenError> {
        let db = OpenOptions::new().read(true).write(true).open(&path);
        let db = db.map_err(io_error(&path, "the database file could not be opened"))?;
        let since = Instant::now();
        while !lock(&db, &path)? {
            if since.elapsed() > LOCK_WITHIN {
                // The program that has it open has put the end back.
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let put = put_back(dir, &db).map_err(io_error(&path, "the end of the log could not be put back"));
        let freed = db.unlock().map_err(io_error(&path, "the database file could not be unlocked"));
        put.map(drop).and(freed)
    };
    if let Err(error) = recovered() {
        tracing::warn!(%error, "the end of the log is put back by the next opening");
    }
}

/// Removes the copy, once the log was found whole. Durable with the next sync of the directory.
pub(crate) fn forget(dir: &Path) -> io::Result<()> {
    match std::fs::remove_file(dir.join(TIP_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cleared_is_put_back_and_a_segment_given_to_a_later_part_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; SEGMENT_BYTES];
        bytes[..9_000].fill(7);
        std::fs::write(dir.path().join(DATA_FILE), &bytes).unwrap();
        let open = || OpenOptions::new().read(true).write(true).open(dir.path().join(DATA_FILE)).unwrap();
        let tip = Tip::copy_aside(dir.path(), &open(), (0, 0), 9_000).unwrap();
        assert_eq!(Tip::parse(&tip.to_bytes()), Some(tip.clone()));
        assert!(check(dir.path(), Some(&tip)).is_ok());

        write_at(&open(), &vec![0; 20_000], 0).unwrap();
        assert!(check(dir.path(), Some(&tip)).is_err());
        recover(dir.path());
        assert_eq!(std::fs::read(dir.path().join(DATA_FILE)).unwrap(), bytes);
        assert!(!dir.path().join(TIP_FILE).exists());

        let tip = Tip { lsn: 0, ..tip };
        // The header of another segment, as sled writes it.
        let mut other = vec![0; 4];
        other.extend(((4 * SEGMENT_BYTES as u64) ^ 0x7fff_ffff_ffff_ffff).to_le_bytes());
        other.extend([0; 8]);
        let crc = !crc32fast::hash(&other[4..]);
        other[..4].copy_from_slice(&crc.to_le_bytes());
        write_at(&open(), &other, 0).unwrap();
        assert!(!tip.put_back(&open()).unwrap());
    }
}
