//! The structural half of the argument check: a walk over a schema and a value together.

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::python::{equal, repr};
use crate::tools::schema::coerce::{boolean, integer, number, wrong_type};
use crate::tools::schema::rule::ArgsRule;
use crate::tools::texts::short;

/// The deepest nesting of schema steps: enough for the deepest JSON that is read, and few enough for a small
/// stack. A schema that refers to itself without descending into the value fails at this depth.
pub(crate) const DEPTH_MAX: usize = 256;

/// The schema steps for one set of arguments, in addition to sixteen for each value in it. A schema whose
/// alternatives multiply fails at this limit.
const STEPS_MAX: usize = 20_000;

/// The bytes that the steps for one set of arguments copy, compare and put into errors, in addition to 64 for each byte
/// of the arguments. A schema that applies many steps to a long value fails at this limit.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes that a value costs in addition to its text.
const VALUE_BYTES: usize = 16;

/// The bytes that the look-up of a name costs.
const NAME_BYTES: usize = 8;

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

/// The state of one check, with the numbers of steps and bytes left.
pub(crate) struct Checker<'s> {
    root: &'s Value,
    pub(crate) rule: ArgsRule,
    /// Whether a value passes only as it is, without a coercion.
    pub(crate) is_exact: bool,
    steps_left: usize,
    bytes_left: usize,
    depth: usize,
}

pub(crate) type Checked = Result<Value, String>;

impl<'s> Checker<'s> {
    pub(crate) fn new(root: &'s Value, args: &Value, rule: ArgsRule) -> Self {
        let bytes_left = BYTES_MAX.saturating_add(bytes_in(args).saturating_mul(64));
        let steps_left = STEPS_MAX + 16 * values_in(args);
        Self { root, rule, is_exact: false, steps_left, bytes_left, depth: 0 }
    }

    /// Charges a step for bytes, or returns the error text if too few are left; none are left then.
    fn pay(&mut self, bytes: usize, path: &str) -> Result<(), String> {
        let Some(left) = self.bytes_left.checked_sub(bytes) else {
            self.bytes_left = 0;
            return Err(too_costly(path));
        };
        self.bytes_left = left;
        Ok(())
    }

    /// Returns a copy of a value, which is paid for.
    pub(crate) fn copy(&mut self, value: &Value, path: &str) -> Checked {
        self.pay(bytes_in(value), path)?;
        Ok(value.clone())
    }

    /// Returns the value as the schema requires it, or the error text.
    pub(crate) fn check(&mut self, schema: &'s Value, value: &Value, path: &str) -> Checked {
        if self.depth >= DEPTH_MAX || self.steps_left == 0 {
            return Err(too_costly(path));
        }
        self.pay(VALUE_BYTES + path.len() / 8, path)?;
        self.steps_left -= 1;
        self.depth += 1;
        let checked = match schema {
            Value::Bool(false) => Err(format!("{path} is not allowed by schema")),
            Value::Object(fields) => self.check_fields(fields, value, path),
            _ => self.copy(value, path),
        };
        self.depth -= 1;
        checked
    }

