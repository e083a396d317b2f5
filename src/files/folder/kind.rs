//! The kinds of entries of a folder, and the rule for a folder that is missing.

/// The rule for a folder that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingFolder {
    /// The folder is made, with those above it, all of them durable.
    Made,
    /// The folder is not made.
    None,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, or something else.
    Other,
}
