//! The structural half of the argument check: a walk over a schema and a value together.

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::python::{equal, repr};
use crate::tools::schema::coerce::{boolean, integer, number, wrong_type};
use crate::tools::texts::short;

/// The deepest nesting of schema steps: enough for the deepest JSON that is read, and few enough for a small
/// stack. A schema that refers to itself without descending into the value fails at this depth.
pub(crate) const DEPTH_MAX: usize = 256;

/// The schema steps for one set of arguments, in addition to sixteen for each value in it. A schema whose
/// alternatives multiply fails at this limit.
const STEPS_MAX: usize = 20_000;

/// Returns the target of a local reference such as `#/$defs/City`.
pub(crate) fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let pointer = reference.strip_prefix('#')?;
    root.pointer(pointer).filter(|_| !pointer.is_empty())
}

/// The target of a schema's `$ref`.
enum Target<'s> {
    /// The target replaces the schema: what stands beside a reference to `$defs` does not count, as in Protolink.
    Whole(&'s Value),
    /// The target counts beside the schema's other keywords. Protolink does not follow such a reference.
    Beside(&'s Value),
}

/// Returns the target of a schema's `$ref`; `None` if it has none or leads nowhere.
fn target_of<'s>(root: &'s Value, schema: &JsonMap) -> Option<Target<'s>> {
    let reference = schema.get("$ref").and_then(Value::as_str)?;
    let name = reference.strip_prefix("#/$defs/").and_then(|path| path.rsplit('/').next());
    let defined = name.and_then(|name| root.get("$defs")?.get(name));
    defined.map(Target::Whole).or_else(|| resolve(root, reference).map(Target::Beside))
}

/// The state of one check, with the number of steps left.
pub(crate) struct Checker<'s> {
    root: &'s Value,
    steps_left: usize,
    depth: usize,
}

type Checked = Result<Value, String>;

impl<'s> Checker<'s> {
    pub(crate) fn new(root: &'s Value, args: &Value) -> Self {
        Self { root, steps_left: STEPS_MAX + 16 * values_in(args), depth: 0 }
    }

    /// Returns the value as the schema requires it, or the error text.
    pub(crate) fn check(&mut self, schema: &'s Value, value: &Value, path: &str) -> Checked {
        if self.depth >= DEPTH_MAX || self.steps_left == 0 {
            return Err(format!(
                "{path} cannot be checked: the tool's schema refers to itself, or offers too many choices"
            ));
        }
        self.steps_left -= 1;
        self.depth += 1;
        let checked = match schema {
            Value::Bool(false) => Err(format!("{path} is not allowed by schema")),
            Value::Object(fields) => self.check_fields(fields, value, path),
            _ => Ok(value.clone()),
        };
        self.depth -= 1;
        checked
    }

    fn check_fields(&mut self, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        match target_of(self.root, schema) {
            Some(Target::Whole(target)) => self.check(target, value, path),
            Some(Target::Beside(target)) => {
                let value = self.check(target, value, path)?;
                self.check_keywords(schema, &value, path)
            }
            // A reference that leads nowhere says nothing.
            None => self.check_keywords(schema, value, path),
        }
    }

    fn check_keywords(&mut self, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        if let Some(Value::Array(choices)) = schema.get("anyOf") {
            return self.any_of(choices, value, path);
        }
        if let Some(Value::Array(choices)) = schema.get("oneOf") {
            return self.one_of(choices, value, path);
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            return parts.iter().try_fold(value.clone(), |value, part| self.check(part, &value, path));
        }
        match schema.get("type") {
            Some(Value::Array(types)) => self.any_type(types, schema, value, path),
            Some(Value::String(name)) => self.one_type(Some(name), schema, value, path),
            _ => self.one_type(None, schema, value, path),
        }
    }

    fn any_of(&mut self, choices: &'s [Value], value: &Value, path: &str) -> Checked {
        let mut errors = Vec::new();
        for choice in choices {
            match self.check(choice, value, path) {
                Ok(value) => return Ok(value),
                Err(error) => errors.push(error),
            }
        }
        Err(format!("{path} did not match any allowed schema: {}", joined(&errors)))
    }

    fn one_of(&mut self, choices: &'s [Value], value: &Value, path: &str) -> Checked {
        let mut matches =
            choices.iter().filter_map(|choice| self.check(choice, value, path).ok()).collect::<Vec<_>>();
        match (matches.pop(), matches.len()) {
            (Some(value), 0) => Ok(value),
            (last, others) => Err(format!(
                "{path} must match exactly one allowed schema, matched {}",
                others + usize::from(last.is_some())
            )),
        }
    }

