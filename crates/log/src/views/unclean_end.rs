//! The end of the last program that had a log open, where it did not end in order.

use std::ops::ControlFlow;

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::system::SystemHistory;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::read::fold::fold_stream;

/// Returns the time of the last event about the last program, if it did not end in order, while none has the log open.
pub(crate) fn unclean_end(reader: &dyn EventReader) -> Result<Option<Timestamp>, ReadError> {
    let stream = StreamId::of_system(0);
    let history = match fold_stream::<SystemHistory>(reader, &stream, None) {
        Err(ReadError::Newer { .. }) => return Ok(None),
        history => history?.state,
    };
    if !history.is_running() {
        return Ok(None);
    }
    let mut since = None;
    for_each_page_of(reader, &stream, Version(1), |page| {
        since = page.last().map(|stored| stored.record.metadata.at).or(since);
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(since)
}
