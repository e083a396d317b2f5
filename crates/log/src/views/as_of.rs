//! A log as it was at an earlier point: what came later is hidden from its readers.

use std::ops::ControlFlow;

use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::{EventReader, for_each_page, scanned};
use crate::api::record::{StoredRecord, StreamInfo};
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::limits::READ_PAGE_STREAMS;
use crate::views::point::{PointError, version_up_to};

/// A log as it was when it ended at a position. Every view of it is the one that was seen then.
///
/// The last record may have had further events. It is shown without them, with bytes and a hash of its own, so that this is no
/// reader for verification or export.
#[derive(Clone, Copy)]
pub struct AsOf<'a> {
    reader: &'a dyn EventReader,
    through: Position,
}

impl std::fmt::Debug for AsOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsOf").field("through", &self.through).finish_non_exhaustive()
    }
}

impl<'a> AsOf<'a> {
    /// Returns the log as it was when it ended at this position.
    pub fn position(reader: &'a dyn EventReader, through: Position) -> Self {
        Self { reader, through }
    }

    /// Returns the log as it was when a stream ended at this version.
    ///
    /// # Errors
    /// [`PointError`] if the stream has no such version, or cannot be read.
    pub fn version(
        reader: &'a dyn EventReader,
        stream: &StreamId,
        version: Version,
    ) -> Result<Self, PointError> {
        let read = reader.read_stream(stream, version, 1)?;
        let stored = read.first().filter(|stored| version >= stored.record.first_version);
        let Some(stored) = stored else {
            return Err(PointError::NoVersion(reader.stream_version(stream)?));
        };
        let place = stored.position.0 + (version.0 - stored.record.first_version.0);
        Ok(Self { reader, through: Position(place) })
    }

    /// Returns the position at which the log ended.
    pub fn through(&self) -> Position {
        self.through
    }

    /// Leaves out what came later.
    fn cut(&self, mut records: Vec<StoredRecord>) -> Result<Vec<StoredRecord>, ReadError> {
        records.truncate(records.partition_point(|stored| stored.position <= self.through));
        if let Some(last) = records.pop_if(|last| last.last_position() > self.through) {
            records.push(self.without_later(last)?);
        }
        Ok(records)
    }

    /// Returns a record with the events that were there.
    fn without_later(&self, stored: StoredRecord) -> Result<StoredRecord, ReadError> {
        let kept =
            usize::try_from(self.through.0 - stored.position.0).unwrap_or(usize::MAX).saturating_add(1);
        let (position, record) = (stored.position, stored.record);
        let wrong = |what: String| ReadError::corrupt(what, Some(position));
        let body = |event: &proto_events::codec::record::StoredEvent| {
            let body = event.body().ok_or_else(|| wrong("the body of an event is missing".to_owned()))?;
            let (kind, schema, salt) = (event.kind, event.schema, *event.salt());
            Ok(EventBody { kind, schema, salt, body: body.to_vec() })
        };
        let events = record.events.iter().take(kept).map(body).collect::<Result<_, ReadError>>()?;
        let draft = RecordDraft {
            stream: record.stream,
            first_version: record.first_version,
            set_id: record.set_id,
            part: record.part,
            parts: record.parts,
            partition: record.partition,
            epoch: record.epoch,
            metadata: record.metadata,
            fields: record.fields,
            previous: record.previous,
            events,
        };
        let encoded = draft.encode().map_err(|error| wrong(error.to_string()))?;
        Ok(StoredRecord::new(&encoded, position))
    }
}

impl EventReader for AsOf<'_> {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.cut_from(from, self.reader.read_stream(stream, from, limit)?)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        if from > self.through { Ok(Vec::new()) } else { self.cut(self.reader.read_all(from, limit)?) }
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.cut_from(from, self.reader.page_stream(stream, from, page)?)
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        if from > self.through { Ok(Vec::new()) } else { self.cut(self.reader.page_all(from, page)?) }
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        let (mut rest, mut flow) = (None, ControlFlow::Continue(()));
        self.reader.scan(from, compare, &mut |scanned| {
            if scanned.last_position() > self.through {
                rest = Some(scanned.position);
                return Ok(ControlFlow::Break(()));
            }
            flow = visit(scanned)?;
            Ok(flow)
        })?;
        // A record that ends later is shown without what came later.
        let Some(rest) = rest.filter(|rest| flow.is_continue() && *rest <= self.through) else {
            return Ok(());
        };
        for_each_page(self, rest.max(from), |page| {
            for stored in &page {
                if visit(&scanned(stored)?)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.reader.head()?.min(self.through))
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        let end = self.reader.stream_version(stream)?;
        version_up_to(self.reader, stream, end, self.through)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let (mut found, mut after) = (Vec::new(), after.cloned());
        while found.len() < limit {
            let page = self.reader.list_streams(prefix, after.as_ref(), READ_PAGE_STREAMS)?;
            let Some(last) = page.last() else { break };
            after = Some(last.stream.clone());
            for mut info in page {
                info.version = version_up_to(self.reader, &info.stream, info.version, self.through)?;
                if info.version.0 > 0 && found.len() < limit {
                    found.push(info);
                }
            }
        }
        Ok(found)
    }
}

