//! Views of data: a tool's case becomes one of the area `data_view`, whose rules hold for it.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

use super::{paths, rows, told};

/// Returns the data of the artifact that a case views.
fn data(case: &Value) -> Option<Value> {
    let input = &case["input"];
    if input["tool"] != "view_data_artifact" {
        return None;
    }
    let args = &input["args"];
    let answered =
        input["remote"]["get_task"].as_array().into_iter().flatten().map(|answer| &answer["result"]);
    let stored = input["stored_tasks"].as_array().into_iter().flatten();
    let artifact = stored
        .chain(answered)
        .filter(|task| task["id"] == args["task_id"])
        .flat_map(|task| task["artifacts"].as_array().into_iter().flatten())
        .find(|artifact| artifact["artifactId"] == args["artifact_id"])?;
    let parts = artifact["parts"].as_array()?.iter().filter(|part| part["kind"] == "data");
    let mut data: Vec<Value> = parts.map(|part| part["data"].clone()).collect();
    if data.len() > 1 { Some(data.into()) } else { data.pop() }
}

/// Returns the message in an error of theirs as the view raised it.
fn raised(message: &str) -> String {
    if let Some(shown) = message.strip_prefix("Failed to view data artifact: ") {
        // Python prints a missing key in quotes.
        for quote in ['"', '\''] {
            let inside = shown.strip_prefix(quote).and_then(|inside| inside.strip_suffix(quote));
            if let Some(inside) =
                inside.filter(|inside| inside.starts_with("Field '") || inside.starts_with("Field \\'"))
            {
                return inside.replace("\\'", "'").replace("\\\\", "\\");
            }
        }
        return shown.to_owned();
    }
    message.strip_suffix(" Use get_agents to see available agents.").unwrap_or(message).to_owned()
}

/// Returns the case as one of `data_view`.
fn as_view(case: &Value) -> Option<Value> {
    let args = &case["input"]["args"];
    let text = |name: &str| args[name].as_str().map(str::trim);
    let mut input = JsonMap::from_iter([("data", data(case)?)]);
    input.insert("json_path", args["json_path"].clone());
    if let Some(rows) = text("rows") {
        let integers: Option<Vec<i64>> = rows.split(',').map(|row| row.trim().parse().ok()).collect();
        let is_list = rows.contains(',');
        let rows = match integers {
            Some(rows) if is_list => rows.into_iter().map(Value::from).collect(),
            Some(rows) if !text("rows")?.starts_with('-') => rows.first().copied().map(Value::from)?,
            _ if is_list => return None,
            _ => Value::from(rows),
        };
        input.insert("rows", rows);
    }
    if let Some(columns) = text("columns") {
        let columns = match columns.split_once(',') {
            None => Value::from(columns),
            Some(_) => columns.split(',').map(|name| Value::from(name.trim())).collect(),
        };
        input.insert("columns", columns);
    }
    let output = &case["expected"]["output"];
    let input = Value::from(input);
    if let Some(message) = output["error_message"].as_str() {
        return Some(json!({"input": input, "error": {"type": "ValueError", "message": raised(message)}}));
    }
    Some(json!({"input": input, "expected": output.pointer("/parts/0/data")?.clone()}))
}

/// Returns the names of the columns of the rows at the path of a view.
fn columns(view: &Value) -> Option<Vec<String>> {
    let path = view["input"]["json_path"].as_str().filter(|path| !path.is_empty());
    let keys = path.map(|path| path.split('.').collect::<Vec<_>>()).unwrap_or_default();
    let rows = keys.into_iter().try_fold(&view["input"]["data"], |at, key| at.get(key))?.as_array()?;
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().filter_map(Value::as_object).flat_map(JsonMap::keys) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Some(names).filter(|_| rows.first().is_some_and(Value::is_object))
}

