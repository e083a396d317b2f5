//! The Merkle root: it stands in an export's first and last line, which are checked by every reader of the file, and
//! one that was kept elsewhere proves the log up to where it was computed.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod export_support;

use std::convert::Infallible;
use std::io::Cursor;

use export_support::{append, export_of, fill, sample};
use proto_events::id::{Digest, Position};
use taskreel_log::api::EventStore as _;
use taskreel_log::audit;
use taskreel_log::audit::{FindingKind, ImportError, Scope, VerifyReport, verify_within};
use taskreel_log::jsonl::{ExportError, ExportLines, JsonLines};
use taskreel_log::sled::{Head, SledStore};
use taskreel_log::testing::conformance::stream;

fn opened(text: &str) -> Result<JsonLines, ExportError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    JsonLines::open(file.path())
}

/// Returns the result of `verify --file`.
fn verified(text: &str) -> VerifyReport {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let log = JsonLines::open_damaged(file.path()).unwrap();
    verify_within(&log, &Scope { file: Some(&log), ..Scope::default() }, &mut |_| {})
}

/// Returns the faults of a log, without those of these tests' artificial events.
fn faults(found: &VerifyReport) -> Vec<FindingKind> {
    let kinds = found.findings.iter().map(|finding| finding.kind);
    kinds.filter(|kind| !matches!(kind, FindingKind::Event | FindingKind::Lifecycle)).collect()
}

/// Returns the Merkle root of an export's records by RFC 6962's recursive definition.
fn root_of(text: &str) -> Digest {
    fn tree(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::compute(&[]),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                Digest::of_parts(&[&[1], &tree(left).0, &tree(right).0])
            }
        }
    }
    let leaf = |line: &str| Some(Digest::parse(line.split_once("\"hash\":\"")?.1.get(..64)?).unwrap());
    tree(&text.lines().filter_map(leaf).collect::<Vec<_>>())
}

#[test]
fn the_root_stands_in_the_first_and_the_last_line_and_another_one_is_refused() {
    let text = sample();
    let root = root_of(&text);
    let log = opened(&text).unwrap();
    assert_eq!((log.header().root, log.header().records), (root, text.lines().count() as u64 - 2));
    assert_eq!((log.end().unwrap().root, log.end().unwrap().head), (root, log.header().head));
    assert_eq!(verified(&text).root, Some(root));
    let other = Digest::compute(b"other").to_string();
    let (first, last) = (text.find(&root.to_string()).unwrap(), text.rfind(&root.to_string()).unwrap());
    assert_ne!(first, last);
    let records = format!("\"records\":{}", log.header().records);
    let changes = [
        (first, root.to_string().len(), &*other, "first"),
        (last, root.to_string().len(), &*other, "last"),
        (text.find(&records).unwrap(), records.len(), "\"records\":40", "first"),
        (text.rfind(&records).unwrap(), records.len(), "\"records\":40", "last"),
        (text.rfind("{\"end\":54").unwrap(), 9, "{\"end\":53", "last"),
    ];
    for (at, length, new, line) in changes {
        let mut forged = text.clone();
        forged.replace_range(at..at + length, new);
        match opened(&forged).unwrap_err() {
            ExportError::OtherRoot { place, .. } => assert_eq!(place, line, "{new}"),
            other => panic!("{new}: {other}"),
        }
        assert_eq!(faults(&verified(&forged)), [FindingKind::Root], "{new}");
        let lines = ExportLines::open(Cursor::new(forged.as_bytes())).unwrap();
        let imported = audit::import(lines, |_| Ok::<(), Infallible>(()));
        assert!(matches!(imported, Err(ImportError::Export(ExportError::OtherRoot { .. }))), "{new}");
    }
}

#[test]
fn a_given_root_covers_the_log_up_to_where_it_was_computed_and_any_other_is_a_finding() {
    let dir = tempfile::tempdir().unwrap();
    let mut author = fill(dir.path());
    let text = export_of(dir.path());
    let early = Head::read(dir.path()).unwrap().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    author = author.with_fence(store.fence());
    append(&store, author.append_one(&stream("alone"), b"goes on"));
    let with =
        |root: Digest| verify_within(&store, &Scope { root: Some(root), ..Scope::default() }, &mut |_| {});
    let now = with(Digest::compute(&[]));
    assert_eq!(
        (now.covered, now.end),
        (Some(Position(0)), Position(55)),
        "the root of nothing covers nothing"
    );
    let whole = with(now.root.unwrap());
    assert_eq!((whole.covered, faults(&whole)), (Some(Position(55)), vec![]));
    let earlier = with(root_of(&text));
    assert_eq!((earlier.covered, faults(&earlier)), (Some(early.position), vec![]));
    assert!(
        earlier.unchecked.iter().any(|what| what.contains("after position 54")),
        "{:?}",
        earlier.unchecked
    );
    let other = with(Digest::compute(b"other"));
    assert_eq!((other.covered, faults(&other)), (None, vec![FindingKind::Root]));
    assert_eq!(other.findings.last().unwrap().position, Some(Position(55)));
    // The log as it was before its last record does not have the root.
    let short =
        verify_within(&opened(&text).unwrap(), &Scope { root: now.root, ..Scope::default() }, &mut |_| {});
    assert!(faults(&short).contains(&FindingKind::Root), "{:?}", short.findings);
    store.close().unwrap();
}
