//! The place in the log of a result that a model is told.

use proto_events::json::{JsonObject, JsonText};

use crate::artifacts::{VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT};

/// The key in a message's metadata that names where the result which it tells stands in the log.
pub(crate) const RESULT: &str = "taskreel.result";

/// The place in the log of a result that a message tells a model: what the tools that view artifacts are given to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPlace {
    /// The id of the task.
    pub task_id: String,
    /// The id of the call.
    pub call_id: String,
    /// Whether the result is a text and no other data.
    pub is_text: bool,
}

impl ResultPlace {
    /// Notes the place in the metadata of the message that tells the result.
    pub fn note_in(&self, metadata: &mut JsonObject) {
        let mut place = JsonObject::new();
        place.set("task_id", JsonText::string(&self.task_id));
        place.set("artifact_id", JsonText::string(&self.call_id));
        place.set("kind", JsonText::string(if self.is_text { TEXT } else { "data" }));
        metadata.set(RESULT, place.to_text());
    }

    /// Reads a place from the metadata of a message.
    pub(crate) fn from_metadata(noted: &JsonText) -> Option<Self> {
        let place: JsonObject = noted.read().ok()?;
        let text = |key| place.get(key).and_then(JsonText::to_str);
        let is_text = text("kind")? == TEXT;
        Some(Self { task_id: text("task_id")?, call_id: text("artifact_id")?, is_text })
    }

    /// Returns the tip for a message with this metadata; empty where its result has no place in the log.
    pub(crate) fn tip_in(noted: Option<&JsonText>) -> String {
        noted.and_then(Self::from_metadata).map_or_else(String::new, |place| place.tip())
    }

    /// Returns the tip of the minimized form.
    pub(crate) fn tip(&self) -> String {
        let Self { task_id, call_id, is_text } = self;
        // Data that no summary fits is shown as a text, with ranges of characters.
        let or_text = if *is_text { String::new() } else { format!("{VIEW_DATA_ARTIFACT} or ") };
        // Short, since a tip is cut at 500 characters, and each id may have 200.
        format!(
            "Shortened. {or_text}{VIEW_TEXT_ARTIFACT} shows the rest: task_id: {task_id}, artifact_id: {call_id}"
        )
    }
}

/// The kind of a result that is a text.
const TEXT: &str = "text";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_from_metadata_and_its_tip_names_tool_and_ids() {
        let mut metadata = JsonObject::new();
        for (is_text, tool) in [(true, VIEW_TEXT_ARTIFACT), (false, VIEW_DATA_ARTIFACT)] {
            let (task_id, call_id) = ("\"t\" ü".to_owned(), "c".repeat(200));
            let place = ResultPlace { task_id, call_id: call_id.clone(), is_text };
            place.note_in(&mut metadata);
            assert_eq!(metadata.get(RESULT).and_then(ResultPlace::from_metadata).as_ref(), Some(&place));
            let tip = place.tip();
            assert!(tip.contains(tool) && tip.contains("\"t\" ü") && tip.ends_with(&call_id), "{tip}");
            assert!(ResultPlace { task_id: "t".repeat(200), ..place }.tip().chars().count() <= 500);
        }
        for other in ["{}", "1", r#"{"task_id":"t","artifact_id":7,"kind":"text"}"#] {
            let other = JsonText::parse(other).unwrap();
            assert_eq!(
                (ResultPlace::from_metadata(&other), ResultPlace::tip_in(Some(&other))),
                (None, String::new())
            );
        }
    }
}
