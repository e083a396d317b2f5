//! Deliberate differences between our answers over HTTP and the recorded ones. Each is a rule, never a list of case names;
//! each has an example, which is tested here.
#![allow(
    clippy::indexing_slicing,
    reason = "`Value` answers null for a key that is absent, and the cases are objects"
)]

#[path = "../../../../tests/deviations/deviation.rs"]
mod deviation;

pub(crate) use deviation::Deviation;
use proto_events::json;
use proto_events::json::JsonValue as Value;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[
    Deviation {
        area: "http_api",
        name: "a request that was not run is told why",
        theirs: "answers every failure with 500 and the text `Internal Server Error`",
        ours: "answers 400, 404, 409 or 422 with a code and a message",
        why: "a caller must know whether its request was wrong, and whether anything was done",
        applies: |case| case["expected"]["status"] == 500,
        change: tell_why,
        example: told_example,
    },
    Deviation {
        area: "http_api",
        name: "tasks are streamed on the port of all other requests",
        theirs: "answers `/tasks/stream` with 404 on its plain transport",
        ours: "streams there too",
        why: "one port serves both transports, so that a client need not know which one an agent has",
        applies: |case| {
            case["input"]["path"] == "/tasks/stream"
                && case["expected"]["status"] == 404
                && echoed(case).is_some()
        },
        change: stream_it,
        example: streamed_example,
    },
    Deviation {
        area: "http_api",
        name: "a stream goes on to the final status",
        theirs: "cuts a stream at `llm_final`: no artifact, no final status",
        ours: "goes on, as 0.8.3 does",
        why: "a client that waits for the task's end must get it",
        applies: |case| cut_at(case).is_some(),
        change: go_on,
        example: cut_example,
    },
    Deviation {
        area: "http_api",
        name: "a card has its role",
        theirs: "loses the role of a card on the wire",
        ours: "writes and reads it",
        why: "who looks for agents of a role must find them",
        applies: |case| cards(&case["expected"]["json"]).iter().any(|card| card.get("role").is_none()),
        change: give_role,
        example: role_example,
    },
];

/// Returns the cards of a response: itself, or its items.
fn cards(json: &Value) -> Vec<&Value> {
    let items = json.as_array().map_or_else(|| vec![json], |items| items.iter().collect());
    items.into_iter().filter(|card| card.get("protocolVersion").is_some()).collect()
}

fn give_role(case: &mut Value) {
    let json = &mut case["expected"]["json"];
    let give = |card: &mut Value| {
        if card.get("protocolVersion").is_some() && card.get("role").is_none() {
            card["role"] = "worker".into();
        }
    };
    match json.as_array_mut() {
        Some(items) => items.iter_mut().for_each(give),
        None => give(json),
    }
}

fn role_example() -> (Value, Value) {
    let case = |card: Value| json!({"expected": {"status": 200, "json": [card]}});
    (
        case(json!({"name": "a", "protocolVersion": "1"})),
        case(json!({"name": "a", "protocolVersion": "1", "role": "worker"})),
    )
}

/// Returns our status and code for a request that was not run.
fn refusal(input: &Value) -> (u16, &'static str) {
    let named = input["json"]["id"].as_str().is_some_and(|id| !id.is_empty());
    match input["path"].as_str() {
        Some("/tasks/cancel") if named => (404, "not_found"),
        Some("/llm/history/compact") if input["server"] == "agent" => (422, "no_model"),
        _ => (400, "malformed"),
    }
}

fn tell_why(case: &mut Value) {
    if case["expected"]["status"] == 500 {
        let (status, code) = refusal(&case["input"]);
        case["expected"] = json!({"status": status, "content_type": "application/json", "error_code": code});
    }
}

fn told_example() -> (Value, Value) {
    let input = json!({"server": "agent", "path": "/tasks/cancel", "json": {"id": "zzz"}});
    (
        json!({"input": input, "expected": {"status": 500, "content_type": "text/plain; charset=utf-8", "text": "Internal Server Error"}}),
        json!({"input": input, "expected": {"status": 404, "content_type": "application/json", "error_code": "not_found"}}),
    )
}

/// Returns the id of the only call of `echo` in the posted task, and its text.
fn echoed(case: &Value) -> Option<(&str, &str)> {
    let part = &case["input"]["json"]["messages"][0]["parts"][0]["content"];
    (part["tool_name"] == "echo").then_some(())?;
    Some((part["call_id"].as_str()?, part["args"]["text"].as_str()?))
}

