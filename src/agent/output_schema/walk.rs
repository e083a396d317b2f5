//! The check itself: a schema and a value, walked together.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::numbers::{equal, is_integer, is_multiple, order};
use crate::agent::check::DEPTH_MAX;
use crate::agent::decode::cut;
use crate::agent::python::{repr, type_name};

/// Schema steps for one answer, besides sixty-four for each value in it: a schema whose alternatives multiply is
/// given up here.
const STEPS_MAX: usize = 100_000;

type Fields = Map<String, Value>;

type Checked = Result<(), String>;

/// What stands at a reference into the same schema.
pub(super) fn target<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
}

/// One check. Holds how many steps are left.
pub(super) struct Walk<'s> {
    root: &'s Value,
    steps_left: usize,
    depth: usize,
}

impl<'s> Walk<'s> {
    pub(super) fn new(root: &'s Value, value: &Value) -> Self {
        Self { root, steps_left: STEPS_MAX + 64 * values_in(value), depth: 0 }
    }

    pub(super) fn check(&mut self, schema: &'s Value, value: &Value, path: &str) -> Checked {
        if self.depth >= DEPTH_MAX || self.steps_left == 0 {
            // So that no `not` or `anyOf` on the way back takes it for a plain no.
            self.steps_left = 0;
            return Err(self.given_up(path));
        }
        self.steps_left -= 1;
        self.depth += 1;
        let checked = match schema {
            Value::Bool(false) => Err(format!("{path} is not expected")),
            Value::Object(fields) => self.check_fields(fields, value, path),
            _ => Ok(()),
        };
        self.depth -= 1;
        checked
    }

    fn check_fields(&mut self, schema: &'s Fields, value: &Value, path: &str) -> Checked {
        of_any_kind(schema, value, path)?;
        match value {
            Value::Object(fields) => self.object(schema, fields, path)?,
            Value::Array(items) => self.array(schema, items, path)?,
            Value::String(text) => of_string(schema, text, path)?,
            Value::Number(_) => of_number(schema, value, path)?,
            _ => {}
        }
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let target = target(self.root, reference)
                .ok_or_else(|| format!("{path} cannot be checked: '{reference}' leads nowhere"))?;
            self.check(target, value, path)?;
        }
        self.combined(schema, value, path)
    }

    fn fits(&mut self, schema: &'s Value, value: &Value, path: &str) -> Result<bool, String> {
        let fits = self.check(schema, value, path).is_ok();
        if self.steps_left == 0 { Err(self.given_up(path)) } else { Ok(fits) }
    }

    fn given_up(&self, path: &str) -> String {
        let _ = self;
        format!("{path} cannot be checked: the schema refers to itself, or offers too many choices")
    }

    fn combined(&mut self, schema: &'s Fields, value: &Value, path: &str) -> Checked {
        for part in list(schema, "allOf") {
            self.check(part, value, path)?;
        }
        if schema.contains_key("anyOf") {
            let mut last = format!("{path} fits none of the choices");
            let mut fits = false;
            for choice in list(schema, "anyOf") {
                match self.check(choice, value, path) {
                    Ok(()) => {
                        fits = true;
                        break;
                    }
                    Err(_) if self.steps_left == 0 => return Err(self.given_up(path)),
                    Err(error) => last = format!("{path} fits none of the choices; the last one: {error}"),
                }
            }
            if !fits {
                return Err(cut(&last));
            }
        }
        if schema.contains_key("oneOf") {
            let mut fitting = 0;
            for choice in list(schema, "oneOf") {
                fitting += usize::from(self.fits(choice, value, path)?);
            }
            if fitting != 1 {
                return Err(format!("{path} must fit exactly one of the choices, it fits {fitting}"));
            }
        }
        if let Some(not) = schema.get("not")
            && self.fits(not, value, path)?
        {
            return Err(format!("{path} is what it must not be"));
        }
        if let Some(condition) = schema.get("if") {
            let then = if self.fits(condition, value, path)? { "then" } else { "else" };
            if let Some(then) = schema.get(then) {
                self.check(then, value, path)?;
            }
        }
        Ok(())
    }

    fn object(&mut self, schema: &'s Fields, fields: &Fields, path: &str) -> Checked {
        for name in list(schema, "required").filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                return Err(format!("{path}.{name} is required"));
            }
        }
        size(schema, ["minProperties", "maxProperties"], fields.len(), "fields", path)?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|_| !schema.contains_key("patternProperties"));
        for (name, value) in fields {
            let place = format!("{path}.{name}");
            let rule = properties.and_then(|properties| properties.get(name)).or(others);
            if let Some(rule) = rule {
                self.check(rule, value, &place)?;
            }
            if let Some(names) = schema.get("propertyNames") {
                self.check(names, &Value::String(name.clone()), &place)?;
            }
        }
        let dependent = schema.get("dependentRequired").and_then(Value::as_object);
        for (name, needed) in dependent.into_iter().flatten().filter(|(name, _)| fields.contains_key(*name)) {
            let mut needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(needed) = needed.find(|needed| !fields.contains_key(*needed)) {
                return Err(format!("{path}.{needed} is required beside {name}"));
            }
        }
        Ok(())
    }

    fn array(&mut self, schema: &'s Fields, items: &[Value], path: &str) -> Checked {
        size(schema, ["minItems", "maxItems"], items.len(), "items", path)?;
        let mut first = list(schema, "prefixItems");
        for (at, item) in items.iter().enumerate() {
            if let Some(rule) = first.next().or_else(|| schema.get("items")) {
                self.check(rule, item, &format!("{path}[{at}]"))?;
            }
        }
        if let Some(rule) = schema.get("contains") {
            let mut found = 0;
            for (at, item) in items.iter().enumerate() {
                found += usize::from(self.fits(rule, item, &format!("{path}[{at}]"))?);
            }
            let least = count(schema, "minContains").unwrap_or(1);
            if found < least || count(schema, "maxContains").is_some_and(|most| found > most) {
                return Err(format!("{path} holds {found} items of the kind that is asked for"));
            }
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            return self.unique(items, path);
        }
        Ok(())
    }

    fn unique(&mut self, items: &[Value], path: &str) -> Checked {
        for (at, item) in items.iter().enumerate() {
            // Every pair is compared: that is bounded with all else.
            self.steps_left = self.steps_left.saturating_sub(at);
            if self.steps_left == 0 {
                return Err(self.given_up(path));
            }
            if items.iter().take(at).any(|earlier| equal(earlier, item)) {
                return Err(format!("{path}[{at}] stands there before"));
            }
        }
        Ok(())
    }
}

