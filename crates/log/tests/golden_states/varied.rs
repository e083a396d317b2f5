//! A log with what the log of every event has not: posted history, many calls, several asks in one reply, two
//! conversations, overwritten keys, crashes.

use proto_events::call::{CallEvent, CallOrigin, FailureClass, Recovery, TokenUsage, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::id::{Digest, StreamId};
use proto_events::json::JsonObject;
use proto_events::model::LlmRole::{Assistant, System, Tool, User};
use proto_events::model::TaskState::{Completed, Failed, InputRequired, Submitted, Working};
use proto_events::model::{Artifact, LlmRole, Message, Part, PostedTask};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use proto_events::tool_store::ToolStoreEvent;
use proto_events::turn::TurnMessage;

use super::events::*;
use super::log::Log;

/// The number of calls of the long task: more than a list of calls has without an index.
const MANY: u32 = 33;

/// Returns the log.
pub(crate) fn varied() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let (programs, desk) = (StreamId::of_system(0), StreamId::of_agent("desk").unwrap());
    let first = revised(1, [1; 5], [Some("m"), Some("be brief"), Some("[]"), Some("[]"), Some("{}")]);
    log.append(vec![("first", &desk, vec![first]), ("started", &programs, vec![started(1, 1)])]);
    posted(&mut log);
    many_calls(&mut log);
    conversations(&mut log);
    keys(&mut log);
    // The second program ended in a crash, the third in order.
    log.epoch(2);
    log.append(vec![("crashed", &programs, vec![started(2, 1)])]);
    log.epoch(3);
    let second = revised(2, [1, 2, 2, 1, 1], [None, Some("be long"), Some("[1]"), None, None]);
    log.append(vec![("second", &desk, vec![second]), ("third", &programs, vec![started(3, 2)])]);
    unsettled(&mut log);
    log.append(vec![("stopped", &programs, vec![stopped(3)])]);
    log
}

fn object(text: &str) -> JsonObject {
    json(text).read().unwrap()
}

fn call(event: CallEvent) -> AnyEvent {
    AnyEvent::Task(TaskEvent::Call(event))
}

