//! Task files and saved files, exchanged with the real a2a-utils: each side opens what the other wrote.
//!
//! `TASKREEL_A2A_PYTHON` names a Python that has it; `tests/interop/venv FOLDER` makes one and prints its path. Without
//! it nothing is tried here, except where `CI=true`, where its absence is a failure.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel::files::{FileStore as _, JsonTaskStore, LocalFileStore};
use taskreel_log::artifacts::{A2aArtifact, A2aMessage};

/// The tasks, artifacts and messages of each direction.
const COUNT: usize = 300;

fn python() -> Option<PathBuf> {
    let python = std::env::var_os("TASKREEL_A2A_PYTHON").map(PathBuf::from);
    if python.is_none() {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "TASKREEL_A2A_PYTHON names no Python with a2a-utils; `tests/interop/venv FOLDER` makes one"
        );
        eprintln!("not tried: TASKREEL_A2A_PYTHON is not set");
    }
    python
}

fn peer(python: &Path, arguments: &[&str], stdin: &Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peer.py");
    let mut command = Command::new(python);
    let child = command.arg(script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    if text.is_empty() { Value::Null } else { Value::parse(&text).unwrap() }
}

fn path(folder: &tempfile::TempDir) -> &str {
    folder.path().to_str().unwrap()
}

/// Returns the files of a folder by their names.
fn contents(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file()).map(|path| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
    });
    files.collect()
}

/// Any characters, those with a meaning in JSON and in paths more often than others.
fn texts() -> impl Strategy<Value = String> {
    let characters = prop_oneof![
        4 => any::<char>(),
        2 => prop::sample::select(vec!['"', '\\', '\n', '\u{0}', '\u{7f}', '\u{2028}', '/', '.', ':', '😀', 'é']),
        4 => prop::char::range('a', 'z'),
    ];
    prop::collection::vec(characters, 0..12).prop_map(String::from_iter)
}

fn numbers() -> impl Strategy<Value = Value> {
    let special = [
        "0",
        "-0",
        "-0.0",
        "0.0",
        "1.0",
        "1.50",
        "1E5",
        "1e+5",
        "1e15",
        "1e16",
        "1e-4",
        "1e-5",
        "5e-324",
        "1e400",
        "-1e400",
        "123456789012345678901234567890.0",
        "1180591620717411303424",
        "9007199254740993",
        "2.5e-7",
    ];
    let text = prop_oneof![
        prop::sample::select(special.to_vec()).prop_map(str::to_owned),
        any::<i64>().prop_map(|whole| whole.to_string()),
        "-?[1-9][0-9]{18,60}",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,25}",
        "-?[1-9](\\.[0-9]{1,20})?[eE][+-]?[0-9]{1,3}",
        any::<f64>()
            .prop_filter("JSON has no other", |float| float.is_finite())
            .prop_map(|float| format!("{float:e}")),
    ];
    text.prop_map(|text| Value::parse(&text).unwrap())
}

fn objects(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((texts(), values), 0..4).prop_map(|fields| JsonMap::from_iter(fields).into())
}

fn values() -> impl Strategy<Value = Value> {
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers(),
        texts().prop_map(Value::from)
    ];
    leaves.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), objects(inner)]
    })
}

/// A value, null, or nothing.
fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![3 => value.prop_map(Some), 1 => Just(Some(Value::Null)), 2 => Just(None)]
}

/// An object with the fields that are there.
fn model(fields: Vec<(&'static str, Option<Value>)>) -> Value {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    there.collect::<JsonMap>().into()
}

const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Base64 of whole groups, with padding and without; Python skips what else stands in it.
fn base64() -> impl Strategy<Value = String> {
    "([A-Za-z0-9+/]{4}\n?){0,12}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
}

fn named(content: &'static str, value: impl Strategy<Value = String>) -> impl Strategy<Value = Value> {
    let name = maybe(texts().prop_map(Value::from));
    let mime = maybe(Just("text/plain".into()));
    (value, name, mime).prop_map(move |(value, name, mime)| {
        model(vec![(content, Some(value.into())), ("name", name), ("mimeType", mime)])
    })
}

fn part(content: (&'static str, Value), has_kind: bool, metadata: Option<Value>) -> Value {
    let kind = has_kind.then(|| content.0.into());
    model(vec![("kind", kind), (content.0, Some(content.1)), ("metadata", metadata)])
}

/// Parts of all kinds; `kind` may be left out.
fn parts() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        texts().prop_map(|text| ("text", Value::from(text))),
        objects(values()).prop_map(|data| ("data", data)),
        named("bytes", base64()).prop_map(|file| ("file", file)),
        named("uri", texts()).prop_map(|file| ("file", file)),
    ];
    let part = (content, any::<bool>(), maybe(objects(values())))
        .prop_map(|(content, has_kind, metadata)| part(content, has_kind, metadata));
    prop::collection::vec(part, 0..4).prop_map(Value::from)
}

