//! The names of tools and part types that answers about artifacts contain.

/// The name of the tool that shows a range of a text, as in a2a-utils.
pub const VIEW_TEXT_ARTIFACT: &str = "view_text_artifact";

/// The name of the tool that shows fields, rows and columns of data, as in a2a-utils.
pub const VIEW_DATA_ARTIFACT: &str = "view_data_artifact";

/// A2A's name for a part that is a text.
pub(crate) const TEXT_PART: &str = "TextPart";

/// A2A's name for a part that is data.
pub(crate) const DATA_PART: &str = "DataPart";

/// A2A's name for a part that is a file.
pub(crate) const FILE_PART: &str = "FilePart";
