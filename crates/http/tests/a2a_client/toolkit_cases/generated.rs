//! Cases that are made by chance, the same ones each time: lists of agents and operations, scripts of agents, calls of tools.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

/// A sequence of numbers that looks random (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % count as u64).unwrap()
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    fn times<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn maybe<T>(&mut self, one_in: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(one_in) == 0).then(|| make(self))
    }
}

const WORDS: [&str; 8] = ["agent", "artifact-bot", "é ü", "", "not found", "B", "_x", "a10"];
const IDS: [&str; 8] = ["a", "b", "B", "artifact-bot", "é", "_x", "a9", "rb"];
const STATES: [&str; 9] = [
    "submitted",
    "working",
    "working",
    "unknown",
    "completed",
    "failed",
    "canceled",
    "input-required",
    "auth-required",
];

/// Returns generated inputs of each area.
pub(crate) fn cases(count: usize) -> Vec<(&'static str, Vec<Value>)> {
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let mut of = |make: fn(&mut Chance) -> Value| (0..count).map(|_| make(&mut chance)).collect();
    vec![("agents_for_llm", of(agents)), ("session_monitor", of(session)), ("tools", of(tool))]
}

fn card(chance: &mut Chance) -> Value {
    let skill = |chance: &mut Chance| json!({"id": "i", "name": chance.of(&WORDS), "description": chance.of(&WORDS), "tags": []});
    let skills = Value::from(chance.times(3, skill));
    let mut card = json!({"name": chance.of(&WORDS), "description": chance.of(&WORDS), "url": "https://a.example.com/rpc",
        "version": "1", "capabilities": {}, "skills": skills, "defaultInputModes": [], "defaultOutputModes": []});
    if card["name"] == "" {
        card["name"] = "n".into();
    }
    card
}

fn agents(chance: &mut Chance) -> Value {
    let (mut config, mut cards) = (JsonMap::new(), JsonMap::new());
    for number in 0..chance.below(5) {
        let url = format!(
            "https://h{number}.example.com/{}",
            chance.of(&["card.json", "a/b.json", ".well-known/agent-card.json"])
        );
        let card = if chance.below(4) == 0 { "down".into() } else { card(chance) };
        cards.insert(url.clone(), card);
        let query = chance.of(&["", "", "", "?t=1"]);
        let mut agent = json!({"url": format!("{url}{query}")});
        if chance.below(2) == 0 {
            agent["custom_headers"] = json!({"X-Key": chance.of(&["k", "l"])});
        }
        config.insert(chance.of(&IDS), if chance.below(8) == 0 { json!({}) } else { agent });
    }
    let mut ops = chance.times(5, |chance| {
        let id = chance.of(&IDS);
        let detail = chance.of(&["name", "basic", "skills", "full", "bogus"]);
        match chance.below(6) {
            0 => json!(["get_agents_for_llm", detail]),
            1 => json!(["get_agent_for_llm", id, detail]),
            2 => json!(["get_agents_ids"]),
            3 => json!(["get_agent_headers", id]),
            4 => json!(["initialization_errors"]),
            _ => json!(["add_agent", id, "https://new.example.com/c.json", {"X": "1"}]),
        }
    });
    ops.insert(0, json!(["get_agents_for_llm"]));
    cards.insert(
        "https://new.example.com/c.json",
        if chance.below(3) == 0 { "down".into() } else { card(chance) },
    );
    json!({"config": Value::from(config), "cards": Value::from(cards), "ops": Value::from(ops)})
}

fn failure(chance: &mut Chance) -> Value {
    match chance.below(4) {
        0 => json!({"raise": "timeout"}),
        1 => {
            let data = chance.of(&[json!(null), json!({"a": [1, "x"]}), json!("it's")]);
            let mut error =
                json!({"code": chance.of(&[-32001_i64, -32603, -32004]), "message": chance.of(&WORDS)});
            if !data.is_null() {
                error["data"] = data;
            }
            json!({ "error": error })
        }
        _ => {
            json!({"raise": "http", "status": chance.of(&[500_i64, 502, 503, 404, 429]), "message": chance.of(&WORDS)})
        }
    }
}

