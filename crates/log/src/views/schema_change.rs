//! The comparison of two versions of a tool's schema: whether arguments that the old one took may be refused by the new
//! one.

use std::collections::BTreeSet;

use proto_events::json::{JsonMap, JsonValue};

/// The deepest place that is compared; what lies deeper counts as unchanged.
const DEPTH_MAX: usize = 32;

/// Keys whose value bounds arguments from below.
const LOWER: [&str; 6] =
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"];

/// Keys whose value bounds arguments from above.
const UPPER: [&str; 6] =
    ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"];

/// Keys of which any change may refuse what was taken before.
const OTHER: [&str; 11] = [
    "pattern",
    "format",
    "multipleOf",
    "uniqueItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "prefixItems",
    "propertyNames",
];

/// Returns what the new schema may refuse that the old one took, in words; `None` if it takes all of it.
///
/// A change of a rule that is not followed in depth, such as `anyOf`, counts as narrower.
pub fn narrowed(old: &JsonValue, new: &JsonValue) -> Option<String> {
    Comparison { old, new }.compare("the arguments", old, new, 0)
}

/// The whole schemas, in which references are looked up.
struct Comparison<'a> {
    old: &'a JsonValue,
    new: &'a JsonValue,
}

impl Comparison<'_> {
    fn compare(&self, place: &str, old: &JsonValue, new: &JsonValue, depth: usize) -> Option<String> {
        let (old, new) = (resolved(self.old, old), resolved(self.new, new));
        if depth > DEPTH_MAX || old == new || takes_all(new) {
            return None;
        }
        if *new == JsonValue::Bool(false) {
            return Some(format!("{place}: nothing is accepted any more"));
        }
        let fault = types(old, new).or_else(|| values(old, new)).or_else(|| bounds(old, new));
        let fault = fault.or_else(|| required(old, new));
        fault.map(|what| format!("{place}: {what}")).or_else(|| self.inside(place, old, new, depth))
    }

    fn inside(&self, place: &str, old: &JsonValue, new: &JsonValue, depth: usize) -> Option<String> {
        let properties =
            |schema: &JsonValue| schema.get("properties").and_then(JsonValue::as_object).cloned();
        let (before, after) = (properties(old).unwrap_or_default(), properties(new).unwrap_or_default());
        let further = new.get("additionalProperties");
        let is_closed = further == Some(&JsonValue::Bool(false));
        if is_closed && old.get("additionalProperties") != further {
            return Some(format!("{place}: no further names are accepted"));
        }
        for (name, schema) in &before {
            let found = match after.get(name) {
                Some(now) => self.compare(&format!("`{name}`"), schema, now, depth + 1),
                None if is_closed => Some(format!("`{name}` is gone")),
                None => None,
            };
            if found.is_some() {
                return found;
            }
        }
        // A name that the old schema did not describe could have any value.
        let added = after.iter().find(|(name, schema)| {
            !before.contains_key(name)
                && !is_closed
                && !takes_all(schema)
                && old.get("additionalProperties").is_some()
        });
        if let Some((name, _)) = added {
            return Some(format!("`{name}` is described now"));
        }
        match (old.get("items"), new.get("items")) {
            (Some(old), Some(new)) => self.compare(&format!("the items of {place}"), old, new, depth + 1),
            (None, Some(new)) if !takes_all(new) => Some(format!("the items of {place} are described now")),
            _ => None,
        }
    }
}

/// Whether a schema takes any value.
fn takes_all(schema: &JsonValue) -> bool {
    matches!(schema, JsonValue::Null | JsonValue::Bool(true))
        || schema.as_object().is_some_and(JsonMap::is_empty)
}

/// Follows references within the document, as far as they lead.
fn resolved<'a>(whole: &'a JsonValue, schema: &'a JsonValue) -> &'a JsonValue {
    let mut schema = schema;
    for _ in 0..DEPTH_MAX {
        let Some(reference) = schema.get("$ref").and_then(JsonValue::as_str) else { return schema };
        let Some(found) = reference.strip_prefix('#').and_then(|pointer| whole.pointer(pointer)) else {
            return schema;
        };
        schema = found;
    }
    schema
}

fn types(old: &JsonValue, new: &JsonValue) -> Option<String> {
    let names = |schema: &JsonValue| -> Option<BTreeSet<String>> {
        let given = schema.get("type")?;
        let one = given.as_str().map(|name| BTreeSet::from([name.to_owned()]));
        let some = || given.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect();
        one.or_else(some)
    };
    let now = names(new)?;
    let is_in = |name: &String| now.contains(name) || (name == "integer" && now.contains("number"));
    match names(old) {
        Some(before) => before.iter().find(|name| !is_in(name)).map(|name| format!("{name} is not accepted")),
        None => Some("only some types are accepted".to_owned()),
    }
}

