//! The stores of files under kills, links that appear while they write, many names, and writers of the same name.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::files::{FileError, FileStore as _, JsonTaskStore, LocalFileStore};
use taskreel_log::artifacts::{A2aArtifact, A2aMessage};

/// The folder in which the process that is killed writes.
const CHILD: &str = "TASKREEL_FILES_CHILD";

/// The letters of each file of the process that is killed: large enough to be killed within.
const LETTERS: usize = 4_000_000;

fn artifact(id: &str, parts: &[(&str, &str)]) -> A2aArtifact {
    let part = |(name, bytes): &(&str, &str)| json!({"kind": "file", "file": {"name": name, "bytes": bytes}});
    let parts: Vec<Value> = parts.iter().map(part).collect();
    A2aArtifact::from_json(&json!({"artifactId": id, "parts": parts})).unwrap()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The process that is killed: it saves until then, and prints a line for each file that is saved.
#[test]
#[ignore = "started by the test of kills"]
fn child() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let store = LocalFileStore::new(folder).unwrap();
    for number in 0.. {
        let content = ["AAAA", "BBBB", "CCCC"][number % 3].repeat(LETTERS / 3 / 4 * 4 / 4);
        let id = format!("a{number}");
        store.save_artifact("t", &artifact(&id, &[("x", &content)])).unwrap();
        eprintln!("saved {number}");
    }
}

#[test]
fn a_file_is_whole_or_not_there_wherever_its_writer_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = 0;
    for round in 0..8_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads", "1"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let acknowledged = lines.by_ref().map_while(Result::ok).find(|line| line == "saved 1");
        assert!(acknowledged.is_some(), "the child saves");
        // Anywhere within a write.
        std::thread::sleep(Duration::from_millis(3 * round));
        child.kill().unwrap();
        child.wait().unwrap();

        let store = LocalFileStore::new(folder.path()).unwrap();
        for id in names(&folder.path().join("artifacts/t")) {
            let listed = names(&folder.path().join("artifacts/t").join(&id));
            assert!(
                listed.iter().all(|name| name == "x"),
                "only whole files stand where others look: {listed:?}"
            );
            for path in store.get_artifact("t", &id).unwrap() {
                let content = fs::read(&path).unwrap();
                let number: usize = id.trim_start_matches('a').parse().unwrap();
                let wanted: &[u8] = [b"\0\0\0", b"\x04\x10\x41", b"\x08\x20\x82"][number % 3];
                assert_eq!(content.len(), LETTERS / 3 / 4 * 3);
                assert!(content.chunks(3).all(|chunk| chunk == wanted), "{}", path.display());
                whole += 1;
            }
            store.delete_artifact("t", &id).unwrap();
        }
    }
    assert!(whole >= 16, "{whole}");
}

#[test]
fn what_a_killed_writer_left_is_removed_after_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let unfinished = folder.path().join(".taskreel-tmp");
    fs::create_dir(&unfinished).unwrap();
    for name in ["old.tmp", "new.tmp"] {
        fs::write(unfinished.join(name), "half").unwrap();
    }
    let old = File::options().write(true).open(unfinished.join("old.tmp")).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(7_200)).unwrap();
    LocalFileStore::new(folder.path()).unwrap();
    assert_eq!(
        names(&unfinished),
        BTreeSet::from(["new.tmp".to_owned()]),
        "another program may be writing it"
    );
    old.set_modified(SystemTime::now()).unwrap();
    File::options()
        .write(true)
        .open(unfinished.join("new.tmp"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    JsonTaskStore::new(folder.path()).unwrap();
    assert!(names(&unfinished).is_empty());
}

/// Replaces a folder by a link and back until told to end.
fn swap(folder: &Path, outside: &Path, is_over: &AtomicBool) {
    let aside = folder.with_extension("aside");
    while !is_over.load(Ordering::Acquire) {
        // The store may have made the folder meanwhile, or be in it.
        if fs::rename(folder, &aside).is_ok() {
            let linked = symlink(outside, folder).is_ok();
            std::thread::yield_now();
            if linked {
                fs::remove_file(folder).unwrap();
            }
            // The store makes the folder anew at any time.
            while fs::rename(&aside, folder).is_err() {
                let _ = fs::remove_dir_all(folder);
            }
        }
    }
}

#[test]
fn a_folder_that_becomes_a_link_while_files_are_saved_leads_nothing_out() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(outside.path().join("a")).unwrap();
    fs::write(outside.path().join("a/kept"), "kept").unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap();
    let swapped = folder.path().join("artifacts/t");
    fs::create_dir_all(&swapped).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&swapped, outside.path(), &is_over));
        let (mut saved, mut refused) = (0, 0);
        for number in 0..100_000 {
            match store.save_artifact("t", &artifact("a", &[("x", "YQ==")])) {
                Ok(_) => saved += 1,
                Err(_) => refused += 1,
            }
            let _ = store.delete_artifact("t", "a");
            if number > 300 && saved > 20 && refused > 20 {
                break;
            }
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(names(outside.path()), BTreeSet::from(["a".to_owned()]));
    assert_eq!(
        names(&outside.path().join("a")),
        BTreeSet::from(["kept".to_owned()]),
        "nothing was saved or deleted"
    );
}

