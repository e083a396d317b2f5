//! Waiting for a task. What ours does with a script is worked out here once more, without the code that is tested: a stream is
//! followed to its end and then asked on, errors that pass are waited out, a task that was taken is never lost, and the last
//! pause is no longer than the time that is left.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python;
use taskreel_log::artifacts::{A2aTask, ArtifactSettings, KeyCase, SavedFiles, TaskForLlm, Tips};

use super::shown::add_ranges;
use super::{Deviation, agents_of, loaded, told};

pub(super) const fn rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "a task is watched until it rests or the time is up, and never lost",
        theirs: "raises an error of the watching and loses the accepted task, ends where a stream ends early, and oversleeps",
        ours: "waits errors out that may pass, asks on where a stream ends, returns what is known, and cuts the last pause",
        why: "what an agent has accepted must not be lost to a connection, nor sent again because it seems to be",
        applies,
        change,
        example,
    }
}

/// The course of a case: calls with their times, pauses, states that were kept, the end, and the task or nothing.
#[derive(Default)]
struct Watched {
    calls: Vec<Value>,
    sleeps: Vec<Value>,
    saves: Vec<Value>,
    end: f64,
    task: Value,
    fault: Option<String>,
}

/// The script, and the place in it.
struct Script<'a> {
    remote: &'a Value,
    asked: usize,
}

impl Script<'_> {
    fn next(&mut self) -> &Value {
        let answers = self.remote["get_task"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.asked += 1;
        answers.get(self.asked - 1).or(answers.last()).unwrap_or(&Value::Null)
    }
}

fn rests(state: &Value) -> bool {
    let resting = ["completed", "canceled", "failed", "rejected", "input-required", "auth-required"];
    state.as_str().is_some_and(|state| resting.contains(&state))
}

fn takes(answer: &Value) -> f64 {
    answer["takes"].as_f64().unwrap_or_default()
}

/// Returns an error's text, and whether it may pass.
fn fault(answer: &Value) -> (String, bool) {
    if answer["raise"] == "timeout" {
        return ("Timeout Error: Client Request timed out".to_owned(), true);
    }
    if answer["raise"].is_null() {
        let error = &answer["error"];
        let (code, message) = (&error["code"], error["message"].as_str().unwrap_or_default());
        let data = if error["data"].is_null() { "None".to_owned() } else { python::repr(&error["data"]) };
        return (
            format!("JSON-RPC Error code={code} data={data} message={}", python::repr_str(message)),
            false,
        );
    }
    let status = answer["status"].as_u64().unwrap_or(503);
    let text = format!("HTTP Error {status}: {}", answer["message"].as_str().unwrap_or_default());
    (text, matches!(status, 429 | 502 | 503 | 504))
}

fn call(case: &Value, method: &str, id: &str, timeout: f64, at: f64) -> Value {
    let first = &case["expected"]["calls"][0];
    let headers = first.get("headers").cloned().unwrap_or_default();
    json!({"method": method, "params": {"id": id}, "headers": headers, "http_timeout_s": timeout, "at": at})
}

