//! Tasks, messages and artifacts in the form in which a2a-utils shows them to a model: with the names of its Python
//! package or of its TypeScript package, and without what a model has no use for.

use std::collections::BTreeMap;

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::artifacts::a2a::{A2aArtifact, A2aFile, A2aFileContent, A2aMessage, A2aPart, A2aTask};
use crate::artifacts::data::DataArtifacts;
use crate::artifacts::limit::ArtifactSettings;
use crate::artifacts::minimize::MinimizeLimits;
use crate::artifacts::text::{MinimizedText, TextCut};
use crate::artifacts::text_bounds::TextBounds;

/// The error that stands for the bytes of a file that nobody saved.
const NO_FILE_STORE: &str = "No FileStore configured. Cannot access file bytes.";

/// The spelling of keys. Keys that begin with an underscore are the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyCase {
    /// `artifact_id`, as Python's package writes.
    #[default]
    Snake,
    /// `artifactId`, as the TypeScript package writes.
    Camel,
}

impl KeyCase {
    fn key(self, snake: &'static str) -> &'static str {
        match (self, snake) {
            (Self::Camel, "artifact_id") => "artifactId",
            (Self::Camel, "context_id") => "contextId",
            (Self::Camel, "mime_type") => "mimeType",
            _ => snake,
        }
    }
}

/// The paths under which the files of an artifact or message were saved, by its id.
pub type SavedFiles = BTreeMap<String, Vec<String>>;

/// The advice that minimized artifacts carry.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tips<'a> {
    /// The advice of a minimized text.
    pub text: Option<&'a str>,
    /// The advice of minimized data.
    pub data: Option<&'a str>,
}

/// A text as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPartForLlm {
    /// The text, or its head and tail.
    pub text: String,
    /// The ranges and the tip of a text that was cut.
    pub cut: Option<TextCut>,
}

/// Data as a model is shown them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPartForLlm {
    /// The data: of a message as they are, of an artifact under `data` or `text`.
    pub data: Value,
}

/// A file as a model is shown it: never its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePartForLlm {
    /// The name.
    pub name: Option<String>,
    /// The media type.
    pub mime_type: Option<String>,
    /// The address, or the paths of the copies.
    pub uri: Option<Value>,
    /// The paths of the copies of the content, or an error.
    pub bytes: Option<Value>,
}

/// A piece of content as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartForLlm {
    /// A text.
    Text(TextPartForLlm),
    /// Data.
    Data(DataPartForLlm),
    /// A file.
    File(FilePartForLlm),
}

/// An artifact as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactForLlm {
    /// The id.
    pub artifact_id: String,
    /// The description.
    pub description: Option<String>,
    /// The display name.
    pub name: Option<String>,
    /// The content: one text, then the data, then the files.
    pub parts: Vec<PartForLlm>,
}

/// A message as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageForLlm {
    /// The id of the conversation.
    pub context_id: Option<String>,
    /// The content: one text, then the data, then the files.
    pub parts: Vec<PartForLlm>,
}

/// The status of a task as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatusForLlm {
    /// The state, as it travels.
    pub state: String,
    /// The message that belongs to the state; never minimized.
    pub message: Option<MessageForLlm>,
}

/// A task as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskForLlm {
    /// The id.
    pub id: String,
    /// The id of the conversation.
    pub context_id: String,
    /// The status.
    pub status: TaskStatusForLlm,
    /// The artifacts, minimized.
    pub artifacts: Vec<ArtifactForLlm>,
}

/// Returns artifacts in the form in which a model is shown them: the texts of each joined and minimized, its data
/// minimized, its files by their names and the paths of their copies.
pub fn minimize_artifacts(
    artifacts: &[A2aArtifact],
    settings: &ArtifactSettings,
    saved: &SavedFiles,
    tips: Tips<'_>,
) -> Vec<ArtifactForLlm> {
    let minimizing = MinimizeLimits::new(settings).tip(tips.data);
    let artifact = |artifact: &A2aArtifact| {
        let text = |text: &str| {
            let (limit, cap) = (settings.send_message_character_limit(), settings.cap());
            match (TextBounds { limit, cap, is_of_json: true, tip: tips.text }).minimized(text) {
                MinimizedText::Whole(text) => TextPartForLlm { text: text.into_owned(), cut: None },
                MinimizedText::Cut(cut) => TextPartForLlm { text: cut.text().to_owned(), cut: Some(cut) },
            }
        };
        let data = |data: &Value| DataArtifacts::minimize(data, &minimizing).to_json();
        ArtifactForLlm {
            artifact_id: artifact.artifact_id.clone(),
            description: artifact.description.clone(),
            name: artifact.name.clone(),
            parts: parts_for_llm(&artifact.parts, text, data, saved.get(&artifact.artifact_id)),
        }
    };
    artifacts.iter().map(artifact).collect()
}

fn parts_for_llm(
    parts: &[A2aPart],
    text: impl Fn(&str) -> TextPartForLlm,
    data: impl Fn(&Value) -> Value,
    saved: Option<&Vec<String>>,
) -> Vec<PartForLlm> {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| if let A2aPart::Text(text) = part { Some(text.as_str()) } else { None })
        .collect();
    let mut shown = Vec::new();
    if !texts.is_empty() {
        shown.push(PartForLlm::Text(text(&texts.concat())));
    }
    for part in parts {
        if let A2aPart::Data(value) = part {
            shown.push(PartForLlm::Data(DataPartForLlm { data: data(value) }));
        }
    }
    for part in parts {
        if let A2aPart::File(file) = part {
            shown.push(PartForLlm::File(FilePartForLlm::new(file, saved)));
        }
    }
    shown
}

