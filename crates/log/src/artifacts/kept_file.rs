//! Files that stand beside the log: the part of an artifact that holds a file's digest and size in the place of its content.

use proto_events::codec::AnyEvent;
use proto_events::id::{Position, StreamId, Version};
use proto_events::json::{JsonObject, JsonText, JsonValue};
use proto_events::model::{Artifact, Part};
use proto_events::task::TaskEvent;

/// The field of a part that holds digest and size.
const KEPT_FILE: &str = "kept_file";

/// The kinds of parts that hold a file.
const FILE_KINDS: [&str; 6] = ["file", "bytes", "uri", "image", "audio", "video"];

/// The fields of a part that may hold its media type.
pub(crate) const MEDIA_TYPE: [&str; 4] = ["mimeType", "mime_type", "media_type", "mediaType"];

/// The fields of a part that may hold a file's content in base64.
const CONTENT: [&str; 4] = ["bytes", "data", "base64", "raw"];

/// A file that stands in a store beside the log. The log holds the digest of its content and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// The SHA-256 of the content, in 64 hexadecimal digits.
    pub sha256: String,
    /// The bytes of the content.
    pub size: u64,
    /// The name that the part gave the file.
    pub name: Option<String>,
    /// The media type that the part gave the file.
    pub mime_type: Option<String>,
}

impl KeptFile {
    /// Returns the file that a part refers to, if it is such a part: one of a kind that holds files, without a content of its
    /// own.
    pub fn from_part(part: &Part) -> Option<Self> {
        // Most parts do not refer to one, and are not read for it.
        if !is_file_part(part) || !part.content().as_str().contains(KEPT_FILE) {
            return None;
        }
        let tree = part.content().tree();
        let fields = inner(&tree);
        if content_in(fields).is_some() {
            return None;
        }
        let kept = fields.get(KEPT_FILE)?;
        let sha256 = kept.get("sha256").and_then(JsonValue::as_str).filter(|digest| is_digest(digest))?;
        let text = |keys: &[&str]| {
            keys.iter().find_map(|key| fields.get(key)).and_then(JsonValue::as_str).map(str::to_owned)
        };
        Some(Self {
            sha256: sha256.to_owned(),
            size: kept.get("size").and_then(JsonValue::as_u64)?,
            name: text(&["name", "filename"]),
            mime_type: text(&MEDIA_TYPE),
        })
    }

    /// Returns a part with this file in the place of the content that it holds; all else of the part stays. `None` if it would
    /// not be read as this file then, since it has a second content.
    pub fn in_place_of_content(&self, part: &Part) -> Option<Part> {
        let mut kept = JsonObject::new();
        kept.set("sha256", JsonText::string(&self.sha256));
        kept.set("size", JsonText::of_model(&self.size));
        let replace = |fields: &mut JsonObject| {
            if let Some(key) = CONTENT.into_iter().find(|key| fields.get(key).is_some()) {
                fields.remove(key);
            }
            fields.set(KEPT_FILE, kept.to_text());
        };
        // A part that is a text alone has no other fields.
        let mut content: JsonObject = part.content().read().unwrap_or_default();
        match content.get("file").and_then(|file| file.read::<JsonObject>().ok()) {
            Some(mut file) => {
                replace(&mut file);
                content.set("file", file.to_text());
            }
            None => replace(&mut content),
        }
        let kept = Part::new(part.kind(), content.to_text());
        (Self::from_part(&kept).as_ref() == Some(self)).then_some(kept)
    }
}

/// Whether a part is of a kind that holds a file.
pub fn is_file_part(part: &Part) -> bool {
    FILE_KINDS.contains(&part.kind())
}

/// Returns the content in base64 that a file's fields hold: the first field of those names, if it is a text.
pub(crate) fn content_in(fields: &JsonValue) -> Option<&str> {
    CONTENT.into_iter().find_map(|key| fields.get(key)).and_then(JsonValue::as_str)
}

