//! The cost of checking a value against a schema, computed before the check. Each pair of schema and value is
//! computed once and remembered, while the check itself visits a pair as often as the schema refers to it.

use std::collections::HashMap;

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::tools::schema::check::DEPTH_MAX;

/// The limit on schema steps for one answer, in addition to 64 for each value in it. A schema whose
/// alternatives multiply exceeds it.
const STEPS_MAX: u64 = 100_000;

/// Keywords whose text is a reference to a schema.
pub(crate) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that apply one schema, or a list of them, to the same value.
const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// Keywords that map names to schemas for the same value.
const IN_PLACE_BY_NAME: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Keywords that apply one schema to the fields of an object.
const OF_FIELDS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// Keywords that apply one schema, or a list of them, to the items of an array.
const OF_ITEMS: [&str; 4] = ["items", "additionalItems", "contains", "unevaluatedItems"];

/// Resolves a reference within the schema.
pub(crate) fn target<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    places(root, reference)?.pop()
}

/// Returns the values through which a reference within the schema leads, from the root to its target. The crate
/// `jsonschema` has to find the same target, so that a reference which another reader might resolve in another way leads
/// nowhere here: one with a `~` that is not an escape, or with an index that has a sign or a zero before it.
pub(crate) fn places<'s>(root: &'s Value, reference: &str) -> Option<Vec<&'s Value>> {
    let pointer = percent_decoded(reference.strip_prefix('#')?)?;
    let mut places = vec![root];
    if pointer.is_empty() {
        return Some(places);
    }
    let mut at = root;
    for token in pointer.strip_prefix('/')?.split('/') {
        at = member(at, token)?;
        places.push(at);
    }
    Some(places)
}

/// Returns the member or item that one token of a pointer names.
fn member<'s>(value: &'s Value, token: &str) -> Option<&'s Value> {
    match value {
        Value::Object(fields) => {
            let is_escaped = token.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
            fields.get(&token.replace("~1", "/").replace("~0", "~")).filter(|_| is_escaped)
        }
        Value::Array(items) => {
            let is_plain = token == "0" || !token.starts_with(['0', '+']);
            items.get(token.parse::<usize>().ok()?).filter(|_| is_plain)
        }
        _ => None,
    }
}

/// Decodes the percent signs of a fragment.
fn percent_decoded(fragment: &str) -> Option<String> {
    let mut pieces = fragment.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        if !code.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Whether the check of the value stays within the limit on steps.
pub(crate) fn is_bounded(schema: &Value, value: &Value) -> bool {
    let most = STEPS_MAX.saturating_add(64_u64.saturating_mul(values_in(value)));
    let mut cost = Cost { root: schema, known: HashMap::new(), most, depth: 0 };
    cost.measure(schema, value) <= most
}

struct Cost<'s> {
    root: &'s Value,
    /// Costs by the addresses of schema and value; [`u64::MAX`] during the computation, so that a circular
    /// schema exceeds the limit.
    known: HashMap<(*const Value, *const Value), u64>,
    most: u64,
    depth: usize,
}

impl<'s> Cost<'s> {
    fn measure(&mut self, schema: &'s Value, value: &Value) -> u64 {
        let Value::Object(fields) = schema else { return 1 };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        if self.depth >= DEPTH_MAX || self.known.len() as u64 > self.most {
            return u64::MAX;
        }
        self.known.insert(pair, u64::MAX);
        self.depth += 1;
        let cost = self.in_place(fields, value).saturating_add(self.of_children(fields, value));
        self.depth -= 1;
        self.known.insert(pair, cost.saturating_add(1));
        cost.saturating_add(1)
    }

    fn in_place(&mut self, schema: &'s JsonMap, value: &Value) -> u64 {
        let mut cost = 0_u64;
        for key in REFERENCES {
            let reference = schema.get(key).and_then(Value::as_str);
            if let Some(target) = reference.and_then(|reference| target(self.root, reference)) {
                cost = cost.saturating_add(self.measure(target, value));
            }
        }
        for applied in IN_PLACE.into_iter().filter_map(|key| schema.get(key)) {
            cost = cost.saturating_add(self.of_each(applied, value));
        }
        for applied in IN_PLACE_BY_NAME.into_iter().filter_map(|key| schema.get(key)) {
            cost = cost.saturating_add(self.of_named(applied, value));
        }
        // To find unevaluated values, the check visits the same schemas a second time.
        let again = schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems");
        cost.saturating_mul(if again { 2 } else { 1 })
    }

    fn of_children(&mut self, schema: &'s JsonMap, value: &Value) -> u64 {
        let mut cost = 0_u64;
        match value {
            Value::Object(fields) => {
                let properties = schema.get("properties").and_then(Value::as_object);
                for (name, field) in fields {
                    for applied in OF_FIELDS.into_iter().filter_map(|key| schema.get(key)) {
                        cost = cost.saturating_add(self.of_each(applied, field));
                    }
                    if let Some(by_pattern) = schema.get("patternProperties") {
                        cost = cost.saturating_add(self.of_named(by_pattern, field));
                    }
                    if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                        cost = cost.saturating_add(self.measure(property, field));
                    }
                    if let Some(names) = schema.get("propertyNames") {
                        cost = cost.saturating_add(self.measure(names, &NAME));
                    }
                }
            }
            Value::Array(items) => {
                let first = schema.get("prefixItems").and_then(Value::as_array);
                for (at, item) in items.iter().enumerate() {
                    for applied in OF_ITEMS.into_iter().filter_map(|key| schema.get(key)) {
                        cost = cost.saturating_add(self.of_each(applied, item));
                    }
                    if let Some(own) = first.and_then(|first| first.get(at)) {
                        cost = cost.saturating_add(self.measure(own, item));
                    }
                }
            }
            _ => {}
        }
        cost
    }

    /// Returns the cost of a schema, or of all schemas of a list.
    fn of_each(&mut self, applied: &'s Value, value: &Value) -> u64 {
        match applied {
            Value::Array(schemas) => self.sum(schemas.iter(), value),
            schema => self.measure(schema, value),
        }
    }

    /// Returns the cost of all schemas that a keyword maps from names or patterns.
    fn of_named(&mut self, applied: &'s Value, value: &Value) -> u64 {
        self.sum(applied.as_object().into_iter().flat_map(JsonMap::values), value)
    }

    fn sum(&mut self, schemas: impl Iterator<Item = &'s Value>, value: &Value) -> u64 {
        schemas.fold(0, |cost, schema| cost.saturating_add(self.measure(schema, value)))
    }
}

/// A placeholder for a field's name: a value without children.
static NAME: Value = Value::Null;

fn values_in(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum::<u64>(),
        Value::Object(fields) => fields.values().map(values_in).sum::<u64>(),
        _ => 0,
    }
}