    fn check_fields(&mut self, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        if self.takes_null(schema, value) {
            return self.copy(value, path);
        }
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
            let value = self.copy(value, path)?;
            return parts.iter().try_fold(value, |value, part| self.check(part, &value, path));
        }
        match schema.get("type") {
            Some(Value::Array(types)) => self.any_type(types, schema, value, path),
            Some(Value::String(name)) => self.one_type(Some(name), schema, value, path),
            _ => self.one_type(None, schema, value, path),
        }
    }

    fn any_of(&mut self, choices: &'s [Value], value: &Value, path: &str) -> Checked {
        if self.is_taken_as_is(choices, |this, choice| this.check(choice, value, path)) {
            return self.copy(value, path);
        }
        let mut errors = Errors::default();
        for choice in choices {
            match self.check(choice, value, path) {
                Ok(value) => return Ok(value),
                Err(error) => self.record_error(&mut errors, &error, path)?,
            }
        }
        Err(format!("{path} did not match any allowed schema: {}", errors.text))
    }

    fn one_of(&mut self, choices: &'s [Value], value: &Value, path: &str) -> Checked {
        if self.is_taken_as_is(choices, |this, choice| this.check(choice, value, path)) {
            return self.copy(value, path);
        }
        let (mut last, mut matched) = (None, 0_usize);
        for choice in choices {
            match self.check(choice, value, path) {
                Ok(value) => {
                    last = Some(value);
                    matched += 1;
                }
                Err(error) => self.pay(error.len(), path)?,
            }
        }
        match last {
            Some(value) if matched == 1 => Ok(value),
            _ => Err(format!("{path} must match exactly one allowed schema, matched {matched}")),
        }
    }

    fn any_type(&mut self, types: &'s [Value], schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        if self.is_taken_as_is(types, |this, name| this.one_type(name.as_str(), schema, value, path)) {
            return self.copy(value, path);
        }
        let mut errors = Errors::default();
        for name in types {
            match self.one_type(name.as_str(), schema, value, path) {
                Ok(value) => return Ok(value),
                Err(error) => self.record_error(&mut errors, &error, path)?,
            }
        }
        Err(format!("{path} did not match any allowed type: {}", errors.text))
    }

    /// Adds the error of one alternative, which is paid for; fails if no bytes are left for the next alternative.
    fn record_error(&mut self, errors: &mut Errors, error: &str, path: &str) -> Result<(), String> {
        errors.push(error);
        self.pay(VALUE_BYTES + error.len(), path)
    }

    fn one_type(&mut self, name: Option<&str>, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        // A coercion reads a text, and may copy it.
        self.pay(VALUE_BYTES + value.as_str().map_or(0, str::len), path)?;
        let value = match name {
            Some("object") => self.object(schema, value, path)?,
            Some("array") => self.array(schema, value, path)?,
            Some(name) if self.is_passed_as_is(name, value, path)? => self.copy(value, path)?,
            Some("integer") => integer(value, path)?,
            Some("number") => number(value, path)?,
            Some("boolean") => boolean(value, path)?,
            Some("string") if !value.is_string() => return Err(wrong_type(path, "a string", value)),
            Some("null") if !value.is_null() => return Err(format!("{path} must be null")),
            None if schema.contains_key("properties") => self.object(schema, value, path)?,
            None if schema.contains_key("items") => self.array(schema, value, path)?,
            _ => self.copy(value, path)?,
        };
        self.pay(bytes_compared(schema, &value), path)?;
        allowed(schema, &value, path)?;
        Ok(value)
    }

    fn array(&mut self, schema: &'s JsonMap, value: &Value, path: &str) -> Checked {
        let Value::Array(items) = value else {
            return Err(wrong_type(path, "an array", value));
        };
        let Some(item_schema) = schema.get("items") else {
            return self.copy(value, path);
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
        if self.rule == ArgsRule::Foreign {
            return self.foreign_object(schema, fields, path);
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        self.required(schema, fields, path)?;
        let none = JsonMap::new();
        let mut checked = JsonMap::new();
        for (name, property) in properties.into_iter().flatten() {
            match (fields.get(name), self.default_of(property)) {
                (Some(value), _) => {
                    checked.insert(name.clone(), self.check(property, value, &format!("{path}.{name}"))?);
                }
                (None, Some(default)) => {
                    checked.insert(name.clone(), self.copy(default, path)?);
                }
                (None, None) => {}
            }
        }
        self.others(schema, properties.unwrap_or(&none), fields, path, &mut checked)?;
        Ok(Value::Object(checked))
    }

    /// Looks up the names of an object, and returns an error text if a required one is absent.
    pub(crate) fn required(
        &mut self,
        schema: &'s JsonMap,
        fields: &JsonMap,
        path: &str,
    ) -> Result<(), String> {
        let required = schema.get("required").and_then(Value::as_array);
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = required.map_or(0, Vec::len) + properties.map_or(0, JsonMap::len) + fields.len();
        self.pay(NAME_BYTES * names, path)?;
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        match required.find(|name| !fields.contains_key(name)) {
            Some(name) => Err(format!("{path}.{name} is required")),
            None => Ok(()),
        }
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
            let names: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
            return Err(unexpected(&names, path));
        }
        for (name, value) in others {
            let value = match rule {
                // The name is the model's own, and part of the path of all that it holds.
                Some(rule) => self.check(rule, value, &format!("{path}.{}", short(name)))?,
                None => self.copy(value, path)?,
            };
            checked.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// The most unexpected fields that an error names.
const NAMES_MAX: usize = 20;

/// Returns the error text for fields that a schema does not allow.
pub(crate) fn unexpected(names: &[&str], path: &str) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| short(name)).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{path} received unexpected field(s): {}{more}", shown.join(", "))
}

/// The longest list of errors in one error text, in bytes: the alternatives of a schema multiply, and more
/// would not help a model.
const ERRORS_BYTES_MAX: usize = 2_000;

/// The errors of a value's alternatives, as one text.
#[derive(Default)]
struct Errors {
    text: String,
    is_full: bool,
}

impl Errors {
    fn push(&mut self, error: &str) {
        if self.is_full {
            return;
        }
        self.text.push_str(if self.text.is_empty() { "" } else { "; " });
        self.is_full = self.text.len() + error.len() > ERRORS_BYTES_MAX;
        self.text.push_str(if self.is_full { "and more" } else { error });
    }
}

/// Returns the error text for a value whose check would take too long.
fn too_costly(path: &str) -> String {
    format!("{path} cannot be checked: the tool's schema refers to itself, or offers too many choices")
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

/// Returns the most bytes that the comparison of a value with `const` and `enum` reads. Texts of different lengths are told
/// apart at once.
fn bytes_compared(schema: &JsonMap, value: &Value) -> usize {
    let choices = schema.get("enum").and_then(Value::as_array);
    let compared = schema.get("const").into_iter().chain(choices.into_iter().flatten());
    let whole = if schema.contains_key("const") || choices.is_some() { bytes_in(value) } else { 0 };
    let bytes = compared.map(|choice| match (choice, value) {
        (Value::String(choice), Value::String(value)) if choice.len() == value.len() => choice.len(),
        (Value::Number(_), Value::Number(_)) => whole,
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            whole.saturating_add(bytes_in(choice))
        }
        _ => 1,
    });
    bytes.fold(0, usize::saturating_add)
}

/// Returns the bytes that a copy of a value takes, roughly.
fn bytes_in(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Number(number) => number.as_str().len(),
        Value::Array(items) => items.iter().map(bytes_in).fold(0, usize::saturating_add),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + bytes_in(value)).fold(0, usize::saturating_add)
        }
        Value::Null | Value::Bool(_) => 0,
    };
    VALUE_BYTES.saturating_add(inside)
}

fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => fields.values().map(values_in).sum::<usize>(),
        _ => 0,
    }
}
