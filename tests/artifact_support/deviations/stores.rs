//! Files: ids that are paths, and addresses in numbers.

use std::net::IpAddr;

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::Deviation;

pub(super) const fn id_rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "an id is never a path",
        theirs: "0.2.0 takes an id as part of a path, so that `../x` is written outside of the folder",
        ours: "refuses an id that is more than one name, as 0.7.3 does",
        why: "ids come from other programs",
        applies: has_path,
        change: refuse_paths,
        example: path_example,
    }
}

/// Returns the ids that an operation names, each with its kind, as the store checks them.
fn ids(operation: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match operation[0].as_str().unwrap_or_default() {
        "save" => vec![("task id", text(&operation[1]["id"]))],
        "get" | "delete" => vec![("task id", text(&operation[1]))],
        "save_artifact" => {
            vec![("task id", text(&operation[1])), ("artifact id", text(&operation[2]["artifactId"]))]
        }
        "get_artifact" | "delete_artifact" => {
            vec![("task id", text(&operation[1])), ("artifact id", text(&operation[2]))]
        }
        _ => Vec::new(),
    }
}

/// Returns the operations with an id that is no name, each with the error that it gets.
fn refused(case: &Value) -> Vec<(usize, Value)> {
    if case["version"] != "0.2.0" {
        return Vec::new();
    }
    let is_path = |id: &str| matches!(id, "" | "." | "..") || id.contains('/');
    let operations = case["input"]["ops"].as_array().into_iter().flatten().enumerate();
    let error = |(at, operation): (usize, &Value)| {
        let (what, id) = ids(operation).into_iter().find(|(_, id)| is_path(id))?;
        let message = format!("Invalid {what}: '{id}'. Expected letters, numbers, '.', '_' or '-'.");
        Some((at, json!({"error": {"type": "ValueError", "message": message}})))
    };
    operations.filter_map(error).collect()
}

fn has_path(case: &Value) -> bool {
    !refused(case).is_empty()
}

fn refuse_paths(case: &mut Value) {
    for (at, error) in refused(case) {
        if let Some(result) = case.pointer_mut(&format!("/expected/results/{at}")) {
            *result = error;
        }
        let operation = &case["input"]["ops"][at];
        let parts: Vec<String> = ids(operation).into_iter().map(|(_, id)| id).collect();
        let written = parts.join("/");
        for files in ["files", "files_base64"] {
            if let Some(files) = case["expected"].get_mut(files).and_then(Value::as_object_mut) {
                files.retain(|path, _| {
                    path != &format!("{written}.json") && !path.starts_with(&format!("{written}/"))
                });
            }
        }
    }
}

fn path_example() -> (Value, Value) {
    let input = json!({"ops": [["save", {"id": "../evil"}]]});
    let message = "Invalid task id: '../evil'. Expected letters, numbers, '.', '_' or '-'.";
    let case = |results: Value, files: Value| json!({"version": "0.2.0", "input": input, "expected": {"results": results, "files": files}});
    (
        case(json!([{"ok": null}]), json!({"../evil.json": "{}"})),
        case(json!([{"error": {"type": "ValueError", "message": message}}]), json!({})),
    )
}

/// Returns the results that refuse a public address of version 4, each with the address that was asked for.
fn public(case: &Value) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, result) in case["expected"]["results"].as_array().into_iter().flatten().enumerate() {
        let message = result["error"]["message"].as_str().unwrap_or_default();
        let host =
            message.strip_prefix("Blocked remote file host: '").and_then(|host| host.strip_suffix('\''));
        let Some(address) = host.and_then(|host| host.parse::<IpAddr>().ok()) else { continue };
        let owner = &case["input"]["ops"][at];
        let owner = if owner[0] == "save_message" { &owner[1] } else { &owner[2] };
        let mut uris =
            owner["parts"].as_array().into_iter().flatten().filter_map(|part| part["file"]["uri"].as_str());
        let uri = uris.rfind(|uri| host.is_some_and(|host| uri.contains(host)));
        if let (IpAddr::V4(_), true, Some(uri)) = (address, taskreel::files::is_public(address), uri) {
            found.push((at, uri.to_owned()));
        }
    }
    found
}

pub(super) fn is_public_address(case: &Value) -> bool {
    !public(case).is_empty()
}

pub(super) fn allow_public_address(case: &mut Value) {
    for (at, uri) in public(case) {
        let message = format!(
            "the file at '{uri}' is not fetched: give the store a `FetchRemote`, or send the file's bytes"
        );
        if let Some(text) = case.pointer_mut(&format!("/expected/results/{at}/error/message")) {
            *text = message.into();
        }
    }
}

pub(super) fn public_address_example() -> (Value, Value) {
    let part = json!({"kind": "file", "file": {"uri": "https://8.8.8.8/x"}});
    let case = |message: &str| {
        json!({
            "input": {"ops": [["save_artifact", "t", {"artifactId": "a", "parts": [part]}]]},
            "expected": {"results": [{"error": {"type": "ValueError", "message": message}}]},
        })
    };
    let ours = "the file at 'https://8.8.8.8/x' is not fetched: give the store a `FetchRemote`, or send the file's bytes";
    (case("Blocked remote file host: '8.8.8.8'"), case(ours))
}
