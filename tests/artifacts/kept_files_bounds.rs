//! A file store that hangs, fails or is full keeps nobody else from working, and nothing is written for what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::kept_files_support::{adding, adds, content, file, files_below, kept, posted, system, task};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::limits::{PARTS_MAX, PAYLOAD_BYTES_MAX};
use proto_events::task::{TaskCommand, TaskRejection};
use taskreel::files::{FileError, FileStore, LocalFileStore};
use taskreel::limits::{FILE_STORE_OPERATIONS, FILE_STORE_WITHIN};
use taskreel::{Error, Part, Ports, System, Timestamp};
use taskreel_log::api::EventStore;
use taskreel_log::artifacts::{A2aArtifact, A2aMessage, A2aPart};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Sleep, SystemClock};

/// A store that does what its function does when it is to save.
struct Saving<F> {
    instead: bool,
    save: F,
}

impl<F: Fn(&A2aArtifact) -> Result<Vec<PathBuf>, FileError> + Send + Sync> FileStore for Saving<F> {
    fn is_instead_of_log(&self) -> bool {
        self.instead
    }

    fn save_artifact(&self, _: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError> {
        (self.save)(artifact)
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

/// A clock on which the longest wait for a file store is short.
struct Impatient;

impl Clock for Impatient {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        SystemClock.sleep(if time == FILE_STORE_WITHIN { Duration::from_millis(200) } else { time })
    }
}

fn memory() -> Arc<dyn EventStore> {
    Arc::new(MemoryStore::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_hangs_takes_a_few_threads_and_refuses_or_leaves_in_the_log_what_needs_it() {
    for instead in [true, false] {
        let (log, entered) = (memory(), Arc::new(AtomicUsize::new(0)));
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let (count, until) = (Arc::clone(&entered), Arc::clone(&over));
        let save = move |_: &A2aArtifact| {
            count.fetch_add(1, Ordering::SeqCst);
            // Not for ever, so that a test that fails ends.
            let wait =
                until.1.wait_timeout_while(until.0.lock().unwrap(), Duration::from_secs(20), |is_over| {
                    !*is_over
                });
            drop(wait.unwrap());
            Ok(Vec::new())
        };
        let ports = Ports { clock: Arc::new(Impatient), ..Ports::default() };
        let builder = System::builder("./unused").name("desk").store(Arc::clone(&log)).ports(ports);
        let builder = builder.handler(adds).file_store(Arc::new(Saving { instead, save }));
        let system = builder.start().await.unwrap();
        let (base64, _) = content(b'a', 6_000);
        let submitted = (0..3 * FILE_STORE_OPERATIONS).map(|number| {
            let post = posted(&format!("t{number}"), "art", vec![file("a", &base64)]);
            let system = system.clone();
            tokio::spawn(async move { system.submit(post).await.map(drop) })
        });
        for ended in futures_util::future::join_all(submitted).await {
            match ended.unwrap() {
                Ok(()) => assert!(!instead),
                Err(Error::FileNotKept { why, .. }) => {
                    assert!(instead && why.contains("did not answer within 60 s"), "{why}");
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(entered.load(Ordering::SeqCst), FILE_STORE_OPERATIONS);
        // What needs no file goes on.
        let other = system.submit(Part::text("hi")).await.unwrap().finished().await.unwrap();
        assert!(other.version().0 > 0);
        *over.0.lock().unwrap() = true;
        over.1.notify_all();
        system.shutdown().await.unwrap();
        let log = log.reopen().unwrap();
        assert_eq!(task(&*log, "t0").exists(), !instead);
        assert!(kept(&*log).is_empty());
    }
}

#[tokio::test]
async fn one_bad_file_does_not_keep_the_others_from_being_copied() {
    let (log, saved) = (memory(), Arc::new(Mutex::new(Vec::new())));
    let notes = Arc::clone(&saved);
    let save = move |artifact: &A2aArtifact| {
        let files = artifact.parts.iter().enumerate().filter_map(|(index, part)| match part {
            A2aPart::File(file) => Some((index, file.name.clone().unwrap_or_default())),
            _ => None,
        });
        for (index, name) in files {
            if name == "refused" {
                return Err(FileError::NameTaken { path: PathBuf::from(name) });
            }
            notes.lock().unwrap().push((index, name));
        }
        Ok(Vec::new())
    };
    let system = system(&log, Some(Arc::new(Saving { instead: false, save }))).await;
    let parts = vec![
        file("refused", "YWFh"),
        file("no base64", "a"),
        Part::text("x"),
        file("one", "YWFh"),
        file("accents", "YWFé"),
        file("two", "YWFh"),
    ];
    system.submit(posted("t", "art", parts)).await.unwrap();
    system.shutdown().await.unwrap();
    assert_eq!(*saved.lock().unwrap(), [(3, "one".to_owned()), (5, "two".to_owned())]);
}

#[tokio::test]
async fn nothing_is_written_for_a_post_that_is_refused_and_by_a_system_that_has_stopped() {
    let (log, folder) = (memory(), tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(folder.path()).unwrap().instead_of_log();
    let system = system(&log, Some(Arc::new(store.clone()))).await;
    let (base64, _) = content(b'a', 6_000);
    let mut large = posted("large", "art", vec![file("a", &base64)]);
    large.messages[0].parts.push(Part::text("x".repeat(PAYLOAD_BYTES_MAX)));
    assert!(matches!(system.submit(large).await, Err(Error::Codec(_))));
    // A file that leaves the log does not count for the size of its event.
    let (huge, bytes) = content(b'b', 12_900_000);
    let handle = system.submit(posted("huge", "art", vec![file("a", &huge)])).await.unwrap();
    handle.finished().await.unwrap();
    let path = folder.path().join("artifacts/huge/art/a");
    assert!(fs::read(&path).unwrap() == bytes);
    let left = system.clone();
    system.shutdown().await.unwrap();
    let refused = left.submit(posted("late", "art", vec![file("a", &base64)])).await;
    assert!(matches!(refused, Err(Error::Stopped)), "{refused:?}");
    let artifact = adding("late", &[file("a", &base64)]);
    let refused = handle.command(TaskCommand::AppendArtifact { artifact, part: None }).await;
    assert!(matches!(refused, Err(Error::Stopped)), "{refused:?}");
    assert_eq!(files_below(&folder.path().join("artifacts")), [path]);
}

#[tokio::test]
async fn a_repeated_post_needs_no_free_space() {
    let (log, folder) = (memory(), tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(folder.path()).unwrap().instead_of_log();
    let system = system(&log, Some(Arc::new(store))).await;
    let (base64, _) = content(b'a', 6_000);
    let post = posted("t", "art", vec![file("a", &base64)]);
    system.submit(post.clone()).await.unwrap();
    // Nothing can be written any more.
    let unfinished = folder.path().join(".taskreel-tmp");
    fs::remove_dir(&unfinished).unwrap();
    fs::write(&unfinished, "no folder").unwrap();
    system.submit(post).await.unwrap();
    let other = system.submit(posted("u", "art", vec![file("a", &base64)])).await;
    assert!(matches!(other, Err(Error::FileNotKept { .. })), "{other:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_piece_with_too_many_parts_is_refused_like_a_whole_artifact() {
    let log = memory();
    let system = system(&log, None).await;
    let handle = system.submit(posted("t", "art", vec![])).await.unwrap();
    handle.finished().await.unwrap();
    let part = Part::new("text", JsonText::from(json!("x")));
    let many = adding("many", &vec![part; PARTS_MAX + 1]);
    for command in [
        TaskCommand::AppendArtifact { artifact: many.clone(), part: None },
        TaskCommand::AppendArtifactPart { artifact: many, is_last: false },
    ] {
        let refused = handle.command(command).await.unwrap_err();
        assert!(matches!(refused, Error::Task(TaskRejection::TooManyParts { .. })), "{refused}");
    }
    system.shutdown().await.unwrap();
}
