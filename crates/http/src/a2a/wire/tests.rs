//! The JSON of each form, as other implementations write it.

use proto_events::json::JsonText;

use crate::a2a::model::{Content, Event, State};
use crate::a2a::wire::{DataForm, read, write};

fn json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

/// A task in 1.0, in the order of members in which it is written.
const TASK_1: &str = r#"{"id":"task_1","contextId":"ctx","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m2","contextId":"ctx","taskId":"task_1","role":"ROLE_AGENT","parts":[{"text":"Which city?"}]},"timestamp":"2026-03-12T10:00:00.000Z"},"artifacts":[{"artifactId":"a1","name":"report","description":"all of it","parts":[{"raw":"aGk=","filename":"hi.txt","mediaType":"text/plain"},{"url":"https://example.org/x","mediaType":"image/png"},{"data":{"count":42,"of":[1.5,null]}},{"data":null},{"text":"","metadata":{"a":1}}],"metadata":{"k":"v"},"extensions":["urn:x"]}],"history":[{"messageId":"m1","contextId":"ctx","taskId":"task_1","role":"ROLE_USER","parts":[{"text":"Weather?"}],"metadata":{"a":true},"extensions":["urn:x"],"referenceTaskIds":["task_0"]}],"metadata":{"b":[1]}}"#;

/// A task, the one above, in 0.3.
const TASK_03: &str = r#"{"kind":"task","id":"task_1","contextId":"ctx","status":{"state":"input-required","message":{"kind":"message","messageId":"m2","contextId":"ctx","taskId":"task_1","role":"agent","parts":[{"kind":"text","text":"Which city?"}]},"timestamp":"2026-03-12T10:00:00.000Z"},"artifacts":[{"artifactId":"a1","name":"report","description":"all of it","parts":[{"kind":"file","file":{"bytes":"aGk=","mimeType":"text/plain","name":"hi.txt"}},{"kind":"file","file":{"uri":"https://example.org/x","mimeType":"image/png"}},{"kind":"data","data":{"count":42,"of":[1.5,null]}},{"kind":"data","data":{"value":null},"metadata":{"data_part_compat":true}},{"kind":"text","text":"","metadata":{"a":1}}],"metadata":{"k":"v"},"extensions":["urn:x"]}],"history":[{"kind":"message","messageId":"m1","contextId":"ctx","taskId":"task_1","role":"user","parts":[{"kind":"text","text":"Weather?"}],"metadata":{"a":true},"extensions":["urn:x"],"referenceTaskIds":["task_0"]}],"metadata":{"b":[1]}}"#;

#[test]
fn a_task_is_written_and_read_in_both_forms() {
    let task = read::task(DataForm::V1, &json(TASK_1), "").unwrap();
    assert_eq!(write::task(DataForm::V1, &task).as_str(), TASK_1);
    assert_eq!(write::task(DataForm::V03, &task).as_str(), TASK_03);
    assert_eq!(read::task(DataForm::V03, &json(TASK_03), "").unwrap(), task);
}

#[test]
fn events_are_unions_by_their_member_in_1_0_and_by_their_kind_in_0_3() {
    let status =
        r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    let artifact = r#"{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"x"}]},"append":true,"lastChunk":false}}"#;
    let message = r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}"#;
    let in_03 = [
        r#"{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"completed"},"final":false}"#,
        r#"{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"kind":"text","text":"x"}]},"append":true,"lastChunk":false}"#,
        r#"{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"x"}]}"#,
    ];
    for (new, old) in [status, artifact, message].into_iter().zip(in_03) {
        let event = read::event(DataForm::V1, &json(new), "").unwrap();
        assert_eq!(write::event(DataForm::V1, &event).as_str(), new);
        assert_eq!(write::event(DataForm::V03, &event).as_str(), old);
        assert_eq!(read::event(DataForm::V03, &json(old), "").unwrap(), event);
    }
    let both = r#"{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}},"message":{}}"#;
    assert_eq!(read::event(DataForm::V1, &json("{}"), "result").unwrap_err().field, "result");
    assert!(read::event(DataForm::V1, &json(both), "").is_err());
    let task = r#"{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}"#;
    let Event::Task(task) = read::event(DataForm::V1, &json(task), "").unwrap() else { panic!() };
    assert_eq!((task.status.state, task.context_id.as_str()), (State::Working, "t"));
}

