//! Why a text is not one of our models.

use crate::json::JsonError;

/// Why a text is not one of our models. Where Protolink has a text of its own for it, that is the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It is not JSON that we take. Names line and column where it has one.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A key that has no default is absent (Protolink's `KeyError`).
    #[error("`{key}` is missing; it has no default")]
    Missing {
        /// The key, with the path that leads to it.
        key: String,
    },
    /// A value is of another kind than the model can hold (Protolink's `TypeError`).
    #[error("{} must be {expected}, not {found}", named(field))]
    Expected {
        /// The field, with the path that leads to it.
        field: String,
        /// What it must be, with its article.
        expected: &'static str,
        /// What it is, with its article.
        found: &'static str,
    },
    /// A value breaks a rule of the model (Protolink's `ValueError`), in Protolink's words.
    #[error("{0}")]
    Invalid(String),
}

impl ModelError {
    /// The same error, seen from the model that holds this one at `path`.
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

/// The field in backquotes; a whole value has no name.
fn named(field: &str) -> String {
    if field.is_empty() { "the value".to_owned() } else { format!("`{field}`") }
}
