//! Artifacts as a model is shown them: views of a part of one, and minimized forms that fit a limit.
//!
//! Everything here is a pure function of its arguments. The log keeps the whole artifact; a minimized form is made
//! when a prompt or an answer is rendered, and says what it leaves out, so that a view can show it. The answers are
//! the same as in a2a-utils 0.7.3 for Python, except that samples are the first of their group, that text keeps its ranges
//! and its tip, and that the final form has a size that it never exceeds.
//!
//! # Examples
//!
//! ```
//! use taskreel_log::artifacts::{CharacterLimit, TextArtifacts, TextSelection};
//!
//! let text = "first\nsecond\nthird";
//! let lines = TextSelection { line_start: Some(2), line_end: Some(-1), ..TextSelection::default() };
//! assert_eq!(TextArtifacts::view(text, &lines, CharacterLimit::default())?, "second\nthird");
//!
//! let cut = TextArtifacts::minimize(text, CharacterLimit::new(8)?, None);
//! assert_eq!(cut.text(), "firs\n\n[... 10 characters omitted ...]\n\nhird");
//! # Ok::<(), taskreel_log::artifacts::ArtifactError>(())
//! ```

pub(crate) mod a2a;
mod characters;
mod column;
pub(crate) mod data;
pub(crate) mod error;
mod error_kind;
mod exact;
pub(crate) mod for_llm;
mod integer;
mod json_start;
pub(crate) mod kept_file;
mod key;
pub(crate) mod limit;
mod minimize;
pub(crate) mod names;
mod natural;
mod object;
mod path;
mod rows;
mod selection;
pub(crate) mod short_texts;
mod spread;
mod summary;
pub(crate) mod text;
mod text_bounds;
mod unique;

pub use a2a::{A2aArtifact, A2aFile, A2aFileContent, A2aMessage, A2aPart, A2aStatus, A2aTask};
pub use data::{DataArtifacts, DataSelection};
pub use error::ArtifactError;
pub use error_kind::ArtifactErrorKind;
pub use for_llm::{
    ArtifactForLlm, DataPartForLlm, FilePartForLlm, KeyCase, MessageForLlm, PartForLlm, SavedFiles,
    TaskForLlm, TaskStatusForLlm, TextPartForLlm, Tips, minimize_artifacts,
};
pub use kept_file::{KeptFile, KeptFileAt, KeptFiles, is_file_part};
pub use limit::{ArtifactSettings, CharacterLimit};
pub use minimize::{MinimizeLimits, MinimizedValue};
pub use names::{VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT};
pub use rows::RowSelection;
pub use selection::ColumnSelection;
pub use text::{MinimizedText, TextArtifacts, TextCut, TextSelection};
