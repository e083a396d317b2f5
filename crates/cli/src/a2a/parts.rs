//! The parts of a message: texts, files with their bytes, addresses that the agent fetches, and JSON.

use std::io::Read as _;
use std::path::Path;

use proto_events::json::JsonText;
use taskreel_http::a2a::{Content, Part};

use crate::a2a::failure::Failure;
use crate::args::a2a::parts::{GivenPart, PartKind};

/// The most bytes of a file in a message. It is a third longer on the way.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// The media types by the endings of names.
const TYPES: [(&str, &str); 26] = [
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("xml", "application/xml"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("ogg", "audio/ogg"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
];

/// Returns the parts.
///
/// # Errors
/// [`Failure`] if no part was given, or one cannot be made.
pub(crate) fn build_parts(given: &[GivenPart]) -> Result<Vec<Part>, Failure> {
    if given.is_empty() {
        let hint = "give a text: taskreel a2a send -a AGENT \"hello\"; or --text, --file, --data";
        return Err(Failure::usage("the message has no part", hint));
    }
    if given.iter().filter(|part| part.kind == PartKind::Data && part.value == "-").count() > 1 {
        return Err(Failure::usage("stdin is read twice", "give `--data -` once"));
    }
    given.iter().map(build_part).collect()
}

fn build_part(given: &GivenPart) -> Result<Part, Failure> {
    let mut part = match given.kind {
        PartKind::Text => Part::text(&given.value),
        PartKind::File => file(&given.value)?,
        PartKind::Data => data(&given.value)?,
    };
    if let Some(media_type) = &given.media_type {
        part.media_type = Some(media_type.clone());
    }
    Ok(part)
}

fn file(value: &str) -> Result<Part, Failure> {
    let is_address = value.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    let name = value.split(['?', '#']).next().unwrap_or_default();
    let mut part = if is_address && !value.starts_with("file://") {
        let last = name.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
        let mut part = Part::from_content(Content::Url(value.to_owned()));
        part.filename =
            last.and_then(|path| path.rsplit('/').next()).filter(|name| !name.is_empty()).map(str::to_owned);
        part
    } else {
        let path = Path::new(value.strip_prefix("file://").unwrap_or(value));
        let mut part = Part::raw(&bytes(path)?);
        part.filename = path.file_name().map(|name| name.to_string_lossy().into_owned());
        part
    };
    let inferred = part.filename.as_deref().and_then(type_of);
    part.media_type = Some(inferred.unwrap_or("application/octet-stream").to_owned());
    Ok(part)
}

/// Returns the media type by the ending of a name.
fn type_of(name: &str) -> Option<&'static str> {
    let end = name.rsplit_once('.')?.1.to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == end).map(|(_, kind)| *kind)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |why: String| {
        Failure::usage(
            format!("the file {} cannot be sent: {why}", path.display()),
            "name a file that this user can read",
        )
    };
    let about = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if about.is_dir() {
        return Err(wrong("it is a folder".to_owned()));
    }
    if about.len() > FILE_MAX {
        return Err(
            wrong(format!("it has more than {FILE_MAX} bytes")).hint("send its address: --file https://…")
        );
    }
    std::fs::read(path).map_err(|error| wrong(error.to_string()))
}

fn data(value: &str) -> Result<Part, Failure> {
    let text = if value == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(FILE_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}"), "give JSON as UTF-8"))?;
        text
    } else {
        let path = Path::new(value);
        String::from_utf8(bytes(path)?)
            .map_err(|_| Failure::usage(format!("{} is no UTF-8", path.display()), "send it with --file"))?
    };
    let json = JsonText::parse(&text).map_err(|error| {
        let what = if value == "-" { "stdin" } else { value };
        Failure::usage(format!("{what} is no JSON: {error}"), "send a text with --text, a file with --file")
    })?;
    let mut part = Part::from_content(Content::Data(json));
    part.media_type = Some("application/json".to_owned());
    Ok(part)
}
