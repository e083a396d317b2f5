//! The records of several streams in the order of the log, read page by page.

use std::collections::VecDeque;

use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, Page, ReadError, StoredRecord};

/// Several streams that are read together.
pub(crate) struct MergedStreams<'a> {
    log: &'a dyn EventReader,
    streams: Vec<MergeSource>,
}

struct MergeSource {
    stream: StreamId,
    next: Version,
    page: VecDeque<StoredRecord>,
    is_over: bool,
}

impl<'a> MergedStreams<'a> {
    pub(crate) fn new(log: &'a dyn EventReader, streams: impl IntoIterator<Item = StreamId>) -> Self {
        let source = |stream| MergeSource { stream, next: Version(1), page: VecDeque::new(), is_over: false };
        Self { log, streams: streams.into_iter().map(source).collect() }
    }

    /// Adds a stream, from its beginning. What the others have gained at their ends since is read too.
    pub(crate) fn add(&mut self, stream: StreamId) {
        self.streams.iter_mut().for_each(|source| source.is_over = false);
        self.streams.push(MergeSource { stream, next: Version(1), page: VecDeque::new(), is_over: false });
    }

    /// Reads no further in a stream.
    pub(crate) fn remove(&mut self, stream: &StreamId) {
        self.streams.retain(|source| source.stream != *stream);
    }

    /// Returns the version up to which a stream was returned.
    pub(crate) fn returned(&self, stream: &StreamId) -> Version {
        let source = self.streams.iter().find(|source| source.stream == *stream);
        let next = source.map(|source| match source.page.front() {
            Some(first) => first.record.first_version,
            None => source.next,
        });
        Version(next.map_or(0, |next| next.0.saturating_sub(1)))
    }

    /// Returns the next record in the order of the log.
    ///
    /// # Errors
    /// [`ReadError`] if one of the streams cannot be read further.
    pub(crate) fn next(&mut self) -> Result<Option<StoredRecord>, ReadError> {
        for source in &mut self.streams {
            source.fill(self.log)?;
        }
        let first =
            |source: &&mut MergeSource| source.page.front().map_or(u64::MAX, |first| first.position.0);
        let next = self.streams.iter_mut().min_by_key(first);
        Ok(next.and_then(|source| source.page.pop_front()))
    }
}

impl MergeSource {
    fn fill(&mut self, log: &dyn EventReader) -> Result<(), ReadError> {
        if self.is_over || !self.page.is_empty() {
            return Ok(());
        }
        self.page = log.page_stream(&self.stream, self.next, Page::default())?.into();
        match self.page.back() {
            Some(last) => self.next = Version(last.record.last_version().0.saturating_add(1)),
            None => self.is_over = true,
        }
        Ok(())
    }
}
