//! `tests/reader.py`, which implements docs/format.md alone, reads what we write and detects each damage.
//! Without Python 3 the test fails if `CI=true`, and otherwise prints that it checked nothing.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod export_support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use export_support::{export_of, fill, flipped, swapped, without};
use proto_events::codec::kind;
use proto_events::id::Position;
use taskreel_log::api::EventReader as _;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::{Frontier, Head};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the reader can be run at all.
fn python() -> bool {
    let there =
        Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status();
    if there.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "CI=true, but there is no python3 of 3.10 or newer"
    );
    eprintln!("not checked: there is no python3 of 3.10 or newer, so the second reader was not run");
    false
}

fn reader<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> (Option<i32>, String) {
    script("tests/reader.py", args)
}

fn script<A: AsRef<OsStr>>(name: &str, args: impl IntoIterator<Item = A>) -> (Option<i32>, String) {
    let script = root().join(name);
    // Warnings are errors; no bytecode is written.
    let ran: Output =
        Command::new("python3").args(["-B", "-W", "error"]).arg(script).args(args).output().unwrap();
    let told = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
    assert!(!told.contains("Traceback"), "{told}");
    (ran.status.code(), told)
}

fn golden(name: &str) -> PathBuf {
    root().join("../../proto-events/tests/golden/v2").join(name)
}

/// Writes the text of an export into a file.
fn export_file(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("whole");
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn the_golden_records_are_read_as_they_were_written() {
    if !python() {
        return;
    }
    let (code, told) = reader([OsStr::new("record"), golden("record.bin").as_os_str()]);
    assert_eq!(code, Some(0), "{told}");
    for field in [
        "\"stream\": \"task-weather%20desk/t%C3%A2che%2F1\"",
        "\"first_version\": 3",
        "\"correlation_id\": \"request ☃\"",
        "\"time\": 1795000000123456",
        "\"events\": [201, 65535]",
        "fa1d411a6f31aa97cfd1f559cb0e354c27ec6d45bb3b033d034219a97add97db",
    ] {
        assert!(told.contains(field), "{field} is not in {told}");
    }
    let dir = tempfile::tempdir().unwrap();
    let body = dir.path().join("body");
    std::fs::write(&body, (0..120_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>())
        .unwrap();
    let chunked = golden("record_chunked.bin");
    let named = format!("1={}", body.display());
    let (code, told) = reader(["record".as_ref(), chunked.as_os_str(), named.as_ref()]);
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = reader(["record".as_ref(), chunked.as_os_str()]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("version 4 is stored outside the record and is missing"), "{told}");
}

#[test]
fn the_bodies_of_every_kind_and_code_are_decoded_by_the_page_alone_and_agree_with_their_payload() {
    if !python() {
        return;
    }
    let folder = root().join("tests/golden/v2");
    let logs =
        ["every_event", "varied", "codes", "minimized", "delegated", "rewritten", "registered", "webhooks"]
            .map(|name| folder.join(format!("{name}.ndjson")));
    let (code, told) = script("tests/bodies.py", &logs);
    let kinds: Vec<String> = kind::ALL.iter().map(|(number, _)| number.to_string()).collect();
    let whole = format!("codes that do not occur: none\nkinds {}: 0 faults\n", kinds.join(","));
    assert_eq!((code, told), (Some(0), whole));
    let dir = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("\"kind\":\"delegate\"", "\"kind\":\"tool\""),
        ("\"due\":\"2030", "\"due\":\"2031"),
        ("\"payload\":{\"turn_id\"", "\"payload\":{\"id\""),
    ] {
        let text = std::fs::read_to_string(&logs[0]).unwrap();
        assert!(text.contains(from), "{from}");
        let changed = export_file(dir.path(), &text.replacen(from, to, 1));
        let (code, told) = script("tests/bodies.py", &[changed]);
        assert!(code == Some(1) && told.contains("1 faults"), "{told}");
    }
}

#[test]
fn every_flipped_byte_of_a_record_is_told_or_changes_its_hash() {
    if !python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record");
    let good = std::fs::read(golden("record.bin")).unwrap();
    let hash = "fa1d411a6f31aa97cfd1f559cb0e354c27ec6d45bb3b033d034219a97add97db";
    for at in (0..good.len()).step_by(23) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&file, bad).unwrap();
        let (code, told) = reader(["record".as_ref(), file.as_os_str()]);
        assert!(code == Some(1) || !told.contains(hash), "byte {at}: {told}");
    }
}

