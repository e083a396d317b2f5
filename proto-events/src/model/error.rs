//! The reasons why a text is not one of our models.

use crate::json::JsonError;

/// The reason why a text is not one of our models. Where Protolink has a text for the error, it is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The text is not accepted as JSON. Names line and column if known.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A key that has no default is absent (Protolink's `KeyError`).
    #[error("`{key}` is missing; it has no default")]
    Missing {
        /// The key, with its path.
        key: String,
    },
    /// A value has another type than the model holds (Protolink's `TypeError`).
    #[error("{} must be {expected}, not {found}", named(field))]
    Expected {
        /// The field, with its path.
        field: String,
        /// The expected type, with its article.
        expected: &'static str,
        /// The actual type, with its article.
        found: &'static str,
    },
    /// A value breaks a rule of the model (Protolink's `ValueError`), in Protolink's words.
    #[error("{0}")]
    Invalid(String),
}

impl ModelError {
    /// Returns the error as seen from the model that holds this one at `path`.
    pub(crate) fn within(self, path: &str) -> Self {
        match self {
            Self::Missing { key } => Self::Missing { key: format!("{path}.{key}") },
            Self::Expected { field, expected, found } => Self::Expected {
                field: if field.is_empty() { path.to_owned() } else { format!("{path}.{field}") },
                expected,
                found,
            },
            Self::Json(_) | Self::Invalid(_) => self,
        }
    }
}

/// Returns the field in backquotes; a whole value has no name.
fn named(field: &str) -> String {
    if field.is_empty() { "the value".to_owned() } else { format!("`{field}`") }
}
