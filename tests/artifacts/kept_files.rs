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

use crate::kept_files_support::{adding, content, examined, file, files_below, kept, posted, system, task};
use proto_events::id::StreamId;
use proto_events::task::TaskCommand;
use taskreel::files::{FileError, FileStore, LocalFileStore};
use taskreel::{Error, Part, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::artifacts::{A2aArtifact, A2aMessage};
use taskreel_log::audit::{FindingKind, replay_all, verify};
use taskreel_log::memory::MemoryStore;

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

/// A store in a folder that notes, each time it is told of files, whether the task's artifact was in the log then.
struct Watching {
    log: Arc<dyn EventStore>,
    in_log: Mutex<Vec<bool>>,
    fails: bool,
    store: LocalFileStore,
}

impl FileStore for Watching {
    fn is_instead_of_log(&self) -> bool {
        self.store.is_instead_of_log()
    }

    fn save_artifact(&self, task_id: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError> {
        let known = task(&*self.log, task_id);
        let mut of_id = known
            .artifacts()
            .iter()
            .filter(|known| known.id.as_deref() == Some(artifact.artifact_id.as_str()));
        let is_in = of_id.any(|known| known.parts.len() >= artifact.parts.len());
        self.in_log.lock().unwrap().push(is_in);
        if self.fails {
            return Err(FileError::NameTaken { path: PathBuf::from("full") });
        }
        self.store.save_artifact(task_id, artifact)
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

/// The files that were sent in all ways, and what became of them.
struct Sent {
    in_log: Vec<bool>,
    log: Arc<dyn EventStore>,
    store: LocalFileStore,
    _folder: tempfile::TempDir,
    /// The end of a handler, of a post, of an artifact by command and of two pieces by commands.
    ends: Vec<Result<(), String>>,
}

/// Sends files in all ways: by a handler as a whole and in pieces, in a posted task, and by commands.
async fn all_ways(instead: bool, fails: bool) -> Sent {
    let log = Arc::new(MemoryStore::new()) as Arc<dyn EventStore>;
    let folder = tempfile::tempdir().unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap();
    let store = if instead { store.instead_of_log() } else { store };
    let watching = Watching { log: Arc::clone(&log), in_log: Mutex::default(), fails, store: store.clone() };
    let files = Arc::new(watching);
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
    let handle = system.submit(posted("open", "none", vec![Part::text("no file")])).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().state(), TaskState::InputRequired);
    let parts = vec![file("a", &base64)];
    let by_command =
        handle.command(TaskCommand::AppendArtifact { artifact: adding("c", &parts), part: None });
    let by_command = by_command.await.map(drop).map_err(|error| said(&error));
    let mut by_pieces = Ok(());
    for is_last in [false, true] {
        let piece = TaskCommand::AppendArtifactPart { artifact: adding("p", &parts), is_last };
        by_pieces = by_pieces.and(handle.command(piece).await.map(drop).map_err(|error| said(&error)));
    }
    system.shutdown().await.unwrap();
    let in_log = files.in_log.lock().unwrap().clone();
    let log = log.reopen().unwrap();
    Sent { in_log, log, store, _folder: folder, ends: vec![by_handler, by_post, by_command, by_pieces] }
}

#[tokio::test]
async fn instead_of_the_log_each_file_is_written_before_its_event_and_else_after_it() {
    let sent = all_ways(true, false).await;
    assert_eq!(sent.ends, [const { Ok(()) }; 4]);
    // Of the second piece the artifact is in the log, and not its part.
    assert_eq!(sent.in_log.len(), 6, "a handler's two, a post's, a command's and those of two pieces");
    assert_eq!(sent.in_log[..5], [false; 5]);
    assert_eq!(kept(&*sent.log).len(), 6);
    assert!(examined(&*sent.log, &sent.store).is_sound());
    let sent = all_ways(false, false).await;
    assert_eq!(sent.ends, [const { Ok(()) }; 4]);
    assert_eq!(sent.in_log, [true; 6]);
    assert!(kept(&*sent.log).is_empty());
    assert_eq!(sent.store.get_artifact("open", "p").unwrap().len(), 1);
    assert!(verify(&*sent.log).is_sound());
}

#[tokio::test]
async fn a_file_that_cannot_be_written_keeps_its_artifact_out_of_the_log_and_a_failed_copy_changes_nothing() {
    let sent = all_ways(true, true).await;
    for end in &sent.ends {
        let why = end.as_ref().unwrap_err();
        assert!(why.contains("was not recorded") && why.contains("is taken"), "{why}");
    }
    assert!(kept(&*sent.log).is_empty());
    assert!(!task(&*sent.log, "t").exists(), "nothing of the post is there");
    assert_eq!(task(&*sent.log, "open").artifacts().iter().count(), 1, "nothing of the commands is there");
    let sent = all_ways(false, true).await;
    assert_eq!(sent.ends, [const { Ok(()) }; 4]);
    let kept = task(&*sent.log, "t");
    assert!(kept.artifacts().iter().any(|artifact| artifact.id.as_deref() == Some("art")));
    let pieces = task(&*sent.log, "open");
    assert!(pieces.artifacts().iter().any(|artifact| artifact.parts.len() == 2));
}

#[tokio::test]
async fn hostile_names_and_contents_leave_nothing_outside_the_store_and_ids_that_are_paths_are_refused() {
    let (log, folder) = (Arc::new(MemoryStore::new()) as Arc<dyn EventStore>, tempfile::tempdir().unwrap());
    let root = folder.path().join("a/b/store");
    let store = LocalFileStore::new(&root).unwrap().instead_of_log();
    let system = system(&log, Some(Arc::new(store.clone()))).await;
    let (base64, _) = content(b'b', 6_000);
    let up = "../".repeat(12);
    let names = [&format!("{up}x"), "/etc/passwd", "..", "a\0b", ".hidden", &format!("{up}tmp/..\u{1}./y")];
    let parts = names.map(|name| file(name, &base64)).to_vec();
    system.submit(posted("t", "art", parts)).await.unwrap().finished().await.unwrap();
    for (id, artifact) in [("t2", "../art"), ("..", "art"), ("a/b", "art")] {
        let refused = system.submit(posted(id, artifact, vec![file("a", &base64)])).await.unwrap_err();
        assert!(matches!(refused, Error::FileNotKept { .. }), "{refused}");
    }
    system.shutdown().await.unwrap();
    let log = log.reopen().unwrap();
    assert!(examined(&*log, &store).is_sound());
    let below: Vec<PathBuf> = files_below(folder.path());
    let mut names: Vec<&Path> =
        below.iter().map(|path| path.strip_prefix(root.join("artifacts/t/art")).unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ab", "file_2", "hidden", "passwd", "x", "y"].map(Path::new));
    for id in ["t2", "..", "a/b"] {
        assert!(!task(&*log, id).exists(), "{id}");
    }
}
