//! The first path where two JSON values differ, in words.

use proto_events::json::JsonValue as Value;

/// The longest piece of a value that is shown, in characters.
const SHOWN_CHARS: usize = 200;

/// The first difference between two values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The path, such as `messages[2].role`; empty for the whole value.
    pub path: String,
    /// The first value at this path.
    pub left: String,
    /// The second value at this path.
    pub right: String,
}

/// Returns the first difference between two values, in the order of the first.
pub fn first_difference(left: &Value, right: &Value) -> Option<Difference> {
    // A worklist, not recursion: the values may nest to any depth.
    let mut todo = vec![(String::new(), Some(left), Some(right))];
    while let Some((path, left, right)) = todo.pop() {
        if left == right {
            continue;
        }
        match (left, right) {
            (Some(Value::Object(one)), Some(Value::Object(two))) => {
                let child = |key: &str| {
                    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
                };
                let absent = two.keys().filter(|key| !one.contains_key(key));
                let keys: Vec<_> = one.keys().chain(absent).collect();
                todo.extend(keys.into_iter().rev().map(|key| (child(key), one.get(key), two.get(key))));
            }
            (Some(Value::Array(one)), Some(Value::Array(two))) => {
                let most = one.len().max(two.len());
                todo.extend((0..most).rev().map(|at| (format!("{path}[{at}]"), one.get(at), two.get(at))));
            }
            (left, right) => {
                return Some(Difference { path, left: shown(left), right: shown(right) });
            }
        }
    }
    None
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named_by_its_path() {
        let left = json!({"a": 1, "b": [1, {"c": "x"}], "d": 2});
        let right = json!({"a": 1, "b": [1, {"c": "y"}], "d": 3});
        let found = first_difference(&left, &right).unwrap();
        assert_eq!(
            (found.path.as_str(), found.left.as_str(), found.right.as_str()),
            ("b[1].c", "\"x\"", "\"y\"")
        );
        assert_eq!(first_difference(&left, &left), None);
        let shorter = first_difference(&json!([1, 2]), &json!([1])).unwrap();
        assert_eq!((shorter.path.as_str(), shorter.right.as_str()), ("[1]", "nothing"));
        assert_eq!(first_difference(&json!({}), &json!({"k": 1})).unwrap().path, "k");
    }
}
