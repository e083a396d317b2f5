//! Files that are sent.

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::{Deviation, loaded, told};

pub(super) const fn rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "files are sent from allowed folders alone",
        theirs: "sends every file that the process can read",
        ours: "sends files of the folders that the host allowed, here none",
        why: "a model, and whoever talks to it, must not choose which files leave the machine",
        applies,
        change,
        example,
    }
}

/// Returns the first file that no folder allows, if a message is sent as far as that.
fn refused(case: &Value) -> Option<String> {
    let input = &case["input"];
    if input["tool"] != "send_message" && input["method"] != "send_message" {
        return None;
    }
    let args = &input["args"];
    let is_known = loaded(case).iter().any(|id| args["agent_id"] == id.as_str());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_id =
        args["task_id"].as_str().is_none_or(|id| !matches!(id, "" | "." | "..") && id.bytes().all(plain));
    let files = args["files"].as_array()?.iter().filter_map(Value::as_str);
    let mut files = files.skip_while(|file| file.starts_with("https://"));
    let file = files.next().filter(|file| !file.starts_with("http://"))?;
    (is_known && is_id).then(|| {
        format!("File '{file}' may not be sent: it is in none of the folders whose files may be sent.")
    })
}

fn applies(case: &Value) -> bool {
    refused(case).is_some()
}

fn change(case: &mut Value) {
    let Some(message) = refused(case) else { return };
    let none = json!([]);
    if case["input"]["tool"].is_null() {
        let requests = case["expected"]["card_requests"].clone();
        case["expected"] = json!({"error": {"type": "ValueError", "message": message.as_str()}, "calls": none.clone(),
            "sleeps": none.clone(), "store_saves": none.clone(), "file_saves": none, "clock_end": 0.0, "card_requests": requests});
    } else {
        case["expected"] = json!({"output": told(&message), "calls": none});
    }
}

fn example() -> (Value, Value) {
    let input =
        json!({"tool": "send_message", "args": {"agent_id": "rb", "message": "m", "files": ["/etc/passwd"]}});
    let message = "File '/etc/passwd' may not be sent: it is in none of the folders whose files may be sent.";
    (
        json!({"input": input.clone(), "expected": {"output": {"kind": "task"}, "calls": ["message/send"]}}),
        json!({"input": input, "expected": {"output": told(message), "calls": []}}),
    )
}