impl AsOf<'_> {
    /// Leaves out what came later, and a record of which nothing is left from this version on.
    fn cut_from(&self, from: Version, records: Vec<StoredRecord>) -> Result<Vec<StoredRecord>, ReadError> {
        let mut left = self.cut(records)?;
        if left.first().is_some_and(|first| first.record.last_version() < from) {
            left.clear();
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use proto_events::id::Category;

    use super::*;
    use crate::documents::{show_json, state_json};
    use crate::jsonl::JsonLines;
    use crate::memory::MemoryStore;
    use crate::read::for_each::for_each_stream;
    use crate::views::event_row::{EventRow, event_rows};
    use crate::views::trace::trace;
    use crate::views::transcript::transcript;
    use crate::views::view::task_rows;

    fn golden() -> JsonLines {
        JsonLines::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v2/varied.ndjson")).unwrap()
    }

    fn rows(reader: &dyn EventReader) -> Vec<EventRow> {
        let mut rows = Vec::new();
        for_each_page(reader, Position(1), |page| {
            rows.extend(page.iter().flat_map(event_rows));
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })
        .unwrap();
        rows
    }

    fn streams(reader: &dyn EventReader) -> Vec<StreamInfo> {
        let mut all = Vec::new();
        for_each_stream(reader, "", |info| all.push(info)).unwrap();
        all
    }

    #[test]
    fn at_each_position_every_read_shows_what_was_there_and_nothing_later() {
        let log = golden();
        let (all, end) = (rows(&log), log.head().unwrap());
        // Each third position: records have one event to several.
        for through in (0..=end.0).step_by(3).chain([end.0 - 1, end.0, end.0 + 2]) {
            let then = AsOf::position(&log, Position(through));
            let expected: Vec<&EventRow> = all.iter().filter(|row| row.position.0 <= through).collect();
            assert_eq!(rows(&then).iter().collect::<Vec<_>>(), expected, "@{through}");
            assert_eq!(then.head().unwrap().0, through.min(end.0));
            let mut scanned = 0;
            then.scan(Position(1), Compare::Hashes, &mut |record| {
                scanned += usize::from(record.record.event_count);
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
            assert_eq!(scanned, expected.len(), "@{through}");
            for info in streams(&log) {
                let by_hand: Vec<_> = expected.iter().filter(|row| row.stream == info.stream).collect();
                assert_eq!(then.stream_version(&info.stream).unwrap().0, by_hand.len() as u64);
                assert_eq!(streams(&then).contains(&info), by_hand.len() as u64 == info.version.0);
                let end = by_hand.len() as u64;
                for from in [0, 1, end, end + 1] {
                    let read = then.read_stream(&info.stream, Version(from), 1).unwrap();
                    let is_there = by_hand.last().is_some_and(|last| last.version.0 >= from);
                    assert_eq!(read.is_empty(), !is_there, "{} v{from} @{through}", info.stream);
                }
                assert_eq!(then.read_all(Position(through + 1), 1).unwrap(), []);
            }
        }
    }

    #[test]
    fn every_view_of_an_earlier_point_is_that_of_a_log_that_ended_there() {
        let log = golden();
        for info in streams(&log) {
            for version in 1..=info.version.0 {
                let then = AsOf::version(&log, &info.stream, Version(version)).unwrap();
                let state = state_json(&then, &info.stream, None).unwrap();
                assert_eq!(state, state_json(&log, &info.stream, Some(Version(version))).unwrap());
                show_json(&then, &info.stream).unwrap();
                transcript(&then, &info.stream, |_| Ok::<_, ReadError>(())).unwrap();
                if info.stream.category() == Some(Category::Task) {
                    let last = trace(&then, &info.stream).unwrap();
                    assert!(last.nodes.iter().all(|node| node.version.0 > 0));
                }
            }
            assert!(AsOf::version(&log, &info.stream, Version(info.version.0 + 1)).is_err());
        }
        let end = log.head().unwrap();
        let rows = |reader: &dyn EventReader| task_rows(reader).unwrap().rows;
        assert_eq!(rows(&AsOf::position(&log, end)), rows(&log));
        assert!(rows(&AsOf::position(&log, Position(0))).is_empty());
        assert!(AsOf::position(&MemoryStore::new(), Position(9)).head().unwrap().0 == 0);
    }
}
