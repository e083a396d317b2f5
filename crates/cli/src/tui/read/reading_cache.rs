//! The readings of a log that are kept between answers: the courses of long tasks, and the lines of the stream that was read last. A look at a task of
//! a hundred thousand events then costs what it shows, and new events cost what they are.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::read::for_each_page_of;
use taskreel_log::views::{Courses, Filter, event_rows};

use crate::tui::read::lines::Lines;

/// The readings of a log that are kept between answers.
#[derive(Debug, Default)]
pub(crate) struct ReadingCache {
    /// The courses of long tasks.
    pub(super) courses: Courses,
    /// The stream that was read last, with the filter by which its events were judged.
    lines: Mutex<Option<(StreamId, Filter, Lines)>>,
}

/// The readings that are kept of the log of one reader: another reader may show a copy that ends elsewhere.
#[derive(Default)]
pub(crate) struct KeptOf {
    reader: Option<Arc<dyn EventReader>>,
    kept: Arc<ReadingCache>,
}

impl KeptOf {
    /// Returns what is kept of a reader's log.
    pub(crate) fn cache_for(&mut self, reader: &Arc<dyn EventReader>) -> Arc<ReadingCache> {
        if !self.reader.as_ref().is_some_and(|known| Arc::ptr_eq(known, reader)) {
            *self = Self { reader: Some(Arc::clone(reader)), kept: Arc::default() };
        }
        Arc::clone(&self.kept)
    }
}

impl ReadingCache {
    /// Returns the lines of a stream as far as it can be read, and the reason why it cannot be read further.
    ///
    /// # Errors
    /// [`ReadError`] if nothing of it can be read.
    pub(super) fn lines(
        &self,
        log: &dyn EventReader,
        stream: &StreamId,
        filter: &Filter,
    ) -> Result<Lines, ReadError> {
        let mut kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.take().filter(|(of, by, _)| of == stream && by == filter);
        let mut lines = known.map_or_else(|| Lines::new(filter.clone()), |(.., lines)| lines);
        let read = for_each_page_of(log, stream, Version(lines.data.end + 1), |page| {
            for row in page.iter().flat_map(event_rows) {
                // The first record may begin before what is new.
                if row.version.0 > lines.data.end {
                    lines.accept_row(&row);
                }
            }
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        });
        let found = lines.clone();
        *kept = Some((stream.clone(), filter.clone(), lines));
        match read {
            Err(error @ ReadError::Corrupt { .. }) if found.data.end > 0 => {
                let mut found = found;
                found.data.damage = Some(format!("it ends here, behind v{}: {error}", found.data.end));
                Ok(found)
            }
            read => read.map(|()| found),
        }
    }
}
