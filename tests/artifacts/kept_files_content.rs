//! Files instead of the log lose nothing: what is no base64 stays in the log, references need a file, and a task goes on after a
//! restart, with another store and without its files.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::kept_files_support::{adding, content, examined, file, files_below, kept, posted, system, task};
use proptest::prelude::*;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use proto_events::task::TaskCommand;
use taskreel::files::{FileStore as _, LocalFileStore, decode_base64};
use taskreel::infer::Scripted;
use taskreel::{Error, Message, Part, Ports, System, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::memory::MemoryStore;
use taskreel_log::views::file_in;

fn memory() -> Arc<dyn EventStore> {
    Arc::new(MemoryStore::new())
}

fn fields(name: &str, content: &str) -> Part {
    Part::new("file", JsonText::from(json!({"name": name, "data": content})))
}

/// Posts an artifact with these parts to an agent with a store, and returns what the log has of them, and the number of files.
async fn through(parts: Vec<Part>, instead: bool) -> (Vec<Part>, usize) {
    let (log, folder) = (memory(), tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(folder.path()).unwrap();
    let store = if instead { store.instead_of_log() } else { store };
    let system = system(&log, Some(Arc::new(store.clone()))).await;
    system.submit(posted("t", "a", parts)).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    let log = log.reopen().unwrap();
    assert!(examined(&*log, &store).is_sound());
    let parts = task(&*log, "t").artifacts().iter().next().unwrap().parts.clone();
    (parts, files_below(folder.path()).len())
}

#[tokio::test]
async fn a_content_that_its_bytes_do_not_give_back_stays_in_the_log_as_it_is() {
    let (base64, _) = content(b'a', 9_000);
    let mut wrapped = String::new();
    for line in base64.as_bytes().chunks(76) {
        wrapped.push_str(std::str::from_utf8(line).unwrap());
        wrapped.push('\n');
    }
    let two = JsonText::from(json!({"name": "two", "bytes": base64.as_str(), "data": "the second content"}));
    let parts = vec![
        fields("text", &"Plain English words, no base64. ".repeat(400)),
        fields("words", &"word ".repeat(2_000)),
        fields("picture", &format!("data:image/jpeg;base64,{base64}")),
        fields("after", &format!("{base64}YQ=={base64}")),
        fields("cut", &format!("{base64}Y")),
        fields("bits", &format!("{base64}YR==")),
        fields("lines", &wrapped),
        fields("accents", &format!("{base64}é")),
        fields("small", "not base64 either"),
        fields("empty", ""),
        Part::new("file", two),
    ];
    assert_eq!(through(parts.clone(), true).await, (parts, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A text in the place of a content is in the log as it is, or the file gives it back.
    #[test]
    fn no_content_is_lost(
        bytes in prop::collection::vec(any::<u8>(), 3_000..6_000),
        cut in 0..5_usize,
        text in "[A-Za-z ,.=\n]{0,9000}",
        is_text in any::<bool>(),
    ) {
        let mut given = if is_text { text } else { encoded(&bytes) };
        given.truncate(given.len().saturating_sub(cut));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (parts, files) = runtime.block_on(through(vec![fields("x", &given)], true));
        if files == 0 {
            prop_assert_eq!(parts, vec![fields("x", &given)]);
        } else {
            prop_assert_eq!(encoded(&decode_base64(&given).unwrap()), given);
        }
    }
}

/// Returns bytes as base64.
fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_usize, |number, byte| (number << 8) | usize::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..4 {
            text.push(if at <= group.len() {
                char::from(DIGITS[(number >> (18 - 6 * at)) & 63])
            } else {
                '='
            });
        }
    }
    text
}

#[tokio::test]
async fn a_file_without_a_name_has_the_number_of_its_part_among_all_parts() {
    let (a, b) = (content(b'a', 6_000), content(b'b', 6_000));
    let unnamed = |base64: &str| Part::new("file", JsonText::from(json!({"bytes": base64})));
    let parts = || vec![Part::text("x"), unnamed(&a.0), unnamed("YQ=="), unnamed(&b.0)];
    for instead in [true, false] {
        let (log, folder) = (memory(), tempfile::tempdir().unwrap());
        let store = LocalFileStore::new(folder.path()).unwrap();
        let store = if instead { store.instead_of_log() } else { store };
        let system = system(&log, Some(Arc::new(store.clone()))).await;
        system.submit(posted("t", "a", parts())).await.unwrap().finished().await.unwrap();
        system.shutdown().await.unwrap();
        let paths = store.get_artifact("t", "a").unwrap();
        let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let copies = ["file_1", "file_2", "file_3"];
        assert_eq!(names, if instead { vec!["file_1", "file_3"] } else { copies.to_vec() });
        assert_eq!(fs::read(paths.last().unwrap()).unwrap(), b.1);
    }
}

#[test]
fn files_of_one_name_are_kept_apart_beyond_a_thousand() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap();
    let bytes = |number: u32| number.to_be_bytes().repeat(3);
    for number in 0..1_100_u32 {
        let part = json!({"kind": "file", "file": {"name": "x.bin", "bytes": encoded(&bytes(number))}});
        let artifact = json!({"artifactId": "a", "parts": [part]});
        let artifact = taskreel_log::artifacts::A2aArtifact::from_json(&artifact).unwrap();
        let paths = store.save_artifact("t", &artifact).unwrap();
        assert_eq!(store.save_artifact("t", &artifact).unwrap(), paths, "again it is the same file");
        assert_eq!(fs::read(&paths[0]).unwrap(), bytes(number));
    }
    assert_eq!(store.get_artifact("t", "a").unwrap().len(), 1_100);
}

/// A part that refers to a file of these bytes.
fn reference(name: &str, bytes: &[u8], beside: &str) -> String {
    let digest = proto_events::id::Digest::compute(bytes).to_string();
    let size = bytes.len();
    format!(r#"{{"name":"{name}",{beside}"kept_file":{{"sha256":"{digest}","size":{size}}}}}"#)
}

fn refers(text: &str) -> Part {
    Part::new("file", JsonText::parse(text).unwrap())
}

#[tokio::test]
async fn nobody_makes_the_log_refer_to_a_file_that_the_store_does_not_have() {
    let (base64, bytes) = content(b'a', 6_000);
    let forged = reference("a", &bytes, "");
    let elsewhere = [("t", "other"), ("other", "art")];
    for instead in [Some(true), Some(false), None] {
        let (log, folder) = (memory(), tempfile::tempdir().unwrap());
        let store = LocalFileStore::new(folder.path()).unwrap();
        let store = if instead == Some(true) { store.instead_of_log() } else { store };
        let given = instead.map(|_| Arc::new(store.clone()) as Arc<dyn taskreel::files::FileStore>);
        let system = system(&log, given).await;
        // The file is in the store, but of another task or artifact.
        for (id, artifact) in elsewhere {
            let saved = taskreel_log::artifacts::A2aArtifact::from_json(
                &json!({"artifactId": artifact, "parts": [{"kind": "file", "file": {"name": "a", "bytes": base64.as_str()}}]}),
            );
            store.save_artifact(id, &saved.unwrap()).unwrap();
        }
        let refused = system.submit(posted("t", "art", vec![refers(&forged)])).await.unwrap_err();
        assert!(matches!(refused, Error::FileNotKept { .. }), "{instead:?}: {refused}");
        let by_handler = system.submit(Part::text(forged.as_str())).await.unwrap().finished().await.unwrap();
        assert_eq!(by_handler.state(), TaskState::Failed, "{instead:?}");
        let open = system.submit(posted("open", "art", vec![])).await.unwrap();
        open.finished().await.unwrap();
        for command in [
            TaskCommand::AppendArtifact { artifact: adding("x", &[refers(&forged)]), part: None },
            TaskCommand::AppendArtifactPart { artifact: adding("y", &[refers(&forged)]), is_last: true },
        ] {
            let refused = open.command(command).await.unwrap_err();
            assert!(matches!(refused, Error::FileNotKept { .. }), "{instead:?}: {refused}");
        }
        // A content beside a reference is the content, and other parts and messages refer to nothing.
        let with_content = refers(&reference("a", &bytes, r#""bytes":"YWFh","#));
        let data = Part::new("data", JsonText::parse(&forged).unwrap());
        let harmless = posted("u", "art", vec![with_content.clone(), data]);
        let harmless = system.submit(harmless).await.unwrap().finished().await.unwrap();
        let stored = &harmless.task().artifacts().iter().next().unwrap().parts[0];
        assert_eq!(file_in(stored).unwrap(), file_in(&with_content).unwrap());
        system.shutdown().await.unwrap();
        let log = log.reopen().unwrap();
        assert!(kept(&*log).is_empty());
        assert!(examined(&*log, &store).is_sound() && !task(&*log, "t").exists());
    }
}

#[tokio::test]
async fn a_reference_to_what_the_store_has_under_the_artifact_is_taken() {
    let (base64, bytes) = content(b'a', 6_000);
    let (log, folder) = (memory(), tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(folder.path()).unwrap().instead_of_log();
    let system = system(&log, Some(Arc::new(store.clone()))).await;
    let open = system.submit(posted("t", "art", vec![file("a", &base64)])).await.unwrap();
    open.finished().await.unwrap();
    let piece = adding("art", &[refers(&reference("a", &bytes, ""))]);
    open.command(TaskCommand::AppendArtifact { artifact: piece, part: None }).await.unwrap();
    system.shutdown().await.unwrap();
    let log = log.reopen().unwrap();
    assert_eq!(kept(&*log).len(), 2);
    assert!(examined(&*log, &store).is_sound());
}

/// An agent that infers, with a log and a store on disk.
async fn on_disk(folder: &Path, store: LocalFileStore) -> System {
    let model = Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap();
    System::builder(folder.join("log"))
        .name("desk")
        .infer(model)
        .file_store(Arc::new(store))
        .start()
        .await
        .unwrap()
}

fn longer(known: &JsonText, id: &str) -> PostedTask {
    let mut posted = PostedTask::from_json(known, &mut Ports::default()).unwrap();
    let message = Message::new("user", vec![Part::infer("and now?")], &mut Ports::default());
    posted.messages.push(Message { id: Some(id.to_owned()), ..message });
    posted
}

#[tokio::test]
async fn a_task_with_files_goes_on_after_a_restart_without_its_files_and_its_prompts_are_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let store = || LocalFileStore::new(&files).unwrap();
    let (base64, bytes) = content(b'b', 60_000);
    let mut first = posted("t", "art", vec![file("a.txt", &base64)]);
    first.messages[0].parts = vec![Part::infer("what is in the file?")];
    let system = on_disk(folder.path(), store().instead_of_log()).await;
    let end = system.submit(first.clone()).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    system.shutdown().await.unwrap();
    let path = files.join("artifacts/t/art/a.txt");
    assert_eq!(fs::read(&path).unwrap(), bytes);

    // Posted again, and continued by the whole task as its JSON shows it: with the store, with copies only, and without the file.
    let copies = store();
    for (number, store) in
        [store().instead_of_log(), copies.clone(), store().instead_of_log()].into_iter().enumerate()
    {
        if number == 2 {
            fs::remove_file(&path).unwrap();
        }
        let system = on_disk(folder.path(), store).await;
        let known = system.task("t").unwrap().snapshot().await.unwrap();
        let more = system.submit(longer(&known.to_json(), &format!("m{number}"))).await;
        let more = more.unwrap_or_else(|refused| panic!("{number}: {refused}"));
        let more = more.finished().await.unwrap();
        assert_eq!(more.task().messages().iter().count(), known.task().messages().iter().count() + 1);
        let log = system.log();
        assert_eq!(kept(&*log).len(), 1);
        assert!(verify(&*log).is_sound(), "{:?}", verify(&*log).findings);
        assert_eq!(examined(&*log, &copies).is_sound(), number < 2);
        assert!(replay_all(&*log).unwrap().mismatch.is_none());
        system.shutdown().await.unwrap();
    }
    // The first post again heals the store.
    let system = on_disk(folder.path(), store().instead_of_log()).await;
    system.submit(first).await.unwrap();
    assert!(examined(&*system.log(), &copies).is_sound());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_same_post_is_the_same_task_whatever_store_the_agent_has() {
    let (base64, _) = content(b'a', 6_000);
    for instead in [true, false] {
        let (log, folder) = (memory(), tempfile::tempdir().unwrap());
        let store = LocalFileStore::new(folder.path()).unwrap();
        let named = posted("t", "art", vec![file("a", &base64)]);
        let text = json!({"messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
            "artifacts": [{"parts": [{"type": "file", "content": {"name": "a", "bytes": base64.as_str()}}]}]});
        let unnamed = || PostedTask::from_json(&JsonText::from(text.clone()), &mut Ports::default()).unwrap();
        let artifact = adding("c", &[file("a", &base64)]);
        let mut log = log;
        let mut ids = Vec::new();
        for instead in [instead, !instead] {
            let store = if instead { store.clone().instead_of_log() } else { store.clone() };
            let system = system(&log, Some(Arc::new(store))).await;
            let handle = system.submit_once("named", named.clone()).await.unwrap();
            handle.finished().await.unwrap();
            system.submit(named.clone()).await.unwrap();
            ids.push(system.submit_once("unnamed", unnamed()).await.unwrap().id().to_owned());
            let command = TaskCommand::AppendArtifact { artifact: artifact.clone(), part: None };
            handle.once("artifact").command(command).await.unwrap();
            system.shutdown().await.unwrap();
            log = log.reopen().unwrap();
        }
        assert_eq!(ids[0], ids[1]);
        assert_eq!(task(&*log, "t").artifacts().iter().count(), 2);
    }
}