/// Tasks that are posted with a history: messages and artifacts whose times are not in order, metadata with states,
/// a flow's state; then posted again.
fn posted(log: &mut Log) {
    for (id, label, states) in [
        ("old", "posted", r#"{"state_history":[{"previous_state":"submitted"}],"a":{"b":[1e16,-0.0]}}"#),
        ("odd", "posted odd", r#"{"state_history":"none","a":1}"#),
    ] {
        let said = |id: &str, at: &str| Message {
            id: Some(id.to_owned()),
            role: Some("user".to_owned()),
            parts: vec![Part::text("né"), Part::new("json", json("[1, 2.50]"))],
            timestamp: Some(at.to_owned()),
        };
        let made = Artifact {
            id: Some("art".to_owned()),
            parts: vec![Part::text("made")],
            metadata: object(r#"{"k":1}"#),
            timestamp: Some("2026-11-21T07:03:21+00:00".to_owned()),
            kind: "result".to_owned(),
            name: Some("name".to_owned()),
            uri: None,
            media_type: Some("text/plain".to_owned()),
            action_id: None,
        };
        let task = task(id);
        let posted = PostedTask {
            filled_in: Vec::new(),
            source: Some(Digest::compute(id.as_bytes())),
            id: id.to_owned(),
            state: Submitted,
            messages: vec![said("m2", "2026-11-21T07:03:22+00:00"), said("m1", "2026-11-21T07:03:20+00:00")],
            artifacts: vec![made],
            metadata: object(states),
            flow_state: json(r#"{"step": 1}"#),
            created_at: Some("2026-11-21T07:00:00+00:00".to_owned()),
        };
        let submitted = AnyEvent::Task(TaskEvent::Submitted(Box::new(posted)));
        log.append(vec![(label, &task, vec![submitted, changed(Submitted, Working)])]);
        if id == "odd" {
            continue;
        }
        let waits =
            vec![artifact("art_1", Some(0)), artifact("art_2", None), changed(Working, InputRequired)];
        log.append(vec![(label, &task, waits)]);
        let more = AnyEvent::Task(TaskEvent::MetadataMerged(object(r#"{"a":null,"n":{"x":1}}"#)));
        let again = vec![message("more"), posted_again("again"), more, changed(InputRequired, Working)];
        log.append(vec![(label, &task, again)]);
        log.append(vec![(label, &task, vec![changed(Working, Completed), message("thanks")])]);
    }
}

/// A task with more calls than a list has without an index, those of the first parts with an output and tokens.
fn many_calls(log: &mut Log) {
    let task = task("many");
    log.append(vec![("many", &task, vec![submitted("many", Submitted), changed(Submitted, Working)])]);
    let mut events = Vec::new();
    for part in 0..MANY {
        let id = format!("c{part}");
        let mut asked = intent(&id, "read", Recovery::ReadOnly, 1);
        (asked.args, asked.idempotency_key) = (json("{}"), id.clone());
        asked.origin = CallOrigin { run: 1, part: part / 2, step: part % 3, ..CallOrigin::default() };
        events.push(requested(asked));
        if part >= 5 {
            continue;
        }
        let usage = Some(TokenUsage { input_tokens: u64::from(part), output_tokens: 2 });
        let (call_id, result) = (id.clone(), json(&format!("{{\"part\": {part}}}")));
        let ended = match part {
            3 => failed(&id, 1, FailureClass::AfterEffect),
            _ => call(CallEvent::Succeeded { call_id, attempt: 1, result, usage }),
        };
        events.extend([sent(&id, 1, 1, ""), ended, artifact(&format!("out_{part}"), Some(part))]);
    }
    log.append(vec![("many", &task, events)]);
    log.append(vec![("many", &task, vec![changed(Working, Failed), metadata("error")])]);
}

fn in_turn(role: LlmRole, content: &str, asks: &[&str], answers: Option<&str>) -> TurnMessage {
    let mut said = turn_message(role, None);
    content.clone_into(&mut said.message.content);
    said.message.id = format!("m_{content}");
    said.part = 1;
    said.infer_call = Some("i".to_owned());
    said.asks = asks.iter().map(|ask| (*ask).to_owned()).collect();
    said.answers = answers.map(str::to_owned);
    said
}

fn in_session(role: LlmRole, content: &str, asks: &[&str], answers: Option<&str>) -> AnyEvent {
    AnyEvent::Session(SessionEvent::MessageAppended(in_turn(role, content, asks, answers)))
}

/// A conversation of three turns, one of them aborted, whose system prompt changes; and one without a session.
fn conversations(log: &mut Log) {
    let (task, session) = (task("talk"), StreamId::session("desk", "talk").unwrap());
    log.append(vec![("talk", &task, vec![submitted("talk", Submitted), changed(Submitted, Working)])]);
    let prompt = |content: &str| {
        AnyEvent::Session(SessionEvent::SystemPromptSet(in_turn(System, content, &[], None).message))
    };
    log.append(vec![("opened", &session, vec![opened("talk"), prompt("without a turn")])]);
    let first = vec![
        turn_started("1", &task),
        prompt("be brief"),
        in_session(User, "both", &[], None),
        in_session(Assistant, "asking", &["c1", "c2"], None),
        in_session(Tool, "one", &[], Some("c1")),
        in_session(Tool, "two", &[], Some("c2")),
        in_session(Assistant, "done", &[], None),
        turn_committed("1"),
    ];
    log.append(vec![("first turn", &session, first)]);
    let second = vec![
        turn_started("2", &task),
        prompt("be long"),
        in_session(User, "lost", &[], None),
        in_session(Assistant, "never answered", &["c3"], None),
        turn_aborted("2"),
    ];
    log.append(vec![("second turn", &session, second)]);
    let third = vec![turn_started("3", &task), prompt("be long"), in_session(User, "again", &[], None)];
    log.append(vec![("third turn", &session, third)]);
    log.append(vec![("third ends", &session, vec![turn_committed("3"), turn_started("4", &task)])]);
    let alone = |message| AnyEvent::Task(TaskEvent::InferMessageAppended(message));
    let said = vec![
        alone(in_turn(User, "alone", &[], None)),
        alone(in_turn(Assistant, "asks", &["c1", "c2"], None)),
        alone(in_turn(Tool, "two", &[], Some("c2"))),
    ];
    log.append(vec![("alone", &task, said)]);
}

/// Keys that are written, overwritten and deleted, one of them that is not there.
fn keys(log: &mut Log) {
    let (task, store) = (task("talk"), tool("notes"));
    let put = |key: &str, value: &str| {
        let (task, call_id, key) = (task.to_string(), "k".to_owned(), key.to_owned());
        AnyEvent::Tool(ToolStoreEvent::KeyPut { task, call_id, key, value: json(value) })
    };
    let events = vec![
        put("a", r#"{"b": [1.50]}"#),
        put("b", "\"né\""),
        put("a", "null"),
        deleted(&task, "k", "b"),
        deleted(&task, "k", "none"),
        put("b", "1e400"),
    ];
    log.append(vec![("keys", &store, events)]);
}

/// Calls that are open, in a back-off, timed out, unknown, settled by a person or a probe, and late.
fn unsettled(log: &mut Log) {
    let task = task("open");
    log.append(vec![("open", &task, vec![submitted("open", Submitted), changed(Submitted, Working)])]);
    let ask = |id: &str, recovery| requested(intent(id, "book", recovery, 1));
    log.append(vec![("waits", &task, vec![ask("waits", Recovery::Manual)])]);
    let flaky = vec![ask("flaky", Recovery::ReadOnly), sent("flaky", 1, 3, ""), retried("flaky", 1, FAR)];
    log.append(vec![("flaky", &task, flaky)]);
    let slow = vec![ask("slow", Recovery::Idempotent), sent("slow", 1, 3, ""), timed_out("slow", 1)];
    log.append(vec![("slow", &task, slow)]);
    let lost = vec![ask("lost", Recovery::Manual), sent("lost", 1, 3, ""), unknown("lost", 1)];
    log.append(vec![("lost", &task, lost)]);
    let settled = vec![late("lost", 1), verdict("lost", 1, landed(), true)];
    log.append(vec![("settled", &task, settled)]);
    let gone = vec![ask("gone", Recovery::Manual), sent("gone", 1, 3, ""), unknown("gone", 1)];
    log.append(vec![("gone", &task, gone)]);
    let closed = Verdict::Inconclusive("closed".to_owned());
    log.append(vec![("gone for good", &task, vec![verdict("gone", 1, closed, true), abandoned("gone")])]);
    let probed = vec![ask("probed", Recovery::Reconcile), sent("probed", 1, 3, "")];
    log.append(vec![("probed", &task, probed)]);
    log.append(vec![("not there", &task, vec![verdict("probed", 1, Verdict::DidNotHappen, false)])]);
    let mut bound = intent("bound", "pay", Recovery::Manual, 1);
    bound.approval = Some("a1".to_owned());
    log.append(vec![(
        "asked",
        &task,
        vec![approval(asked("a1", "bound", "pay", json("{}"))), decided("a1", true)],
    )]);
    log.append(vec![("bound", &task, vec![requested(bound), sent("bound", 1, 3, "")])]);
    let left =
        vec![approval(asked("a2", "left", "pay", json("[]"))), approval(asked("a3", "no", "pay", json("1")))];
    log.append(vec![("left open", &task, left)]);
    log.append(vec![("denied", &task, vec![decided("a3", false)])]);
}
