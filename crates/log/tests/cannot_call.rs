//! The readers of a log have nothing to make a call with (promise 3): the crates that replay, verify and inspect
//! depend on no network, process, actor or HTTP crate, and a reader has no way to append.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use std::collections::BTreeMap;
use std::path::Path;

/// The dependencies of `proto-events`, each with its features. None of them does IO, except that `std` may.
const VOCABULARY: &[(&str, &[&str])] = &[
    ("bincode", &["std", "serde"]),
    ("indexmap", &[]),
    ("jiff", &["std"]),
    ("serde", &["workspace"]),
    ("serde_json", &["workspace"]),
    ("sha2", &["workspace"]),
    ("thiserror", &["workspace"]),
];

/// The dependencies of `taskreel-log`, each with its features. tokio has neither `net` nor `process`.
const LOG: &[(&str, &[&str])] = &[
    ("crc32c", &[]),
    ("crc32fast", &[]),
    ("futures-core", &["std"]),
    ("futures-util", &["std"]),
    ("getrandom", &[]),
    ("jiff", &["std"]),
    ("proto-events", &[]),
    ("regex", &[]),
    ("serde", &["workspace"]),
    ("serde_json", &["workspace"]),
    // Its tables of counters are left untouched.
    ("sled", &["miri_optimizations"]),
    ("thiserror", &["workspace"]),
    // With the feature `tokens` alone: vocabularies that are part of it, and a way to count by them.
    ("tiktoken-rs", &[]),
    ("tokio", &["macros", "rt", "sync", "time"]),
    ("tracing", &[]),
    ("unicode-width", &[]),
    ("uuid", &["v4"]),
];

/// The dependencies of `taskreel-log` on Unix. `net` is for the sockets of the local socket, which lead to no other machine.
const LOG_ON_UNIX: &[(&str, &[&str])] = &[("rustix", &["event", "fs", "net", "process", "std"])];

/// Returns the dependencies in a section of a manifest, each with its features.
fn dependencies(manifest: &str, section: &str) -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest)).unwrap();
    let section = text.split(&format!("\n[{section}]\n")).nth(1).unwrap();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let dependency = |line: &str| {
        let (name, rest) = line.split_once([' ', '.', '=']).unwrap();
        let listed = rest.split_once("features = [").and_then(|(_, rest)| rest.split_once(']'));
        let quoted =
            |features: &str| features.split(',').map(|it| it.trim().trim_matches('"').to_owned()).collect();
        let of_workspace = rest.starts_with("workspace").then(|| vec!["workspace".to_owned()]);
        (name.to_owned(), listed.map(|(features, _)| quoted(features)).or(of_workspace).unwrap_or_default())
    };
    lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(dependency).collect()
}

fn expected(list: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let owned = |features: &[&str]| features.iter().map(|feature| (*feature).to_owned()).collect();
    list.iter().map(|(name, features)| ((*name).to_owned(), owned(features))).collect()
}

#[test]
fn readers_depend_on_nothing_that_makes_a_call() {
    assert_eq!(dependencies("../../proto-events/Cargo.toml", "dependencies"), expected(VOCABULARY));
    assert_eq!(dependencies("Cargo.toml", "dependencies"), expected(LOG));
    assert_eq!(dependencies("Cargo.toml", "target.'cfg(unix)'.dependencies"), expected(LOG_ON_UNIX));
}

#[test]
fn sockets_are_local_and_only_the_socket_has_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut of_socket = 0;
    for file in files(&folder) {
        let text = std::fs::read_to_string(&file).unwrap();
        for word in
            ["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs", "AddressFamily::INET", "Command::new"]
        {
            assert!(!text.contains(word), "{} has `{word}`", file.display());
        }
        let is_of_socket = file.starts_with(folder.join("socket"));
        for word in ["UnixStream", "UnixListener", "rustix::net"] {
            let has = text.contains(word);
            of_socket += u32::from(has && is_of_socket);
            assert!(is_of_socket || !has, "{} has `{word}`", file.display());
        }
    }
    assert!(of_socket > 0, "the socket has sockets");
}

#[test]
fn a_reader_has_no_way_to_append() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let reader = std::fs::read_to_string(folder.join("api/reader.rs")).unwrap();
    for word in ["Append", "EventStore", "&mut self", "fn write", "fn put"] {
        assert!(!reader.contains(word), "api/reader.rs has `{word}`");
    }
    // Audits and views are given a reader, never a store. A subscription follows a store, and only reads it.
    for room in ["audit", "views", "jsonl"] {
        let files: Vec<_> =
            files(&folder.join(room)).into_iter().chain([folder.join(format!("{room}.rs"))]).collect();
        let of_tests: Vec<_> = files.iter().flat_map(|file| modules_of_tests(file)).collect();
        for file in files.iter().filter(|file| !of_tests.contains(file)) {
            let text = std::fs::read_to_string(file).unwrap();
            // What only tests have stands at the end of a file.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for word in ["EventStore", ".append(Append", "std::process", "std::net"] {
                assert!(!code.contains(word), "{} has `{word}`", file.display());
            }
        }
    }
}

/// Returns the files of the modules that a file declares for tests alone.
fn modules_of_tests(file: &Path) -> Vec<std::path::PathBuf> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .zip(text.lines().skip(1))
        .filter(|(attribute, _)| *attribute == "#[cfg(test)]")
        .filter_map(|(_, module)| module.split("mod ").nth(1)?.strip_suffix(';'))
        .map(|name| file.with_extension("").join(format!("{name}.rs")))
        .collect()
}

/// Returns the source files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
