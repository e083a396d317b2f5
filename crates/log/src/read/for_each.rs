//! Every record of a log in order of position, a page at a time.

use std::ops::ControlFlow;

use proto_events::id::{Position, StreamId};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page};
use crate::api::record::{StoredRecord, StreamInfo};
use crate::limits::READ_PAGE_STREAMS;

/// Shows every record of the log to `visit`, in order of position, until it answers with an error.
///
/// # Errors
/// Whatever `visit` answers, or [`ReadError`] made into it.
pub fn for_each_record<E: From<ReadError>>(
    reader: &dyn EventReader,
    from: Position,
    mut visit: impl FnMut(&StoredRecord) -> Result<(), E>,
) -> Result<(), E> {
    for_each_page(reader, from, |page| {
        page.iter().try_for_each(&mut visit)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Shows `visit` the streams whose ids begin with `prefix`, in order of their ids.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn for_each_stream(
    reader: &dyn EventReader,
    prefix: &str,
    mut visit: impl FnMut(StreamInfo),
) -> Result<(), ReadError> {
    let mut after: Option<StreamId> = None;
    loop {
        let page = reader.list_streams(prefix, after.as_ref(), READ_PAGE_STREAMS)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.stream.clone());
        let is_last = page.len() < READ_PAGE_STREAMS;
        page.into_iter().for_each(&mut visit);
        if is_last {
            return Ok(());
        }
    }
}
