//! Pages of records, bounded by number and by bytes.

use proto_events::id::Version;

use crate::api::error::ReadError;
use crate::api::record::StoredRecord;
use crate::limits::{READ_PAGE_BYTES, READ_PAGE_RECORDS};

/// The bounds of a page. A page that is not empty has at least one record, whatever its size; only the empty page
/// means the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The most records.
    pub records: usize,
    /// The bytes of records ([`StoredRecord::bytes_in_memory`]) after which the page ends.
    pub bytes: usize,
}

impl Default for Page {
    /// 256 records, 4 MiB.
    fn default() -> Self {
        Self { records: READ_PAGE_RECORDS, bytes: READ_PAGE_BYTES }
    }
}

impl Page {
    /// A page of at most this many records, whatever their size.
    pub const fn with_limit(records: usize) -> Self {
        Self { records, bytes: usize::MAX }
    }

    /// Fills the page from records that are read one after another.
    ///
    /// # Errors
    /// The first error of the records.
    pub(crate) fn fill(
        self,
        records: impl IntoIterator<Item = Result<StoredRecord, ReadError>>,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let (mut page, mut bytes) = (Vec::new(), 0_usize);
        if self.records == 0 {
            return Ok(page);
        }
        for stored in records {
            let stored = stored?;
            bytes = bytes.saturating_add(stored.bytes_in_memory());
            page.push(stored);
            if page.len() >= self.records || bytes >= self.bytes {
                break;
            }
        }
        Ok(page)
    }
}

/// Returns the version from which a stream is read on, after a page from this version whose last record this is.
///
/// # Errors
/// [`ReadError::Corrupt`] if the record ends before the page began: a reader that goes on would never come to an end.
pub(crate) fn version_after(last: &StoredRecord, from: Version) -> Result<Version, ReadError> {
    let end = last.record.last_version();
    if end < from {
        let what = format!("the versions of {} go back from {from} to {end}", last.record.stream);
        return Err(ReadError::corrupt(what, Some(last.position)));
    }
    Ok(Version(end.0.saturating_add(1)))
}
