//! The rule for ids of callers.

use crate::limits::ID_BYTES_MAX;

/// The reason why a text cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The id is empty.
    #[error("the id is empty; give it 1 to {ID_BYTES_MAX} bytes")]
    Empty,
    /// The id is too long.
    #[error("the id has {bytes} bytes; the limit is {ID_BYTES_MAX}")]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// The id holds a control character.
    #[error("the id holds the control character U+{code:04X} at byte {at}; use printable characters")]
    Control {
        /// The character's code point.
        code: u32,
        /// The byte index of the character.
        at: usize,
    },
    /// The text has not the form `category-agent/id`.
    #[error("`{0}` is not a stream id; expected `task-<agent>/<id>`, percent-encoded")]
    NotAStream(String),
}

/// Checks a caller's id: 1 to 200 bytes, no control characters.
///
/// # Errors
/// [`IdError`], naming the broken rule.
pub fn check_id(id: &str) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty);
    }
    if id.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong { bytes: id.len() });
    }
    match id.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(IdError::Control { code: c.into(), at }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_1_to_200_bytes_and_no_control_characters() {
        assert_eq!(check_id(""), Err(IdError::Empty));
        assert_eq!(check_id(&"x".repeat(201)), Err(IdError::TooLong { bytes: 201 }));
        assert_eq!(check_id("a\nb"), Err(IdError::Control { code: 10, at: 1 }));
        assert_eq!(check_id(&"x".repeat(200)), Ok(()));
    }
}
