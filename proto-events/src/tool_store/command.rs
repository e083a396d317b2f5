//! What may be wished of a tool's store, and how it says no.

use crate::id::{IdError, Version, check_id};
use crate::json::JsonText;
use crate::limits::{TOOL_KEYS_MAX, TOOL_STORE_BYTES_MAX, TOOL_WRITES_MAX};

/// One key as a call leaves it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolWrite {
    /// The key.
    pub key: String,
    /// The version that the key must still have: 0 if it must not be there.
    pub expected: Version,
    /// What it is to hold; none takes it away.
    pub value: Option<JsonText>,
}

/// A wish.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolStoreCommand {
    /// Write what a call leaves behind: all of it or nothing.
    Write {
        /// The stream of the task on whose behalf the call was made.
        task: String,
        /// The call.
        call_id: String,
        /// Each key once.
        writes: Vec<ToolWrite>,
    },
}

/// A tool store's "no".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolStoreRejection {
    /// Another call wrote the key in between.
    #[error("the key `{key}` has version {actual}, not {expected}: another call wrote it in between")]
    Conflict {
        /// The key.
        key: String,
        /// The version that it should have; 0 if it should not be there.
        expected: Version,
        /// The version that it has; 0 if it is not there.
        actual: Version,
    },
    /// The text cannot be a key.
    #[error("`{key}` cannot be a key of a tool's state: {why}")]
    Key {
        /// The text.
        key: String,
        /// Why.
        why: IdError,
    },
    /// A key is written twice at once.
    #[error("the key `{0}` is written twice by one call")]
    Twice(String),
    /// The call writes too many keys.
    #[error("the call writes {0} keys of its tool's state; the limit is {TOOL_WRITES_MAX}")]
    TooManyWrites(usize),
    /// The store would hold too many keys.
    #[error("the tool's state would have {0} keys; the limit is {TOOL_KEYS_MAX}")]
    TooManyKeys(usize),
    /// The store would be too large.
    #[error("the tool's state would have {0} bytes; the limit is {TOOL_STORE_BYTES_MAX}")]
    TooLarge(usize),
}

/// Checks a text that is to be a key: 1 to 200 bytes, no control characters.
///
/// # Errors
/// [`ToolStoreRejection::Key`], saying which rule it breaks.
pub fn check_key(key: &str) -> Result<(), ToolStoreRejection> {
    check_id(key).map_err(|why| {
        let key = key.chars().take(80).collect();
        ToolStoreRejection::Key { key, why }
    })
}