fn list<'s>(schema: &'s Fields, key: &str) -> std::slice::Iter<'s, Value> {
    schema.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter()
}

/// `type`, `enum` and `const`.
fn of_any_kind(schema: &Fields, value: &Value, path: &str) -> Checked {
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of_type(value, name)) {
        return Err(format!("{path} must be of type {}, got {}", types.join(" or "), type_name(value)));
    }
    if let Some(Value::Array(choices)) = schema.get("enum")
        && !choices.iter().any(|choice| equal(choice, value))
    {
        return Err(cut(&format!("{path} must be one of {}", repr(&Value::Array(choices.clone())))));
    }
    match schema.get("const") {
        Some(constant) if !equal(constant, value) => Err(cut(&format!("{path} must be {}", repr(constant)))),
        _ => Ok(()),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match (name, value) {
        ("integer", Value::Number(number)) => is_integer(number),
        ("string", Value::String(_))
        | ("number", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("null", Value::Null) => true,
        _ => false,
    }
}

fn of_string(schema: &Fields, text: &str, path: &str) -> Checked {
    size(schema, ["minLength", "maxLength"], text.chars().count(), "characters", path)
}

fn of_number(schema: &Fields, value: &Value, path: &str) -> Checked {
    let Value::Number(number) = value else { return Ok(()) };
    let bounds: [(&str, &[Ordering], &str); 4] = [
        ("minimum", &[Ordering::Greater, Ordering::Equal], "at least"),
        ("exclusiveMinimum", &[Ordering::Greater], "more than"),
        ("maximum", &[Ordering::Less, Ordering::Equal], "at most"),
        ("exclusiveMaximum", &[Ordering::Less], "less than"),
    ];
    for (key, allowed, words) in bounds {
        if let Some(Value::Number(bound)) = schema.get(key)
            && !order(number, bound).is_some_and(|order| allowed.contains(&order))
        {
            return Err(format!("{path} must be {words} {bound}, got {number}"));
        }
    }
    match schema.get("multipleOf") {
        Some(Value::Number(of)) if !is_multiple(number, of) => {
            Err(format!("{path} must be a multiple of {of}, got {number}"))
        }
        _ => Ok(()),
    }
}

/// A bound below and one above.
fn size(schema: &Fields, [least, most]: [&str; 2], found: usize, what: &str, path: &str) -> Checked {
    if let Some(least) = count(schema, least).filter(|least| found < *least) {
        return Err(format!("{path} must have at least {least} {what}, it has {found}"));
    }
    if let Some(most) = count(schema, most).filter(|most| found > *most) {
        return Err(format!("{path} must have at most {most} {what}, it has {found}"));
    }
    Ok(())
}

fn count(schema: &Fields, key: &str) -> Option<usize> {
    let bound = schema.get(key)?;
    // Some writers of schemas say `2.0`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
    let bound = bound.as_u64().or_else(|| bound.as_f64().and_then(whole))?;
    usize::try_from(bound).ok()
}

fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => fields.values().map(values_in).sum::<usize>(),
        _ => 0,
    }
}
