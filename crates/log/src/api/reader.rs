//! The reading half of the log.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use proto_events::codec::record::{EventView, RecordView, StoredEvent};
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::open_work::{WorkChange, work_change};
use crate::api::page::{Page, version_after};
use crate::api::record::{StoredRecord, StreamInfo};
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::limits::READ_PAGE_RECORDS;

/// Returns the task streams whose state is `working`, in order of their names. Makes one pass over the log;
/// only the few events that change a task's state are decoded, and these are compared with their digests.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn open_work<R: EventReader + ?Sized>(reader: &R) -> Result<Vec<StreamId>, ReadError> {
    let mut open: HashSet<String> = HashSet::new();
    reader.scan(Position(1), Compare::Checksums, &mut |scanned| {
        let change = work_change(
            &scanned.record,
            |number, event| match event.body {
                Some(_) => checked_body(scanned, event),
                None => chunked_body(reader, scanned, number),
            },
            |why| scanned.corrupt(why),
        )?;
        match change {
            WorkChange::Opened => {
                open.insert(scanned.record.stream.to_owned());
            }
            WorkChange::Ended => {
                open.remove(scanned.record.stream);
            }
            WorkChange::Unchanged => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let wrong = |error: proto_events::id::IdError| ReadError::corrupt(error.to_string(), None);
    let mut open =
        open.iter().map(|name| StreamId::parse(name).map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
    open.sort();
    Ok(open)
}

/// Returns the body of an event stored inline, if it matches its digest in the record.
fn checked_body<'a>(scanned: &ScannedRecord<'_>, event: &EventView<'a>) -> Result<Cow<'a, [u8]>, ReadError> {
    let wrong = || scanned.corrupt("the body of an event does not have the digest that its record holds");
    event.body.filter(|_| event.matches_digest()).map(Cow::Borrowed).ok_or_else(wrong)
}

/// Reads the body of an event stored in chunks, for example of a large submitted task.
fn chunked_body<R: EventReader + ?Sized>(
    reader: &R,
    scanned: &ScannedRecord<'_>,
    number: usize,
) -> Result<Cow<'static, [u8]>, ReadError> {
    let read = reader.read_all(scanned.position, 1)?;
    let event = read.first().and_then(|stored| stored.record.events.get(number));
    let body = event.and_then(StoredEvent::body).map(|body| Cow::Owned(body.to_vec()));
    body.ok_or_else(|| scanned.corrupt("the body of an event is missing from the log"))
}

/// Scans page by page, for readers without a better way.
pub(crate) fn scan_pages<R: EventReader + ?Sized>(
    reader: &R,
    from: Position,
    visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
) -> Result<(), ReadError> {
    for_each_page(reader, from, |page| {
        for stored in &page {
            if visit(&scanned(stored)?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Reads the records of all streams from a position on, page by page, until `visit` returns `Break`.
///
/// # Errors
/// The error of `visit`, or a [`ReadError`] converted to its type.
pub fn for_each_page<R: EventReader + ?Sized, E: From<ReadError>>(
    reader: &R,
    from: Position,
    mut visit: impl FnMut(Vec<StoredRecord>) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut next = from;
    loop {
        let page = reader.page_all(next, Page::default())?;
        let Some(last) = page.last() else { return Ok(()) };
        next = Position(last.last_position().0.saturating_add(1));
        if visit(page)?.is_break() {
            return Ok(());
        }
    }
}

/// Reads the records of one stream from a version on, page by page, until `visit` returns `Break`.
///
/// # Errors
/// The error of `visit`, or a [`ReadError`] converted to its type.
pub fn for_each_page_of<R: EventReader + ?Sized, E: From<ReadError>>(
    reader: &R,
    stream: &StreamId,
    from: Version,
    mut visit: impl FnMut(Vec<StoredRecord>) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut next = from;
    loop {
        let page = reader.page_stream(stream, next, Page::default())?;
        let Some(last) = page.last() else { return Ok(()) };
        next = version_after(last, next)?;
        if visit(page)?.is_break() {
            return Ok(());
        }
    }
}

pub(crate) fn scanned(stored: &StoredRecord) -> Result<ScannedRecord<'_>, ReadError> {
    let wrong = |error: proto_events::codec::record::RecordError| {
        ReadError::corrupt(error.to_string(), Some(stored.position)).newer_if(error.is_newer())
    };
    let record = RecordView::peek(&stored.bytes).map_err(wrong)?;
    Ok(ScannedRecord { position: stored.position, hash: stored.hash, record })
}

/// The reading half of the log.
///
/// # Rules
/// Each reader keeps them; the suite `taskreel_log::testing::conformance` (feature `testing`) checks them.
///
/// * Durable records only: nothing is shown that a failure could still take back.
/// * Positions number the events of the whole log, versions number the events of one stream, both from 1 and without gaps. The
///   records of one append are consecutive.
/// * Every record returned has been compared with its leaf hash and its bodies with their digests, and has all of its
///   bodies, detached ones too, whatever their size.
/// * A page holds exactly the records at and after its start, for each start from 0 to `u64::MAX` and each limit from
///   0 to `usize::MAX`: the first is the record that holds the start, which may begin before it. A limit of 0 and a
///   start after the end give an empty page, and so does an unknown stream.
/// * [`EventReader::scan`], [`EventReader::survey`] and [`EventReader::survey_stream`] show what the pages hold.
/// * What one read has returned, later ones return too: [`EventReader::head`] and
///   [`EventReader::stream_version`] never go back, and cover an append from its acknowledgement on.
/// * After closing, [`EventReader::head`] and the reads of records return [`ReadError::Closed`].
///
/// The provided methods follow from the required ones; a store overrides them where it has a faster way.
pub trait EventReader: Send + Sync {
    /// Returns the records of `stream` that hold events from version `from` on, in order, at most `limit`.
    /// The first may begin before `from`. Empty if the stream is unknown or ends before `from`.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read.
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError>;

    /// Returns the records of all streams that hold events from position `from` on, in order, at most
    /// `limit`.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read.
    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError>;

    /// Returns the next page of a stream: as [`EventReader::read_stream`], but bounded by bytes too. A caller that reads a
    /// log page by page uses this.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read.
    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut next = from;
        page.fill(std::iter::from_fn(|| {
            let read = self.read_stream(stream, next, 1).map(|one| one.into_iter().next()).transpose()?;
            if let Ok(stored) = &read {
                next = Version(stored.record.last_version().0.saturating_add(1));
            }
            Some(read)
        }))
    }

    /// Returns the next page of the log: as [`EventReader::read_all`], but bounded by bytes too.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read.
    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        let mut next = from;
        page.fill(std::iter::from_fn(|| {
            let read = self.read_all(next, 1).map(|one| one.into_iter().next()).transpose()?;
            if let Ok(stored) = &read {
                next = Position(stored.last_position().0.saturating_add(1));
            }
            Some(read)
        }))
    }

    /// Shows `visit` the records of all streams that hold events from position `from` on, in order and in
    /// place: a pass over the whole log copies no record. Ends when `visit` returns `Break`.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read, or the error of `visit`.
    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        // Pages are compared in any case.
        let _ = compare;
        scan_pages(self, from, visit)
    }

    /// Returns the number of threads that a pass over the whole log may use. One, unless the opener of the log has
    /// allowed more: a reader beside actors must not take their processors.
    fn scan_threads(&self) -> usize {
        1
    }

    /// Returns the number of pieces of the log that several threads may read at the same time. Together and in order they
    /// are the log as it is at this call; the last may have later records too.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn pieces(&self) -> Result<u64, ReadError> {
        Ok(1)
    }

    /// Scans a piece, as [`EventReader::scan`].
    ///
    /// # Errors
    /// As [`EventReader::scan`].
    fn scan_piece(
        &self,
        piece: u64,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> ScanStep {
        let mut flow = ControlFlow::Continue(());
        if piece == 0 {
            self.scan(Position(1), compare, &mut |scanned| {
                flow = visit(scanned)?;
                Ok(flow)
            })?;
        }
        Ok(flow)
    }

    /// Surveys a piece, as [`EventReader::survey`], until `show` returns `Break`.
    fn survey_piece(
        &self,
        piece: u64,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
    ) {
        let mut flow = ControlFlow::Continue(());
        if piece == 0 {
            self.survey(&mut |read| {
                if flow.is_continue() {
                    flow = show(read);
                }
            });
        }
    }

    /// Reads a piece, as [`EventReader::survey_piece`], for somebody who reads records and does not look for damage: a store may
    /// read past the database, where that is quicker.
    fn read_piece(
        &self,
        piece: u64,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
    ) {
        self.survey_piece(piece, show);
    }

    /// Returns the last durable position; 0 if the log is empty.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn head(&self) -> Result<Position, ReadError>;

    /// Returns the last version of `stream`; 0 if it is unknown. Does not read the disk: actors call it on
    /// their own thread.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError>;

    /// Returns the streams whose ids begin with `prefix`, in order of their ids, from the first one after
    /// `after`, at most `limit`, each with its last version.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError>;

    /// Returns the streams that had open work when the log was closed or its process died, in order of their
    /// names: these are resumed at a start. A store without an index reads the whole log for this.
    ///
    /// # Errors
    /// [`ReadError`] if the log cannot be read.
    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        open_work(self)
    }

    /// Shows every record in order and, in its place, an error for each piece of the log that cannot be read.
    /// Verification reads damaged logs in this way: all other reads end at the first error, and so does this
    /// one in a store that cannot continue after an error.
    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let surveyed = for_each_page(self, Position(1), |page| {
            for stored in page {
                show(Ok(stored));
            }
            Ok(ControlFlow::Continue(()))
        });
        if let Err(error) = surveyed {
            show(Err(error));
        }
    }

    /// Surveys as [`EventReader::survey`] does, and shows nothing soon after `goes_on` returns false, which is asked before
    /// each page or value of the log: a survey for somebody else stops when that one is gone. The last that is shown
    /// may then be [`ReadError::Closed`]. By default it calls [`EventReader::survey`]; a store that can end its reading overrides both.
    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        let (mut shown, mut is_over) = (0_usize, false);
        self.survey(&mut |read| {
            // To ask may cost a call of the operating system.
            if shown.is_multiple_of(READ_PAGE_RECORDS) {
                is_over = is_over || !goes_on();
            }
            shown += 1;
            if !is_over {
                show(read);
            }
        });
    }

    /// Shows an error for each entry of the store's index that the log contradicts. A store without an index shows
    /// none.
    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        let _ = show;
    }

    /// Surveys the index as [`EventReader::survey_index`] does, and ends soon after `goes_on` returns false, which is asked
    /// before each value of the log.
    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        let _ = goes_on;
        self.survey_index(show);
    }

    /// Surveys one stream. Continues with the next version after a record that cannot be read.
    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let end = match self.stream_version(stream) {
            Ok(end) => end,
            Err(error) => return show(Err(error)),
        };
        let (mut next, mut reported, mut singly) = (Version(1), false, 0_usize);
        // Page by page; behind an error one record at a time for the length of a page, so that the error belongs to one
        // record. Every round advances by at least one version.
        while next <= end {
            if singly == 0 {
                match self.page_stream(stream, next, Page::default()) {
                    Ok(page) if page.is_empty() => return,
                    Ok(page) => {
                        for stored in page {
                            next = Version(stored.record.last_version().0.max(next.0) + 1);
                            show(Ok(stored));
                        }
                        reported = false;
                        continue;
                    }
                    Err(_) => singly = READ_PAGE_RECORDS,
                }
            }
            singly -= 1;
            match self.read_stream(stream, next, 1).map(|page| page.into_iter().next()) {
                Ok(Some(stored)) => {
                    next = Version(stored.record.last_version().0.max(next.0) + 1);
                    reported = false;
                    show(Ok(stored));
                }
                Ok(None) => return,
                Err(error) => {
                    if !std::mem::replace(&mut reported, true) {
                        show(Err(error));
                    }
                    next = Version(next.0 + 1);
                }
            }
        }
    }
}
