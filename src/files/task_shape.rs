//! The form in which a2a-sdk 0.3 writes a task: every field of its models in alphabetical order, null where unset,
//! nothing else.

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::files::error::FileError;

/// The form of a field.
enum Shape {
    Text,
    /// A word of these.
    Word(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// An object of free-form JSON.
    Free,
    Model(&'static Model),
    Models(&'static Model),
    /// A list of text, data and file parts.
    Parts,
    /// A file with its bytes, else with its address.
    File,
}

/// The fields of a model: name, form, and whether it must be there.
type Model = [(&'static str, Shape, Presence)];

/// The rule for a field that is absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    /// Null if it is absent.
    Optional,
    /// The only word of its form if it is absent.
    Default,
}

use Presence::{Default, Optional, Required};

const STATES: &[&str] = &[
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
];

const TASK: &Model = &[
    ("artifacts", Shape::Models(ARTIFACT), Optional),
    ("contextId", Shape::Text, Required),
    ("history", Shape::Models(MESSAGE), Optional),
    ("id", Shape::Text, Required),
    ("kind", Shape::Word(&["task"]), Default),
    ("metadata", Shape::Free, Optional),
    ("status", Shape::Model(STATUS), Required),
];

const STATUS: &Model = &[
    ("message", Shape::Model(MESSAGE), Optional),
    ("state", Shape::Word(STATES), Required),
    ("timestamp", Shape::Text, Optional),
];

const MESSAGE: &Model = &[
    ("contextId", Shape::Text, Optional),
    ("extensions", Shape::Texts, Optional),
    ("kind", Shape::Word(&["message"]), Default),
    ("messageId", Shape::Text, Required),
    ("metadata", Shape::Free, Optional),
    ("parts", Shape::Parts, Required),
    ("referenceTaskIds", Shape::Texts, Optional),
    ("role", Shape::Word(&["agent", "user"]), Required),
    ("taskId", Shape::Text, Optional),
];

const ARTIFACT: &Model = &[
    ("artifactId", Shape::Text, Required),
    ("description", Shape::Text, Optional),
    ("extensions", Shape::Texts, Optional),
    ("metadata", Shape::Free, Optional),
    ("name", Shape::Text, Optional),
    ("parts", Shape::Parts, Required),
];

const TEXT_PART: &Model = &[
    ("kind", Shape::Word(&["text"]), Default),
    ("metadata", Shape::Free, Optional),
    ("text", Shape::Text, Required),
];

const DATA_PART: &Model = &[
    ("data", Shape::Free, Required),
    ("kind", Shape::Word(&["data"]), Default),
    ("metadata", Shape::Free, Optional),
];

const FILE_PART: &Model = &[
    ("file", Shape::File, Required),
    ("kind", Shape::Word(&["file"]), Default),
    ("metadata", Shape::Free, Optional),
];

const BYTES: &Model =
    &[("bytes", Shape::Text, Required), ("mimeType", Shape::Text, Optional), ("name", Shape::Text, Optional)];

const ADDRESS: &Model =
    &[("mimeType", Shape::Text, Optional), ("name", Shape::Text, Optional), ("uri", Shape::Text, Required)];

/// Returns a task with all fields of its models in order.
pub(super) fn whole_task(task: &Value) -> Result<Value, FileError> {
    model(TASK, task, "task")
}

/// Returns a task without the fields that are null.
pub(super) fn without_nulls(task: Value) -> Value {
    prune(TASK, task)
}

fn fault(at: &str, wanted: &str) -> FileError {
    FileError::NotATask(format!("`{at}` is not {wanted}"))
}

fn model(model: &Model, value: &Value, at: &str) -> Result<Value, FileError> {
    let fields = value.as_object().ok_or_else(|| fault(at, "an object"))?;
    let mut whole = JsonMap::new();
    for (name, shape, presence) in model {
        let at = format!("{at}.{name}");
        let given = fields.get(name).or_else(|| fields.get(&snake(name)));
        let value = match (given, presence, shape) {
            (Some(Value::Null) | None, Optional, _) => Value::Null,
            (None, Default, Shape::Word([word])) => (*word).into(),
            (Some(given), ..) => shaped(shape, given, &at)?,
            (None, ..) => return Err(fault(&at, "there")),
        };
        whole.insert(*name, value);
    }
    Ok(whole.into())
}

/// Returns a field's name in snake case, which a2a-sdk reads too.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    snake
}

fn list(
    value: &Value,
    at: &str,
    item: impl Fn(&Value, &str) -> Result<Value, FileError>,
) -> Result<Value, FileError> {
    let items = value.as_array().ok_or_else(|| fault(at, "a list"))?.iter().enumerate();
    let items = items.map(|(index, value)| item(value, &format!("{at}[{index}]")));
    items.collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn shaped(shape: &Shape, value: &Value, at: &str) -> Result<Value, FileError> {
    let as_is = |fits: bool, wanted: &str| if fits { Ok(value.clone()) } else { Err(fault(at, wanted)) };
    match shape {
        Shape::Text => as_is(value.is_string(), "a string"),
        Shape::Word(words) => {
            as_is(value.as_str().is_some_and(|word| words.contains(&word)), &words.join(", "))
        }
        Shape::Texts => list(value, at, |item, at| shaped(&Shape::Text, item, at)),
        Shape::Free => as_is(value.is_object(), "an object"),
        Shape::Model(inner) => model(inner, value, at),
        Shape::Models(inner) => list(value, at, |item, at| model(inner, item, at)),
        Shape::Parts => list(value, at, |part, at| model(part_model(part), part, at)),
        Shape::File => model(file_model(value), value, at),
    }
}

/// Returns the model of a part by its kind; where it has none, the model that most of its fields fit, as pydantic chooses.
fn part_model(part: &Value) -> &'static Model {
    let is_file =
        |file: &Value| [file.get("bytes"), file.get("uri")].into_iter().flatten().any(Value::is_string);
    match part.get("kind").map(Value::as_str) {
        Some(Some("file")) => FILE_PART,
        Some(Some("data")) => DATA_PART,
        None if part.get("file").is_some_and(is_file) => FILE_PART,
        None if part.get("text").is_some_and(Value::is_string) => TEXT_PART,
        None if part.get("data").is_some_and(Value::is_object) => DATA_PART,
        _ => TEXT_PART,
    }
}

fn file_model(file: &Value) -> &'static Model {
    if file.get("bytes").is_some_and(Value::is_string) { BYTES } else { ADDRESS }
}

fn prune(model: &Model, value: Value) -> Value {
    let Value::Object(mut fields) = value else { return value };
    fields.retain(|_, value| !value.is_null());
    for (name, shape, _) in model {
        let Some(field) = fields.get_mut(name) else { continue };
        let whole = field.take();
        *field = match shape {
            Shape::Model(inner) => prune(inner, whole),
            Shape::Models(inner) => prune_all(whole, |_| *inner),
            Shape::Parts => prune_all(whole, part_model),
            Shape::File => {
                let model = file_model(&whole);
                prune(model, whole)
            }
            Shape::Text | Shape::Word(_) | Shape::Texts | Shape::Free => whole,
        };
    }
    fields.into()
}

fn prune_all(list: Value, model: impl Fn(&Value) -> &'static Model) -> Value {
    let Value::Array(items) = list else { return list };
    let pruned = items.into_iter().map(|item| {
        let model = model(&item);
        prune(model, item)
    });
    pruned.collect()
}