/// Returns what ours does; `None` where nothing is watched.
fn watched(case: &Value) -> Option<Watched> {
    let input = &case["input"];
    let args = &input["args"];
    let method = input["method"].as_str().or(input["tool"].as_str())?;
    let agent = args["agent_id"].as_str()?;
    // What is refused before anything is sent is not watched.
    let first = method_of(&case["expected"]["calls"][0]);
    (first == if method == "send_message" { "message/send" } else { &first } && !first.is_empty())
        .then_some(())?;
    loaded(case).iter().any(|id| id == agent).then_some(())?;
    let card = agents_of(case).into_iter().find(|(id, _)| id == agent)?.1.ok()?;
    let timeout = args["timeout"].as_f64().unwrap_or(60.0).max(0.0);
    let mut ours = Watched::default();
    let (mut now, mut until, id, mut known) =
        (0.0, timeout, args["task_id"].as_str().map(str::to_owned), None);
    let id = match method {
        "send_message" => {
            let answer = &input["remote"]["send"][0];
            let task = Some(&answer["result"]).filter(|task| task["kind"] == "task")?;
            // The first call of theirs is the message itself.
            ours.calls.push(case["expected"]["calls"][0].clone());
            ours.saves.push(json!([task["id"].clone(), task["status"]["state"].clone()]));
            now += takes(answer);
            until = timeout;
            known = Some(task.clone());
            (!rests(&task["status"]["state"]) && now < until).then_some(())?;
            task["id"].as_str()?.to_owned()
        }
        "get_task" => id?,
        _ => return None,
    };
    let mut script = Script { remote: &input["remote"], asked: 0 };
    let mut http = 60.0;
    let mut is_up = false;
    if card["capabilities"]["streaming"] == true {
        http = until - now;
        ours.calls.push(call(case, "tasks/resubscribe", &id, http, now));
        for frame in input["remote"]["stream"].as_array().into_iter().flatten() {
            if frame["hang"] == true {
                is_up = true;
                break;
            }
            now += takes(frame);
            if frame["event"].is_null() || rests(&frame["event"]["status"]["state"]) {
                break;
            }
        }
    }
    let interval = args["poll_interval"].as_f64().unwrap_or(5.0).max(0.1);
    poll(case, &mut script, &mut ours, (now, until, interval), (&id, http, is_up), &mut known)?;
    if let Some(known) = known {
        ours.saves.push(json!([known["id"].clone(), known["status"]["state"].clone()]));
        ours.task = known;
    }
    Some(ours)
}

fn poll(
    case: &Value,
    script: &mut Script<'_>,
    ours: &mut Watched,
    (mut now, until, interval): (f64, f64, f64),
    (id, mut http, is_up): (&str, f64, bool),
    known: &mut Option<Value>,
) -> Option<()> {
    loop {
        ours.calls.push(call(case, "tasks/get", id, http, now));
        let answer = script.next();
        now += takes(answer);
        ours.end = now;
        let task = &answer["result"];
        if task.is_null() {
            let (text, passes) = fault(answer);
            ours.fault = Some(text);
            if known.is_none() || !passes {
                return Some(());
            }
        } else {
            (task["id"] == id).then_some(())?;
            ours.fault = None;
            *known = Some(task.clone());
            if rests(&task["status"]["state"]) {
                return Some(());
            }
        }
        if is_up || now >= until {
            return Some(());
        }
        let next = (now + interval).min(until);
        ours.sleeps.push(json!(next - now));
        (now, http) = (next, 60.0);
    }
}

/// Returns the task that a case's answer shows.
pub(super) fn last_task(case: &Value) -> Option<Value> {
    let sent = || {
        let is_send = case["input"]["tool"] == "send_message";
        is_send.then(|| case["input"]["remote"]["send"][0]["result"].clone())
    };
    watched(case).map(|ours| ours.task).or_else(sent).filter(|task| task["kind"] == "task")
}

/// Returns the case with what ours does.
fn changed(case: &Value) -> Option<Value> {
    let ours = watched(case)?;
    let mut whole = case.clone();
    if case["input"]["tool"].is_null() {
        let expected = &mut whole["expected"];
        if let Some(fields) = expected.as_object_mut() {
            fields.remove("error");
        }
        if ours.task.is_null() {
            let message = ours.fault.clone().unwrap_or_default();
            let kinds = [("Timeout", "A2AClientTimeoutError"), ("JSON-RPC", "A2AClientJSONRPCError")];
            let kind = kinds.iter().find(|(word, _)| message.starts_with(word));
            let kind = kind.map_or("A2AClientHTTPError", |(_, kind)| *kind);
            expected["error"] = json!({"type": kind, "message": message.as_str()});
        } else {
            let state = ours.task["status"]["state"].clone();
            expected["result"] = json!({"kind": "task", "state": state, "id": ours.task["id"].clone()});
        }
        expected["calls"] = ours.calls.into();
        expected["sleeps"] = ours.sleeps.into();
        expected["store_saves"] = ours.saves.into();
        expected["clock_end"] = json!(ours.end);
    } else {
        let methods: Value = ours.calls.iter().map(|call| Value::from(method_of(call))).collect();
        if methods != case["expected"]["calls"]
            || case["expected"]["output"]["error"] == true
            || ours.fault.is_some()
        {
            whole["expected"]["calls"] = methods;
            whole["expected"]["output"] = shown(case, &ours)?;
            add_ranges(&mut whole);
        }
    }
    Some(whole)
}

