//! The evaluation of a condition.

use proto_events::json::JsonValue;

use crate::views::expression::node::{ExpressionNode, PathStep, Test};
use crate::views::filter::json_has;
use crate::views::pattern::Pattern;

/// Whether a condition holds for a row. The recursion is as deep as the parser allows.
pub(super) fn holds(node: &ExpressionNode, row: &JsonValue) -> bool {
    match node {
        ExpressionNode::Any(nodes) => nodes.iter().any(|node| holds(node, row)),
        ExpressionNode::All(nodes) => nodes.iter().all(|node| holds(node, row)),
        ExpressionNode::Not(node) => !holds(node, row),
        ExpressionNode::Field(steps, test) => fits(test, &values(row, steps)),
    }
}

/// Whether one of the values of a field fits; for `!=`, none of them may be equal.
fn fits(test: &Test, values: &[&JsonValue]) -> bool {
    let any = |fits: &dyn Fn(&JsonValue) -> bool| values.iter().any(|value| fits(value));
    let one =
        |fits: &dyn Fn(&JsonValue) -> bool| values.iter().any(|value| elements(value).into_iter().any(fits));
    match test {
        Test::Present => any(&|value| !matches!(value, JsonValue::Null | JsonValue::Bool(false))),
        Test::Equal(literal) => one(&|value| literal.is_equal(value)),
        Test::NotEqual(literal) => !one(&|value| literal.is_equal(value)),
        Test::Order { wanted, or_equal, literal } => one(&|value| {
            literal.order(value).is_some_and(|order| order == *wanted || (*or_equal && order.is_eq()))
        }),
        Test::Contains(said) => any(&|value| !value.is_null() && json_has(value, said)),
        Test::Matches(pattern) => any(&|value| matches(value, pattern)),
    }
}

/// Returns the values that a field leads to; `null` without any.
fn values<'a>(row: &'a JsonValue, steps: &[PathStep]) -> Vec<&'a JsonValue> {
    let mut found = vec![row];
    for step in steps {
        found = match step {
            PathStep::Element(at) => {
                found.into_iter().filter_map(|value| value.as_array()?.get(*at)).collect()
            }
            PathStep::Name(name) => {
                let objects = found.into_iter().flat_map(elements);
                objects.filter_map(|value| value.as_object()?.get(name)).collect()
            }
        };
    }
    if found.is_empty() { vec![&JsonValue::Null] } else { found }
}

/// Returns the value itself, or the elements of a list, of lists in it too.
fn elements(value: &JsonValue) -> Vec<&JsonValue> {
    let (mut found, mut todo) = (Vec::new(), vec![value]);
    while let Some(value) = todo.pop() {
        match value {
            JsonValue::Array(items) => todo.extend(items.iter().rev()),
            other => found.push(other),
        }
    }
    found
}

/// Whether a regular expression matches in a value: in a text, a key, or the text of a number.
fn matches(value: &JsonValue, pattern: &Pattern) -> bool {
    // A worklist, not recursion: the value may nest to any depth.
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        let found = match value {
            JsonValue::Null => false,
            JsonValue::String(said) => pattern.is_match(said),
            JsonValue::Array(items) => {
                todo.extend(items);
                false
            }
            JsonValue::Object(fields) => {
                todo.extend(fields.iter().map(|(_, value)| value));
                fields.iter().any(|(key, _)| pattern.is_match(key))
            }
            other => pattern.is_match(&other.to_string()),
        };
        if found {
            return true;
        }
    }
    false
}
