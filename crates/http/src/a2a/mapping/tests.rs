//! The mapping is lossless in both directions, in both forms, and through a client that reads every number as a double.

use proptest::prelude::*;
use proto_events::json::{JsonMap, JsonObject, JsonText, JsonValue};
use proto_events::model::{Artifact, Message, Part, PostedTask, TaskState};

use crate::a2a::mapping::task::{Own, to_a2a, to_ours};
use crate::a2a::model;
use crate::a2a::wire::{DataForm, read, write};

/// Returns what a client that is built on protobuf makes of a body: every number a double, keys in another order.
fn through_protobuf(json: &JsonText) -> JsonText {
    fn walk(value: &JsonValue) -> JsonValue {
        match value {
            JsonValue::Number(number) => {
                let float: f64 = number.as_str().parse().unwrap();
                format!("{float:?}").parse().map_or(JsonValue::Null, JsonValue::Number)
            }
            JsonValue::Array(items) => JsonValue::Array(items.iter().map(walk).collect()),
            JsonValue::Object(members) => {
                let mut members: Vec<_> =
                    members.iter().map(|(key, value)| (key.clone(), walk(value))).collect();
                members.sort_by(|(one, _), (other, _)| other.cmp(one));
                JsonValue::Object(members.into_iter().collect::<JsonMap>())
            }
            other => other.clone(),
        }
    }
    JsonText::of_model(&walk(&json.tree()))
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i32>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        (-1_000_000_i32..1_000_000).prop_map(|number| format!("{}", f64::from(number) / 64.0)),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
        Just("7.0".to_owned()),
        Just("1e16".to_owned()),
        Just("-0.0".to_owned()),
        Just("-0".to_owned()),
        Just("1180591620717411303424".to_owned()),
        Just("0.10".to_owned()),
    ]
}

