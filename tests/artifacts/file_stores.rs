//! The stores of files: what is saved stays whole, stays where it belongs, and is never overwritten.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::files::{FetchRemote, FileError, FileStore, JsonTaskStore, LocalFileStore, RemoteUri};
use taskreel_log::artifacts::A2aArtifact;

fn artifact(parts: &[(&str, &str)]) -> A2aArtifact {
    let part = |(name, bytes): &(&str, &str)| json!({"kind": "file", "file": {"name": name, "bytes": bytes}});
    let parts: Vec<Value> = parts.iter().map(part).collect();
    A2aArtifact::from_json(&json!({"artifactId": "a", "parts": parts})).unwrap()
}

fn task(id: &str, text: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": "working", "timestamp": text}})
}

#[test]
fn a_link_that_leads_out_of_the_folder_is_refused() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret.json"), "{}").unwrap();
    let files = LocalFileStore::new(folder.path()).unwrap();
    symlink(outside.path(), folder.path().join("artifacts")).unwrap();
    let refused = files.save_artifact("t", &artifact(&[("x", "YQ==")])).unwrap_err();
    assert!(matches!(refused, FileError::Escapes { .. }), "{refused}");
    assert!(files.get_artifact("t", "a").is_err() && files.delete_artifact("t", "a").is_err());

    let tasks = JsonTaskStore::new(folder.path()).unwrap();
    symlink(outside.path().join("secret.json"), folder.path().join("secret.json")).unwrap();
    symlink(outside.path().join("nothing.json"), folder.path().join("dangling.json")).unwrap();
    for id in ["secret", "dangling"] {
        assert!(matches!(tasks.get(id), Err(FileError::Escapes { .. })), "{id}");
        assert!(matches!(tasks.save(&task(id, "x")), Err(FileError::Escapes { .. })), "{id}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.path().join("secret.json")).unwrap(), "{}");
}

#[test]
fn the_same_name_overwrites_nothing_and_the_same_file_is_saved_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = LocalFileStore::new(folder.path()).unwrap();
    let twice = artifact(&[("x.txt", "YQ=="), ("x.txt", "Yg=="), ("x.txt", "YQ==")]);
    let saved = files.save_artifact("t", &twice).unwrap();
    let contents: Vec<_> = saved.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(contents, ["a", "b", "a"]);
    assert_eq!(saved.first(), saved.last());
    assert_eq!(files.save_artifact("t", &twice).unwrap(), saved);
    assert_eq!(files.get_artifact("t", "a").unwrap().len(), 2);
    let all = fs::read_dir(saved.first().unwrap().parent().unwrap()).unwrap().count();
    assert_eq!(all, 2, "nothing else is left in the folder");
}

#[test]
fn a_reader_sees_the_old_task_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonTaskStore::new(folder.path()).unwrap();
    let versions = [task("t", &"a".repeat(200_000)), task("t", &"b".repeat(100_000))];
    store.save(&versions[0]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in versions.iter().cycle().take(40) {
                store.save(version).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let found = store.get("t").unwrap().expect("a whole task is always there");
            let text = found["status"]["timestamp"].as_str().unwrap().len();
            assert!([200_000, 100_000].contains(&text), "{text}");
        }
    });
    let unfinished = fs::read_dir(folder.path().join(".taskreel-tmp")).unwrap().count();
    assert_eq!(unfinished, 0, "nothing else is left in the folder");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "the task, and the folder of unfinished files"
    );
}

/// A client that keeps what it was asked for.
#[derive(Debug, Default)]
struct Client(Mutex<Vec<String>>);

impl FetchRemote for Client {
    fn fetch(&self, uri: &RemoteUri, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        self.0.lock().unwrap().push(format!("{} {max_bytes}", uri.host()));
        Ok(vec![0; 5])
    }
}

#[test]
fn a_client_is_asked_for_checked_addresses_only_and_its_answer_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let client = Arc::new(Client::default());
    let files = LocalFileStore::new(folder.path()).unwrap().client(client.clone());
    let save = |files: &LocalFileStore, uri: &str| {
        let parts = json!([{"kind": "file", "file": {"uri": uri, "name": "f"}}]);
        files
            .save_artifact("t", &A2aArtifact::from_json(&json!({"artifactId": "a", "parts": parts})).unwrap())
    };
    for uri in [
        "http://example.com/x",
        "https://u@example.com/x",
        "https://169.254.169.254/latest",
        "https://[::ffff:10.0.0.1]/x",
        "https://[::1]80/x",
        "https://[2606:4700::1111]80/x",
        "https://[2606:4700::1111]:x/x",
        "https://2130706433/x",
        "https://example.com\\@10.0.0.1/x",
        "https://exa mple.com/x",
        "https://",
    ] {
        assert!(save(&files, uri).is_err(), "{uri}");
    }
    assert!(client.0.lock().unwrap().is_empty());
    save(&files, "https://Example.com.:443/x").unwrap();
    save(&files, "https://8.8.8.8/x").unwrap();
    let refused = save(&files.clone().remote_bytes_max(4), "https://example.com/x").unwrap_err();
    assert_eq!(refused.to_string(), "Remote file exceeds max_remote_bytes 4: 5 bytes");
    assert_eq!(*client.0.lock().unwrap(), ["example.com 10485760", "8.8.8.8 10485760", "example.com 4"]);
}

#[test]
fn the_remote_files_of_one_artifact_are_bounded_together() {
    let folder = tempfile::tempdir().unwrap();
    let client = Arc::new(Client::default());
    let files = LocalFileStore::new(folder.path()).unwrap().client(client.clone());
    let files = files.remote_bytes_max(6).remote_bytes_together_max(12);
    let save = |count: usize| {
        let part = json!({"kind": "file", "file": {"uri": "https://example.com/x", "name": "f"}});
        let parts = vec![part; count];
        files
            .save_artifact("t", &A2aArtifact::from_json(&json!({"artifactId": "a", "parts": parts})).unwrap())
    };
    assert_eq!(save(2).unwrap().len(), 2);
    let refused = save(3).unwrap_err();
    assert!(matches!(refused, FileError::TooLargeTogether { limit: 12 }), "{refused}");
    let asked = client.0.lock().unwrap().split_off(2);
    assert_eq!(asked, ["example.com 6", "example.com 6", "example.com 2"]);
}
