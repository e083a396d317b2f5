//! Constants of the record layout.

/// The only format version.
pub const FORMAT: u8 = 1;

/// The place byte of a body stored inline.
pub(super) const INLINE: u8 = 0;

/// The place byte of a body stored in chunks.
pub(super) const CHUNKED: u8 = 1;

/// The size of one event's entry in the hashed part, in bytes.
pub(super) const EVENT_ENTRY_BYTES: usize = 2 + 1 + 4 + 32;

/// The domain byte of a leaf in RFC 6962.
pub(super) const LEAF: &[u8] = &[0];
