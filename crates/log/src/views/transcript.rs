//! A session as the conversation that it is: what was said, in order, with the calls between.

mod entries;
mod entry;

use std::ops::ControlFlow;

use proto_events::id::{Category, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::record::StreamInfo;
use crate::views::event_row::event_rows;
use crate::views::transcript::entries::EntryWriter;
pub use crate::views::transcript::entry::{Speaker, TranscriptEntry};
use crate::views::view::task_row;

/// Shows `visit` the entries of a session in order. Of a task, these are its turns in its session, or where it had none its own
/// messages and outputs. Returns the stream that was read; memory holds a page of records.
///
/// # Errors
/// The error of `visit`, or a converted [`ReadError`] if the stream cannot be read.
pub fn transcript<E: From<ReadError>>(
    reader: &dyn EventReader,
    stream: &StreamId,
    mut visit: impl FnMut(TranscriptEntry) -> Result<(), E>,
) -> Result<StreamId, E> {
    let session = if stream.category() == Some(Category::Task) { session_of(reader, stream)? } else { None };
    let only = session.as_ref().map(|_| stream.as_str());
    let read = session.as_ref().unwrap_or(stream);
    let mut is_empty = true;
    each_entry(reader, read, only, |entry| {
        is_empty = false;
        visit(entry)
    })?;
    if is_empty && session.is_some() {
        // The session has others' turns only.
        each_entry(reader, stream, None, visit)?;
        return Ok(stream.clone());
    }
    Ok(read.clone())
}

/// Returns the session of a task, if the log has it.
fn session_of(reader: &dyn EventReader, task: &StreamId) -> Result<Option<StreamId>, ReadError> {
    let info = StreamInfo { stream: task.clone(), version: reader.stream_version(task)? };
    let named = task_row(reader, &info)?.session.unwrap_or_else(|| task.id());
    let Ok(session) = StreamId::session(&task.agent(), &named) else { return Ok(None) };
    Ok((reader.stream_version(&session)? > Version(0)).then_some(session))
}

fn each_entry<E: From<ReadError>>(
    reader: &dyn EventReader,
    stream: &StreamId,
    only: Option<&str>,
    mut visit: impl FnMut(TranscriptEntry) -> Result<(), E>,
) -> Result<(), E> {
    let mut entries = EntryWriter::default();
    for_each_page_of(reader, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            for entry in entries.entries(&row) {
                if only.is_none_or(|only| entry.task.as_deref() == Some(only)) {
                    visit(entry)?;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

#[cfg(test)]
mod tests;
