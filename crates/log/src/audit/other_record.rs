//! The place where one stream differs between two logs.

use proto_events::id::{StreamId, Version};

use crate::api::error::ReadError;
use crate::api::page::{Page, version_after};
use crate::api::reader::EventReader;

/// Returns the first version at which the two logs have different records, or none if one log has all that
/// the other has.
///
/// # Errors
/// [`ReadError`] if one of them cannot be read.
pub fn first_other_record(
    one: &dyn EventReader,
    other: &dyn EventReader,
    stream: &StreamId,
) -> Result<Option<Version>, ReadError> {
    let mut next = Version(1);
    loop {
        let left = one.page_stream(stream, next, Page::default())?;
        let right = other.page_stream(stream, next, Page::default())?;
        let other = left.iter().zip(&right).find(|(left, right)| left.hash != right.hash);
        if let Some((stored, _)) = other {
            return Ok(Some(stored.record.first_version));
        }
        let pages = left.len().min(right.len());
        match left.get(..pages).and_then(|same| same.last()) {
            Some(stored) => next = version_after(stored, next)?,
            None => return Ok(None),
        }
    }
}
