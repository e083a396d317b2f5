//! The rows of all streams of a category. A log of many streams is read once, in its order, and each stream is folded as its
//! records come: reading stream by stream visits each part of the log as often as there are streams in it.

use std::collections::HashMap;

use proto_events::codec::Storable;
use proto_events::decider::Decider;
use proto_events::id::{Category, Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, Page};
use crate::api::record::StreamInfo;
use crate::read::fold::{Folded, fold_stream};
use crate::views::find::streams;
use crate::views::readable::Readable;

/// The number of streams from which on the log is read in its order.
const IN_ORDER_FROM: usize = 500;

/// The bytes of records of unfinished streams that are held at once (64 MiB). Streams beyond that are read alone.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// A stream that is being folded.
struct Folding<D> {
    folded: Folded<D>,
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
    D::Event: Storable,
{
    let infos = streams(reader, category.prefix())?;
    let mut found = Readable::default();
    let left = if infos.len() < IN_ORDER_FROM {
        infos
    } else {
        in_order(reader, infos, &mut |stream, folded| found.rows.push(row(stream, folded)))
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
    infos: Vec<StreamInfo>,
    show: &mut dyn FnMut(&StreamId, &Folded<D>),
) -> Vec<StreamInfo>
where
    D: Decider + Default,
    D::Event: Storable,
{
    let mut ends: HashMap<StreamId, Version> =
        infos.into_iter().map(|info| (info.stream, info.version)).collect();
    let (mut open, mut alone) = (HashMap::<StreamId, Folding<D>>::new(), Vec::new());
    let (mut next, mut held) = (Position(1), 0_usize);
    while !ends.is_empty() {
        // What cannot be read here is read stream by stream, so that the error names its stream.
        let Ok(page) = reader.page_all(next, Page::default()) else { break };
        let Some(last) = page.last() else { break };
        next = Position(last.last_position().0.saturating_add(1));
        for stored in page {
            let stream = &stored.record.stream;
            let Some(end) = ends.get(stream).copied() else { continue };
            let folding =
                open.entry(stream.clone()).or_insert_with(|| Folding { folded: Folded::default(), bytes: 0 });
            if folding.folded.take_record(&stored, Version(u64::MAX)).is_err() {
                let info = StreamInfo { stream: stream.clone(), version: end };
                held -= open.remove(stream).map_or(0, |folding| folding.bytes);
                ends.remove(stream);
                alone.push(info);
                continue;
            }
            folding.bytes += stored.bytes_in_memory();
            held += stored.bytes_in_memory();
            if folding.folded.version >= end {
                show(stream, &folding.folded);
                held -= open.remove(stream).map_or(0, |folding| folding.bytes);
                ends.remove(stream);
            }
        }
        if held > HELD_BYTES {
            let dropped = open.drain().filter_map(|(stream, _)| {
                let version = ends.remove(&stream)?;
                Some(StreamInfo { stream, version })
            });
            alone.extend(dropped);
            held = 0;
        }
    }
    let left = ends.into_iter().map(|(stream, version)| StreamInfo { stream, version });
    alone.extend(left);
    alone.sort_by(|one, other| one.stream.cmp(&other.stream));
    alone
}
