//! A person's decision.

use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;

use crate::audit::json::{number, object, text};

/// Returns a decision about a task in the form `taskreel.decision/1`: its word and what it is about, who decided, whether
/// it added anything to the log, and the state of the task after it.
pub fn decision_json(
    task: &StreamId,
    (word, about): (&str, &str),
    by: &str,
    is_new: bool,
    (state, version): (&str, Version),
) -> JsonText {
    object([
        ("schema", text("taskreel.decision/1")),
        ("task", text(&task.id())),
        ("stream", text(task.as_str())),
        ("about", text(about)),
        ("decision", text(word)),
        ("by", text(by)),
        ("new", JsonText::of_model(&is_new)),
        ("state", text(state)),
        ("version", number(version.0)),
    ])
}
