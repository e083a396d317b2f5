//! Parts.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model;

use crate::a2a::mapping::notes::{Notes, restored, shown};
use crate::a2a::mapping::numbers::{is_kept, whole};
use crate::a2a::model::{Content, Part};
use crate::a2a::wire::read::is_base64;

/// The kinds whose content is a file: a `raw` or a `url` and what describes it.
const FILES: [&str; 6] = ["bytes", "uri", "file", "image", "audio", "video"];

/// The member by which Protolink 0.8.3 names the kind of a part in A2A.
const PROTOLINKS: &str = "protolinkPartType";

/// The members of a part of A2A that ours has no place for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Beside {
    pub(crate) metadata: JsonObject,
    pub(crate) filename: Option<String>,
    pub(crate) media_type: Option<String>,
}

impl Beside {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns our part as A2A's, with what a part of A2A had beside ours.
pub(crate) fn to_a2a(part: &model::Part, beside: Beside) -> Part {
    let mut made = plain(part);
    let Beside { metadata, filename, media_type } = beside;
    for (key, value) in metadata.iter() {
        made.metadata.set(key, value.clone());
    }
    made.filename = made.filename.or(filename);
    made.media_type = made.media_type.or(media_type);
    made
}

fn plain(part: &model::Part) -> Part {
    let (kind, content) = (part.kind(), part.content());
    if let Some(file) = file(kind, content) {
        return file;
    }
    let text = matches!(kind, "text" | "infer_output").then(|| content.to_str()).flatten();
    let mut notes = Notes::default();
    let usual = if text.is_some() { "text" } else { "json" };
    if kind != usual {
        notes.set_text("type", kind);
    }
    let content = text.map_or_else(
        || {
            if !is_kept(content) {
                notes.set_json("json", content);
            }
            Content::Data(content.clone())
        },
        Content::Text,
    );
    let mut made = Part::from_content(content);
    notes.write_to(&mut made.metadata);
    made
}

/// Returns a part whose content is a file; `None` if it has not that shape.
fn file(kind: &str, content: &JsonText) -> Option<Part> {
    if !FILES.contains(&kind) || !content.is_object() {
        return None;
    }
    let mut rest: JsonObject = content.read().ok()?;
    let mut text = |key: &str| {
        let text = rest.get(key)?.to_str()?;
        rest.remove(key);
        Some(text)
    };
    let (usual, place) = match (text("raw"), text("url")) {
        (Some(raw), None) if is_base64(&raw) => ("bytes", Content::Raw(raw)),
        (None, Some(url)) => ("uri", Content::Url(url)),
        _ => return None,
    };
    let named = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (filename, media_type) = (text("filename"), text("mediaType"));
    if [&filename, &media_type].iter().any(|text| text.as_deref() == Some("")) {
        return None;
    }
    let own: Option<JsonObject> = rest.get("metadata").and_then(|own| own.read().ok());
    let own = own.filter(|own| !own.is_empty());
    let mut notes = Notes::default();
    let metadata = own.map(|own| {
        rest.remove("metadata");
        shown(&own, &mut notes)
    });
    if kind != usual {
        notes.set_text("type", kind);
    }
    if !rest.is_empty() {
        notes.set_json("content", &rest.to_text());
    }
    let mut made =
        Part { filename: named(filename), media_type: named(media_type), ..Part::from_content(place) };
    made.metadata = metadata.unwrap_or_default();
    notes.write_to(&mut made.metadata);
    Some(made)
}

/// Returns A2A's part as ours, and what it has beside.
pub(crate) fn to_ours(part: Part) -> (model::Part, Beside) {
    let Part { content, mut metadata, filename, media_type } = part;
    let notes = Notes::extract(&mut metadata);
    let theirs = metadata.get(PROTOLINKS).and_then(JsonText::to_str);
    let kind = notes.text("type").or(theirs);
    let kind_or = |usual: &str| kind.clone().unwrap_or_else(|| usual.to_owned());
    match content {
        Content::Text(text) => {
            let part = model::Part::new(kind_or("text"), JsonText::string(&text));
            (part, Beside { metadata, filename, media_type })
        }
        Content::Data(data) => {
            let content = notes.json("json").unwrap_or_else(|| whole(&data));
            (model::Part::new(kind_or("json"), content), Beside { metadata, filename, media_type })
        }
        Content::Raw(raw) => {
            let file = of_file("raw", &raw, &notes, (metadata, filename, media_type));
            (model::Part::new(kind_or("bytes"), file), Beside::default())
        }
        Content::Url(url) => {
            let file = of_file("url", &url, &notes, (metadata, filename, media_type));
            (model::Part::new(kind_or("uri"), file), Beside::default())
        }
    }
}

/// Returns the content of a part whose content is a file.
fn of_file(
    key: &str,
    place: &str,
    notes: &Notes,
    (metadata, filename, media_type): (JsonObject, Option<String>, Option<String>),
) -> JsonText {
    let mut file = JsonObject::new();
    file.set(key, JsonText::string(place));
    for (key, text) in [("filename", filename), ("mediaType", media_type)] {
        if let Some(text) = text {
            file.set(key, JsonText::string(&text));
        }
    }
    let own = restored(&metadata, notes);
    if !own.is_empty() {
        file.set("metadata", own.to_text());
    }
    if let Some(rest) = notes.object("content") {
        file.merge(&rest);
    }
    file.to_text()
}
