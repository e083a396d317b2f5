//! A2A's tasks, messages and artifacts as far as a model is shown them. Names are read in camel case, as they travel,
//! and in snake case, as a2a-sdk takes them too.

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::type_name;

use crate::artifacts::error::ArtifactError;

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum A2aPart {
    /// A text.
    Text(String),
    /// An object of free-form JSON.
    Data(Value),
    /// A file.
    File(A2aFile),
}

/// A file, by its content or by where it can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aFile {
    /// The name, as its sender chose it.
    pub name: Option<String>,
    /// The media type.
    pub mime_type: Option<String>,
    /// The content or its address.
    pub content: A2aFileContent,
}

/// The content of a file or its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum A2aFileContent {
    /// The content in base64.
    Bytes(String),
    /// The address of the content.
    Uri(String),
}

/// An artifact of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aArtifact {
    /// The id.
    pub artifact_id: String,
    /// The display name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The content, in order.
    pub parts: Vec<A2aPart>,
}

/// A message of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aMessage {
    /// The id.
    pub message_id: String,
    /// The id of the conversation.
    pub context_id: Option<String>,
    /// The id of the task.
    pub task_id: Option<String>,
    /// The content, in order.
    pub parts: Vec<A2aPart>,
}

/// The status of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aStatus {
    /// The state, as it travels.
    pub state: String,
    /// The message that belongs to the state.
    pub message: Option<A2aMessage>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aTask {
    /// The id.
    pub id: String,
    /// The id of the conversation.
    pub context_id: String,
    /// The status.
    pub status: A2aStatus,
    /// The artifacts, in order.
    pub artifacts: Vec<A2aArtifact>,
    /// The messages so far, in order.
    pub history: Vec<A2aMessage>,
}

/// The fields of an object that is being read.
struct Fields<'a> {
    what: &'static str,
    value: &'a Value,
}

impl<'a> Fields<'a> {
    fn new(what: &'static str, value: &'a Value) -> Result<Self, ArtifactError> {
        if value.is_object() {
            return Ok(Self { what, value });
        }
        Err(ArtifactError::NotA2a { what, why: format!("it is a {}, not an object", type_name(value)) })
    }

    /// Returns a field by its two spellings; absent if it is null.
    fn get(&self, camel: &str, snake: &str) -> Option<&'a Value> {
        self.value.get(camel).or_else(|| self.value.get(snake)).filter(|value| !value.is_null())
    }

    fn fault(&self, name: &str, wanted: &str) -> ArtifactError {
        ArtifactError::NotA2a { what: self.what, why: format!("the field `{name}` is not {wanted}") }
    }

    fn optional(&self, camel: &str, snake: &str) -> Result<Option<String>, ArtifactError> {
        let text =
            |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| self.fault(camel, "a string"));
        self.get(camel, snake).map(text).transpose()
    }

    fn text(&self, camel: &str, snake: &str) -> Result<String, ArtifactError> {
        self.optional(camel, snake)?.ok_or_else(|| self.fault(camel, "a string"))
    }

    fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&Value) -> Result<T, ArtifactError>,
    ) -> Result<Vec<T>, ArtifactError> {
        let Some(list) = self.get(name, name) else { return Ok(Vec::new()) };
        list.as_array().ok_or_else(|| self.fault(name, "a list"))?.iter().map(read).collect()
    }
}

impl A2aPart {
    /// Reads a part. The kind may be left out, as a2a-sdk allows: the field that holds the content names it then.
    ///
    /// # Errors
    /// [`ArtifactError::NotA2a`] for an unknown kind, or for a field of the wrong type.
    pub fn from_json(part: &Value) -> Result<Self, ArtifactError> {
        let fields = Fields::new("part", part)?;
        let has = |name: &&&str| fields.get(name, name).is_some();
        let kind = match part.get("kind") {
            None => ["text", "file", "data"].iter().find(has).map(|kind| (*kind).to_owned()),
            Some(_) => None,
        };
        match kind.map_or_else(|| fields.text("kind", "kind"), Ok)?.as_str() {
            "text" => Ok(Self::Text(fields.text("text", "text")?)),
            "data" => match fields.get("data", "data") {
                Some(data) if data.is_object() => Ok(Self::Data(data.clone())),
                _ => Err(fields.fault("data", "an object")),
            },
            "file" => {
                let file = fields.get("file", "file").ok_or_else(|| fields.fault("file", "an object"))?;
                Ok(Self::File(A2aFile::from_json(file)?))
            }
            _ => Err(fields.fault("kind", "`text`, `data` or `file`")),
        }
    }
}

