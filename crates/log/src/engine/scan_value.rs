//! Scans of the log without copying: records are shown in place, in order of position.

use std::ops::ControlFlow;

use proto_events::id::Position;

use crate::api::error::ReadError;
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::engine::located_records::{LocatedRecord, located_records};

/// Shows the records of one value that hold events from a position on. `whole` checks a record with chunks.
pub(crate) fn scan_value(
    (ordinal, bytes): (u64, &[u8]),
    from: Position,
    compare: Compare,
    whole: &dyn Fn(&LocatedRecord<'_>) -> Result<(), ReadError>,
    visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
) -> ScanStep {
    for located in located_records(bytes, ordinal)? {
        let located = located?;
        if located.last_position() < from {
            continue;
        }
        let scanned =
            ScannedRecord { position: located.position, hash: located.entry.hash, record: located.view };
        if compare == Compare::Hashes && !scanned.compare()? {
            whole(&located)?;
        }
        if visit(&scanned)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::ValueBuilder;
    use crate::limits::RECORD_BYTES_MAX;
    use crate::testing::conformance::sketch::draft;

    /// Builds a value of three records; the last has a body in chunks.
    fn value() -> Vec<u8> {
        let mut builder = ValueBuilder::new();
        for body in [vec![1; 10], vec![2; 20], vec![3; 2 * RECORD_BYTES_MAX]] {
            builder.push(&draft("task-a/b", 1, &body).encode_within(RECORD_BYTES_MAX).unwrap());
        }
        builder.finish(Position(1), false).to_vec()
    }

    /// Scans and returns the lengths of the bodies shown, and the number of records with chunks that were
    /// checked.
    fn scan(value: &[u8], compare: Compare) -> (Vec<Option<usize>>, u32, ScanStep) {
        let (mut shown, asked) = (Vec::new(), std::cell::Cell::new(0));
        let whole = |_: &LocatedRecord<'_>| {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let ended = scan_value((0, value), Position(1), compare, &whole, &mut |scanned| {
            shown.extend(scanned.record.events().map(|event| event.unwrap().body.map(<[u8]>::len)));
            Ok(ControlFlow::Continue(()))
        });
        (shown, asked.get(), ended)
    }

    #[test]
    fn a_body_in_chunks_is_not_shown_and_is_compared_where_hashes_are() {
        let shown = vec![Some(10), Some(20), None];
        assert_eq!(scan(&value(), Compare::Hashes), (shown.clone(), 1, Ok(ControlFlow::Continue(()))));
        assert_eq!(scan(&value(), Compare::Checksums), (shown, 0, Ok(ControlFlow::Continue(()))));
    }

    #[test]
    fn what_was_changed_under_a_right_checksum_is_noticed_by_the_hashes_only() {
        let good = value();
        // From the second record's leaf hash to its end: all that its hashes cover, without its own length.
        let first = u32::from_be_bytes(*good[16..].first_chunk().unwrap()) as usize;
        let begin = 16 + 36 + first;
        let second = u32::from_be_bytes(*good[begin..].first_chunk().unwrap()) as usize;
        for at in begin + 4..begin + 36 + second {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let checksum = crc32c::crc32c(&bad[4..]);
            bad[..4].copy_from_slice(&checksum.to_be_bytes());
            let (shown, _, ended) = scan(&bad, Compare::Hashes);
            assert!(ended.is_err() && shown.len() == 1, "byte {at}");
        }
        let mut torn = good.clone();
        torn[begin + 40] ^= 1;
        assert!(scan(&torn, Compare::Checksums).2.is_err());
    }
}