#[test]
fn links_in_the_place_of_files_and_folders_are_not_followed() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = outside.path().join("secret");
    fs::write(&secret, "a").unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap();
    let saved = folder.path().join("artifacts/t/a");
    fs::create_dir_all(&saved).unwrap();
    // The same content behind a link is not the same file, and the link is not written through.
    symlink(&secret, saved.join("x")).unwrap();
    symlink(outside.path().join("new"), saved.join("y")).unwrap();
    let paths = store.save_artifact("t", &artifact("a", &[("x", "YQ=="), ("y", "YQ==")])).unwrap();
    let other = |name: &str| saved.join(format!("{name}-ca978112ca1bbdca"));
    assert_eq!(paths, [other("x"), other("y")]);
    assert_eq!(store.get_artifact("t", "a").unwrap(), paths);
    symlink(outside.path(), folder.path().join("artifacts/t/b")).unwrap();
    assert!(matches!(store.delete_artifact("t", "b"), Err(FileError::Escapes { .. })));
    store.delete_artifact("t", "a").unwrap();
    assert!(!saved.exists());

    // Neither is the folder of unfinished files.
    fs::remove_dir(folder.path().join(".taskreel-tmp")).unwrap();
    symlink(outside.path(), folder.path().join(".taskreel-tmp")).unwrap();
    assert!(matches!(
        store.save_artifact("t", &artifact("c", &[("x", "YQ==")])),
        Err(FileError::Escapes { .. })
    ));
    assert!(LocalFileStore::new(folder.path()).is_err() && JsonTaskStore::new(folder.path()).is_err());
    assert_eq!(names(outside.path()), BTreeSet::from(["secret".to_owned()]));
}

#[test]
fn thousands_of_names_and_the_longest_ones_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap();
    let long = "日".repeat(2_000);
    let given: Vec<String> = (0..2_000).map(|number| format!("{number}-{long}.txt")).collect();
    let parts: Vec<_> = given.iter().map(|name| (name.as_str(), "YQ==")).collect();
    let saved = store.save_artifact("t", &artifact("a", &parts)).unwrap();
    assert_eq!(saved.iter().collect::<BTreeSet<_>>().len(), 2_000);
    assert_eq!(store.get_artifact("t", "a").unwrap().len(), 2_000);
    assert!(saved.iter().all(|path| path.extension().is_some_and(|ending| ending == "txt")));

    // Names that are the same once they are cut get digests.
    let alike = [(format!("{long}1.txt"), "YQ=="), (format!("{long}2.txt"), "Yg==")];
    let alike: Vec<_> = alike.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    let saved = store.save_artifact("t", &artifact("b", &alike)).unwrap();
    assert_ne!(saved.first(), saved.last());
    let id = "i".repeat(251);
    assert!(matches!(store.get_artifact(&id, "a"), Err(FileError::LongIdentifier { bytes: 251, .. })));
}

#[test]
fn writers_of_the_same_name_get_a_file_each() {
    let folder = tempfile::tempdir().unwrap();
    let writers = 8;
    let save = |writer: usize| -> Vec<PathBuf> {
        let store = LocalFileStore::new(folder.path()).unwrap();
        let bytes = ["QUFB", "QkJC", "Q0ND", "RERE", "RUVF", "RkZG", "R0dH", "SEhI"][writer].repeat(20_000);
        (0..5).flat_map(|_| store.save_artifact("t", &artifact("a", &[("x", &bytes)])).unwrap()).collect()
    };
    let saved: Vec<Vec<PathBuf>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || save(writer))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (paths, letter) in saved.iter().zip(b'A'..) {
        assert!(paths.iter().all(|path| Some(path) == paths.first()), "the same content is one file");
        let content = fs::read(paths.first().unwrap()).unwrap();
        assert!(content.len() == 60_000 && content.iter().all(|byte| *byte == letter));
    }
    assert_eq!(names(&folder.path().join("artifacts/t/a")).len(), writers);
    assert!(names(&folder.path().join(".taskreel-tmp")).is_empty());
}

#[test]
fn in_the_old_layout_no_task_is_named_like_a_folder_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap().layout_of_0_2_0();
    let message = json!({"messageId": "m", "role": "user", "parts": [{"kind": "file", "file": {"name": "x", "bytes": "YQ=="}}]});
    store.save_message(&A2aMessage::from_json(&message).unwrap()).unwrap();
    for id in ["messages", "artifacts", ".taskreel-tmp"] {
        let refused = store.save_artifact(id, &artifact("m", &[("x", "Yg==")])).unwrap_err();
        assert!(matches!(refused, FileError::Reserved { .. }), "{refused}");
        assert!(store.delete_artifact(id, "m").is_err());
    }
    assert_eq!(store.get_message("m").unwrap().len(), 1);
}
