//! A stream's events as another agent sent them: read from the wire.

use proto_events::id::Mint;
use proto_events::json::{JsonObject, JsonText, JsonValue};
use proto_events::model::{Artifact, ModelError, TaskState, python};

use crate::protolink::stream::event::{TaskStreamEvent, TaskStreamPayload};

impl TaskStreamEvent {
    /// Reads an event from Protolink's JSON. An absent id or time is filled in; unknown keys are dropped.
    ///
    /// # Errors
    /// [`ModelError`] if the type is not one of the five, or a field cannot be read.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields: JsonObject = json.read()?;
        let kind = text(&fields, "type").unwrap_or_default();
        let payload = match kind.as_str() {
            "task_status_update" => TaskStreamPayload::Status {
                previous: fields
                    .get("previous_state")
                    .filter(|state| !state.is_null())
                    .map(|state| self::state(Some(state)))
                    .transpose()?,
                new: state(fields.get("new_state"))?,
                last: flag(&fields, "final"),
            },
            "task_progress" => TaskStreamPayload::Progress {
                progress: percent(&fields)?,
                message: text(&fields, "message").unwrap_or_default(),
            },
            "task_llm_stream" => TaskStreamPayload::Llm {
                agent: text(&fields, "agent_name").unwrap_or_default(),
                kind: text(&fields, "llm_event_type").unwrap_or_default().into(),
                step: step(&fields)?,
                content: content(&fields),
                last: flag(&fields, "final"),
            },
            "task_artifact_update" => {
                let artifact = fields.get("artifact").cloned().unwrap_or_default();
                TaskStreamPayload::Artifact(Box::new(Artifact::from_json(&artifact, mint)?))
            }
            "task_error" => TaskStreamPayload::Error {
                code: text(&fields, "error_code").unwrap_or_default().into(),
                message: text(&fields, "error_message").unwrap_or_default(),
                recoverable: flag(&fields, "recoverable"),
            },
            other => {
                let text = format!("no event of a task's stream has the type {}", python::repr_str(other));
                return Err(ModelError::Invalid(text));
            }
        };
        let metadata = fields.get("metadata").filter(|metadata| metadata.is_object());
        Ok(Self {
            event_id: text(&fields, "event_id").unwrap_or_else(|| mint.uuid()),
            task_id: text(&fields, "task_id").unwrap_or_default(),
            timestamp: text(&fields, "timestamp").unwrap_or_else(|| mint.timestamp()),
            metadata: metadata.map(JsonText::read).transpose()?.unwrap_or_default(),
            payload,
        })
    }
}

/// Returns Python's `str` of a member; `None` if it is absent or null.
fn text(fields: &JsonObject, key: &str) -> Option<String> {
    fields.get(key).filter(|value| !value.is_null()).map(python::text)
}

fn flag(fields: &JsonObject, key: &str) -> bool {
    fields.get(key).is_some_and(python::truthy)
}

/// Returns a text as it is, and other content as its JSON.
fn content(fields: &JsonObject) -> Option<String> {
    let content = fields.get("content").filter(|content| !content.is_null())?;
    Some(content.to_str().unwrap_or_else(|| content.to_string()))
}

fn state(value: Option<&JsonText>) -> Result<TaskState, ModelError> {
    let null = JsonText::null();
    TaskState::from_json(value.unwrap_or(&null)).map_err(|unknown| ModelError::Invalid(unknown.to_string()))
}

fn percent(fields: &JsonObject) -> Result<u8, ModelError> {
    let given = fields.get("progress").filter(|progress| !progress.is_null());
    let number = given.map_or(Ok(0), |progress| python::int(progress, "progress"))?;
    Ok(u8::try_from(number.clamp(0, 100)).unwrap_or(0))
}

fn step(fields: &JsonObject) -> Result<Option<u32>, ModelError> {
    let Some(step) = fields.get("step").filter(|step| !step.is_null()) else { return Ok(None) };
    let number = match step.tree() {
        JsonValue::Number(_) => python::int(step, "step")?,
        _ => return Err(ModelError::Invalid(format!("step must be a number, got {step}"))),
    };
    Ok(Some(u32::try_from(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taskreel_log::ports::Ports;

    use super::*;

    fn states() -> impl Strategy<Value = TaskState> {
        prop::sample::select(vec![
            TaskState::Submitted,
            TaskState::Working,
            TaskState::InputRequired,
            TaskState::Completed,
            TaskState::Failed,
            TaskState::Canceled,
            TaskState::Unknown,
        ])
    }

    fn payloads() -> impl Strategy<Value = TaskStreamPayload> {
        prop_oneof![
            (prop::option::of(states()), states(), any::<bool>())
                .prop_map(|(previous, new, last)| TaskStreamPayload::Status { previous, new, last }),
            (0..=100_u8, ".*")
                .prop_map(|(progress, message)| TaskStreamPayload::Progress { progress, message }),
            (".*", "[a-z_]+", prop::option::of(any::<u32>()), prop::option::of(".*"), any::<bool>())
                .prop_map(|(agent, kind, step, content, last)| TaskStreamPayload::Llm {
                    agent,
                    kind: kind.into(),
                    step,
                    content,
                    last,
                }),
            ".*".prop_map(|text| {
                let parts = vec![proto_events::model::Part::text(&text)];
                TaskStreamPayload::Artifact(Box::new(Artifact::new(parts, &mut Ports::default())))
            }),
            ("[a-z_]*", ".*", any::<bool>()).prop_map(|(code, message, recoverable)| {
                TaskStreamPayload::Error { code: code.into(), message, recoverable }
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_as_it_was(payload in payloads(), id in "[a-z0-9-]{1,20}", key in ".*") {
            let event = TaskStreamEvent {
                event_id: id.clone(),
                task_id: id,
                timestamp: "2026-11-24T10:00:00+00:00".to_owned(),
                metadata: [(key, JsonText::string("v"))].into_iter().collect(),
                payload,
            };
            let read = TaskStreamEvent::from_json(&event.to_json(), &mut Ports::default()).unwrap();
            prop_assert_eq!(read, event);
        }
    }

    #[test]
    fn an_event_of_no_known_type_or_state_is_refused() {
        let read =
            |text: &str| TaskStreamEvent::from_json(&JsonText::parse(text).unwrap(), &mut Ports::default());
        for wrong in [
            "[]",
            "{}",
            r#"{"type":"task_magic"}"#,
            r#"{"type":"task_status_update","new_state":"done"}"#,
            r#"{"type":"task_artifact_update"}"#,
            r#"{"type":"task_progress","progress":"many"}"#,
            r#"{"type":"task_llm_stream","step":"x"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let foreign =
            read(r#"{"type":"task_llm_stream","llm_event_type":"new_one","content":{"a":1}}"#).unwrap();
        let TaskStreamPayload::Llm { kind, content, .. } = foreign.payload else { panic!() };
        assert_eq!((&*kind, content.as_deref()), ("new_one", Some(r#"{"a":1}"#)));
    }
}
