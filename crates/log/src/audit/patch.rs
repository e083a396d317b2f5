//! The difference of two JSON values as a JSON Patch (RFC 6902): applied to the first, it gives the second.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Returns the patch from `before` to `after` as a JSON array of operations; empty if the values are equal.
pub fn patch(before: &Value, after: &Value) -> Value {
    let mut operations = Vec::new();
    // A worklist, not recursion: the values may nest to any depth.
    let mut todo = vec![PatchStep::Compare(String::new(), before, after)];
    while let Some(step) = todo.pop() {
        match step {
            PatchStep::Emit(operation) => operations.push(operation),
            PatchStep::Compare(path, before, after) => compare(&path, before, after, &mut todo),
        }
    }
    Value::Array(operations)
}

enum PatchStep<'a> {
    Compare(String, &'a Value, &'a Value),
    Emit(Value),
}

/// Pushes the steps from one value to the other, in reverse, since they are popped from the end.
fn compare<'a>(path: &str, before: &'a Value, after: &'a Value, todo: &mut Vec<PatchStep<'a>>) {
    if before == after {
        return;
    }
    let from = todo.len();
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, old) in before {
                let path = format!("{path}/{}", escaped(key));
                todo.push(match after.get(key) {
                    Some(new) => PatchStep::Compare(path, old, new),
                    None => PatchStep::Emit(json!({"op": "remove", "path": path})),
                });
            }
            for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(key)) {
                let path = format!("{path}/{}", escaped(key));
                todo.push(PatchStep::Emit(json!({"op": "add", "path": path, "value": new})));
            }
        }
        (Value::Array(before), Value::Array(after)) => compare_items(path, before, after, todo),
        _ => todo.push(PatchStep::Emit(json!({"op": "replace", "path": path, "value": after}))),
    }
    if let Some(added) = todo.get_mut(from..) {
        added.reverse();
    }
}

/// Keeps equal items at both ends. Of the items between, the pairs present in both are compared one by one;
/// the rest is removed or added after them, so that no index of a later operation shifts.
fn compare_items<'a>(path: &str, before: &'a [Value], after: &'a [Value], todo: &mut Vec<PatchStep<'a>>) {
    let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let (old, new) = (before.get(start..).unwrap_or_default(), after.get(start..).unwrap_or_default());
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let old = old.get(..old.len() - end).unwrap_or_default();
    let new = new.get(..new.len() - end).unwrap_or_default();
    for (at, (old, new)) in old.iter().zip(new).enumerate() {
        todo.push(PatchStep::Compare(format!("{path}/{}", start + at), old, new));
    }
    let both = old.len().min(new.len());
    for _ in both..old.len() {
        todo.push(PatchStep::Emit(json!({"op": "remove", "path": format!("{path}/{}", start + both)})));
    }
    for (at, value) in new.iter().enumerate().skip(both) {
        todo.push(PatchStep::Emit(
            json!({"op": "add", "path": format!("{path}/{}", start + at), "value": value}),
        ));
    }
}

/// Escapes a key as a token of a JSON Pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_that_a_person_would_write() {
        for (before, after, wanted) in [
            (json!({"a": 1}), json!({"a": 1}), json!([])),
            (json!(1), json!([]), json!([{"op": "replace", "path": "", "value": []}])),
            (
                json!({"a/b": 1, "m~n": 2}),
                json!({"m~n": 3}),
                json!([
                {"op": "remove", "path": "/a~1b"}, {"op": "replace", "path": "/m~0n", "value": 3}]),
            ),
            (json!([1, 2, 3]), json!([1, 3]), json!([{"op": "remove", "path": "/1"}])),
            (
                json!({"x": [1]}),
                json!({"x": [1, 2, 3], "y": null}),
                json!([
                {"op": "add", "path": "/x/1", "value": 2}, {"op": "add", "path": "/x/2", "value": 3},
                {"op": "add", "path": "/y", "value": null}]),
            ),
            (json!({"": 0}), json!({"": 1}), json!([{"op": "replace", "path": "/", "value": 1}])),
        ] {
            assert_eq!(patch(&before, &after), wanted, "{before} to {after}");
        }
    }
}
