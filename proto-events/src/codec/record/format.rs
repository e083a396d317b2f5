//! Constants of the record layout.

/// The format version that this release reads and writes.
pub const FORMAT: u8 = 2;

/// The tag of the optional header field that holds the digest of the command's content.
pub(super) const COMMAND_DIGEST: u16 = 1;

/// The lowest tag of an optional header field that a reader must know to read the record.
pub const REQUIRED_FIELDS: u16 = 0x8000;

/// The place byte of a body stored inline.
pub(super) const INLINE: u8 = 0;

/// The place byte of a body stored in chunks.
pub(super) const CHUNKED: u8 = 1;

/// The size of one event's entry in the hashed part, in bytes.
pub(super) const EVENT_ENTRY_BYTES: usize = 2 + 1 + 4 + 32;

/// The domain byte of a leaf in RFC 6962.
pub(super) const LEAF: &[u8] = &[0];
