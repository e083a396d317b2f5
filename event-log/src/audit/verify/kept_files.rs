//! The files beside a log to which its artifacts refer: the gaps that an export has, since it holds their digests alone.

use std::ops::ControlFlow;

use proto_events::id::Version;

use crate::api::error::ReadError;
use crate::api::in_pieces::for_each_mapped;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::artifacts::KeptFileAt;
use crate::artifacts::kept_file::{for_each_in, may_refer};
use crate::audit::verify::finding::position_of;
use crate::audit::verify::stream::read_events;

/// Shows all references of a log to files beside it, in the order of the log. An event that cannot be decoded shows none.
///
/// # Errors
/// [`ReadError`] at the first record that cannot be read.
pub fn for_each_kept_file(
    reader: &dyn EventReader,
    mut show: impl FnMut(&KeptFileAt),
) -> Result<(), ReadError> {
    for_each_mapped(
        reader,
        |stored| kept_files_in(&stored),
        |kept| {
            kept.iter().for_each(&mut show);
            Ok(ControlFlow::Continue(()))
        },
    )
}

/// Returns the files beside the log to which the events of a record refer.
pub(crate) fn kept_files_in(stored: &StoredRecord) -> Vec<KeptFileAt> {
    let mut kept = Vec::new();
    if !stored.record.events.iter().filter_map(|event| event.body()).any(may_refer) {
        return kept;
    }
    for read in read_events(stored) {
        let Ok(event) = &read.event else { continue };
        for_each_in(event, |artifact_id, part, file| {
            kept.push(KeptFileAt {
                stream: stored.record.stream.clone(),
                version: Version(read.version),
                position: position_of(stored, read.version),
                artifact_id: artifact_id.to_owned(),
                part,
                file,
            });
        });
    }
    kept
}
