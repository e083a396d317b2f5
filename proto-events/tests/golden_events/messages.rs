//! Messages and artifacts with a value in each field, for the events that hold them.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, LlmMessage, LlmRole, Message, Part};
use proto_events::turn::TurnMessage;

pub(crate) fn object(json: &str) -> JsonObject {
    JsonText::parse(json).unwrap().read().unwrap()
}

pub(crate) fn message() -> Message {
    Message {
        id: Some("msg_1".into()),
        role: Some("user".into()),
        parts: vec![
            Part::text("héllo ☃"),
            Part::new("json", JsonText::parse(r#"{"big": 1180591620717411303424, "z":-0.0}"#).unwrap()),
        ],
        timestamp: None,
    }
}

pub(crate) fn artifact() -> Artifact {
    Artifact {
        id: Some("art_1".into()),
        parts: vec![Part::tool_output("c1", JsonText::parse("1e16").unwrap())],
        metadata: object(r#"{"k":1.0}"#),
        timestamp: Some("2026-11-21T07:03:20.123456+00:00".into()),
        kind: "result".into(),
        name: Some("report".into()),
        uri: None,
        media_type: Some("text/plain".into()),
        action_id: None,
    }
}

pub(crate) fn llm_message(role: LlmRole) -> LlmMessage {
    LlmMessage {
        role,
        content: "what is said".into(),
        name: Some("tool".into()),
        metadata: object(r#"{"m":[1,2]}"#),
        id: "6f1c2b1e-0000-4000-8000-000000000001".into(),
        created_at: "2026-11-21T07:03:20+00:00".into(),
        tool_calls: JsonText::parse(r#"{"x":1}"#).unwrap(),
        tool_name: None,
    }
}

pub(crate) fn turn_message() -> TurnMessage {
    TurnMessage {
        message: llm_message(LlmRole::Assistant),
        part: 2,
        infer_call: Some("call_1".into()),
        asks: vec!["call_2".into(), "call_3".into()],
        answers: Some("call_0".into()),
    }
}
