//! Errors of texts and values that are not accepted as JSON.

use crate::limits::{JSON_DEPTH_MAX, QUOTED_BYTES_MAX};

/// The reason why a text is not accepted as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text does not parse.
    #[error("{0}")]
    Syntax(String),
    /// The JSON nests too deep.
    #[error("the JSON nests {depth} levels deep; the limit is {JSON_DEPTH_MAX}")]
    TooDeep {
        /// The level at which reading stopped.
        depth: usize,
    },
    /// A number is NaN or infinite.
    #[error("a number is NaN or infinite, which JSON does not have; give a finite number, a text or null")]
    NotFinite,
}

/// Returns a text as an error quotes it, cut at the limit.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= QUOTED_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=QUOTED_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes in all)", text.get(..end).unwrap_or_default(), text.len())
}