/// Parts with files given as bytes, among others.
fn saved_parts() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        1 => texts().prop_map(|text| ("text", Value::from(text))),
        3 => named("bytes", base64()).prop_map(|file| ("file", file)),
    ];
    prop::collection::vec(content.prop_map(|content| part(content, true, None)), 0..4).prop_map(Value::from)
}

fn message() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["user", "agent"]);
    (parts(), role, maybe(texts().prop_map(Value::from)), maybe(objects(values()))).prop_map(
        |(parts, role, context, metadata)| {
            model(vec![
                ("metadata", metadata),
                ("messageId", Some("m".into())),
                ("role", Some(role.into())),
                ("parts", Some(parts)),
                ("contextId", context),
                ("referenceTaskIds", Some(json!(["a", "é"]))),
            ])
        },
    )
}

fn artifact() -> impl Strategy<Value = Value> {
    let text = || maybe(texts().prop_map(Value::from));
    (parts(), text(), text(), maybe(objects(values()))).prop_map(|(parts, name, description, metadata)| {
        model(vec![
            ("artifact_id", Some("a".into())),
            ("parts", Some(parts)),
            ("name", name),
            ("description", description),
            ("metadata", metadata),
        ])
    })
}

fn task() -> impl Strategy<Value = Value> {
    let words =
        ["submitted", "working", "input-required", "completed", "canceled", "auth-required", "unknown"];
    let status = (prop::sample::select(words.to_vec()), maybe(message()))
        .prop_map(|(state, message)| model(vec![("state", Some(state.into())), ("message", message)]));
    let list = |item: BoxedStrategy<Value>| maybe(prop::collection::vec(item, 0..3).prop_map(Value::from));
    (texts(), status, list(message().boxed()), list(artifact().boxed()), maybe(objects(values()))).prop_map(
        |(context, status, history, artifacts, metadata)| {
            model(vec![
                ("id", None),
                ("contextId", Some(context.into())),
                ("status", Some(status)),
                ("history", history),
                ("artifacts", artifacts),
                ("metadata", metadata),
                ("beyond", Some(1_u64.into())),
            ])
        },
    )
}

fn generated(strategy: &impl Strategy<Value = Value>) -> impl Iterator<Item = (usize, Value)> {
    let mut runner = TestRunner::deterministic();
    (0..COUNT).map(move |number| (number, strategy.new_tree(&mut runner).unwrap().current()))
}

fn with(value: &Value, field: &str, id: &str) -> Value {
    let mut value = value.clone();
    if let Value::Object(fields) = &mut value {
        fields.insert(field, id.into());
    }
    value
}

#[test]
fn a2a_utils_writes_each_task_that_we_wrote_again_byte_for_byte() {
    let Some(python) = python() else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = JsonTaskStore::new(ours.path()).unwrap();
    for (number, task) in generated(&task()) {
        store.save(&with(&task, "id", &format!("task-{number}"))).unwrap();
    }
    let missing = peer(&python, &["rewrite", path(&ours), path(&theirs)], &Value::Null);
    assert_eq!(missing, json!([]), "a2a-utils finds no task in these");
    assert_same(&contents(ours.path()), &contents(theirs.path()));
}

#[test]
fn each_task_that_a2a_utils_wrote_is_written_again_byte_for_byte() {
    let Some(python) = python() else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    peer(&python, &["generate", path(&theirs), "12", &COUNT.to_string()], &Value::Null);
    let (reading, writing) =
        (JsonTaskStore::new(theirs.path()).unwrap(), JsonTaskStore::new(ours.path()).unwrap());
    for number in 0..COUNT {
        let task = reading.get(&format!("task-{number}")).unwrap();
        writing.save(&task.expect("each file of a2a-utils holds a task")).unwrap();
    }
    assert_same(&contents(theirs.path()), &contents(ours.path()));
}

/// Compares files one by one, so that a failure shows one.
fn assert_same(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) {
    assert_eq!(one.len(), COUNT);
    assert!(one.keys().eq(other.keys()));
    for (name, text) in one {
        assert_eq!(Some(text), other.get(name), "{name}");
    }
}

/// Names and contents, as the peer prints them.
fn read(paths: &[PathBuf]) -> Value {
    let file = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        json!([name, hex(&fs::read(path).unwrap())])
    };
    paths.iter().map(file).collect()
}

fn get(store: &LocalFileStore, ids: &Value) -> Vec<PathBuf> {
    let id = |index: usize| ids[index].as_str().unwrap();
    if ids.as_array().unwrap().len() == 2 {
        store.get_artifact(id(0), id(1)).unwrap()
    } else {
        store.get_message(id(0)).unwrap()
    }
}