fn values(old: &JsonValue, new: &JsonValue) -> Option<String> {
    let listed = |schema: &JsonValue| -> Option<Vec<JsonValue>> {
        let one = schema.get("const").map(|value| vec![value.clone()]);
        one.or_else(|| schema.get("enum").and_then(JsonValue::as_array).cloned())
    };
    let now = listed(new)?;
    match listed(old) {
        Some(before) => {
            before.iter().find(|value| !now.contains(value)).map(|value| format!("{value} is not accepted"))
        }
        None => Some("only some values are accepted".to_owned()),
    }
}

fn bounds(old: &JsonValue, new: &JsonValue) -> Option<String> {
    let stricter = |key: &&&str, is_stricter: fn(f64, f64) -> bool| {
        let number = |schema: &JsonValue| schema.get(key).and_then(JsonValue::as_f64);
        match (number(old), number(new)) {
            (Some(before), Some(now)) => is_stricter(now, before),
            (None, now) => now.is_some(),
            (Some(_), None) => false,
        }
    };
    let lower = LOWER.iter().find(|key| stricter(key, |now, before| now > before));
    let upper = || UPPER.iter().find(|key| stricter(key, |now, before| now < before));
    let other = || OTHER.iter().find(|key| new.get(key).is_some() && new.get(key) != old.get(key));
    lower.or_else(upper).or_else(other).map(|key| format!("`{key}` is another"))
}

fn required(old: &JsonValue, new: &JsonValue) -> Option<String> {
    let names = |schema: &JsonValue| -> BTreeSet<String> {
        let names = schema.get("required").and_then(JsonValue::as_array).into_iter().flatten();
        names.filter_map(JsonValue::as_str).map(str::to_owned).collect()
    };
    names(new).difference(&names(old)).next().map(|name| format!("`{name}` is required now"))
}

#[cfg(test)]
mod tests {
    use proto_events::json::JsonText;

    use super::*;

    fn compared(old: &str, new: &str) -> Option<String> {
        let tree = |text: &str| JsonText::parse(text).unwrap().tree();
        narrowed(&tree(old), &tree(new))
    }

    #[test]
    fn a_schema_that_takes_all_that_it_took_is_not_narrower() {
        let old = r##"{"type":"object","properties":{"a":{"type":"integer","maximum":5},"b":{"$ref":"#/$defs/b"},"c":{"enum":["x"]}},
            "required":["a"],"$defs":{"b":{"type":"array","items":{"type":"string"}}}}"##;
        for new in [
            old,
            "null",
            "{}",
            r#"{"type":"object"}"#,
            r#"{"type":["object","null"],"properties":{"a":{"type":"number","maximum":6},"c":{"enum":["y","x"]},"d":{"type":"string"}}}"#,
            r##"{"type":"object","properties":{"b":{"type":"array","items":{"$ref":"#/$defs/s"}}},"$defs":{"s":{"type":"string"}}}"##,
        ] {
            assert_eq!(compared(old, new), None, "{new}");
        }
        // A reference to itself ends.
        let circle = r##"{"properties":{"a":{"$ref":"#"}}}"##;
        let other = r##"{"properties":{"a":{"$ref":"#"}},"title":"t"}"##;
        assert_eq!(compared(circle, other), None);
    }

    #[test]
    fn each_way_to_take_less_is_named_with_its_place() {
        for (old, new, says) in [
            ("null", r#"{"type":"object"}"#, "the arguments: only some types"),
            (r#"{"type":["object","null"]}"#, r#"{"type":"object"}"#, "null is not accepted"),
            (
                r#"{"properties":{"a":{"type":"number"}}}"#,
                r#"{"properties":{"a":{"type":"integer"}}}"#,
                "`a`: number is not",
            ),
            (
                r#"{"properties":{"a":{}}}"#,
                r#"{"properties":{"a":{}},"required":["a"]}"#,
                "`a` is required now",
            ),
            (r#"{"properties":{"a":{}}}"#, r#"{"additionalProperties":false}"#, "no further names"),
            (
                r#"{"properties":{"a":{}},"additionalProperties":false}"#,
                r#"{"properties":{"b":{}},"additionalProperties":false}"#,
                "`a` is gone",
            ),
            (r#"{"enum":[1,2]}"#, r#"{"enum":[1]}"#, "2 is not accepted"),
            (r#"{"type":"string"}"#, r#"{"type":"string","const":"a"}"#, "only some values"),
            (r#"{"minimum":1}"#, r#"{"minimum":2}"#, "`minimum` is another"),
            (r#"{"type":"string"}"#, r#"{"type":"string","maxLength":2}"#, "`maxLength` is another"),
            (r#"{"anyOf":[{}]}"#, r#"{"anyOf":[]}"#, "`anyOf` is another"),
            (
                r#"{"items":{"type":"string"}}"#,
                r#"{"items":{"type":"null"}}"#,
                "the items of the arguments: string is not",
            ),
            (r#"{"type":"array"}"#, r#"{"type":"array","items":{"type":"null"}}"#, "are described now"),
            ("{}", "false", "nothing is accepted"),
        ] {
            let found = compared(old, new).unwrap_or_default();
            assert!(found.contains(says), "{old} {new}: {found}");
        }
    }
}
