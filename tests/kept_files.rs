//! The files of artifacts beside the log: instead of it they are written before the event that names their digests, else copied
//! after it; what is missing or changed is a finding, and no replay needs them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::{Artifact, PostedTask};
use proto_events::task::{Task, TaskCommand};
use taskreel::files::{FileError, FileStore, LocalFileStore};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::ToolError;
use taskreel::{Error, Message, Part, Ports, System, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::artifacts::{A2aArtifact, A2aMessage, KeptFile};
use taskreel_log::audit::{
    FindingKind, Scope, Verified, for_each_kept_file, replay_all, verify, verify_within,
};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::fold_stream;

/// A file's content in base64, with its bytes.
fn content(letter: u8, bytes: usize) -> (String, Vec<u8>) {
    assert!(bytes.is_multiple_of(3));
    let four = match letter {
        b'a' => "YWFh",
        b'b' => "YmJi",
        other => panic!("{other}"),
    };
    (four.repeat(bytes / 3), vec![letter; bytes])
}

fn file(name: &str, base64: &str) -> Part {
    Part::new(
        "file",
        JsonText::from(json!({"file": {"name": name, "bytes": base64, "mimeType": "text/plain"}})),
    )
}

fn posted(id: &str, artifact: &str, parts: Vec<Part>) -> PostedTask {
    let mut posted = PostedTask::new(
        Message::new("user", vec![Part::text("hi")], &mut Ports::default()),
        &mut Ports::default(),
    );
    id.clone_into(&mut posted.id);
    let made = Artifact { id: Some(artifact.to_owned()), ..Artifact::new(parts, &mut Ports::default()) };
    posted.artifacts = vec![made];
    posted
}

/// An agent whose handler adds one artifact with a file of the content that its message names, and a piece of another.
async fn adds(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    let base64 = message.parts[0].content().to_str().unwrap();
    cx.append_artifact(vec![file("a.txt", &base64), Part::text("beside it")]).await?;
    cx.append_piece("pieces", vec![file("b.txt", &base64)], true).await?;
    Ok(HandlerEnd::Completed)
}

async fn system(log: &Arc<dyn EventStore>, files: Option<Arc<dyn FileStore>>) -> System {
    let builder = System::builder("./unused").agent("desk").store(Arc::clone(log)).handler(adds);
    let builder = files.into_iter().fold(builder, taskreel::Builder::file_store);
    builder.start().await.unwrap()
}

fn task(log: &dyn EventStore, id: &str) -> Task {
    fold_stream::<Task>(log, &StreamId::task("desk", id).unwrap(), None).unwrap().state
}

fn kept(log: &dyn EventStore) -> Vec<KeptFile> {
    let mut kept = Vec::new();
    for_each_kept_file(log, |at| kept.push(at.file.clone())).unwrap();
    kept
}

fn examined(log: &dyn EventStore, files: &LocalFileStore) -> Verified {
    verify_within(log, &Scope { files: Some(files), ..Scope::default() }, &mut |_| {})
}

#[tokio::test]
async fn a_file_stands_in_the_store_and_its_digest_in_the_log() {
    let (log, folder) = (Arc::new(MemoryStore::new()) as Arc<dyn EventStore>, tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(folder.path()).unwrap().instead_of_log();
    let system = system(&log, Some(Arc::new(store.clone()))).await;
    let (base64, bytes) = content(b'a', 6_000_000);
    let post =
        posted("t", "big", vec![file("big.txt", &base64), file("big.txt", &base64), file("small", "YWFh")]);
    let handle = system.submit(post.clone()).await.unwrap();
    handle.finished().await.unwrap();
    // Posted again it is the same task.
    system.submit(post).await.unwrap();
    system.shutdown().await.unwrap();

    let log = Arc::new(log.reopen().unwrap());
    let log: &dyn EventStore = &**log;
    let refers = kept(log);
    assert_eq!(refers.len(), 2);
    assert_eq!((refers[0].size, refers[0].name.as_deref()), (6_000_000, Some("big.txt")));
    let path = store.kept_file("t", "big", &refers[0]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(
        store.get_artifact("t", "big").unwrap(),
        std::slice::from_ref(&path),
        "the same content is one file"
    );
    let parts = task(log, "t").artifacts().iter().next().unwrap().parts.clone();
    assert!(parts[2].content().as_str().contains("YWFh"), "a small file stays in the log");
    assert!(examined(log, &store).is_sound());
    assert!(verify(log).is_sound());
    assert!(
        verify(log).unchecked.iter().any(|what| what.contains("refer 2 times")),
        "{:?}",
        verify(log).unchecked
    );

    fs::write(&path, vec![b'b'; bytes.len()]).unwrap();
    let changed = examined(log, &store);
    assert_eq!(changed.findings.len(), 2);
    assert_eq!(changed.findings[0].kind, FindingKind::File);
    assert!(changed.findings[0].what.contains("has another content"), "{:?}", changed.findings[0]);
    fs::remove_file(&path).unwrap();
    let missing = examined(log, &store);
    assert!(
        missing.findings.iter().all(|finding| finding.what.contains("is missing")),
        "{:?}",
        missing.findings
    );
    assert_eq!(missing.findings[0].stream, Some(StreamId::task("desk", "t").unwrap()));
    assert!(replay_all(log).unwrap().mismatch.is_none() && verify(log).is_sound(), "replay needs no file");
}

/// The times at which a store was told of files: whether the task's artifact was in the log then.
#[derive(Default)]
struct Watching {
    log: Mutex<Option<Arc<dyn EventStore>>>,
    in_log: Mutex<Vec<bool>>,
    fails: bool,
    instead: bool,
}

impl FileStore for Watching {
    fn is_instead_of_log(&self) -> bool {
        self.instead
    }

    fn save_artifact(&self, task_id: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError> {
        let log = self.log.lock().unwrap().clone().unwrap();
        let known = task(&*log, task_id);
        let is_in =
            known.artifacts().iter().any(|known| known.id.as_deref() == Some(artifact.artifact_id.as_str()));
        self.in_log.lock().unwrap().push(is_in);
        if self.fails { Err(FileError::NameTaken { path: PathBuf::from("full") }) } else { Ok(Vec::new()) }
    }

    fn get_artifact(&self, _: &str, _: &str) -> Result<Vec<PathBuf>, FileError> {
        Ok(Vec::new())
    }

    fn delete_artifact(&self, _: &str, _: &str) -> Result<(), FileError> {
        Ok(())
    }

    fn save_message(&self, _: &A2aMessage) -> Result<Vec<PathBuf>, FileError> {
        Ok(Vec::new())
    }

    fn get_message(&self, _: &str) -> Result<Vec<PathBuf>, FileError> {
        Ok(Vec::new())
    }

    fn delete_message(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }
}

/// Sends files in all ways: by a handler as a whole and in pieces, in a posted task, and by a command.
async fn all_ways(instead: bool, fails: bool) -> (Vec<bool>, Arc<dyn EventStore>, Vec<Result<(), String>>) {
    let log = Arc::new(MemoryStore::new()) as Arc<dyn EventStore>;
    let files = Arc::new(Watching { fails, instead, ..Watching::default() });
    *files.log.lock().unwrap() = Some(Arc::clone(&log));
    let system = system(&log, Some(files.clone())).await;
    let (base64, _) = content(b'a', 6_000);
    let said = |error: &Error| error.to_string();
    let by_handler = system.submit(Part::text(base64.as_str())).await.unwrap().finished().await.unwrap();
    let by_handler = match by_handler.state() {
        TaskState::Completed => Ok(()),
        _ => Err(by_handler.task().error().unwrap_or_default()),
    };
    let by_post = system.submit(posted("t", "art", vec![file("a", &base64)])).await;
    let by_post = by_post.map(drop).map_err(|error| said(&error));
    let handle = system.submit(posted("open", "small", vec![file("a", "YWFh")])).await;
    let by_command = match handle {
        Err(error) => Err(said(&error)),
        Ok(handle) => {
            let artifact = Artifact {
                id: Some("c".to_owned()),
                ..Artifact::new(vec![file("a", &base64)], &mut Ports::default())
            };
            let command = TaskCommand::AppendArtifact { artifact, part: None };
            handle.command(command).await.map(drop).map_err(|error| said(&error))
        }
    };
    system.shutdown().await.unwrap();
    let in_log = files.in_log.lock().unwrap().clone();
    (in_log, log, vec![by_handler, by_post, by_command])
}

#[tokio::test]
async fn instead_of_the_log_each_file_is_written_before_its_event_and_else_after_it() {
    let (in_log, log, ends) = all_ways(true, false).await;
    assert_eq!(in_log, [false; 4], "a handler's two, a post's and a command's");
    assert!(ends.iter().take(2).all(Result::is_ok), "{ends:?}");
    assert!(kept(&*log.reopen().unwrap()).len() >= 3);
    let (in_log, log, ends) = all_ways(false, false).await;
    assert!(in_log.len() >= 4 && in_log.iter().all(|is_in| *is_in), "{in_log:?}");
    assert!(ends.iter().take(2).all(Result::is_ok), "{ends:?}");
    assert!(kept(&*log.reopen().unwrap()).is_empty());
}

#[tokio::test]
async fn a_file_that_cannot_be_written_keeps_its_artifact_out_of_the_log_and_a_failed_copy_changes_nothing() {
    let (_, log, ends) = all_ways(true, true).await;
    for end in &ends {
        let why = end.as_ref().unwrap_err();
        assert!(why.contains("was not recorded") && why.contains("is taken"), "{why}");
    }
    let log = log.reopen().unwrap();
    assert!(kept(&*log).is_empty());
    assert!(!task(&*log, "t").exists(), "nothing of the post is there");
    let (_, log, ends) = all_ways(false, true).await;
    assert!(ends.iter().take(2).all(Result::is_ok), "{ends:?}");
    let kept = task(&*log.reopen().unwrap(), "t");
    assert!(kept.artifacts().iter().any(|artifact| artifact.id.as_deref() == Some("art")));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn hostile_names_and_contents_leave_nothing_outside_the_store_and_ids_that_are_paths_are_refused() {
    let (log, folder) = (Arc::new(MemoryStore::new()) as Arc<dyn EventStore>, tempfile::tempdir().unwrap());
    let root = folder.path().join("a/b/store");
    let store = LocalFileStore::new(&root).unwrap().instead_of_log();
    let system = system(&log, Some(Arc::new(store.clone()))).await;
    let (base64, _) = content(b'b', 6_000);
    let names = ["../../../x", "/etc/passwd", "..", "a\0b", ".hidden"];
    let parts = names.map(|name| file(name, &base64)).to_vec();
    system.submit(posted("t", "art", parts)).await.unwrap().finished().await.unwrap();
    for (id, artifact, parts) in
        [("t2", "../art", vec![file("a", &base64)]), ("t3", "art", vec![file("a", &format!("{base64}Y"))])]
    {
        let refused = system.submit(posted(id, artifact, parts)).await.unwrap_err();
        assert!(matches!(refused, Error::FileNotKept { .. }), "{refused}");
    }
    system.shutdown().await.unwrap();
    let log = log.reopen().unwrap();
    assert!(examined(&*log, &store).is_sound());
    let below = files_below(folder.path());
    let root = root.canonicalize().unwrap();
    assert!(below.iter().all(|path| path.canonicalize().unwrap().starts_with(&root)), "{below:?}");
    assert!(!task(&*log, "t2").exists() && !task(&*log, "t3").exists());
}