impl A2aFile {
    fn from_json(file: &Value) -> Result<Self, ArtifactError> {
        let fields = Fields::new("file", file)?;
        let bytes = fields.optional("bytes", "bytes")?.map(A2aFileContent::Bytes);
        let uri = fields.optional("uri", "uri")?.map(A2aFileContent::Uri);
        let content = bytes.or(uri).ok_or_else(|| fields.fault("bytes", "a string, and neither is `uri`"))?;
        let (name, mime_type) = (fields.optional("name", "name")?, fields.optional("mimeType", "mime_type")?);
        Ok(Self { name, mime_type, content })
    }
}

impl A2aArtifact {
    /// Reads an artifact.
    ///
    /// # Errors
    /// [`ArtifactError::NotA2a`] if it has no id or no parts, or a field of the wrong type.
    pub fn from_json(artifact: &Value) -> Result<Self, ArtifactError> {
        let fields = Fields::new("artifact", artifact)?;
        if fields.get("parts", "parts").is_none() {
            return Err(fields.fault("parts", "a list"));
        }
        Ok(Self {
            artifact_id: fields.text("artifactId", "artifact_id")?,
            name: fields.optional("name", "name")?,
            description: fields.optional("description", "description")?,
            parts: fields.list("parts", A2aPart::from_json)?,
        })
    }
}

impl A2aMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// [`ArtifactError::NotA2a`] if it has no id or no parts, or a field of the wrong type.
    pub fn from_json(message: &Value) -> Result<Self, ArtifactError> {
        let fields = Fields::new("message", message)?;
        if fields.get("parts", "parts").is_none() {
            return Err(fields.fault("parts", "a list"));
        }
        Ok(Self {
            message_id: fields.text("messageId", "message_id")?,
            context_id: fields.optional("contextId", "context_id")?,
            task_id: fields.optional("taskId", "task_id")?,
            parts: fields.list("parts", A2aPart::from_json)?,
        })
    }
}

impl A2aTask {
    /// Reads a task.
    ///
    /// # Errors
    /// [`ArtifactError::NotA2a`] if it has no id, conversation or status, or a field of the wrong type.
    pub fn from_json(task: &Value) -> Result<Self, ArtifactError> {
        let fields = Fields::new("task", task)?;
        let status = fields.get("status", "status").ok_or_else(|| fields.fault("status", "an object"))?;
        let status = Fields::new("status", status)?;
        Ok(Self {
            id: fields.text("id", "id")?,
            context_id: fields.text("contextId", "context_id")?,
            status: A2aStatus {
                state: status.text("state", "state")?,
                message: status.get("message", "message").map(A2aMessage::from_json).transpose()?,
            },
            artifacts: fields.list("artifacts", A2aArtifact::from_json)?,
            history: fields.list("history", A2aMessage::from_json)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_its_kind_is_what_its_content_says() {
        let read = |text: &str| A2aPart::from_json(&Value::parse(text).unwrap());
        assert_eq!(read(r#"{"text":"a"}"#), Ok(A2aPart::Text("a".to_owned())));
        assert!(matches!(read(r#"{"data":{"a":1}}"#), Ok(A2aPart::Data(_))));
        assert!(matches!(read(r#"{"file":{"uri":"https://a"}}"#), Ok(A2aPart::File(_))));
        for text in [r#"{"kind":null,"text":"a"}"#, r#"{"kind":"data","text":"a"}"#, "{}", r#"{"text":1}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