/// Returns the object that holds a file's fields: some forms have it within the part's own.
pub(crate) fn inner(tree: &JsonValue) -> &JsonValue {
    tree.get("file").filter(|inner| inner.is_object()).unwrap_or(tree)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A file beside the log, and the place in the log that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFileAt {
    /// The task's stream.
    pub stream: StreamId,
    /// The version of the event that refers to it.
    pub version: Version,
    /// The position of that event.
    pub position: Position,
    /// The artifact's id; empty if it has none.
    pub artifact_id: String,
    /// The number of the part among the parts of the event's artifact, from 1.
    pub part: usize,
    /// The file.
    pub file: KeptFile,
}

/// A place where files stand beside a log, as an auditor sees it.
pub trait KeptFiles: std::fmt::Debug {
    /// Returns what is wrong with a file; nothing if it is there and has the digest that the log holds.
    fn fault(&self, kept: &KeptFileAt) -> Option<String>;
}

/// Whether the body of an event may refer to a file beside the log: a look at its bytes, which most events end with.
pub(crate) fn may_refer(body: &[u8]) -> bool {
    let word = KEPT_FILE.as_bytes();
    let mut rest = body;
    while let Some(at) = rest.iter().position(|byte| *byte == b'k') {
        rest = rest.get(at..).unwrap_or_default();
        if rest.starts_with(word) {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// Shows the files beside the log to which the artifacts of an event refer, each with its artifact's id and the number of the part.
pub(crate) fn for_each_in(event: &AnyEvent, mut show: impl FnMut(&str, usize, KeptFile)) {
    let mut of = |artifact: &Artifact| {
        for (number, part) in (1..).zip(&artifact.parts) {
            if let Some(file) = KeptFile::from_part(part) {
                show(artifact.id.as_deref().unwrap_or_default(), number, file);
            }
        }
    };
    match event {
        AnyEvent::Task(TaskEvent::Submitted(posted)) => posted.artifacts.iter().for_each(of),
        AnyEvent::Task(
            TaskEvent::ArtifactAppended { artifact, .. } | TaskEvent::ArtifactPartAppended { artifact, .. },
        ) => of(artifact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> KeptFile {
        KeptFile { sha256: "ab".repeat(32), size: 7, name: Some("a.txt".to_owned()), mime_type: None }
    }

    #[test]
    fn a_part_refers_to_the_file_and_keeps_all_else() {
        let json = |text: &str| JsonText::parse(text).unwrap();
        for (content, left) in [
            (r#"{"file":{"name":"a.txt","bytes":"aGk="},"x":1}"#, r#""x":1"#),
            (r#"{"data":"aGk=","filename":"a.txt","y":2}"#, r#""y":2"#),
        ] {
            let part = kept().in_place_of_content(&Part::new("file", json(content))).unwrap();
            assert_eq!(KeptFile::from_part(&part), Some(kept()), "{}", part.content().as_str());
            let text = part.content().as_str();
            assert!(!text.contains("aGk=") && text.contains(left), "{text}");
        }
        let bare = KeptFile { name: None, ..kept() };
        let part = bare.in_place_of_content(&Part::new("bytes", json(r#""aGk=""#))).unwrap();
        assert_eq!(KeptFile::from_part(&part), Some(bare));
    }

    #[test]
    fn of_several_contents_the_one_that_is_read_is_replaced_or_none() {
        let json = |text: &str| JsonText::parse(text).unwrap();
        // What stands beside the content and is not a text is kept.
        let part = Part::new("file", json(r#"{"name":"a.txt","bytes":"aGk=","data":{"rows":[1]}}"#));
        let replaced = kept().in_place_of_content(&part).unwrap();
        assert!(replaced.content().as_str().contains(r#""data":{"rows":[1]}"#), "{replaced:?}");
        let two = Part::new("file", json(r#"{"name":"a.txt","bytes":"aGk=","base64":"YWFh"}"#));
        assert_eq!(kept().in_place_of_content(&two), None, "the second content would be read as the file");
    }

    #[test]
    fn a_reference_beside_a_content_or_in_a_part_that_is_no_file_is_none() {
        let digest = "ab".repeat(32);
        let reference = format!(r#""kept_file":{{"sha256":"{digest}","size":1}}"#);
        let part = |kind: &str, fields: &str| {
            Part::new(kind, JsonText::parse(&format!("{{{fields}{reference}}}")).unwrap())
        };
        assert!(KeptFile::from_part(&part("file", "")).is_some());
        assert!(KeptFile::from_part(&part("image", r#""uri":"https://example.com/x","#)).is_some());
        for (kind, fields) in [
            ("file", r#""bytes":"aGk=","#),
            ("file", r#""data":"","#),
            ("tool_output", ""),
            ("text", ""),
            ("data", ""),
        ] {
            assert_eq!(KeptFile::from_part(&part(kind, fields)), None, "{kind} {fields}");
        }
    }

    #[test]
    fn what_is_no_digest_or_size_is_no_kept_file() {
        let digest = "ab".repeat(32);
        for wrong in [
            r#"{"kept_file":1}"#.to_owned(),
            r#"{"kept_file":{"sha256":"ab","size":1}}"#.to_owned(),
            format!(r#"{{"kept_file":{{"sha256":"{digest}","size":-1}}}}"#),
            format!(r#"{{"kept_file":{{"sha256":"{}","size":1}}}}"#, digest.to_uppercase()),
            format!(r#"["kept_file",{{"sha256":"{digest}","size":1}}]"#),
            r#""kept_file""#.to_owned(),
        ] {
            assert_eq!(
                KeptFile::from_part(&Part::new("file", JsonText::parse(&wrong).unwrap())),
                None,
                "{wrong}"
            );
        }
    }
}