fn bare(state: &str) -> Value {
    json!({"id": "task-123", "contextId": "ctx-456", "kind": "task", "status": {"state": state}})
}

fn answer(chance: &mut Chance, task: fn(&mut Chance) -> Value) -> Value {
    let mut answer = if chance.below(6) == 0 { failure(chance) } else { json!({"result": task(chance)}) };
    if let Some(takes) = chance.maybe(3, |chance| chance.of(&[1_i64, 2, 7])) {
        answer["takes"] = json!(takes);
    }
    answer
}

fn answers(chance: &mut Chance, task: fn(&mut Chance) -> Value) -> Value {
    let mut list = chance.times(3, |chance| answer(chance, task));
    list.push(answer(chance, task));
    // What is repeated at the end must end.
    list.push(json!({"result": bare("completed")}));
    list.into()
}

fn streaming(chance: &mut Chance, input: &mut Value, task: fn(&mut Chance) -> Value) {
    if chance.below(3) != 0 {
        return;
    }
    let mut card = card(chance);
    card["capabilities"] = json!({"streaming": true});
    input["cards"] =
        JsonMap::from_iter([("https://review.example.com/.well-known/agent-card.json", card)]).into();
    let frames = chance.times(4, |chance| match chance.below(4) {
        0 => failure(chance),
        1 => json!({"event": task(chance)}),
        _ => {
            let state = chance.of(&STATES);
            json!({"event": {"kind": "status-update", "taskId": "task-123", "contextId": "ctx-456", "final": false, "status": {"state": state}}})
        }
    });
    input["remote"]["stream"] = frames.into();
}

fn session(chance: &mut Chance) -> Value {
    let task = |chance: &mut Chance| bare(chance.of(&STATES));
    let agent = chance.of(&["rb", "rb", "rb", "rb", "zz"]);
    let remote = json!({"send": [answer(chance, task)], "get_task": answers(chance, task)});
    let mut args = json!({"agent_id": agent});
    if let Some(timeout) = chance.maybe(2, |chance| chance.of(&[0_i64, 4, 7, 23])) {
        args["timeout"] = json!(timeout);
    }
    let mut input = if chance.below(2) == 0 {
        args["message"] = chance.of(&WORDS).into();
        let optional =
            [("task_id", chance.of(&["t-7", "a b", ".."])), ("context_id", chance.of(&["c-1", "any thing"]))];
        for (name, id) in optional {
            if chance.below(4) == 0 {
                args[name] = id.into();
            }
        }
        if chance.below(4) == 0 {
            args["data"] = json!([{"a": 1.0}, {"b": [null, "é"]}]);
        }
        if chance.below(4) == 0 {
            let file = chance.of(&[
                "https://e.com/f.pdf",
                "http://e.com/f",
                "https://u:p@e.com/f",
                "/nowhere/x.txt",
            ]);
            args["files"] = json!(["https://e.com/a.pdf", file]);
        }
        json!({"method": "send_message", "args": args, "remote": remote})
    } else {
        args["task_id"] = chance.of(&["task-123", "task-123", "task-123", "a/b", ""]).into();
        if let Some(pause) = chance.maybe(3, |chance| chance.of(&[1_i64, 3, 10])) {
            args["poll_interval"] = json!(pause);
        }
        json!({"method": "get_task", "args": args, "remote": remote})
    };
    streaming(chance, &mut input, task);
    input
}