#[test]
fn names_with_underscores_and_unknown_members_are_read_and_what_is_wrong_is_named_by_its_place() {
    let part = r#"{"text":"x","media_type":"text/plain","later":{"a":1}}"#;
    let part = read::part(DataForm::V1, &json(part), "").unwrap();
    assert_eq!(part.media_type.as_deref(), Some("text/plain"));
    let message =
        r#"{"message_id":"m","role":"ROLE_USER","parts":[{"text":"x"}],"context_id":"c","taskId":null}"#;
    let message = read::message(DataForm::V1, &json(message), "").unwrap();
    assert_eq!((message.id.as_str(), message.context_id.as_deref(), message.task_id), ("m", Some("c"), None));
    let of = |text: &str| read::message(DataForm::V1, &json(text), "message").unwrap_err().to_string();
    assert_eq!(of("[]"), "`message` must be an object");
    assert_eq!(of(r#"{"role":"ROLE_USER","parts":[{"text":"x"}]}"#), "`message.messageId` is required");
    assert_eq!(
        of(r#"{"messageId":"m","role":"user","parts":[{"text":"x"}]}"#),
        "`message.role` must be ROLE_USER or ROLE_AGENT"
    );
    assert_eq!(
        of(r#"{"messageId":"m","role":"ROLE_USER","parts":[]}"#),
        "`message.parts` must have one part at least"
    );
    for (part, what) in [
        ("{}", "`message.parts[0]` must have exactly one of text, raw, url and data"),
        (r#"{"text":"x","url":"y"}"#, "`message.parts[0]` must have exactly one of text, raw, url and data"),
        (r#"{"text":5}"#, "`message.parts[0].text` must be a string"),
        (r#"{"raw":"%"}"#, "`message.parts[0].raw` must be base64"),
        (r#"{"text":"x","metadata":[]}"#, "`message.parts[0].metadata` must be an object"),
    ] {
        let message = format!(r#"{{"messageId":"m","role":"ROLE_USER","parts":[{part}]}}"#);
        assert_eq!(of(&message), what);
    }
    let of = |part: &str| read::part(DataForm::V03, &json(part), "p").unwrap_err().to_string();
    assert_eq!(of(r#"{"text":"x"}"#), "`p.kind` is required");
    assert_eq!(of(r#"{"kind":"image"}"#), "`p.kind` must be text, file or data");
    assert_eq!(of(r#"{"kind":"data","data":[1]}"#), "`p.data` must be an object");
    assert_eq!(of(r#"{"kind":"file","file":{}}"#), "`p.file` must have exactly one of bytes and uri");
}

#[test]
fn what_0_3_has_no_place_for_stands_in_metadata_and_comes_back() {
    let part = r#"{"data":[1,2],"filename":"n.json","mediaType":"application/json"}"#;
    let part = read::part(DataForm::V1, &json(part), "").unwrap();
    let old = write::part(DataForm::V03, &part);
    assert_eq!(read::part(DataForm::V03, &old, "").unwrap(), part);
    // An object that another one sends with a member `value` is itself.
    let own = read::part(DataForm::V03, &json(r#"{"kind":"data","data":{"value":1}}"#), "").unwrap();
    assert_eq!(own.content, Content::Data(json(r#"{"value":1}"#)));
}

#[test]
fn a_webhook_is_read_in_both_forms() {
    let new = r#"{"id":"p","taskId":"t","url":"https://x.example/hook","token":"k","authentication":{"scheme":"Bearer","credentials":"c"}}"#;
    let old = r#"{"taskId":"t","pushNotificationConfig":{"id":"p","url":"https://x.example/hook","token":"k","authentication":{"schemes":["Bearer"],"credentials":"c"}}}"#;
    let config = read::push_config(DataForm::V1, &json(new), "").unwrap();
    assert_eq!(write::push_config(DataForm::V1, &config).as_str(), new);
    assert_eq!(write::push_config(DataForm::V03, &config).as_str(), old);
    assert_eq!(read::push_config(DataForm::V03, &json(old), "").unwrap(), config);
}

/// A task, the one above, over REST in 0.3.
const TASK_REST_03: &str = r#"{"id":"task_1","contextId":"ctx","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m2","contextId":"ctx","taskId":"task_1","role":"ROLE_AGENT","content":[{"text":"Which city?"}]},"timestamp":"2026-03-12T10:00:00.000Z"},"artifacts":[{"artifactId":"a1","name":"report","description":"all of it","parts":[{"file":{"fileWithBytes":"aGk=","mimeType":"text/plain","name":"hi.txt"}},{"file":{"fileWithUri":"https://example.org/x","mimeType":"image/png"}},{"data":{"data":{"count":42,"of":[1.5,null]}}},{"data":{"data":{"value":null}},"metadata":{"data_part_compat":true}},{"text":"","metadata":{"a":1}}],"metadata":{"k":"v"},"extensions":["urn:x"]}],"history":[{"messageId":"m1","contextId":"ctx","taskId":"task_1","role":"ROLE_USER","content":[{"text":"Weather?"}],"metadata":{"a":true},"extensions":["urn:x"]}],"metadata":{"b":[1]}}"#;

#[test]
fn rest_in_0_3_has_a_form_of_its_own() {
    let mut task = read::task(DataForm::V1, &json(TASK_1), "").unwrap();
    assert_eq!(write::task(DataForm::Rest03, &task).as_str(), TASK_REST_03);
    task.history[0].references.clear();
    assert_eq!(read::task(DataForm::Rest03, &json(TASK_REST_03), "").unwrap(), task);
    // The specification shows it in the form of JSON-RPC as well.
    let message = r#"{"messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]}"#;
    let message = read::message(DataForm::Rest03, &json(message), "").unwrap();
    assert_eq!(message.parts[0].content, Content::Text("x".to_owned()));
    let canceled = r#"{"id":"t","status":{"state":"TASK_STATE_CANCELLED"}}"#;
    let canceled = read::task(DataForm::Rest03, &json(canceled), "").unwrap();
    assert!(write::task(DataForm::Rest03, &canceled).as_str().contains("TASK_STATE_CANCELLED"));
    assert!(write::task(DataForm::V1, &canceled).as_str().contains("TASK_STATE_CANCELED"));
}
