//! The kinds of errors about artifacts, for programs that act on them.

/// The kind of an [`ArtifactError`](crate::artifacts::ArtifactError).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArtifactErrorKind {
    /// A setting has a value that it must not have.
    Setting,
    /// The selection cannot be read.
    Selection,
    /// The selection lies outside of the artifact.
    Range,
    /// A field or column does not exist.
    NotFound,
    /// The value at the path has the wrong type for the selection.
    WrongType,
    /// The selection is larger than may be shown.
    TooLarge,
    /// The call has no result that could be shown.
    NoResult,
    /// The artifact cannot be read.
    Malformed,
}

impl ArtifactErrorKind {
    /// Returns the kind's name in answers to models and in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Selection => "selection",
            Self::Range => "range",
            Self::NotFound => "not_found",
            Self::WrongType => "wrong_type",
            Self::TooLarge => "too_large",
            Self::NoResult => "no_result",
            Self::Malformed => "malformed",
        }
    }
}
