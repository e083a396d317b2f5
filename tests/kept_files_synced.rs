//! A file that stands instead of the log is durable before the event that names its digest, with its name and every folder above it: a
//! process is traced with strace while it works. An observed order is all that a trace can show; what a device does is not seen.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; a run that could not be watched says so"
)]

#[allow(dead_code, reason = "the tests of the log use all of it")]
#[path = "../crates/log/tests/traced/mod.rs"]
mod traced;

use std::path::Path;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonText;
use taskreel::files::LocalFileStore;
use taskreel::{PostedTask, System};
use traced::{Call, Deed};

fn posted(id: &str) -> PostedTask {
    let part = json!({"type": "file", "content": {"name": "a.txt", "bytes": "YWFh".repeat(3_000)}});
    let message = json!({"id": "m", "role": "user", "parts": [{"type": "text", "content": "hi"}]});
    let task = json!({"id": id, "messages": [message], "artifacts": [{"id": "art", "parts": [part]}]});
    PostedTask::from_json(&JsonText::from(task), &mut taskreel::Ports::default()).unwrap()
}

/// Entry of the process that is traced; not a test of its own.
#[test]
fn the_traced_child() {
    let Some((dir, _)) = traced::told() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = LocalFileStore::new(dir.join("new/files")).unwrap().instead_of_log();
        let system = System::builder(dir.join("log")).file_store(Arc::new(store)).start().await.unwrap();
        system.submit(posted("t")).await.unwrap();
        traced::say("ACK written");
        system.submit(posted("t")).await.unwrap();
        traced::say("ACK repeated");
        LocalFileStore::new(dir.join("new/files")).unwrap();
        traced::say("ACK opened");
        system.shutdown().await.unwrap();
    });
}

fn is_synced(call: &Call, path: &str) -> bool {
    call.deed == Deed::Synced { name: path.to_owned() }
}

/// Returns the first call after this one that syncs a path.
fn synced_after(calls: &[Call], began: usize, path: &str) -> Result<usize, String> {
    let sync = calls.iter().find(|call| call.began > began && is_synced(call, path));
    sync.map(|sync| sync.ended).ok_or_else(|| format!("`{path}` is not synced after line {began}"))
}

fn said(calls: &[Call], line: &str) -> usize {
    let is_it = |call: &&Call| matches!(&call.deed, Deed::Said(said) if said.contains(line));
    calls.iter().find(is_it).unwrap_or_else(|| panic!("`{line}` was not printed")).began
}

/// Checks the order of the syncs. Returns the first one that is missing or late.
fn check(calls: &[Call]) -> Result<(), String> {
    let file = "new/files/artifacts/t/art/a.txt";
    let (unfinished, linked) = calls
        .iter()
        .find_map(|call| match &call.deed {
            Deed::Linked { from, to } | Deed::Renamed { from, to } if to.ends_with("a.txt") => {
                Some((from.clone(), call))
            }
            _ => None,
        })
        .ok_or("the file was not named")?;
    // The content is synced before it has its name.
    let written = calls.iter().rev().find(|call| {
        call.began < linked.began
            && matches!(&call.deed, Deed::Wrote { file, .. } if Path::new(file).file_name() == Path::new(&unfinished).file_name())
    });
    let written = written.ok_or("the file was not written")?.ended;
    let temporary = calls.iter().find(|call| {
        call.began > written
            && call.ended < linked.began
            && matches!(&call.deed, Deed::Synced { name } if Path::new(name).file_name() == Path::new(&unfinished).file_name())
    });
    temporary.ok_or("the content is not synced before it has its name")?;
    // Then the name, and the names of the folders above, all before the log names the digest.
    let digest = proto_events::id::Digest::compute(&[b'a'; 9_000]).to_string();
    let event = calls.iter().find(|call| {
        matches!(&call.deed, Deed::Wrote { file, bytes, .. } if file.starts_with("log/")
            && bytes.windows(digest.len()).any(|piece| piece == digest.as_bytes()))
    });
    let event = event.ok_or("the digest was not written to the log")?.began;
    let before = |began: usize, path: &str| match synced_after(calls, began, path)? {
        at if at < event => Ok(()),
        _ => Err(format!("`{path}` is synced after the event")),
    };
    before(linked.ended, "new/files/artifacts/t/art")?;
    for made in
        ["new", "new/files", "new/files/artifacts", "new/files/artifacts/t", "new/files/artifacts/t/art"]
    {
        let is_made = |call: &&Call| call.deed == Deed::MadeDir { name: made.to_owned() };
        let at = calls.iter().find(is_made).ok_or_else(|| format!("`{made}` was not made"))?.ended;
        let above = Path::new(made).parent().unwrap().to_str().unwrap();
        before(at, if above.is_empty() { "." } else { above })?;
    }
    // The same content again is not written, and synced all the same: who wrote it may not have come to that.
    let (first, again, opened) =
        (said(calls, "ACK written"), said(calls, "ACK repeated"), said(calls, "ACK opened"));
    for path in [file, "new/files/artifacts/t/art", "new/files/artifacts"] {
        if synced_after(calls, first, path)? > again {
            return Err(format!("`{path}` is not synced where it is saved again"));
        }
    }
    for path in ["new/files", "new", "."] {
        if synced_after(calls, again, path)? > opened {
            return Err(format!("`{path}` is not synced where the store is opened"));
        }
    }
    Ok(())
}

#[test]
fn files_and_folders_are_synced_before_the_event_that_names_them() {
    if !traced::strace_works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let calls = traced::watch(dir.path(), "files");
    check(&calls).unwrap();
    // The check can fail: without all syncs of one path it does.
    for path in [
        "new/files/artifacts/t/art/a.txt",
        "new/files/artifacts/t/art",
        "new/files/artifacts",
        "new/files",
        "new",
    ] {
        let without: Vec<Call> = calls.iter().filter(|call| !is_synced(call, path)).cloned().collect();
        assert!(without.len() < calls.len(), "{path}");
        check(&without).unwrap_err();
    }
}
