//! The areas of the task store and the file store: operations in order, then every file found.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel::files::{
    FetchRemote, FileError, FileStore, JsonTaskStore, LocalFileStore, RemoteUri, UriSchemes,
};
use taskreel_log::artifacts::{A2aArtifact, A2aMessage};

use super::{Case, Failure};

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Unanswerable(error.to_string())
}

/// Returns a result as the recordings write it.
fn result(answer: Result<Value, FileError>) -> Value {
    match answer {
        Ok(answer) => json!({"ok": answer}),
        Err(error) => {
            let kind = match error {
                FileError::Base64(_) => "Error",
                FileError::Io { .. } => "OSError",
                _ => "ValueError",
            };
            json!({"error": {"type": kind, "message": error.to_string()}})
        }
    }
}

/// Returns every file below a folder by its path from there.
fn files(root: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(broken)? {
            let path = entry.map_err(broken)?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).map_err(broken)?.to_string_lossy().into_owned();
            found.insert(name, fs::read(&path).map_err(broken)?);
        }
    }
    Ok(found)
}

fn operations(case: &Case) -> impl Iterator<Item = (&str, &Value, &Value)> {
    let operations = case.input()["ops"].as_array().into_iter().flatten();
    operations.map(|operation| (operation[0].as_str().unwrap_or_default(), &operation[1], &operation[2]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn json_task_store(case: &Case) -> Result<Value, Failure> {
    let folder = tempfile::tempdir().map_err(broken)?;
    let root = folder.path().join("tasks");
    let mut store = JsonTaskStore::new(&root).map_err(broken)?;
    if case.whole["version"] == "0.2.0" {
        store = store.any_name();
    }
    let mut results = Vec::new();
    for (name, first, second) in operations(case) {
        results.push(match name {
            "save" => result(store.save(first).map(|()| Value::Null)),
            "get" => result(store.get(text(first)).map(Value::from)),
            "delete" => result(store.delete(text(first)).map(|()| Value::Null)),
            "write_raw" => {
                fs::write(root.join(text(first)), text(second)).map_err(broken)?;
                json!({"ok": null})
            }
            other => return Err(broken(format!("no operation `{other}`"))),
        });
    }
    let written =
        files(&root)?.into_iter().map(|(name, bytes)| (name, String::from_utf8_lossy(&bytes).into_owned()));
    let written = Value::from(written.collect::<JsonMap>());
    Ok(Value::from(JsonMap::from_iter([("results", Value::from(results)), ("files", written)])))
}

/// The remote files of a case, by their addresses.
#[derive(Debug)]
struct Recorded(BTreeMap<String, Vec<u8>>);

impl FetchRemote for Recorded {
    fn fetch(&self, uri: &RemoteUri, _: u64) -> Result<Vec<u8>, FileError> {
        self.0.get(uri.as_str()).cloned().ok_or_else(|| FileError::Fetch("HTTP 404: Not Found".to_owned()))
    }
}

/// Returns the bytes of a recorded base64 text, through the store itself.
fn bytes(text: &str) -> Result<Vec<u8>, Failure> {
    let folder = tempfile::tempdir().map_err(broken)?;
    let part = json!({"kind": "file", "file": {"bytes": text, "name": "x"}});
    let artifact = A2aArtifact::from_json(&json!({"artifactId": "a", "parts": [part]}))?;
    let store = LocalFileStore::new(folder.path()).map_err(broken)?;
    let paths = store.save_artifact("t", &artifact).map_err(broken)?;
    let path = paths.first().ok_or_else(|| broken("nothing was saved"))?;
    fs::read(path).map_err(broken)
}

fn store(case: &Case, root: &Path) -> Result<LocalFileStore, Failure> {
    let mut store = LocalFileStore::new(root).map_err(broken)?;
    if case.whole["version"] == "0.2.0" {
        store = store.layout_of_0_2_0();
    }
    if let Some(schemes) = case.input()["allowed_uri_schemes"].as_array() {
        let schemes = UriSchemes::new(schemes.iter().filter_map(Value::as_str));
        store = store.uri_schemes(schemes.map_err(|error| Failure::Refused(error.to_string()))?);
    }
    if let Some(most) = case.input()["max_remote_bytes"].as_u64().filter(|most| *most > 0) {
        store = store.remote_bytes_max(most);
    }
    if let Some(remote) = case.input()["remote"].as_object() {
        let files = remote.iter().map(|(uri, body)| Ok((uri.clone(), bytes(text(body))?)));
        store = store.client(Arc::new(Recorded(files.collect::<Result<_, Failure>>()?)));
    }
    Ok(store)
}

pub(crate) fn local_file_store(case: &Case) -> Result<Value, Failure> {
    let folder = tempfile::tempdir().map_err(broken)?;
    let root = folder.path().canonicalize().map_err(broken)?;
    let store = store(case, &root)?;
    let below = root.to_string_lossy().into_owned();
    let paths = |paths: Vec<std::path::PathBuf>| -> Value {
        paths.iter().map(|path| path.to_string_lossy().replace(&below, "$ROOT")).collect()
    };
    let mut results = Vec::new();
    for (name, first, second) in operations(case) {
        results.push(result(match name {
            "save_artifact" => store.save_artifact(text(first), &A2aArtifact::from_json(second)?).map(paths),
            "get_artifact" => store.get_artifact(text(first), text(second)).map(paths),
            "delete_artifact" => store.delete_artifact(text(first), text(second)).map(|()| Value::Null),
            "save_message" => store.save_message(&A2aMessage::from_json(first)?).map(paths),
            "get_message" => store.get_message(text(first)).map(paths),
            "delete_message" => store.delete_message(text(first)).map(|()| Value::Null),
            other => return Err(broken(format!("no operation `{other}`"))),
        }));
    }
    let found = files(&root)?.into_iter().map(|(name, bytes)| (name, encoded(&bytes)));
    let found = Value::from(found.collect::<JsonMap>());
    Ok(Value::from(JsonMap::from_iter([("results", Value::from(results)), ("files_base64", found)])))
}

/// Returns bytes as base64.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_usize, |number, byte| (number << 8) | usize::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = DIGITS.get((number >> (18 - 6 * at)) & 63).copied().unwrap_or(b'?');
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}
