//! Passes over a whole log, piece by piece, by as many threads as its reader allows. What is read is changed into what
//! the caller wants by the thread that read it, and shown in the order of the log; damage is met where one thread meets
//! it.

use std::ops::ControlFlow;

use proto_events::id::Position;

use crate::api::error::ReadError;
use crate::api::in_order::in_order;
use crate::api::reader::{EventReader, for_each_page};
use crate::api::record::StoredRecord;
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::limits::{READ_PAGE_BYTES, READ_PAGE_RECORDS};

/// Scans the whole log as [`EventReader::scan`] does, on [`EventReader::scan_threads`] threads: `map` is called on any
/// of them, `visit` is shown what it returned on the caller's thread, in order of position, until it returns `Break`.
///
/// # Errors
/// [`ReadError`] at the first record that cannot be read, or the first error of `map` or `visit`.
pub fn scan_mapped<R: EventReader + ?Sized, T: Send>(
    reader: &R,
    compare: Compare,
    map: impl Fn(&ScannedRecord<'_>) -> Result<T, ReadError> + Sync,
    mut visit: impl FnMut(T) -> ScanStep,
) -> Result<(), ReadError> {
    let (threads, pieces) = (reader.scan_threads(), reader.pieces()?);
    if threads < 2 || pieces < 2 {
        return reader.scan(Position(1), compare, &mut |scanned| visit(map(scanned)?));
    }
    let work = |piece| {
        let mut made = Vec::new();
        let scanned = reader.scan_piece(piece, compare, &mut |scanned| {
            made.push(map(scanned)?);
            Ok(ControlFlow::Continue(()))
        });
        (made, scanned)
    };
    let mut ended = Ok(());
    in_order(0..pieces, threads, &work, &mut |(made, scanned)| {
        for step in made.into_iter().map(&mut visit).chain([scanned]) {
            match step {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return ControlFlow::Break(()),
                Err(error) => {
                    ended = Err(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    });
    ended
}

/// Reads the records of the whole log in order, on [`EventReader::scan_threads`] threads: `map` is called on any of them,
/// `visit` is shown what it returned on the caller's thread, until it returns `Break`.
///
/// # Errors
/// The error of `visit`, or a [`ReadError`] converted to its type, at the first record that cannot be read.
pub fn for_each_mapped<R: EventReader + ?Sized, T: Send, E: From<ReadError>>(
    reader: &R,
    map: impl Fn(StoredRecord) -> T + Sync,
    mut visit: impl FnMut(T) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let pieces = reader.pieces()?;
    if pieces < 2 {
        return for_each_page(reader, Position(1), |page| {
            for stored in page {
                if visit(map(stored))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        });
    }
    let mut ended = Ok(());
    let piece = |piece: u64, show: ShowRead<'_>| reader.read_piece(piece, show);
    survey_mapped((reader.scan_threads(), pieces), &piece, &|read| read.map(&map), &mut |read| match read
        .map_err(E::from)
        .and_then(&mut visit)
    {
        Ok(flow) => flow,
        Err(error) => {
            ended = Err(error);
            ControlFlow::Break(())
        }
    });
    ended
}

/// Surveys a log of several pieces on several threads, as [`EventReader::survey_while`].
pub(crate) fn survey_in_pieces<R: EventReader + ?Sized>(
    reader: &R,
    pieces: u64,
    goes_on: &dyn Fn() -> bool,
    show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
) {
    let mut shown = 0_usize;
    let piece = |piece: u64, show: ShowRead<'_>| reader.survey_piece(piece, show);
    survey_mapped((reader.scan_threads(), pieces), &piece, &|read| read, &mut |read| {
        if shown.is_multiple_of(READ_PAGE_RECORDS) && !goes_on() {
            return ControlFlow::Break(());
        }
        shown += 1;
        let closed = matches!(read, Err(ReadError::Closed));
        show(read);
        if closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

/// The part of a piece that one of the threads has read.
struct ReadPiece<T> {
    piece: u64,
    records: Vec<T>,
    /// Whether the rest of the piece is left to be read when it is wanted: it is too large to be held.
    is_cut: bool,
}

/// A closure that is shown the records of a piece.
type ShowRead<'a> = &'a mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>;

fn survey_mapped<T: Send>(
    (threads, pieces): (usize, u64),
    show_piece: &(impl Fn(u64, ShowRead<'_>) + Sync),
    map: &(impl Fn(Result<StoredRecord, ReadError>) -> T + Sync),
    visit: &mut dyn FnMut(T) -> ControlFlow<()>,
) {
    let work = |piece| {
        let (mut records, mut bytes, mut is_cut) = (Vec::new(), 0, false);
        show_piece(piece, &mut |read| {
            if bytes >= READ_PAGE_BYTES {
                is_cut = true;
                return ControlFlow::Break(());
            }
            bytes += read.as_ref().map_or(0, StoredRecord::bytes_in_memory);
            records.push(map(read));
            ControlFlow::Continue(())
        });
        ReadPiece { piece, records, is_cut }
    };
    in_order(0..pieces, threads, &work, &mut |made| {
        let known = made.records.len();
        made.records.into_iter().try_for_each(&mut *visit)?;
        let mut flow = ControlFlow::Continue(());
        if made.is_cut {
            let mut left = known;
            show_piece(made.piece, &mut |read| {
                if left > 0 {
                    left -= 1;
                } else {
                    flow = visit(map(read));
                }
                flow
            });
        }
        flow
    });
}