fn whole(chance: &mut Chance) -> Value {
    let text = |chance: &mut Chance| json!({"kind": "text", "text": chance.of(&["", "one", "L1\nL2", "a longer text\nof é lines\n", "x y"])});
    let data = |chance: &mut Chance| {
        let row = |chance: &mut Chance| json!({"n": chance.below(9), "artifact_name": chance.of(&WORDS), "x,y": 1.5});
        let rows = Value::from(chance.times(4, row));
        json!({"kind": "data", "data": {"rows": rows, "nums": [1, 2, 3], "deep": {"er": "text"}, "artifacts": chance.of(&WORDS)}})
    };
    let file = |chance: &mut Chance| {
        let content = chance.of(&["bytes", "uri"]);
        let mut file = json!({"name": chance.of(&["f.txt", "é"])});
        file[content] = if content == "bytes" { "aGk=".into() } else { "https://e.com/x".into() };
        json!({"kind": "file", "file": file})
    };
    let part = |chance: &mut Chance| match chance.below(5) {
        0 | 1 => text(chance),
        2 | 3 => data(chance),
        _ => file(chance),
    };
    let artifact = |id: &str, chance: &mut Chance| {
        let mut parts = chance.times(2, part);
        parts.push(part(chance));
        let mut artifact = json!({"artifactId": id, "parts": Value::from(parts)});
        if let Some(name) = chance.maybe(2, |chance| chance.of(&WORDS)) {
            artifact["name"] = name.into();
        }
        artifact
    };
    let mut task = bare(chance.of(&STATES));
    task["artifacts"] = Value::from(vec![artifact("art-1", chance), artifact("art-2", chance)]);
    if chance.below(3) == 0 {
        task["status"]["message"] =
            json!({"kind": "message", "messageId": "m-1", "role": "agent", "parts": [part(chance)]});
    }
    task
}

fn tool(chance: &mut Chance) -> Value {
    let agent = chance.of(&["rb", "rb", "rb", "rb", "artifact-bot", "zz"]);
    let id = chance.of(&["task-123", "task-123", "task-123", "task-123", "../x"]);
    let mut input = match chance.below(6) {
        0 => json!({"tool": "get_agent", "args": {"agent_id": agent}}),
        1 => json!({"tool": "send_message", "args": {"agent_id": agent, "message": chance.of(&WORDS)}}),
        2 => json!({"tool": "get_task", "args": {"agent_id": agent, "task_id": id}}),
        3 => {
            let mut args = json!({"agent_id": agent, "task_id": id, "artifact_id": chance.of(&["art-1", "art-2", "none"])});
            let ranges = if chance.below(2) == 0 {
                ["line_start", "line_end"]
            } else {
                ["character_start", "line_end"]
            };
            for name in ranges {
                if chance.below(2) == 0 {
                    args[name] = json!(chance.of(&[1_i64, 2, 3, -1, 0, 99]));
                }
            }
            json!({"tool": "view_text_artifact", "args": args})
        }
        _ => {
            let mut args = json!({"agent_id": agent, "task_id": id, "artifact_id": chance.of(&["art-1", "art-2", "none"])});
            let optional = [
                ("json_path", chance.of(&["rows", "rows", "nums", "deep.er", "none", "rows.0", ""])),
                ("rows", chance.of(&["0", "0-2", "-1", "1,0", "all", "first", "1,", "5", " 1 ", "2-1"])),
                ("columns", chance.of(&["n", "artifact_name", "zip", "n , artifact_name", "all", "x,y"])),
            ];
            for (name, value) in optional {
                if chance.below(2) == 0 {
                    args[name] = value.into();
                }
            }
            json!({"tool": "view_data_artifact", "args": args})
        }
    };
    if chance.below(2) == 0 {
        input["stored_tasks"] = json!([whole(chance)]);
    }
    if let Some(limit) = chance.maybe(3, |chance| chance.of(&[5_i64, 12, 40])) {
        let name = chance.of(&["send_message_character_limit", "view_artifact_character_limit"]);
        input["settings"] = JsonMap::from_iter([(name, Value::from(limit))]).into();
    }
    if input["tool"].as_str().is_some_and(|tool| tool.starts_with("view_")) {
        // A view does not watch: the task that it asks for is over, or is not told.
        let over = |chance: &mut Chance| {
            let mut task = whole(chance);
            task["status"]["state"] = "completed".into();
            task
        };
        input["remote"] = json!({"get_task": [answer(chance, over)]});
    } else {
        input["remote"] = json!({"send": [answer(chance, whole)], "get_task": answers(chance, whole)});
        streaming(chance, &mut input, whole);
    }
    input
}
