//! The files beside a log to which its artifacts refer: the gaps that an export has, since it holds their digests alone.

use std::ops::ControlFlow;

use proto_events::codec::AnyEvent;
use proto_events::id::{Position, Version};

use crate::api::error::ReadError;
use crate::api::in_pieces::for_each_mapped;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::artifacts::KeptFileAt;
use crate::artifacts::kept_file::{for_each_in, may_refer};

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
    let record = &stored.record;
    for (before, event) in (0_u64..).zip(&record.events) {
        let decode = |body| AnyEvent::decode(record.stream.category(), event.kind, event.schema, body).ok();
        let Some(decoded) = event.body().filter(|body| may_refer(body)).and_then(decode) else { continue };
        for_each_in(&decoded, |artifact_id, part, file| {
            kept.push(KeptFileAt {
                stream: record.stream.clone(),
                version: Version(record.first_version.0.saturating_add(before)),
                position: Position(stored.position.0.saturating_add(before)),
                artifact_id: artifact_id.to_owned(),
                part,
                file,
            });
        });
    }
    kept
}
