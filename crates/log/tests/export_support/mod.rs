//! Logs to export, and their exports, for tests.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

use std::path::Path;

use proto_events::id::LogId;
use taskreel_log::api::{Append, EventReader, EventStore, ReadError};
use taskreel_log::audit;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, ok, stream};

pub(crate) fn append(store: &dyn EventStore, append: Append) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    ok(runtime.block_on(store.append(append)));
}

/// Fills a log by three processes: appends to one and to several streams, a body stored outside its record,
/// three epochs.
pub(crate) fn fill(dir: &Path) -> Author {
    let mut author = None;
    for process in 0..3_u8 {
        let store = SledStore::open(dir).unwrap();
        let mut writer =
            author.take().unwrap_or_else(|| Author::new(store.fence())).with_fence(store.fence());
        for n in 0..4_u8 {
            append(&store, writer.append_one(&stream("alone"), &[process, n]));
            let pair =
                [(stream("one"), vec![vec![n; 40], Vec::new()]), (stream("two"), vec![vec![process; 9]])];
            append(&store, writer.many(&pair));
        }
        // One large body is enough: its digits are slow.
        let large =
            if process == 1 { (0..60_000_u32).map(|at| at.to_le_bytes()[0]).collect() } else { Vec::new() };
        append(&store, writer.many(&[(stream("large"), vec![b"small".to_vec(), large])]));
        store.close().unwrap();
        author = Some(writer);
    }
    author.unwrap()
}

pub(crate) fn exported(reader: &dyn EventReader, id: LogId, durability: &str) -> String {
    let mut text = String::new();
    audit::export(reader, id, durability, |line| {
        text.push_str(line);
        text.push('\n');
        Ok::<(), ReadError>(())
    })
    .unwrap();
    text
}

/// Returns the export of the log in a directory.
pub(crate) fn export_of(dir: &Path) -> String {
    let store = SledStore::open(dir).unwrap();
    let text = exported(&store, store.header().id, store.durability().name());
    store.close().unwrap();
    text
}

/// Returns a filled log's export.
pub(crate) fn sample() -> String {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    export_of(dir.path())
}

/// Flips one bit of the digit or letter in the middle of the text after `field`, in the line of this number,
/// from 1.
pub(crate) fn flipped(text: &str, line: usize, field: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at =
        lines[line - 1].find(field).unwrap_or_else(|| panic!("line {line} has no {field}")) + field.len();
    let mut bytes = lines[line - 1].clone().into_bytes();
    // After the colon, the quote, and the first digits.
    let at = at + 12;
    bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
    lines[line - 1] = String::from_utf8(bytes).unwrap();
    lines.join("\n") + "\n"
}

/// Returns the text without one line, counted from 1.
pub(crate) fn without(text: &str, line: usize) -> String {
    let kept = text.lines().enumerate().filter(|(at, _)| at + 1 != line);
    kept.fold(String::new(), |text, (_, line)| text + line + "\n")
}

/// Returns the text with two lines exchanged, counted from 1.
pub(crate) fn swapped(text: &str, one: usize, other: usize) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(one - 1, other - 1);
    lines.join("\n") + "\n"
}