/// Returns the method of a call, which cases of tools list alone.
fn method_of(call: &Value) -> String {
    call.as_str().or(call["method"].as_str()).unwrap_or_default().to_owned()
}

const TIPS: Tips<'static> = Tips {
    text: Some("Text was minimized. Call view_text_artifact() to view specific line ranges."),
    data: Some("Data was minimized. Call view_data_artifact() to navigate to specific data."),
};

fn shown(case: &Value, ours: &Watched) -> Option<Value> {
    let setting = |name: &str, default: usize| {
        case["input"]["settings"][name]
            .as_u64()
            .map_or(default, |given| usize::try_from(given).unwrap_or(usize::MAX))
    };
    if ours.task.is_null() {
        // Where nothing is known of the task, its error is told.
        let text = ours.fault.as_deref()?;
        let late = "Request timed out. You can retry with a longer timeout, or use get_task again to continue monitoring.";
        let is_late = text == "Timeout Error: Client Request timed out";
        return Some(if is_late { told(late) } else { told(&format!("Failed to get task: {text}")) });
    }
    let settings =
        ArtifactSettings::new(setting("send_message_character_limit", 50_000), 5_000, 50_000).ok()?;
    let (task, unsaved) = (A2aTask::from_json(&ours.task).ok()?, SavedFiles::new());
    let mut shown = TaskForLlm::from_task(&task, &settings, &unsaved, &unsaved, TIPS).to_json(KeyCase::Snake);
    if let Some(fault) = &ours.fault {
        let note = format!(
            "The task was accepted, but what became of it is not known: {fault}. Use get_task to continue."
        );
        shown.as_object_mut().map(|shown: &mut JsonMap| shown.insert("_note", note.into()));
    }
    Some(shown)
}

/// Returns a value with whole numbers as floats, since a time is the same either way.
fn as_times(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!((number.as_f64().unwrap_or_default() * 1_000.0).round() / 1_000.0),
        Value::Array(items) => items.iter().map(as_times).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), as_times(value))).collect::<JsonMap>().into()
        }
        other => other.clone(),
    }
}

fn applies(case: &Value) -> bool {
    changed(case).is_some_and(|ours| {
        ["calls", "sleeps", "store_saves", "clock_end", "result", "output", "error"].iter().any(|name| {
            let field = |case: &Value| as_times(&case["expected"].get(name).cloned().unwrap_or_default());
            field(&ours) != field(case)
        })
    })
}

fn change(case: &mut Value) {
    if let Some(ours) = changed(case) {
        *case = ours;
    }
}

fn example() -> (Value, Value) {
    let at_work = json!({"id": "t", "contextId": "c", "kind": "task", "status": {"state": "working"}});
    let input = json!({"method": "get_task", "args": {"agent_id": "rb", "task_id": "t", "timeout": 7},
        "remote": {"get_task": [{"result": at_work}]}});
    let get = |at: f64| json!({"method": "tasks/get", "params": {"id": "t"}, "headers": null, "http_timeout_s": 60.0, "at": at});
    let case = |second: f64, last: f64, end: f64| {
        json!({"input": input.clone(), "expected": {
            "result": {"kind": "task", "state": "working", "id": "t"}, "calls": [get(0.0), get(5.0), get(second)],
            "sleeps": [5.0, last], "store_saves": [["t", "working"]], "clock_end": end}})
    };
    (case(10.0, 5.0, 10.0), case(7.0, 2.0, 7.0))
}
