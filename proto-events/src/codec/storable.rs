//! The trait of events that can be stored, and their encoded form.

use crate::codec::error::CodecError;
use crate::id::Category;

/// An encoded event: its body with the kind and schema version that decoding needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The kind of the event.
    pub kind: u16,
    /// The schema version of that kind.
    pub schema: u8,
    /// The encoded body.
    pub body: Vec<u8>,
}

/// An event that can be written to a log and read back.
pub trait Storable: Sized {
    /// The category of the streams that contain the event.
    const CATEGORY: Category;

    /// Encodes the event in the newest schema version.
    ///
    /// # Errors
    /// [`CodecError::TooLarge`] if the bytes exceed the limit.
    fn encode(&self) -> Result<Payload, CodecError>;

    /// Decodes an event of any known schema version.
    ///
    /// # Errors
    /// [`CodecError`] if the kind or version is unknown, or the body is damaged.
    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError>;
}
