//! The writing of a report: what it holds, where it ends, and the file, into which templates and texts are written one after
//! another and nothing is kept.

use std::collections::HashMap;
use std::io;

use askama::Template;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, ReadError};

use crate::inspect::frame::Cx;
use crate::limits::INSPECT_BLOCK_MAX;

/// The part of the content that a report holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportOptions {
    /// Whether payloads, records and artifacts are whole, however long they are. Without it, of one longer than 64 KiB its
    /// beginning, its size and its digest stand there.
    pub whole: bool,
}

impl ReportOptions {
    /// Returns options with which everything is whole.
    #[must_use]
    pub const fn complete() -> Self {
        Self { whole: true }
    }

    pub(crate) const fn bytes_max(self) -> usize {
        if self.whole { usize::MAX } else { INSPECT_BLOCK_MAX }
    }
}

/// The end of a report that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportSummary {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of faults that were found in the streams of the report.
    pub faults: u64,
    /// The number of prompts whose digest is not the one in their intent, or that cannot be rendered again.
    pub prompts_wrong: u64,
    /// The reason why a stream could not be read to its end.
    pub damage: Option<ReadError>,
}

/// A report that was not written to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The log has no such stream.
    #[error("the log has no stream `{0}`")]
    Nothing(StreamId),
    /// The stream is neither a task nor a session.
    #[error("`{0}` is no task and no session")]
    Kind(StreamId),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The report cannot be written.
    #[error("the report cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// The circumstances of a report.
pub(crate) struct ReportWriter<'a, 'b> {
    pub(crate) cx: &'a Cx,
    pub(crate) log: &'a dyn EventReader,
    pub(crate) options: ReportOptions,
    pub(crate) ink: &'a mut Ink<'b>,
    pub(crate) done: &'a mut ReportSummary,
}

impl ReportWriter<'_, '_> {
    /// Takes damage of the log, which ends what is being read and not the report; any other fault ends the report.
    pub(crate) fn damaged(&mut self, error: ReadError) -> Result<(), ReportError> {
        match error {
            ReadError::Corrupt { .. } | ReadError::Newer { .. } => {
                self.ink.write_note(&format!("This cannot be read further: {error}"))?;
                self.done.damage.get_or_insert(error);
                Ok(())
            }
            other => Err(other.into()),
        }
    }
}

/// The bytes that are gathered before they are written.
const GATHERED: usize = 64 * 1024;

/// A report that is being written.
pub(crate) struct Ink<'a> {
    out: io::BufWriter<&'a mut dyn io::Write>,
    bytes: u64,
    /// The last event of each stream whose events stand in the report.
    shown: HashMap<StreamId, Version>,
}

#[derive(Template)]
#[template(path = "inspect/report/note.html")]
struct Note<'a> {
    what: &'a str,
}

impl<'a> Ink<'a> {
    pub(crate) fn new(out: &'a mut dyn io::Write) -> Self {
        Self { out: io::BufWriter::with_capacity(GATHERED, out), bytes: 0, shown: HashMap::new() }
    }

    /// Notes that an event of a stream stands in the report, as those before it.
    pub(crate) fn note_shown(&mut self, stream: &StreamId, version: Version) {
        self.shown.insert(stream.clone(), version);
    }

    /// Whether an event stands in the report.
    pub(crate) fn has_shown(&self, stream: &StreamId, version: Version) -> bool {
        version > Version(0) && self.shown.get(stream).is_some_and(|last| version <= *last)
    }

    /// Writes what a template renders.
    pub(crate) fn render(&mut self, template: &impl Template) -> Result<(), ReportError> {
        let text = template.render().map_err(io::Error::other)?;
        self.text(&text)
    }

    /// Writes a text of ours, as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), ReportError> {
        io::Write::write_all(&mut self.out, text.as_bytes())?;
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        Ok(())
    }

    /// Writes why something ends here.
    pub(crate) fn write_note(&mut self, what: &str) -> Result<(), ReportError> {
        self.render(&Note { what })
    }

    /// Writes what is left, and returns the number of bytes.
    pub(crate) fn finish(mut self) -> Result<u64, ReportError> {
        io::Write::flush(&mut self.out)?;
        Ok(self.bytes)
    }
}
