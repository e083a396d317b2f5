//! Audits: replay, verification, comparison, explanation, export and import, all derived from the log alone.
//! Everything takes an [`EventReader`](crate::api::EventReader) and knows no actor, so it cannot perform a call.

pub(crate) mod call_json;
pub(crate) mod changes;
pub(crate) mod claims;
pub(crate) mod diff;
pub(crate) mod difference;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod extract;
pub(crate) mod import;
// The texts and the JSON pieces that `taskreel-cli` prints; not part of the public API.
#[doc(hidden)]
pub mod json;
pub(crate) mod kept_files;
pub(crate) mod other_record;
pub(crate) mod patch;
pub(crate) mod replay;
pub(crate) mod verify;
#[doc(hidden)]
pub mod words;

pub use crate::audit::changes::{Area, Change, ChangeKind, FirstChanges};
pub use crate::audit::diff::{diff_sessions, diff_tasks, diff_tools, first_changes};
pub use crate::audit::difference::{Difference, first_difference};
pub use crate::audit::explain::{CallRecovery, Explanation, RecoveryExplanation, explain, explain_with};
pub use crate::audit::export::{ExportSummary, export, export_with_files, record_line};
pub use crate::audit::extract::verify_extract;
pub use crate::audit::import::{ImportError, ImportSummary, import};
#[doc(inline)]
pub use crate::audit::json::{event_json, one_line, tool_store_json};
pub use crate::audit::kept_files::for_each_kept_file;
pub use crate::audit::other_record::first_other_record;
pub use crate::audit::patch::patch;
pub use crate::audit::replay::{Mismatch, ReplaySummary, replay_all, replay_stream};
pub use crate::audit::verify::finding::{Finding, FindingKind};
pub use crate::audit::verify::report::{Scope, VerifyProgress, VerifyReport};
pub use crate::audit::verify::verifier::{verify, verify_within};
