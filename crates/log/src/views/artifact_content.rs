//! The content of an artifact or of a call's result: texts, data and files, whatever kinds of parts hold them.

use proto_events::json::{JsonObject, JsonText, JsonValue};
use proto_events::model::Part;

use crate::artifacts::kept_file::{MEDIA_TYPE, content_in, inner, is_file_part};
use crate::artifacts::names::{DATA_PART, FILE_PART, TEXT_PART};
use crate::artifacts::{A2aFile, A2aFileContent, DataArtifacts, KeptFile};

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArtifactContent {
    /// A text.
    Text(String),
    /// Any other JSON.
    Data(JsonText),
    /// A file, by its content or by its address.
    File(A2aFile),
    /// A file that stands beside the log.
    KeptFile(KeptFile),
}

impl ArtifactContent {
    /// Returns the content of a part: what a tool or a model put out, the text, the file or the data that it holds.
    pub(crate) fn from_part(part: &Part) -> Self {
        let content = part.content();
        match part.kind() {
            "tool_output" => Self::of_output(content),
            kind if is_file_part(part) => match KeptFile::from_part(part) {
                Some(kept) => Self::KeptFile(kept),
                None => file(kind, content).map_or_else(|| Self::of_value(content), Self::File),
            },
            _ => Self::of_value(content),
        }
    }

    /// Returns the content of a result.
    pub(crate) fn of_value(value: &JsonText) -> Self {
        value.to_str().map_or_else(|| Self::Data(value.clone()), Self::Text)
    }

    fn of_output(content: &JsonText) -> Self {
        let Ok(output) = content.read::<JsonObject>() else { return Self::of_value(content) };
        let said = |key| output.get(key).filter(|value| !value.is_null());
        match (said("error"), output.get("result")) {
            (Some(error), _) => Self::of_value(error),
            (None, Some(result)) => Self::of_value(result),
            (None, None) => Self::of_value(content),
        }
    }

    /// Returns A2A's name for a part of this kind.
    pub fn part_type(&self) -> &'static str {
        match self {
            Self::Text(_) => TEXT_PART,
            Self::Data(_) => DATA_PART,
            Self::File(_) | Self::KeptFile(_) => FILE_PART,
        }
    }

    /// Returns the kind: `text`, `data` or `file`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Data(_) => "data",
            Self::File(_) | Self::KeptFile(_) => "file",
        }
    }

    /// Returns the number of characters: of a text, of the JSON of data, of a file's content in base64, its address or its digest.
    pub fn characters(&self) -> u64 {
        let text = match self {
            Self::Text(text)
            | Self::File(A2aFile {
                content: A2aFileContent::Bytes(text) | A2aFileContent::Uri(text), ..
            }) => text,
            Self::Data(data) => data.as_str(),
            Self::KeptFile(kept) => &kept.sha256,
        };
        text.chars().count() as u64
    }
}

/// Returns the file that a part holds by its content or address, for a store that keeps copies of files.
pub fn file_in(part: &Part) -> Option<A2aFile> {
    match ArtifactContent::from_part(part) {
        ArtifactContent::File(file) => Some(file),
        _ => None,
    }
}

/// Returns the file of a part: Protolink fixes no form for it, so that the usual names of its fields are tried.
fn file(kind: &str, content: &JsonText) -> Option<A2aFile> {
    let plain = |content| A2aFile { name: None, mime_type: None, content };
    if let Some(text) = content.to_str() {
        return match kind {
            "uri" => Some(plain(A2aFileContent::Uri(text))),
            "bytes" => Some(plain(A2aFileContent::Bytes(text))),
            _ if text.contains("://") => Some(plain(A2aFileContent::Uri(text))),
            _ => None,
        };
    }
    let tree = content.tree();
    let fields = inner(&tree);
    let text = |keys: &[&str]| {
        keys.iter().find_map(|key| fields.get(key)).and_then(JsonValue::as_str).map(str::to_owned)
    };
    let bytes = content_in(fields).map(|text| A2aFileContent::Bytes(text.to_owned()));
    let content = bytes.or_else(|| text(&["uri", "url"]).map(A2aFileContent::Uri))?;
    let (name, mime_type) = (text(&["name", "filename"]), text(&MEDIA_TYPE));
    Some(A2aFile { name, mime_type, content })
}

/// Returns data as the text in which it is shown.
pub(crate) fn shown(data: &JsonText) -> String {
    DataArtifacts::text(&data.tree())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_a_part_is_what_it_holds() {
        let json = |text: &str| JsonText::parse(text).unwrap();
        let text = |text: &str| ArtifactContent::Text(text.to_owned());
        for (part, content) in [
            (Part::text("a"), text("a")),
            (Part::tool_output("c", json("[1]")), ArtifactContent::Data(json("[1]"))),
            (
                Part::tool_failure("c", json(r#"{"message":"no"}"#)),
                ArtifactContent::Data(json(r#"{"message":"no"}"#)),
            ),
            (Part::infer_output(json(r#""said""#)), text("said")),
            (Part::new("odd", json("7")), ArtifactContent::Data(json("7"))),
            (Part::new("image", json(r#""not a file""#)), text("not a file")),
        ] {
            assert_eq!(ArtifactContent::from_part(&part), content);
        }
        for (kind, content) in [
            ("file", r#"{"file":{"bytes":"aGk=","name":"a.txt","mimeType":"text/plain"}}"#),
            ("image", r#"{"data":"aGk=","filename":"a.txt","media_type":"text/plain"}"#),
        ] {
            let file = ArtifactContent::from_part(&Part::new(kind, json(content)));
            let bytes = A2aFileContent::Bytes("aGk=".to_owned());
            let (name, mime_type) = (Some("a.txt".to_owned()), Some("text/plain".to_owned()));
            assert_eq!(file, ArtifactContent::File(A2aFile { name, mime_type, content: bytes }));
        }
    }
}
