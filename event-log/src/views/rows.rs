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
use crate::api::scan::{Compare, Scanned};
use crate::read::fold::{DecodedRecord, Folded, fold_stream};
use crate::views::find::streams;
use crate::views::readable::Readable;

/// The number of streams from which on the log is read in its order.
const IN_ORDER_FROM: usize = 500;

/// The bytes of records of unfinished streams that are held at once (64 MiB). Streams beyond that are read alone.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// A stream that is not shown yet.
struct Pending<D> {
    end: Version,
    /// The state folded so far.
    folding: Option<Box<Folded<D>>>,
    /// The bytes of the stream's records so far.
    bytes: usize,
}

/// Returns the rows of all streams of a category, each as it was when the listing began, or later. Streams that a newer
/// release wrote are left out and named.
///
/// # Errors
/// [`ReadError`] of the first stream that cannot be read for any other reason.
pub(crate) fn rows_of<D, R>(
    reader: &dyn EventReader,
    category: Category,
    row: impl Fn(&StreamId, &Folded<D>) -> R,
) -> Result<Readable<R>, ReadError>
where
    D: Decider + Default,
    D::Event: Storable + Send,
{
    let infos = streams(reader, category.prefix())?;
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

/// Folds streams as their records come in the log. Returns those that must be read alone: there was no room to hold them, or
/// a record could not be read.
fn in_order<D>(
    reader: &dyn EventReader,
    category: Category,
    infos: Vec<StreamInfo>,
    show: &mut dyn FnMut(&StreamId, &Folded<D>),
) -> Vec<StreamInfo>
where
    D: Decider + Default,
    D::Event: Storable + Send,
{
    let new = |info: StreamInfo| (info.stream, Pending { end: info.version, folding: None, bytes: 0 });
    let mut pending: HashMap<StreamId, Pending<D>> = infos.into_iter().map(new).collect();
    let (mut alone, mut held) = (Vec::new(), 0_usize);
    let decode = |scanned: &Scanned<'_>| {
        let is_wanted = Category::of(scanned.record.stream) == Some(category);
        // A record of which nothing more is known sends its stream to those that are read alone.
        let read = || DecodedRecord::of(scanned).ok_or_else(|| scanned.record.stream.to_owned());
        Ok(is_wanted.then(read))
    };
    let scanned = scan_mapped(reader, Compare::Checksums, decode, |read| {
        match read {
            Some(Ok(record)) => held = take(&mut pending, &mut alone, (&record, held), show),
            Some(Err(name)) => {
                let known = StreamId::parse(&name).ok().and_then(|stream| pending.remove_entry(&stream));
                held -= known.as_ref().map_or(0, |(_, known)| known.bytes);
                alone.extend(known.map(info_of));
            }
            None => {}
        }
        if held > HELD_BYTES {
            alone.extend(pending.extract_if(|_, known| known.bytes > 0).map(info_of));
            held = 0;
        }
        let is_done = pending.is_empty();
        Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    if let Err(error) = scanned {
        // What cannot be read here is read stream by stream, so that the error names its stream.
        tracing::debug!(%error, "the list is read stream by stream");
    }
    alone.extend(pending.into_iter().map(info_of));
    alone.sort_by(|one, other| one.stream.cmp(&other.stream));
    alone
}

/// Folds a record into its stream, and shows the stream if it was the last one. Returns the bytes that are held then.
fn take<D>(
    pending: &mut HashMap<StreamId, Pending<D>>,
    alone: &mut Vec<StreamInfo>,
    (decoded, held): (&DecodedRecord<D::Event>, usize),
    show: &mut dyn FnMut(&StreamId, &Folded<D>),
) -> usize
where
    D: Decider + Default,
    D::Event: Storable,
{
    let stream = &decoded.record.stream;
    let Some(known) = pending.get_mut(stream) else { return held };
    let folded = known.folding.get_or_insert_default();
    let is_sound = folded.take_decoded(decoded);
    let is_whole = folded.version >= known.end;
    if is_sound && !is_whole {
        known.bytes += decoded.bytes;
        return held + decoded.bytes;
    }
    if is_sound {
        show(stream, folded);
    }
    let freed = known.bytes;
    let known = pending.remove_entry(stream);
    if !is_sound {
        alone.extend(known.map(info_of));
    }
    held - freed
}

fn info_of<D>((stream, known): (StreamId, Pending<D>)) -> StreamInfo {
    StreamInfo { stream, version: known.end }
}
