//! Storage structs as bytes: the only file that names bincode. Structs are positional and must not use
//! `serde_json::Value`, tagged or untagged enums, `skip_serializing_if` or `flatten`: all of these encode but
//! cannot be decoded.

use serde::{Deserialize, Serialize};

use crate::codec::scratch;
use crate::limits::PAYLOAD_BYTES_MAX;

/// Variable-length integers, little-endian; no read may request more memory than the largest payload.
const CONFIG: bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<PAYLOAD_BYTES_MAX>,
> = bincode::config::standard().with_limit::<PAYLOAD_BYTES_MAX>();

/// Encodes a storage struct.
pub(super) fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    scratch::with(|buffer| {
        let written = bincode::serde::encode_into_std_write(value, buffer, bincode::config::standard());
        written.map_err(|error| error.to_string())?;
        Ok(buffer.as_slice().to_vec())
    })
}

/// Decodes the first fields of a storage struct and ignores the rest.
pub(super) fn read_front<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let (value, _) =
        bincode::serde::borrow_decode_from_slice(body, CONFIG).map_err(|error| error.to_string())?;
    Ok(value)
}

/// Decodes a storage struct, which may borrow from the bytes; all of them must be used.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let read = bincode::serde::borrow_decode_from_slice(body, CONFIG);
    let (value, used) = read.map_err(|error| error.to_string())?;
    if used == body.len() { Ok(value) } else { Err(format!("{} bytes follow its end", body.len() - used)) }
}
