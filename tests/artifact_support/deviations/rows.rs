//! Rows: numbers after a dash, values that are no row, and rows that are no objects. What is selected is found out here once
//! more, without the code that is tested.

use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::{Style, written};

fn items(case: &Value) -> Option<&Vec<Value>> {
    let path = case["input"]["json_path"].as_str().filter(|path| !path.is_empty());
    let segments = path.map(|path| path.split('.').collect::<Vec<_>>()).unwrap_or_default();
    segments.into_iter().try_fold(&case["input"]["data"], |at, key| at.get(key))?.as_array()
}

/// Returns the items of a list of which a2a-utils reads the rows: it is not empty, and has columns if they are asked for.
fn selectable(case: &Value) -> Option<&Vec<Value>> {
    let items = items(case)?;
    let is_table = items.first()?.is_object();
    (is_table || case["input"]["columns"].is_null()).then_some(items)
}

fn refuse(case: &mut Value, message: &str) {
    if let Some(whole) = case.as_object_mut() {
        whole.remove("expected");
    }
    case["error"] = json!({"type": "ValueError", "message": message});
}

/// Reads an integer as Python does; `None` for what is none, or has more than 128 bits.
fn integer(text: &str) -> Option<i128> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain =
        digits.split('_').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    is_plain.then(|| text.replace('_', "").parse().ok()).flatten()
}

/// Returns the number of rows that the text after a leading dash names, as far as there are so many, and the number of all.
fn leading_dash(case: &Value) -> Option<(usize, usize)> {
    let total = selectable(case)?.len();
    let after = case["input"]["rows"].as_str()?.strip_prefix('-').filter(|after| !after.is_empty())?;
    let named = integer(after).filter(|named| *named >= 0)?;
    Some((usize::try_from(named).unwrap_or(total).clamp(1, total), total))
}

pub(super) fn has_leading_dash(case: &Value) -> bool {
    leading_dash(case).is_some()
}

pub(super) fn refuse_leading_dash(case: &mut Value) {
    let Some((count, total)) = leading_dash(case) else { return };
    let (rows, from) = (case["input"]["rows"].as_str().unwrap_or_default(), total - count);
    let message = format!(
        "Invalid row selection: {rows}. A leading dash is ambiguous: write '{from}-' for the last {count} of {total} \
         row(s), or '0-{count}' for the first {count}."
    );
    refuse(case, &message);
}

pub(super) fn leading_dash_example() -> (Value, Value) {
    let case = json!({"input": {"data": [1, 2, 3, 4], "rows": "- 1"}});
    let (mut theirs, mut ours) = (case.clone(), case);
    theirs["expected"] = json!([1]);
    let message = "Invalid row selection: - 1. A leading dash is ambiguous: write '3-' for the last 1 of 4 row(s), or \
                   '0-1' for the first 1.";
    ours["error"] = json!({"type": "ValueError", "message": message});
    (theirs, ours)
}

/// Returns the place of a row in a list, if it has it.
fn place(row: i64, total: usize) -> Option<usize> {
    let total = i64::try_from(total).ok()?;
    let row = if row < 0 { row + total } else { row };
    usize::try_from(row).ok().filter(|_| row < total)
}

