//! Rows: numbers after a dash, values that are no row, and rows that are no objects.

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel_log::artifacts::{CharacterLimit, DataArtifacts, DataSelection, RowSelection};

fn items(case: &Value) -> Option<&Vec<Value>> {
    let path = case["input"]["json_path"].as_str().filter(|path| !path.is_empty());
    let segments = path.map(|path| path.split('.').collect::<Vec<_>>()).unwrap_or_default();
    segments.into_iter().try_fold(&case["input"]["data"], |at, key| at.get(key))?.as_array()
}

fn refuse(case: &mut Value, message: &str) {
    if let Some(whole) = case.as_object_mut() {
        whole.remove("expected");
    }
    case["error"] = json!({"type": "ValueError", "message": message});
}

/// Returns the number after the dash and the number of rows.
fn leading_dash(case: &Value) -> Option<(usize, usize)> {
    let total = items(case).map(Vec::len).filter(|total| *total > 0)?;
    let digits = case["input"]["rows"].as_str()?.strip_prefix('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_number)?, total))
}

pub(super) fn has_leading_dash(case: &Value) -> bool {
    leading_dash(case).is_some()
}

pub(super) fn refuse_leading_dash(case: &mut Value) {
    let Some((count, total)) = leading_dash(case) else { return };
    let from = total.saturating_sub(count);
    let message = format!(
        "Invalid row selection: -{count}. A leading dash is ambiguous: write '{from}-' for the last {count} of {total} \
         row(s), or '0-{count}' for the first {count}."
    );
    refuse(case, &message);
}

pub(super) fn leading_dash_example() -> (Value, Value) {
    let case = json!({"input": {"data": [1, 2, 3, 4], "rows": "-1"}});
    let (mut theirs, mut ours) = (case.clone(), case);
    theirs["expected"] = json!([1]);
    let message = "Invalid row selection: -1. A leading dash is ambiguous: write '3-' for the last 1 of 4 row(s), or \
                   '0-1' for the first 1.";
    ours["error"] = json!({"type": "ValueError", "message": message});
    (theirs, ours)
}

/// Returns Python's name for the type of what is given as rows and is none, where the selection gets as far as rows.
fn wrong_type(case: &Value) -> Option<&'static str> {
    let total = items(case).map(Vec::len).filter(|total| *total > 0)?;
    let kind = |value: &Value| match value {
        Value::Bool(_) => Some("bool"),
        Value::Null => Some("NoneType"),
        Value::Number(number) if number.is_float() => Some("float"),
        Value::Number(_) => None,
        Value::String(_) => Some("str"),
        Value::Array(_) => Some("list"),
        Value::Object(_) => Some("dict"),
    };
    let fits = |value: &Value| {
        value.as_i64().is_some_and(|row| usize::try_from(row.unsigned_abs()).is_ok_and(|row| row <= total))
    };
    match &case["input"]["rows"] {
        Value::Bool(_) => Some("bool"),
        Value::Array(rows) => rows.iter().find(|row| !fits(row)).and_then(kind),
        _ => None,
    }
}

pub(super) fn has_wrong_type(case: &Value) -> bool {
    wrong_type(case).is_some()
}

pub(super) fn refuse_wrong_type(case: &mut Value) {
    if let Some(kind) = wrong_type(case) {
        refuse(case, &format!("Invalid row selection type: <class '{kind}'>"));
    }
}

pub(super) fn wrong_type_example() -> (Value, Value) {
    let case = json!({"input": {"data": [1, 2], "rows": true}});
    let (mut theirs, mut ours) = (case.clone(), case);
    theirs["expected"] = json!([2]);
    ours["error"] = json!({"type": "ValueError", "message": "Invalid row selection type: <class 'bool'>"});
    (theirs, ours)
}

/// Returns what we show of a list that begins with an object and holds rows that are none, if such a row is selected.
fn shown_rows(case: &Value) -> Option<Value> {
    let items = items(case).filter(|items| items.first().is_some_and(Value::is_object))?;
    let (rows, columns) = (&case["input"]["rows"], &case["input"]["columns"]);
    if rows.is_null() && columns.is_null() {
        return None;
    }
    // The numbers of the rows, selected as from a list without objects.
    let numbers: Value = (0..items.len()).collect::<Vec<_>>().into();
    let selection = DataSelection {
        rows: (!rows.is_null()).then(|| RowSelection::from_json(rows)),
        ..DataSelection::default()
    };
    let selected = if rows.is_null() {
        numbers
    } else {
        DataArtifacts::view(&numbers, &selection, CharacterLimit::new(usize::MAX).ok()?).ok()?.into_owned()
    };
    let selected = selected.as_array()?.iter().filter_map(Value::as_u64);
    let selected: Vec<&Value> = selected.filter_map(|row| items.get(usize::try_from(row).ok()?)).collect();
    if selected.iter().all(|row| row.is_object()) {
        return None;
    }
    let mut all: Vec<String> = Vec::new();
    for key in items.iter().filter_map(Value::as_object).flat_map(proto_events::json::JsonMap::keys) {
        if !all.contains(key) {
            all.push(key.clone());
        }
    }
    let names: Vec<String> = match columns {
        Value::String(name) if name != "all" => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => all.clone(),
    };
    if names.iter().any(|name| !all.contains(name)) {
        return None;
    }
    let show = |row: &&Value| match row {
        Value::Object(_) => {
            let mut kept = json!({});
            for name in names.iter().filter(|name| row.get(name).is_some()) {
                kept[name.as_str()] = row[name.as_str()].clone();
            }
            kept
        }
        other => (*other).clone(),
    };
    Some(selected.iter().map(show).collect())
}

pub(super) fn is_mixed(case: &Value) -> bool {
    shown_rows(case).is_some_and(|shown| case["expected"] != shown)
}

pub(super) fn show_as_it_is(case: &mut Value) {
    let Some(shown) = shown_rows(case) else { return };
    if let Some(whole) = case.as_object_mut() {
        whole.remove("error");
    }
    case["expected"] = shown;
}

pub(super) fn mixed_example() -> (Value, Value) {
    let case = json!({"input": {"data": [{"a": 1, "b": 2}, 5], "columns": "a"}});
    let (mut theirs, mut ours) = (case.clone(), case);
    theirs["error"] = json!({"type": "TypeError", "message": "argument of type 'int' is not iterable"});
    ours["expected"] = json!([{"a": 1}, 5]);
    (theirs, ours)
}
