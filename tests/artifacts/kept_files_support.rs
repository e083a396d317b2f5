//! Tasks with files, an agent that adds some, and looks at what the log and a store hold of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]
#![allow(dead_code, reason = "each test that uses it needs a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::{Artifact, PostedTask};
use proto_events::task::Task;
use taskreel::files::{FileStore, LocalFileStore};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::ToolError;
use taskreel::{Message, Part, Ports, System};
use taskreel_log::api::EventStore;
use taskreel_log::artifacts::KeptFile;
use taskreel_log::audit::{Scope, VerifyReport, for_each_kept_file, verify_within};
use taskreel_log::read::fold_stream;

/// A file's content in base64, with its bytes.
pub(crate) fn content(letter: u8, bytes: usize) -> (String, Vec<u8>) {
    assert!(bytes.is_multiple_of(3));
    let four = match letter {
        b'a' => "YWFh",
        b'b' => "YmJi",
        other => panic!("{other}"),
    };
    (four.repeat(bytes / 3), vec![letter; bytes])
}

pub(crate) fn file(name: &str, base64: &str) -> Part {
    Part::new(
        "file",
        JsonText::from(json!({"file": {"name": name, "bytes": base64, "mimeType": "text/plain"}})),
    )
}

pub(crate) fn posted(id: &str, artifact: &str, parts: Vec<Part>) -> PostedTask {
    let mut posted = PostedTask::new(
        Message::new("user", vec![Part::text("hi")], &mut Ports::default()),
        &mut Ports::default(),
    );
    id.clone_into(&mut posted.id);
    let made = Artifact { id: Some(artifact.to_owned()), ..Artifact::new(parts, &mut Ports::default()) };
    posted.artifacts = vec![made];
    posted
}

/// Returns an artifact for a command.
pub(crate) fn adding(id: &str, parts: &[Part]) -> Artifact {
    Artifact { id: Some(id.to_owned()), ..Artifact::new(parts.to_vec(), &mut Ports::default()) }
}

/// An agent whose handler adds one artifact with a file of the content that its message names, and a piece of another. It
/// answers `hi` with a question, and adds the JSON of a part as it is.
pub(crate) async fn adds(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    let base64 = message.parts[0].content().to_str().unwrap();
    if base64 == "hi" {
        return Ok(HandlerEnd::InputRequired("more?".into()));
    }
    if base64.starts_with('{') {
        cx.append_artifact(vec![Part::new("file", JsonText::parse(&base64).unwrap())]).await?;
        return Ok(HandlerEnd::Completed);
    }
    cx.append_artifact(vec![file("a.txt", &base64), Part::text("beside it")]).await?;
    cx.append_piece("pieces", vec![file("b.txt", &base64)], true).await?;
    Ok(HandlerEnd::Completed)
}

pub(crate) async fn system(log: &Arc<dyn EventStore>, files: Option<Arc<dyn FileStore>>) -> System {
    let builder = System::builder("./unused").name("desk").store(Arc::clone(log)).handler(adds);
    let builder = files.into_iter().fold(builder, taskreel::Builder::file_store);
    builder.start().await.unwrap()
}

pub(crate) fn task(log: &dyn EventStore, id: &str) -> Task {
    fold_stream::<Task>(log, &StreamId::task("desk", id).unwrap(), None).unwrap().state
}

pub(crate) fn kept(log: &dyn EventStore) -> Vec<KeptFile> {
    let mut kept = Vec::new();
    for_each_kept_file(log, |at| kept.push(at.file.clone())).unwrap();
    kept
}

pub(crate) fn examined(log: &dyn EventStore, files: &LocalFileStore) -> VerifyReport {
    verify_within(log, &Scope { files: Some(files), ..Scope::default() }, &mut |_| {})
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}
