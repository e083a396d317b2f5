//! Surveys: every record that can be read, and an error in the place of each part that cannot. Verification reads damaged
//! logs in this way.

use std::ops::{ControlFlow, Range};

use crate::api::error::ReadError;
use crate::api::record::StoredRecord;
use crate::engine::located_records::located_records;
use crate::engine::values::Values;

/// Shows all records of these values, and an error for each part that cannot be read, until `show` returns `Break`.
/// Proceeds by ordinal, so that it ends whatever the values hold. A log that is closed meanwhile ends it.
pub(crate) fn survey<V: Values>(
    values: &V,
    ordinals: Range<u64>,
    show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for ordinal in ordinals {
        let read = values.require(ordinal);
        match read.as_ref().map_err(Clone::clone).and_then(|bytes| located_records(bytes.as_ref(), ordinal)) {
            Err(ReadError::Closed) => {
                show(Err(ReadError::Closed))?;
                return ControlFlow::Break(());
            }
            Err(error) => show(Err(error))?,
            Ok(mut records) => {
                records.try_for_each(|located| show(located.and_then(|located| located.stored(values))))?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Surveys all values before `end` to the end.
pub(crate) fn survey_all<V: Values>(
    values: &V,
    end: u64,
    show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
) {
    let _ = survey(values, 0..end, &mut |read| {
        show(read);
        ControlFlow::Continue(())
    });
}
