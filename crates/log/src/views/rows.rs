//! The rows of all streams of a category. A log of many streams is read once, in its order, and each stream is folded as its
//! records come: reading stream by stream visits each part of the log as often as there are streams in it. This pass
//! compares checksums only, as other overviews do: `verify` compares every hash.

use std::collections::HashMap;
use std::ops::ControlFlow;

use proto_events::codec::Storable;
use proto_events::decider::Decider;
use proto_events::id::{Category, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::in_pieces::scan_mapped;
use crate::api::reader::EventReader;
use crate::api::record::StreamInfo;
use crate::api::scan::{Compare, ScannedRecord};
use crate::read::fold::{DecodedRecord, FoldedStream, fold_stream};
use crate::views::find::streams;
use crate::views::readable::Readable;

/// The number of streams from which on the log is read in its order.
pub(crate) const IN_ORDER_FROM: usize = 500;

/// The bytes of records of unfinished streams that are held at once (64 MiB). Streams beyond that are read alone.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// A stream that is not shown yet.
struct PendingRow<D> {
    end: Version,
    /// The state folded so far.
    folding: Option<Box<FoldedStream<D>>>,
    /// The bytes of the stream's records so far.
    bytes: usize,
    /// Whether the stream is read alone.
    is_given_up: bool,
}

impl<D> PendingRow<D> {
    fn from_info(info: &StreamInfo) -> Self {
        Self { end: info.version, folding: None, bytes: 0, is_given_up: false }
    }

    fn give_up(&mut self) {
        *self = Self { end: self.end, folding: None, bytes: 0, is_given_up: true };
    }
}

/// Returns the rows of all streams of a category, each as it was when the listing began, or later. Streams that a newer
/// release wrote are left out and named.
///
/// # Errors
/// [`ReadError`] of the first stream that cannot be read for any other reason.
pub(crate) fn rows_of<D, R>(
    reader: &dyn EventReader,
    category: Category,
    row: impl Fn(&StreamId, &FoldedStream<D>) -> R,
) -> Result<Readable<R>, ReadError>
where
    D: Decider + Default,
    D::Event: Storable + Send,
{
    rows_of_some(reader, (category, streams(reader, category.prefix())?), row)
}

/// Returns the rows of these streams of a category, as [`rows_of`].
pub(crate) fn rows_of_some<D, R>(
    reader: &dyn EventReader,
    (category, infos): (Category, Vec<StreamInfo>),
    row: impl Fn(&StreamId, &FoldedStream<D>) -> R,
) -> Result<Readable<R>, ReadError>
where
    D: Decider + Default,
    D::Event: Storable + Send,
{
    let mut found = Readable::default();
    let left = if infos.len() < IN_ORDER_FROM {
        infos
    } else {
        in_order(reader, category, infos, &mut |stream, folded| found.rows.push(row(stream, folded)))
    };
    for info in left {
        match fold_stream::<D>(reader, &info.stream, None) {
            Ok(folded) => found.rows.push(row(&info.stream, &folded)),
            Err(error @ ReadError::Newer { .. }) => found.newer.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The streams of a listing that are not shown yet, by their numbers in it.
struct RowQueue<D> {
    pending: Vec<Option<PendingRow<D>>>,
    /// The number of those that are left.
    left: usize,
    /// The bytes of records of unfinished streams.
    held: usize,
}

impl<D> RowQueue<D>
where
    D: Decider + Default,
    D::Event: Storable,
{
    /// Folds a record into its stream. Returns the stream's state if this was its last record.
    fn accept_record(
        &mut self,
        number: usize,
        decoded: Option<DecodedRecord<D::Event>>,
    ) -> Option<Box<FoldedStream<D>>> {
        let place = self.pending.get_mut(number)?;
        let known = place.as_mut().filter(|known| !known.is_given_up)?;
        let bytes = decoded.as_ref().map_or(0, |decoded| decoded.bytes);
        // A record of which nothing more is known sends its stream to those that are read alone.
        let folded = known.folding.get_or_insert_default();
        let is_sound = decoded.is_some_and(|decoded| folded.take_decoded(decoded));
        let is_whole = is_sound && folded.version >= known.end;
        if is_sound && !is_whole {
            known.bytes += bytes;
            self.held += bytes;
            return None;
        }
        self.held -= known.bytes;
        self.left -= 1;
        if is_whole {
            return place.take()?.folding;
        }
        known.give_up();
        None
    }

    /// Lets go of all streams that are held. They are read alone.
    fn let_go(&mut self) {
        for known in self.pending.iter_mut().flatten().filter(|known| known.bytes > 0) {
            known.give_up();
            self.left -= 1;
        }
        self.held = 0;
    }
}

/// Folds streams as their records come in the log. Returns those that must be read alone: there was no room to hold them, or
/// a record could not be read.
fn in_order<D>(
    reader: &dyn EventReader,
    category: Category,
    infos: Vec<StreamInfo>,
    show: &mut dyn FnMut(&StreamId, &FoldedStream<D>),
) -> Vec<StreamInfo>
where
    D: Decider + Default,
    D::Event: Storable + Send,
{
    let numbers: HashMap<&str, usize> =
        infos.iter().enumerate().map(|(number, info)| (info.stream.as_str(), number)).collect();
    let pending = infos.iter().map(|info| Some(PendingRow::from_info(info))).collect();
    let mut listed = RowQueue::<D> { pending, left: infos.len(), held: 0 };
    let decode = |scanned: &ScannedRecord<'_>| {
        let name = scanned.record.stream;
        let number = (Category::from_stream(name) == Some(category)).then(|| numbers.get(name)).flatten();
        Ok(number.map(|number| (*number, DecodedRecord::from_scanned(scanned))))
    };
    let scanned = scan_mapped(reader, Compare::Checksums, decode, |read| {
        if let Some((number, decoded)) = read
            && let Some(folded) = listed.accept_record(number, decoded)
            && let Some(info) = infos.get(number)
        {
            show(&info.stream, &folded);
        }
        if listed.held > HELD_BYTES {
            listed.let_go();
        }
        Ok(if listed.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    if let Err(error) = scanned {
        // What cannot be read here is read stream by stream, so that the error names its stream.
        tracing::debug!(%error, "the list is read stream by stream");
    }
    drop(numbers);
    let is_left: Vec<bool> = listed.pending.iter().map(Option::is_some).collect();
    infos.into_iter().zip(is_left).filter_map(|(info, is_left)| is_left.then_some(info)).collect()
}
