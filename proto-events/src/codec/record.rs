//! The commit record: one stream's part of an append, as bytes. This layout is permanent; `docs/format.md`
//! describes it too, and how a log stores records.
//!
//! All integers are big-endian. A *text* is its length in bytes (u16) followed by its UTF-8 bytes.
//!
//! | part | bytes | field |
//! |---|---|---|
//! | hashed | 1 | format version, [`FORMAT`] |
//! | hashed | text | stream id, in canonical form |
//! | hashed | 8 | version of the record's first event, at least 1 |
//! | hashed | 16 | set id: the same in every record of one append |
//! | hashed | 2 + 2 | this record's number within the set, from 0; how many records the set has |
//! | hashed | 4 + 8 | partition; epoch of the writer |
//! | hashed | 8 | time in microseconds since 1970-01-01 UTC, signed |
//! | hashed | text | command id |
//! | hashed | text | causation id |
//! | hashed | text | correlation id |
//! | hashed | text + 1 | principal's name; basis: 0 asserted, 1 authenticated |
//! | hashed | 2 + n | optional fields by ascending tag, n bytes in all; each is tag (2), length (2), content |
//! | hashed | 32 | leaf hash of the stream's previous record; zeros for its first |
//! | hashed | 2 | how many events: 1 to [`EVENTS_PER_APPEND_MAX`] |
//! | hashed | 39 each | for each event: kind (2), schema version (1), body length (4), SHA-256(salt ‖ body) (32) |
//! | beside | 17 + body each | for each event: place (1), salt (16), body |
//!
//! The optional field 1 is the digest of a command whose id its caller chose: SHA-256(s ‖ content), with s the
//! SHA-256 of the salts of all events of the record, in order. A reader skips a field that it does not know, but
//! refuses one of tag 0x8000 or higher.
//!
//! Place 0 is a body stored inline, as above. Place 1 is a body stored in chunks outside the record: the salt
//! is followed by the number of chunks (2) and the SHA-256(salt ‖ chunk) (32) of each. 2 (erased) is
//! reserved: a reader that does not know it reports it. Nothing follows the last body.
//!
//! The leaf hash is SHA-256(0x00 ‖ hashed part), as in RFC 6962. Salts and bodies enter it only
//! through their digests, so that erasing both later leaves every hash valid.
//!
//! [`EVENTS_PER_APPEND_MAX`]: crate::limits::EVENTS_PER_APPEND_MAX

mod chunk;
mod decode;
mod decoded_record;
mod draft;
mod encode;
mod encoded_record;
mod error;
mod event_view;
mod format;
mod view;

pub use chunk::DetachedBody;
pub use decoded_record::{Body, Record, StoredEvent};
pub use draft::{EventBody, HeaderField, RecordDraft};
pub use encoded_record::EncodedRecord;
pub use error::RecordError;
pub use event_view::{EventView, Events};
pub use format::{FORMAT, REQUIRED_FIELDS};
pub use view::{HeaderFields, RecordView};
