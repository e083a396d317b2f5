//! Rows of a view, and what the view leaves out because a newer release wrote it.

use crate::api::error::ReadError;

/// The rows of a view, as far as this release can read the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readable<T> {
    /// The rows of the streams that can be read.
    pub rows: Vec<T>,
    /// The error of each stream that is left out: [`ReadError::Newer`]. Any other error ends the view instead.
    pub newer: Vec<ReadError>,
}

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), newer: Vec::new() }
    }
}
