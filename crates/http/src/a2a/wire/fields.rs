//! Reading of members, with the place of what is wrong.

use proto_events::json::{JsonObject, JsonText};

/// A value that is not what its place needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {description}")]
pub(crate) struct Invalid {
    /// The place, such as `message.parts[0].raw`.
    pub(crate) field: String,
    /// The kind of value that it must be.
    pub(crate) description: String,
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

/// The members of an object.
pub(crate) struct WireFields {
    object: JsonObject,
    path: String,
}

impl WireFields {
    /// Reads the members of an object at a place.
    pub(crate) fn new(json: &JsonText, path: &str) -> Result<Self, Invalid> {
        let object = json.read().ok().filter(|_| json.is_object());
        match object {
            Some(object) => Ok(Self { object, path: path.to_owned() }),
            None => Err(Invalid::new(if path.is_empty() { "request" } else { path }, "must be an object")),
        }
    }

    /// Returns the members of a whole request.
    pub(crate) fn of_object(object: JsonObject) -> Self {
        Self { object, path: String::new() }
    }

    /// Returns the place of a member.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Returns a member, also under its name with underscores, as protobuf's JSON reads it; `None` if it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&JsonText> {
        self.or_null(name).filter(|value| !value.is_null())
    }

    /// Returns a member, null included.
    pub(crate) fn or_null(&self, name: &str) -> Option<&JsonText> {
        self.object.get(name).or_else(|| {
            let is_camel = name.bytes().any(|byte| byte.is_ascii_uppercase());
            if is_camel { self.object.get(&snake(name)) } else { None }
        })
    }

    pub(crate) fn wrong(&self, name: &str, description: &str) -> Invalid {
        Invalid::new(self.at(name), description)
    }

    /// Returns a text; `None` if it is absent.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Invalid> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.to_str().map(Some).ok_or_else(|| self.wrong(name, "must be a string"))
    }

    /// Returns a text that is not empty; `None` if it is absent or empty.
    pub(crate) fn word(&self, name: &str) -> Result<Option<String>, Invalid> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// Returns a text that must be there.
    pub(crate) fn needed(&self, name: &str) -> Result<String, Invalid> {
        self.word(name)?.ok_or_else(|| self.wrong(name, "is required"))
    }

    /// Returns a word that must be there, or the digits of its number in protobuf.
    pub(crate) fn word_or_number(&self, name: &str) -> Result<String, Invalid> {
        let digits = |value: &&JsonText| value.as_str().bytes().all(|byte| byte.is_ascii_digit());
        match self.get(name).filter(digits) {
            Some(number) => Ok(number.as_str().to_owned()),
            None => self.needed(name),
        }
    }

    /// Whether the object is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// Returns the items of a list; none if it is absent.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<JsonText>, Invalid> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        value.read().map_err(|_| self.wrong(name, "must be an array"))
    }

    /// Returns the items of a list, each read with its place.
    pub(crate) fn items<T>(
        &self,
        name: &str,
        read: impl Fn(&JsonText, &str) -> Result<T, Invalid>,
    ) -> Result<Vec<T>, Invalid> {
        let items = self.list(name)?;
        items.iter().enumerate().map(|(at, item)| read(item, &format!("{}[{at}]", self.at(name)))).collect()
    }

    /// Returns the texts of a list.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, Invalid> {
        self.items(name, |item, at| item.to_str().ok_or_else(|| Invalid::new(at, "must be a string")))
    }

    /// Returns an object; an empty one if it is absent.
    pub(crate) fn object(&self, name: &str) -> Result<JsonObject, Invalid> {
        let Some(value) = self.get(name) else { return Ok(JsonObject::new()) };
        value.read().ok().filter(|_| value.is_object()).ok_or_else(|| self.wrong(name, "must be an object"))
    }

    /// Returns the members of an object with its place; `None` if it is absent.
    pub(crate) fn inner(&self, name: &str) -> Result<Option<Self>, Invalid> {
        self.get(name).map(|value| Self::new(value, &self.at(name))).transpose()
    }

    /// Returns a boolean, in a query as text; `None` if it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Invalid> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_str() {
            "true" | "\"true\"" => Ok(Some(true)),
            "false" | "\"false\"" => Ok(Some(false)),
            _ => Err(self.wrong(name, "must be true or false")),
        }
    }

    /// Returns a whole number, which protobuf's JSON also writes as text; `None` if it is absent.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.to_str().unwrap_or_else(|| value.as_str().to_owned());
        let whole = text.strip_suffix(".0").unwrap_or(&text).parse().ok();
        whole.map(Some).ok_or_else(|| self.wrong(name, "must be a whole number"))
    }
}

/// Returns a name in camel case with underscores.
fn snake(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len() + 4), |mut snake, letter| {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
        snake
    })
}
