//! Keys that hold dots or backslashes: reached by escaping, and written escaped in a path.

use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::{Style, python_json, written};

use super::Deviation;

pub(super) fn has_escape(case: &Value) -> bool {
    reached(case).is_some_and(|found| found != case["expected"])
}

/// Returns the value at a path with escapes, if it exists and nothing else is asked for.
fn reached(case: &Value) -> Option<Value> {
    let input = &case["input"];
    let path = input["json_path"].as_str().filter(|path| path.contains("\\.") || path.contains("\\\\"))?;
    if !input["rows"].is_null() || !input["columns"].is_null() {
        return None;
    }
    // Two characters that no recorded key holds stand for the escaped ones while the path is split.
    let hidden = path.replace("\\\\", "\u{1}").replace("\\.", "\u{2}");
    let keys = hidden.split('.').map(|key| key.replace('\u{1}', "\\").replace('\u{2}', "."));
    let mut at = &input["data"];
    for key in keys {
        at = at.get(&key)?;
    }
    Some(at.clone())
}

pub(super) fn reach(case: &mut Value) {
    let Some(found) = reached(case) else { return };
    if let Some(whole) = case.as_object_mut() {
        whole.remove("error");
    }
    case["expected"] = found;
}

pub(super) fn escape_example() -> (Value, Value) {
    let case = json!({"input": {"data": {"a.b": 1}, "json_path": "a\\.b"}});
    let (mut theirs, mut ours) = (case.clone(), case);
    theirs["error"] = json!({"type": "KeyError", "message": "Field 'a\\' not found. Available fields: a.b"});
    ours["expected"] = json!(1);
    (theirs, ours)
}

pub(super) const fn rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "a path in a minimized object can be asked for",
        theirs: "joins keys with dots, whatever the keys hold, and begins anew below an empty key",
        ours: "escapes dots and backslashes inside a key, keeps empty keys, and leaves out a path of 4,096 bytes and more",
        why: "the path says how to see the rest, and a path that cannot be followed misleads",
        applies,
        change,
        example,
    }
}

fn applies(case: &Value) -> bool {
    let mut escaped = case.clone();
    change(&mut escaped);
    escaped != *case
}

fn change(case: &mut Value) {
    let wholes = wholes(&case["input"]);
    let answers = case.get_mut("expected").map(minimized_objects);
    for (answer, whole) in answers.into_iter().flatten().zip(wholes) {
        let Some(data) = answer.get_mut("data") else { continue };
        let before = data.clone();
        rewrite(data, &[], &whole);
        // What is larger than the whole is the whole, here as in theirs.
        let indented = |value: &Value| written(value, Style { indented: true, ..Style::default() }).len();
        if *data != before && whole.is_object() && indented(answer) > indented(&whole) {
            *answer = json!({"data": whole});
        }
    }
}

/// Returns the data that are minimized, in their order.
fn wholes(input: &Value) -> Vec<Value> {
    let artifacts =
        [&input["artifacts"], &input["task"]["artifacts"]].into_iter().filter_map(Value::as_array);
    let parts = artifacts.flatten().filter_map(|artifact| artifact["parts"].as_array()).flatten();
    let data: Vec<Value> = parts.filter_map(|part| part.get("data").cloned()).collect();
    if data.is_empty() { vec![input["data"].clone()] } else { data }
}

/// Returns the answers that hold minimized objects: below `data` where they list artifacts, the whole where they do not.
fn minimized_objects(expected: &mut Value) -> Vec<&mut Value> {
    let mut found = Vec::new();
    let (artifacts, of_task) = (expected.is_array(), expected.get("artifacts").is_some());
    if !artifacts && !of_task {
        found.push(expected);
        return found;
    }
    let list = if of_task { expected.get_mut("artifacts") } else { Some(expected) };
    for artifact in list.and_then(Value::as_array_mut).into_iter().flatten() {
        for part in artifact.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
            found.extend(part.get_mut("data"));
        }
    }
    found
}

/// Writes the path of each summary anew: the keys that lead to it. A list that its summary exceeds with it stands itself.
fn rewrite(value: &mut Value, keys: &[String], whole: &Value) {
    let Some(fields) = value.as_object_mut() else { return };
    let is_summary = fields.contains_key("_total_rows") || fields.contains_key("_total_items");
    if is_summary && !keys.is_empty() {
        match path(keys) {
            Some(path) => drop(fields.insert("_json_path", path.into())),
            None => drop(fields.remove("_json_path")),
        }
        if whole.is_array() && python_json(value).len() > python_json(whole).len() {
            *value = whole.clone();
        }
        return;
    }
    for key in fields.keys().cloned().collect::<Vec<_>>() {
        let keys = [keys, std::slice::from_ref(&key)].concat();
        if let Some(inner) = fields.get_mut(&key) {
            rewrite(inner, &keys, &whole[key.as_str()]);
        }
    }
}

/// Returns a path that a view follows to the end of the keys, if there is one that is not too long.
fn path(keys: &[String]) -> Option<String> {
    let escaped: Vec<String> = keys.iter().map(|key| key.replace('\\', "\\\\").replace('.', "\\.")).collect();
    let above =
        escaped.len().checked_sub(1).and_then(|last| escaped.get(..last)).unwrap_or_default().join(".");
    let is_short = above.len() + keys.last().map_or(0, String::len) < 4_096;
    Some(escaped.join(".")).filter(|path| is_short && !path.is_empty())
}

fn example() -> (Value, Value) {
    let summary = |path: Option<&str>| {
        let mut summary = json!({"_total_items": 9, "_summary": {}});
        if let Some(path) = path {
            summary["_json_path"] = path.into();
        }
        summary
    };
    let long = "k".repeat(5_000);
    let case = |dotted: &str, below: &str, of_long: Option<&str>| {
        let mut data = json!({"a.b": {"c": summary(Some(dotted))}, "": {"c": summary(Some(below))}});
        data[long.as_str()] = summary(of_long);
        json!({"input": {}, "expected": {"data": data}})
    };
    (case("a.b.c", "c", Some(&long)), case("a\\.b.c", ".c", None))
}