impl FilePartForLlm {
    fn new(file: &A2aFile, saved: Option<&Vec<String>>) -> Self {
        let object = |key: &str, value: Value| Value::from(JsonMap::from_iter([(key, value)]));
        let copies = saved.map(|paths| object("_saved_to", paths.clone().into()));
        let (uri, bytes) = match &file.content {
            A2aFileContent::Bytes(_) => {
                (None, Some(copies.unwrap_or_else(|| object("_error", NO_FILE_STORE.into()))))
            }
            A2aFileContent::Uri(uri) => (Some(copies.unwrap_or_else(|| uri.as_str().into())), None),
        };
        Self { name: file.name.clone(), mime_type: file.mime_type.clone(), uri, bytes }
    }
}

impl MessageForLlm {
    /// Returns a message in the form in which a model is shown it; nothing of it is minimized.
    pub fn from_message(message: &A2aMessage, saved: &SavedFiles) -> Self {
        let text = |text: &str| TextPartForLlm { text: text.to_owned(), cut: None };
        let parts = parts_for_llm(&message.parts, text, Value::clone, saved.get(&message.message_id));
        Self { context_id: message.context_id.clone(), parts }
    }

    /// Returns the message without its files, as a2a-utils 0.2.0 showed it.
    #[must_use]
    pub fn without_files(mut self) -> Self {
        self.parts.retain(|part| !matches!(part, PartForLlm::File(_)));
        self
    }
}

impl TaskForLlm {
    /// Returns a task in the form in which a model is shown it: the artifacts minimized, the history left out.
    pub fn from_task(
        task: &A2aTask,
        settings: &ArtifactSettings,
        artifact_files: &SavedFiles,
        message_files: &SavedFiles,
        tips: Tips<'_>,
    ) -> Self {
        let message = |message: &A2aMessage| MessageForLlm::from_message(message, message_files);
        Self {
            id: task.id.clone(),
            context_id: task.context_id.clone(),
            status: TaskStatusForLlm {
                state: task.status.state.clone(),
                message: task.status.message.as_ref().map(message),
            },
            artifacts: minimize_artifacts(&task.artifacts, settings, artifact_files, tips),
        }
    }

    /// Returns the task as a2a-utils 0.2.0 showed the answer to a message: in the conversation that the message named,
    /// whatever the answer said, and without the files of the status message.
    #[must_use]
    pub fn as_answered_by_0_2_0(mut self, context_id: String) -> Self {
        self.context_id = context_id;
        self.status.message = self.status.message.map(MessageForLlm::without_files);
        self
    }
}

fn list<T>(items: &[T], item: impl Fn(&T) -> Value) -> Value {
    items.iter().map(item).collect()
}

impl PartForLlm {
    /// Returns the part as JSON.
    pub fn to_json(&self, case: KeyCase) -> Value {
        let mut object = JsonMap::new();
        match self {
            Self::Text(part) => {
                object.insert("kind", "text".into());
                object.insert("text", part.text.as_str().into());
                object.extend(part.cut.iter().flat_map(TextCut::metadata));
            }
            Self::Data(part) => {
                object.insert("kind", "data".into());
                object.insert("data", part.data.clone());
            }
            Self::File(part) => {
                object.insert("kind", "file".into());
                object.insert("name", part.name.clone().into());
                object.insert(case.key("mime_type"), part.mime_type.clone().into());
                object.insert("uri", part.uri.clone().into());
                object.insert("bytes", part.bytes.clone().into());
            }
        }
        object.into()
    }
}

impl ArtifactForLlm {
    /// Returns the artifact as JSON.
    pub fn to_json(&self, case: KeyCase) -> Value {
        let mut object = JsonMap::new();
        object.insert(case.key("artifact_id"), self.artifact_id.as_str().into());
        object.insert("description", self.description.clone().into());
        object.insert("name", self.name.clone().into());
        object.insert("parts", list(&self.parts, |part| part.to_json(case)));
        object.into()
    }
}

impl MessageForLlm {
    /// Returns the message as JSON.
    pub fn to_json(&self, case: KeyCase) -> Value {
        let mut object = JsonMap::new();
        object.insert(case.key("context_id"), self.context_id.clone().into());
        object.insert("kind", "message".into());
        object.insert("parts", list(&self.parts, |part| part.to_json(case)));
        object.into()
    }
}

impl TaskForLlm {
    /// Returns the task as JSON.
    pub fn to_json(&self, case: KeyCase) -> Value {
        let mut status = JsonMap::new();
        status.insert("state", self.status.state.as_str().into());
        status.insert("message", self.status.message.as_ref().map(|message| message.to_json(case)).into());
        let mut object = JsonMap::new();
        object.insert("id", self.id.as_str().into());
        object.insert(case.key("context_id"), self.context_id.as_str().into());
        object.insert("kind", "task".into());
        object.insert("status", status.into());
        object.insert("artifacts", list(&self.artifacts, |artifact| artifact.to_json(case)));
        object.into()
    }
}