fn json() -> impl Strategy<Value = JsonText> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        number(),
        "[ -~äß😀]{0,8}".prop_map(|text| JsonText::string(&text).to_string()),
    ];
    let nested = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map("[a-z_A-Z]{1,6}", inner, 0..4).prop_map(|members| {
                let members: Vec<_> =
                    members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    nested.prop_map(|text| JsonText::parse(&text).unwrap())
}

fn object() -> impl Strategy<Value = JsonObject> {
    prop::collection::btree_map("[a-z_]{1,8}", json(), 0..4).prop_map(|members| members.into_iter().collect())
}

fn text() -> impl Strategy<Value = String> {
    "[ -~äß😀\n]{0,12}"
}

fn id() -> impl Strategy<Value = String> {
    "[a-z]{1,3}_[0-9a-f]{1,6}"
}

fn file() -> impl Strategy<Value = JsonText> {
    let place = prop_oneof![
        Just(("raw", "aGk=".to_owned())),
        Just(("raw", "no base64!".to_owned())),
        Just(("url", "https://example.org/a".to_owned())),
    ];
    (place, prop::option::of(text()), prop::option::of(text()), prop::option::of(object()), object())
        .prop_map(|((key, place), filename, media, metadata, rest)| {
            let mut file = rest;
            file.set(key, JsonText::string(&place));
            for (key, text) in [("filename", filename), ("mediaType", media)] {
                if let Some(text) = text {
                    file.set(key, JsonText::string(&text));
                }
            }
            if let Some(metadata) = metadata {
                file.set("metadata", metadata.to_text());
            }
            file.to_text()
        })
}

fn part() -> impl Strategy<Value = Part> {
    let kinds = prop::sample::select(vec![
        "text",
        "json",
        "tool_call",
        "tool_output",
        "infer",
        "infer_output",
        "route",
        "error",
        "status",
        "bytes",
        "uri",
        "image",
        "file",
        "something_else",
    ]);
    let content = prop_oneof![
        3 => json(),
        2 => text().prop_map(|text| JsonText::string(&text)),
        2 => file(),
        1 => text().prop_map(|prompt| Part::infer(prompt).content().clone()),
    ];
    (kinds, content).prop_map(|(kind, content)| Part::new(kind, content))
}

fn message() -> impl Strategy<Value = Message> {
    let roles =
        prop::sample::select(vec![Some("user"), Some("agent"), Some("assistant"), Some("system"), None]);
    (
        prop::option::of(id()),
        roles,
        prop::collection::vec(part(), 0..4),
        prop::option::of(text()),
        any::<bool>(),
    )
        .prop_map(|(id, role, mut parts, timestamp, asks)| {
            if asks {
                parts.extend(super::prompt::prompt_of(&parts));
            }
            Message { id, role: role.map(str::to_owned), parts, timestamp }
        })
}

fn artifact() -> impl Strategy<Value = Artifact> {
    let texts = (
        prop::option::of(id()),
        prop::option::of(text()),
        prop::option::of(text()),
        prop::option::of(text()),
    );
    let more = (prop::option::of(text()), prop::option::of(text()), "[a-z]{1,6}");
    (texts, more, prop::collection::vec(part(), 0..3), object()).prop_map(
        |((id, name, uri, media_type), (timestamp, action_id, kind), parts, metadata)| Artifact {
            id,
            parts,
            metadata,
            timestamp,
            kind,
            name,
            uri,
            media_type,
            action_id,
        },
    )
}

pub(crate) fn task() -> impl Strategy<Value = PostedTask> {
    let session = prop_oneof![
        Just(None),
        id().prop_map(|session| Some(JsonText::string(&session))),
        json().prop_map(Some),
    ];
    (
        id(),
        prop::sample::select(TaskState::ALL.to_vec()),
        prop::collection::vec(message(), 0..3),
        prop::collection::vec(artifact(), 0..3),
        (object(), session),
        prop_oneof![Just(JsonText::empty_object()), json()],
        prop::option::of(text()),
    )
        .prop_map(|(id, state, messages, artifacts, (mut metadata, session), flow_state, created_at)| {
            if let Some(session) = session {
                metadata.set("session_id", session);
            }
            PostedTask {
                id,
                state,
                messages,
                artifacts,
                metadata,
                flow_state,
                created_at,
                filled_in: Vec::new(),
                source: None,
            }
        })
}

/// Returns a task's JSON as a tree, in which the order of keys does not count.
pub(crate) fn tree(task: &PostedTask) -> JsonValue {
    task.to_json().tree()
}

fn back(form: DataForm, body: &JsonText) -> PostedTask {
    to_ours(read::task(form, body, "").unwrap_or_else(|error| panic!("{error}: {body}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_task_of_ours_comes_back_as_it_was_also_from_a_client_that_knows_only_doubles(task in task()) {
        for form in [DataForm::V1, DataForm::V03] {
            let body = write::task(form, &to_a2a(&Own::from(&task)));
            prop_assert_eq!(tree(&back(form, &body)), tree(&task), "{:?} {}", form, body);
            let passed = through_protobuf(&body);
            prop_assert_eq!(tree(&back(form, &passed)), tree(&task), "{:?} {}", form, passed);
        }
    }

    #[test]
    fn a_task_of_theirs_comes_back_as_it_was(task in theirs()) {
        let ours = to_ours(task.clone());
        // As it stands in the log, and is read again.
        let stored = PostedTask::from_json(&ours.to_json(), &mut taskreel::Ports::default()).unwrap();
        for ours in [ours, stored] {
            let again = to_a2a(&Own::from(&ours));
            let (again, task) = (without_notes(again), without_notes(task.clone()));
            prop_assert_eq!(
                write::task(DataForm::V1, &again).tree(),
                write::task(DataForm::V1, &task).tree(),
            );
        }
    }
}

/// Returns a task without our notes, which say only what is ours.
fn without_notes(mut task: model::Task) -> model::Task {
    fn strip(metadata: &mut JsonObject) {
        metadata.remove(super::EXTENSION);
    }
    let message = |message: &mut model::Message| {
        strip(&mut message.metadata);
        message.parts.iter_mut().for_each(|part| strip(&mut part.metadata));
    };
    strip(&mut task.metadata);
    task.history.iter_mut().for_each(message);
    task.status.message.iter_mut().for_each(message);
    for artifact in task.artifacts.iter_mut().flatten() {
        strip(&mut artifact.metadata);
        artifact.parts.iter_mut().for_each(|part| strip(&mut part.metadata));
    }
    task
}

/// Values whose numbers are as every client prints them: in A2A 7.0 and 7 are the same.
fn plain_json() -> impl Strategy<Value = JsonText> {
    json().prop_map(|json| if super::numbers::is_kept(&json) { json } else { JsonText::string("odd") })
}

fn plain_object() -> impl Strategy<Value = JsonObject> {
    prop::collection::btree_map("[a-z_]{1,8}", plain_json(), 0..3)
        .prop_map(|members| members.into_iter().collect())
}

fn named() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-z/]{1,8}")
}

fn their_part() -> impl Strategy<Value = model::Part> {
    let content = prop_oneof![
        text().prop_map(model::Content::Text),
        Just(model::Content::Raw("aGk=".to_owned())),
        text().prop_map(model::Content::Url),
        plain_json().prop_map(model::Content::Data),
    ];
    (content, plain_object(), named(), named()).prop_map(|(content, metadata, filename, media_type)| {
        model::Part { content, metadata, filename, media_type }
    })
}

pub(crate) fn their_message() -> impl Strategy<Value = model::Message> {
    let role = prop::sample::select(vec![model::Role::User, model::Role::Agent]);
    let lists = (prop::collection::vec("[a-z:]{1,9}", 0..2), prop::collection::vec(id(), 0..2));
    (id(), role, prop::collection::vec(their_part(), 1..4), plain_object(), lists).prop_map(
        |(id, role, parts, metadata, (extensions, references))| model::Message {
            id,
            role,
            parts,
            context_id: Some("ctx".to_owned()),
            task_id: Some("task".to_owned()),
            metadata,
            extensions,
            references,
        },
    )
}

fn their_artifact() -> impl Strategy<Value = model::Artifact> {
    let texts = (id(), prop::option::of(text()), prop::option::of(text()));
    (
        texts,
        prop::collection::vec(their_part(), 1..3),
        plain_object(),
        prop::collection::vec("[a-z:]{1,9}", 0..2),
    )
        .prop_map(|((id, name, description), parts, metadata, extensions)| model::Artifact {
            id,
            name,
            description,
            parts,
            metadata,
            extensions,
        })
}

pub(crate) fn theirs() -> impl Strategy<Value = model::Task> {
    use model::State::{
        AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Unspecified, Working,
    };
    let states = vec![
        Unspecified,
        Submitted,
        Working,
        Completed,
        Failed,
        Canceled,
        Rejected,
        InputRequired,
        AuthRequired,
    ];
    let history = prop::collection::vec(their_message(), 0..3);
    let about = (prop::sample::select(states), prop::option::of(their_message()), prop::option::of(text()));
    (about, prop::collection::vec(their_artifact(), 0..3), history, plain_object()).prop_map(
        |((state, message, timestamp), artifacts, history, metadata)| {
            // The words about the state follow from the history where it has none of its own.
            let last =
                history.last().filter(|last: &&model::Message| last.role == model::Role::Agent).cloned();
            let made = metadata.get("error").is_some() && matches!(state, Failed | Rejected);
            let message = message.or(last);
            let message = message.or_else(|| made.then(|| their_error(&metadata)));
            model::Task {
                id: "task".to_owned(),
                context_id: "ctx".to_owned(),
                status: model::Status {
                    state,
                    message,
                    timestamp: timestamp.filter(|text| !text.is_empty()),
                },
                artifacts: Some(artifacts),
                history,
                metadata,
            }
        },
    )
}

fn their_error(metadata: &JsonObject) -> model::Message {
    let error = metadata.get("error").unwrap();
    let place = super::message::MessagePlace { task: "task", context: "ctx" };
    super::remarks::error_message(&error.to_str().unwrap_or_else(|| error.to_string()), place)
}

#[test]
fn one_message_whose_members_come_in_two_orders_is_one() {
    let message =
        |data: &str| format!(r#"{{"messageId": "m", "role": "ROLE_AGENT", "parts": [{{"data": {data}}}]}}"#);
    let read = |said: &str| {
        let status = format!(r#"{{"state": "TASK_STATE_INPUT_REQUIRED", "message": {}}}"#, message(said));
        let kept = message(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#);
        let task = format!(r#"{{"id": "t", "contextId": "t", "status": {status}, "history": [{kept}]}}"#);
        to_ours(read::task(DataForm::V1, &JsonText::parse(&task).unwrap(), "").unwrap())
    };
    let same = read(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#);
    assert_eq!(tree(&read(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#)), tree(&same));
    assert_ne!(tree(&read(r#"{"b": {"d": 3, "c": 4}, "a": 1}"#)), tree(&same));
}