/// Returns a frame of the recording.
fn frame(request: &Value, number: usize, mut result: Value, is_last: bool) -> Value {
    result["event_id"] = format!("<uuid#{number}>").into();
    result["timestamp"] = "<ts>".into();
    json!({"jsonrpc": "2.0", "id": request, "ok": true, "result": result, "final": is_last})
}

fn artifact(task: &Value, part: &Value) -> Value {
    json!({"type": "task_artifact_update", "task_id": task, "metadata_keys": [], "artifact": {
        "id": "<id:art#1>", "parts": [part], "metadata": {}, "timestamp": "<ts>", "kind": "result", "name": null,
        "uri": null, "media_type": null, "action_id": null,
    }})
}

fn completed(task: &Value) -> Value {
    json!({"type": "task_status_update", "task_id": task, "previous_state": "working", "new_state": "completed",
        "final": true, "metadata_keys": ["task"]})
}

fn stream_it(case: &mut Value) {
    if case["expected"]["status"] != 404 {
        return;
    }
    let Some((call, text)) = echoed(case) else { return };
    let task = &case["input"]["json"]["id"];
    let part = json!({"type": "tool_output", "content": {"call_id": call, "result": text, "error": null}});
    let begun = json!({"type": "task_status_update", "task_id": task, "previous_state": "submitted",
        "new_state": "working", "final": false, "metadata_keys": []});
    let progress = json!({"type": "task_progress", "task_id": task, "progress": 0,
        "message": "Executing tool: echo", "metadata_keys": ["agent", "part_type"]});
    let results = [begun, progress, artifact(task, &part), completed(task)];
    let frames = (1..).zip(results).map(|(number, result)| frame(&Value::Null, number, result, number == 4));
    let frames: Vec<Value> = frames.collect();
    case["expected"] =
        json!({"status": 200, "content_type": "text/event-stream; charset=utf-8", "sse_frames": frames});
}

fn streamed_example() -> (Value, Value) {
    let call =
        json!({"type": "tool_call", "content": {"tool_name": "echo", "args": {"text": "x"}, "call_id": "c"}});
    let input = json!({"path": "/tasks/stream", "json": {"id": "t", "messages": [{"parts": [call]}]}});
    let theirs = json!({"input": input, "expected": {"status": 404}});
    let mut ours = theirs.clone();
    stream_it(&mut ours);
    assert_eq!(ours["expected"]["sse_frames"][3]["result"]["new_state"], "completed");
    (theirs, ours)
}

/// Returns the number of frames and the answer, if the stream is cut at `llm_final`.
fn cut_at(case: &Value) -> Option<(usize, String)> {
    let frames = case["expected"]["sse_frames"].as_array()?;
    let last = frames.last()?;
    let is_cut = last["result"]["llm_event_type"] == "llm_final" && last["final"] == Value::Bool(true);
    is_cut.then_some(())?;
    Some((frames.len(), last["result"]["content"].as_str()?.to_owned()))
}

fn go_on(case: &mut Value) {
    let Some((count, answer)) = cut_at(case) else { return };
    let Some(frames) = case["expected"]["sse_frames"].as_array_mut() else { return };
    let Some(last) = frames.last_mut() else { return };
    last["final"] = false.into();
    let (request, task) = (last["id"].clone(), last["result"]["task_id"].clone());
    let part = json!({"type": "infer_output", "content": answer});
    frames.push(frame(&request, count + 1, artifact(&task, &part), false));
    frames.push(frame(&request, count + 2, completed(&task), true));
}

fn cut_example() -> (Value, Value) {
    let last = |is_final: bool| json!({"id": "r", "result": {"llm_event_type": "llm_final", "task_id": "t", "content": "a"}, "final": is_final});
    let theirs = json!({"expected": {"sse_frames": [last(true)]}});
    let mut ours = theirs.clone();
    go_on(&mut ours);
    assert_eq!(ours["expected"]["sse_frames"][0], last(false));
    assert_eq!(ours["expected"]["sse_frames"].as_array().map(Vec::len), Some(3));
    (theirs, ours)
}

#[test]
fn every_rule_makes_of_its_example_what_it_says_and_of_the_result_nothing_else() {
    deviation::check_examples(RULES);
}

#[test]
fn every_rule_says_where_what_and_why_and_has_a_name_of_its_own() {
    deviation::check_words(RULES);
}
