//! The encodings in which a remote file may travel, taken away within bounds.

use std::io::Read;

use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::files::error::FileError;

/// The encodings that one file may have: each costs a pass over it.
const ENCODINGS_MAX: usize = 4;

/// Returns the content of a file that travelled with these encodings.
pub(super) fn decoded(bytes: Vec<u8>, encodings: &[String], limit: u64) -> Result<Vec<u8>, FileError> {
    if encodings.len() > ENCODINGS_MAX {
        return Err(FileError::Fetch(format!(
            "the remote file has more than {ENCODINGS_MAX} content encodings"
        )));
    }
    encodings.iter().rev().try_fold(bytes, |bytes, encoding| decoded_once(bytes, encoding, limit))
}

fn decoded_once(bytes: Vec<u8>, encoding: &str, limit: u64) -> Result<Vec<u8>, FileError> {
    match encoding {
        "identity" => Ok(bytes),
        // An empty file is often sent with nothing of its encoding.
        "gzip" | "x-gzip" | "deflate" if bytes.is_empty() => Ok(bytes),
        "gzip" | "x-gzip" => read(&mut MultiGzDecoder::new(bytes.as_slice()), limit),
        // Some servers send it without the header that belongs to it.
        "deflate" => {
            let mut with_header = ZlibDecoder::new(bytes.as_slice());
            match read(&mut with_header, limit).and_then(|content| check_end(content, with_header.get_ref()))
            {
                Err(FileError::Fetch(_)) => {
                    let mut without = DeflateDecoder::new(bytes.as_slice());
                    read(&mut without, limit).and_then(|content| check_end(content, without.get_ref()))
                }
                decoded => decoded,
            }
        }
        other => Err(FileError::Fetch(format!("Unsupported remote file content encoding: '{other}'"))),
    }
}

/// Refuses a content behind which there is something else.
fn check_end(content: Vec<u8>, rest: &[u8]) -> Result<Vec<u8>, FileError> {
    if rest.is_empty() {
        return Ok(content);
    }
    let bytes = rest.len();
    Err(FileError::Fetch(format!(
        "the remote file cannot be decompressed: {bytes} bytes stand behind its end"
    )))
}

/// Reads one byte more than the limit at most.
fn read(decoder: impl Read, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::new();
    let read = decoder.take(limit.saturating_add(1)).read_to_end(&mut content);
    read.map_err(|error| FileError::Fetch(format!("the remote file cannot be decompressed: {error}")))?;
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if bytes > limit { Err(FileError::TooLarge { limit, bytes }) } else { Ok(content) }
}