#[test]
fn a_good_export_is_read_with_its_head_and_every_damage_is_told() {
    if !python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    fill(&log);
    let text = export_of(&log);
    let (file, head) = (dir.path().join("export"), log.join("HEAD"));
    let read = |text: &str, head: Option<&Path>| {
        std::fs::write(&file, text).unwrap();
        let head = head.map(Path::as_os_str);
        reader(["export".as_ref(), file.as_os_str()].into_iter().chain(head))
    };
    let (code, told) = read(&text, Some(&head));
    // The store computes the root from the frontier that it extends, the reader from all leaves.
    let root = Head::read(&log).unwrap().unwrap().frontier.root();
    let whole = format!("root {root}\n39 records, 54 events, 4 streams, 0 faults\n");
    assert_eq!((code, told), (Some(0), whole));

    let large = 1 + text.lines().position(|line| line.contains("\"detached\":[{")).unwrap();
    // The line of the last record; the one with the root follows.
    let last = text.lines().count() - 1;
    let other = "0".repeat(64);
    for (damaged, word) in [
        (flipped(&text, 5, "\"hash\""), "line 5: its hash"),
        (flipped(&text, large, "\"body\""), "does not have its digest"),
        (flipped(&text, large, "\"bytes\""), &*format!("line {large}: ")),
        (flipped(&text, 7, "\"bytes\""), "line 7: "),
        (flipped(&text, 7, "\"command_digest\""), "line 7: its command_digest"),
        (flipped(&text, 7, "\"digest\""), "line 7: what it says of event 0"),
        (without(&text, 6), "line 6: position"),
        (without(&text, last), "its first line says (54, 39,"),
        (without(&text, last + 1), "its last line is missing"),
        (text.replacen(&root.to_string(), &other, 1), "its first line says (54, 39, '000"),
        (text.replace(&root.to_string(), &other), "its last line says (54, 39, '000"),
        (text.clone() + text.lines().nth(3).unwrap(), &*format!("line {}: it stands after", last + 2)),
        (swapped(&text, 5, 6), "line 5: position"),
        (text.replacen("\"detached\":[{", "\"other\":[{", 1), "is stored outside the record and is missing"),
        (text[..text.len() - 700].to_owned(), &*format!("line {last}: it cannot be read")),
        (text.replacen("{\"position\":1,", "{\"position\":7,", 1), "line 2: position 7 follows position 0"),
    ] {
        let (code, told) = read(&damaged, None);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(word), "`{word}` is not in {told}");
    }
    // A truncated log whose first and last line were adjusted: only HEAD reveals it.
    let mut shorter = Frontier::default();
    JsonLines::open(export_file(dir.path(), &text))
        .unwrap()
        .read_all(Position(1), 38)
        .unwrap()
        .iter()
        .for_each(|stored| shorter.push(stored.hash));
    let cut = without(&text, last)
        .replacen("\"head\":54,\"records\":39", "\"head\":52,\"records\":38", 1)
        .replacen("\"end\":54,\"records\":39", "\"end\":52,\"records\":38", 1)
        .replace(&root.to_string(), &shorter.root().to_string());
    assert_eq!(read(&cut, None).0, Some(0));
    let (code, told) = read(&cut, Some(&head));
    assert_eq!(code, Some(1));
    assert!(told.contains("HEAD: it says 39 records up to position 54"), "{told}");
    for no_export in ["", "{}", "hello\n"] {
        assert_eq!(read(no_export, None).0, Some(2), "{no_export}");
    }
}

#[test]
fn it_stays_short_and_shares_nothing() {
    let known = ["datetime", "hashlib", "json", "pathlib", "reader", "struct", "sys"];
    for (script, lines) in [("tests/reader.py", 290), ("tests/bodies.py", 295)] {
        let text = std::fs::read_to_string(root().join(script)).unwrap();
        assert!(text.lines().count() < lines, "{} lines", text.lines().count());
        for module in text.lines().filter_map(|line| line.strip_prefix("import ")) {
            assert!(known.contains(&module), "{script} imports {module}");
        }
    }
}