#[test]
fn a2a_utils_finds_the_files_that_we_saved_and_deletes_them() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = LocalFileStore::new(folder.path()).unwrap();
    let (mut ids, mut saved) = (Vec::new(), Vec::new());
    for (number, parts) in generated(&saved_parts()) {
        let id = format!("{number}");
        let paths = if number % 2 == 0 {
            let artifact = A2aArtifact::from_json(&json!({"artifactId": id, "parts": parts})).unwrap();
            ids.push(json!(["t", id]));
            store.save_artifact("t", &artifact)
        } else {
            let message =
                A2aMessage::from_json(&json!({"messageId": id, "role": "user", "parts": parts})).unwrap();
            ids.push(json!([id]));
            store.save_message(&message)
        };
        let mut paths = paths.unwrap();
        paths.sort();
        paths.dedup();
        saved.push(read(&paths));
    }
    assert!(saved.iter().any(|files| files != &json!([])), "no file was generated");
    let found = peer(&python, &["list", path(&folder)], &ids.clone().into());
    assert_eq!(found, Value::from(saved));
    peer(&python, &["delete", path(&folder)], &ids.clone().into());
    assert!(ids.iter().all(|ids| get(&store, ids).is_empty()));
}

#[test]
fn we_find_the_files_that_a2a_utils_saved_and_delete_them() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let saved = peer(&python, &["files", path(&folder), "5", &COUNT.to_string()], &Value::Null);
    let store = LocalFileStore::new(folder.path()).unwrap();
    let mut all = Vec::new();
    for one in saved.as_array().unwrap() {
        assert_eq!(read(&get(&store, &one[0])), one[1], "{}", one[0]);
        match one[0].as_array().unwrap().as_slice() {
            [task, artifact] => store.delete_artifact(task.as_str().unwrap(), artifact.as_str().unwrap()),
            [message] => store.delete_message(message.as_str().unwrap()),
            _ => unreachable!("the peer prints one id or two"),
        }
        .unwrap();
        all.push(one[0].clone());
    }
    assert_eq!(all.len(), COUNT);
    let left = peer(&python, &["list", path(&folder)], &all.into());
    assert!(left.as_array().unwrap().iter().all(|files| files == &json!([])));
}

/// Whether a2a-utils and we name the files of these parts alike: there is no control character, no name too long, and no name
/// twice. In all else the names are the same.
fn is_plain(parts: &Value) -> bool {
    let names: Vec<&str> = parts
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|part| part.pointer("/file/name")?.as_str())
        .collect();
    let cleaned: std::collections::BTreeSet<String> =
        names.iter().map(|name| name.replace(['.', '/'], "")).collect();
    cleaned.len() == names.len() && names.iter().all(|name| !name.chars().any(char::is_control))
}

#[test]
fn the_files_of_an_artifact_have_the_names_that_a2a_utils_gives_them() {
    let Some(python) = python() else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(ours.path()).unwrap();
    let file = |name: &str| json!({"kind": "file", "file": {"name": name, "bytes": "YWFh"}});
    let text = json!({"kind": "text", "text": "x"});
    let unnamed = json!({"kind": "file", "file": {"bytes": "YWFh"}});
    // Among them the rules for empty names and numbers: a name is the number of its part among all parts.
    let chosen = [
        json!([text.clone(), unnamed.clone(), text.clone(), unnamed]),
        json!([text.clone(), file(".."), file("a/"), text, file("/")]),
        json!([file("../../x.tar.gz"), file(".hidden"), file("a..b"), file("...c"), file("d ")]),
    ];
    let parts = saved_parts();
    let all = chosen.into_iter().chain(generated(&parts).map(|(_, parts)| parts).filter(is_plain));
    let (mut artifacts, mut ours_named) = (Vec::new(), Vec::new());
    for (number, parts) in all.enumerate() {
        let artifact = json!({"artifactId": format!("{number}"), "parts": parts});
        let saved = store.save_artifact("t", &A2aArtifact::from_json(&artifact).unwrap()).unwrap();
        let names = saved.iter().map(|path| Value::from(path.file_name().unwrap().to_str().unwrap()));
        ours_named.push(names.collect::<Value>());
        artifacts.push(artifact);
    }
    assert!(artifacts.len() > COUNT / 3, "{}", artifacts.len());
    let theirs = peer(&python, &["save", path(&theirs)], &Value::from(artifacts.clone()));
    for ((ours, theirs), artifact) in ours_named.iter().zip(theirs.as_array().unwrap()).zip(&artifacts) {
        assert_eq!(ours, theirs, "{artifact}");
    }
}
