//! The trait of a place that values are read from.

use std::sync::atomic::AtomicBool;

use crate::api::error::ReadError;

/// A source of values.
pub(crate) trait Values {
    /// The bytes of a value.
    type Bytes: AsRef<[u8]>;

    /// Returns the value with this ordinal, if it exists.
    fn get(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError>;

    /// Returns the chunk with this ordinal, if it exists.
    fn get_chunk(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError>;

    /// Returns the value with this ordinal, if it exists, for somebody who reads many and each of them once: past a cache,
    /// where that is quicker.
    fn get_once(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        self.get(ordinal)
    }

    /// Returns the value with this ordinal, if it exists, for a pass over the log: with little kept of it afterwards.
    fn get_in_pass(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        self.get(ordinal)
    }

    /// Returns the note whether the disk was asked for the values that were read last, where one is kept: then the values of the
    /// next stream are read at once, from the first on.
    fn disk_was_asked(&self) -> Option<&AtomicBool> {
        None
    }

    /// Returns the value with this ordinal, which must exist.
    fn require(&self, ordinal: u64) -> Result<Self::Bytes, ReadError> {
        self.get(ordinal)?.ok_or_else(|| missing(ordinal))
    }

    /// Returns the value with this ordinal, which must exist, as [`Values::get_in_pass`] does.
    fn require_in_pass(&self, ordinal: u64) -> Result<Self::Bytes, ReadError> {
        self.get_in_pass(ordinal)?.ok_or_else(|| missing(ordinal))
    }

    /// Returns the value with this ordinal, which must exist, as [`Values::get_once`] does.
    fn require_once(&self, ordinal: u64) -> Result<Self::Bytes, ReadError> {
        self.get_once(ordinal)?.ok_or_else(|| missing(ordinal))
    }
}

fn missing(ordinal: u64) -> ReadError {
    ReadError::corrupt(format!("value {ordinal} is missing"), None)
}