/// Returns the plain text of an error that theirs reports otherwise.
fn plainly(case: &Value) -> Option<String> {
    let view = as_view(case)?;
    let theirs = case["expected"]["output"]["error_message"].as_str()?;
    if theirs.starts_with("Artifact '") && theirs.contains("' not found in task '") {
        // The artifact is there: a column was missing, with the word in its name or beside it.
        let names = columns(&view)?;
        let asked = match &view["input"]["columns"] {
            Value::Array(asked) => asked.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            asked => vec![asked.as_str()?.to_owned()],
        };
        let missing = asked.into_iter().find(|name| !names.contains(name))?;
        return Some(format!("Column '{missing}' not found. Available columns: {}", names.join(", ")));
    }
    let plain = raised(theirs);
    let is_of_view = plain.starts_with("Field '") || plain.starts_with("Column '");
    (plain != theirs && is_of_view).then_some(plain)
}

pub(super) fn is_misreported(case: &Value) -> bool {
    plainly(case).is_some()
}

pub(super) fn report_plainly(case: &mut Value) {
    if let Some(message) = plainly(case) {
        case["expected"]["output"] = told(&message);
    }
}

fn stored(parts: &Value, args: &Value, output: &Value) -> Value {
    let artifacts = json!([{"artifactId": "a", "parts": parts}]);
    json!({"input": {"tool": "view_data_artifact", "args": args, "stored_tasks": [{"id": "t", "artifacts": artifacts}]},
        "expected": {"output": output}})
}

pub(super) fn misreported_example() -> (Value, Value) {
    let parts = json!([{"kind": "data", "data": {"n": 1}}]);
    let args = json!({"task_id": "t", "artifact_id": "a", "json_path": "m"});
    let case = |message: &str| stored(&parts, &args, &told(message));
    let ours = "Field 'm' not found. Available fields: n";
    (case(&format!("Failed to view data artifact: \"{ours}\"")), case(ours))
}

/// Whether a rule applies to a case, and its change.
type Rule = (fn(&Value) -> bool, fn(&mut Value));

/// Returns the case with the output that the rules of `data_view` demand.
fn changed(case: &Value) -> Option<Value> {
    let mut view = as_view(case)?;
    let rules: [Rule; 4] = [
        (rows::has_leading_dash, rows::refuse_leading_dash),
        (rows::has_wrong_type, rows::refuse_wrong_type),
        (rows::is_mixed, rows::show_as_it_is),
        (paths::has_escape, paths::reach),
    ];
    let before = view.clone();
    for (applies, change) in rules {
        if applies(&before) {
            change(&mut view);
        }
    }
    if view == before {
        return None;
    }
    let mut ours = case.clone();
    if let Some(message) = view["error"]["message"].as_str() {
        ours["expected"]["output"] = told(message);
    } else {
        let artifact = &case["input"]["args"]["artifact_id"];
        let all = case["input"]["stored_tasks"].as_array().into_iter().flatten();
        let mut all = all.flat_map(|task| task["artifacts"].as_array().into_iter().flatten());
        let found = all.find(|one| one["artifactId"] == *artifact)?;
        ours["expected"]["output"] = json!({"artifact_id": artifact.clone(), "description": found["description"].clone(),
            "name": found["name"].clone(), "parts": [{"kind": "data", "data": view["expected"].clone()}]});
    }
    Some(ours)
}

pub(super) fn is_read_otherwise(case: &Value) -> bool {
    changed(case).is_some_and(|ours| ours != *case)
}

pub(super) fn read_as_in_views(case: &mut Value) {
    if let Some(ours) = changed(case) {
        *case = ours;
    }
}

/// Examples of rows are those of the rules themselves.
pub(super) fn read_example() -> (Value, Value) {
    for (theirs, ours) in [
        rows::leading_dash_example(),
        rows::wrong_type_example(),
        rows::mixed_example(),
        paths::escape_example(),
    ] {
        assert_ne!(theirs, ours);
    }
    let parts = json!([{"kind": "data", "data": {"n": [1, 2, 3]}}]);
    let args = json!({"task_id": "t", "artifact_id": "a", "json_path": "n", "rows": "-1"});
    let theirs = json!({"artifact_id": "a", "description": null, "name": null, "parts": [{"kind": "data", "data": [1]}]});
    let ours = "Invalid row selection: -1. A leading dash is ambiguous: write '2-' for the last 1 of 3 row(s), or '0-1' for the first 1.";
    (stored(&parts, &args, &theirs), stored(&parts, &args, &told(ours)))
}
