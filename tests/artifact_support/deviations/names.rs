//! Errors that list names.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

use super::Deviation;

pub(super) const fn rule() -> Deviation {
    Deviation {
        area: "data_view",
        name: "an error lists names up to a length",
        theirs: "repeats every argument and lists every field or column, however long they are",
        ours: "repeats 200 characters of an argument and 100 of a name, lists names up to 1,000 characters, and counts the rest",
        why: "whoever made the data chose the names, and an answer must fit a window",
        applies,
        change,
        example,
    }
}

fn shortened(text: &str, keep: usize) -> String {
    let more = text.chars().count().saturating_sub(keep);
    if more == 0 {
        return text.to_owned();
    }
    format!("{}... [{} more chars]", text.chars().take(keep).collect::<String>(), with_commas(more))
}

fn with_commas(number: usize) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{},{:03}", with_commas(number / 1_000), number % 1_000)
    }
}

fn listed(names: &[&str]) -> String {
    let (mut list, mut used) = (Vec::new(), 0);
    for (at, name) in names.iter().enumerate() {
        let name = shortened(name, 100);
        used += name.chars().count() + 2;
        if used > 1_002 {
            return format!("{}, ... [{} more]", list.join(", "), with_commas(names.len() - at));
        }
        list.push(name);
    }
    list.join(", ")
}

/// Returns the error in which the names are listed: what is missing, and all names that there are.
fn message(case: &Value) -> Option<String> {
    let said = case["error"]["message"].as_str()?;
    if let Some(rest) = said.strip_prefix("Column '") {
        let (column, _) = rest.rsplit_once("' not found. Available columns: ")?;
        let path = case["input"]["json_path"].as_str().filter(|path| !path.is_empty());
        let at = path
            .into_iter()
            .flat_map(|path| path.split('.'))
            .try_fold(&case["input"]["data"], |at, key| at.get(key))?;
        let mut names: Vec<&str> = Vec::new();
        for key in at.as_array()?.iter().filter_map(Value::as_object).flat_map(JsonMap::keys) {
            if !names.contains(&key.as_str()) {
                names.push(key);
            }
        }
        return Some(format!(
            "Column '{}' not found. Available columns: {}",
            shortened(column, 200),
            listed(&names)
        ));
    }
    let (field, _) = said.strip_prefix("Field '")?.rsplit_once("' not found. Available fields: ")?;
    let mut at = &case["input"]["data"];
    for key in case["input"]["json_path"].as_str()?.split('.') {
        let Some(inner) = at.get(key) else { break };
        at = inner;
    }
    let names: Vec<&str> = at.as_object()?.keys().map(String::as_str).collect();
    let list = if names.is_empty() { "(empty)".to_owned() } else { listed(&names) };
    Some(format!("Field '{}' not found. Available fields: {list}", shortened(field, 200)))
}

fn applies(case: &Value) -> bool {
    message(case).is_some_and(|message| case["error"]["message"] != message.as_str())
}

fn change(case: &mut Value) {
    if let Some(message) = message(case) {
        case["error"]["message"] = message.into();
    }
}

fn example() -> (Value, Value) {
    let names: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    let data: JsonMap = names.iter().map(|name| (name.clone(), Value::Null)).collect();
    let input = json!({"data": data, "json_path": "x"});
    let case = |list: String| {
        let message = format!("Field 'x' not found. Available fields: {list}");
        json!({"input": input, "error": {"type": "KeyError", "message": message}})
    };
    let kept = names.get(..222).unwrap_or_default().join(", ");
    (case(names.join(", ")), case(format!("{kept}, ... [178 more]")))
}