/// Returns Python's name for the type of what is given as rows and is none, if a2a-utils gets as far as that.
fn wrong_type(case: &Value) -> Option<&'static str> {
    let total = selectable(case)?.len();
    let kind = |value: &Value| match value {
        Value::Bool(_) => Some("bool"),
        Value::Null => Some("NoneType"),
        Value::Number(number) if number.is_float() => Some("float"),
        Value::Number(_) => None,
        Value::String(_) => Some("str"),
        Value::Array(_) => Some("list"),
        Value::Object(_) => Some("dict"),
    };
    match &case["input"]["rows"] {
        Value::Bool(_) => Some("bool"),
        // The first value that is no row of the list decides; one that is an integer is refused by theirs too.
        Value::Array(rows) => {
            rows.iter().find(|row| row.as_i64().is_none_or(|row| place(row, total).is_none())).and_then(kind)
        }
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

/// Returns the places of the selected rows, if they are selected without a fault.
fn places(rows: &Value, total: usize) -> Option<Vec<usize>> {
    let all = || (0..total).collect();
    let range = |start: &str, end: &str| {
        let total = i128::try_from(total).ok()?;
        let side = |text: &str, default| {
            let at = if text.is_empty() { default } else { integer(text)? };
            Some(if at < 0 { at + total } else { at })
        };
        let (from, to) = (side(start, 0)?, side(end, total)?);
        let is_within = (0..total).contains(&from) && (from..=total).contains(&to);
        is_within.then(|| (usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0)).collect())
    };
    match rows {
        Value::Null => Some(all()),
        Value::Number(number) => Some(vec![place(number.as_i64()?, total)?]),
        Value::Array(rows) => rows.iter().map(|row| place(row.as_i64()?, total)).collect(),
        Value::String(text) if text == "all" => Some(all()),
        Value::String(text) => text.split_once('-').and_then(|(start, end)| range(start, end)),
        _ => None,
    }
}

/// Returns what is shown of a table in which a row is selected that is no object, or the reason why it is too long.
fn mixed(case: &Value) -> Option<Result<Value, String>> {
    let input = &case["input"];
    let items = items(case).filter(|items| items.first().is_some_and(Value::is_object))?;
    if input["rows"].is_null() && input["columns"].is_null() || has_leading_dash(case) {
        return None;
    }
    let selected: Vec<&Value> =
        places(&input["rows"], items.len())?.into_iter().filter_map(|at| items.get(at)).collect();
    if selected.iter().all(|row| row.is_object()) {
        return None;
    }
    let mut all: Vec<String> = Vec::new();
    for key in items.iter().filter_map(Value::as_object).flat_map(proto_events::json::JsonMap::keys) {
        if !all.contains(key) {
            all.push(key.clone());
        }
    }
    let names: Vec<String> = match &input["columns"] {
        Value::Null => all.clone(),
        Value::String(name) if name == "all" => all.clone(),
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => {
            names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?
        }
        _ => return None,
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
    let shown: Value = selected.iter().map(show).collect();
    let size = written(&shown, Style { indented: true, ..Style::default() }).len();
    let limit = input["character_limit"].as_u64().unwrap_or(50_000);
    if size as u64 <= limit {
        return Some(Ok(shown));
    }
    Some(Err(format!(
        "The selection ({} row(s) and {} column(s)) resulted in {} characters, which exceeds the limit of {} characters. \
         Try selecting fewer rows or columns.",
        selected.len(),
        names.len(),
        with_commas(size as u64),
        with_commas(limit)
    )))
}

fn with_commas(number: u64) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{},{:03}", with_commas(number / 1_000), number % 1_000)
    }
}

pub(super) fn is_mixed(case: &Value) -> bool {
    let mut shown = case.clone();
    show_as_it_is(&mut shown);
    shown != *case
}

pub(super) fn show_as_it_is(case: &mut Value) {
    match mixed(case) {
        None => {}
        Some(Err(message)) => refuse(case, &message),
        Some(Ok(shown)) => {
            if let Some(whole) = case.as_object_mut() {
                whole.remove("error");
            }
            case["expected"] = shown;
        }
    }
}

pub(super) fn mixed_example() -> (Value, Value) {
    let case = json!({"input": {"data": [{"a": 1, "b": 2}, 5], "columns": "a"}});
    let (mut theirs, mut ours) = (case.clone(), case);
    theirs["error"] = json!({"type": "TypeError", "message": "argument of type 'int' is not iterable"});
    ours["expected"] = json!([{"a": 1}, 5]);
    (theirs, ours)
}