    fn any_type(&mut self, types: &'s [Value], schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        let mut errors = Vec::new();
        for name in types {
            match self.one_type(name.as_str(), schema, value, path) {
                Ok(value) => return Ok(value),
                Err(error) => errors.push(error),
            }
        }
        Err(format!("{path} did not match any allowed type: {}", joined(&errors)))
    }

    fn one_type(&mut self, name: Option<&str>, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        let value = match name {
            Some("object") => self.object(schema, value, path)?,
            Some("array") => self.array(schema, value, path)?,
            Some("integer") => integer(value, path)?,
            Some("number") => number(value, path)?,
            Some("boolean") => boolean(value, path)?,
            Some("string") if !value.is_string() => return Err(wrong_type(path, "a string", value)),
            Some("null") if !value.is_null() => return Err(format!("{path} must be null")),
            None if schema.contains_key("properties") => self.object(schema, value, path)?,
            None if schema.contains_key("items") => self.array(schema, value, path)?,
            _ => value.clone(),
        };
        allowed(schema, &value, path)?;
        Ok(value)
    }

    fn array(&mut self, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        let Value::Array(items) = value else {
            return Err(wrong_type(path, "an array", value));
        };
        let Some(item_schema) = schema.get("items") else {
            return Ok(value.clone());
        };
        let mut checked = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            checked.push(self.check(item_schema, item, &format!("{path}[{index}]"))?);
        }
        Ok(Value::Array(checked))
    }

    fn object(&mut self, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        let Value::Object(fields) = value else {
            return Err(wrong_type(path, "an object", value));
        };
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                return Err(format!("{path}.{name} is required"));
            }
        }
        let none = JsonMap::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut checked = JsonMap::new();
        for (name, property) in properties.into_iter().flatten() {
            match (fields.get(name), self.default_of(property)) {
                (Some(value), _) => {
                    checked.insert(name.clone(), self.check(property, value, &format!("{path}.{name}"))?);
                }
                (None, Some(default)) => {
                    checked.insert(name.clone(), default.clone());
                }
                (None, None) => {}
            }
        }
        self.others(schema, properties.unwrap_or(&none), fields, path, &mut checked)?;
        Ok(Value::Object(checked))
    }

    /// Returns the default of an absent property: its own, or that of the definition which replaces it.
    fn default_of(&self, property: &'s Value) -> Option<&'s Value> {
        let mut schema = property.as_object()?;
        for _ in 0..DEPTH_MAX {
            match target_of(self.root, schema) {
                Some(Target::Whole(target)) => schema = target.as_object()?,
                _ => break,
            }
        }
        schema.get("default")
    }

    /// Checks the fields that the schema does not name, in the order of their names.
    fn others(
        &mut self,
        schema: &'s JsonMap,
        properties: &JsonMap,
        fields: &JsonMap,
        path: &str,
        checked: &mut JsonMap,
    ) -> Result<(), String> {
        let mut others: Vec<_> = fields.iter().filter(|(name, _)| !properties.contains_key(name)).collect();
        others.sort_by(|left, right| left.0.cmp(right.0));
        let rule = schema.get("additionalProperties");
        if rule == Some(&Value::Bool(false)) && !others.is_empty() {
            let names: Vec<String> = others.iter().take(NAMES_MAX).map(|(name, _)| short(name)).collect();
            let more = others.len().saturating_sub(NAMES_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(format!("{path} received unexpected field(s): {}{more}", names.join(", ")));
        }
        for (name, value) in others {
            let value = match rule {
                // The name is the model's own, and part of the path of all that it holds.
                Some(rule) => self.check(rule, value, &format!("{path}.{}", short(name)))?,
                None => value.clone(),
            };
            checked.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// The most unexpected fields that an error names.
const NAMES_MAX: usize = 20;

/// The longest list of errors in one error text, in bytes: the alternatives of a schema multiply, and more
/// would not help a model.
const ERRORS_BYTES_MAX: usize = 2_000;

fn joined(errors: &[String]) -> String {
    let mut text = String::new();
    for error in errors {
        text.push_str(if text.is_empty() { "" } else { "; " });
        if text.len() + error.len() > ERRORS_BYTES_MAX {
            text.push_str("and more");
            break;
        }
        text.push_str(error);
    }
    text
}

/// Checks `const` and `enum`, after the value has its type.
fn allowed(schema: &JsonMap, value: &Value, path: &str) -> Result<(), String> {
    if let Some(constant) = schema.get("const").filter(|constant| !equal(constant, value)) {
        return Err(format!("{path} must equal {}", repr(constant)));
    }
    match schema.get("enum") {
        Some(choices @ Value::Array(items)) if !items.iter().any(|item| equal(item, value)) => {
            Err(format!("{path} must be one of {}", repr(choices)))
        }
        _ => Ok(()),
    }
}

fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => fields.values().map(values_in).sum::<usize>(),
        _ => 0,
    }
}
