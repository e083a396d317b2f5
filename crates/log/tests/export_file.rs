//! An export as a log of its own: read, verified, imported. Each change of the file is reported with its
//! line.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod export_support;

use std::io::Cursor;
use std::path::Path;

use export_support::{append, export_of, exported, fill, flipped, sample, swapped, without};
use proptest::prelude::*;
use proto_events::id::{LogId, Position};
use taskreel_log::api::{AppendError, Durability, EventReader as _, EventStore as _, OpenError};
use taskreel_log::audit;
use taskreel_log::audit::{FindingKind, ImportError, ImportSummary, Scope, VerifyReport, verify_within};
use taskreel_log::jsonl::{ExportError, ExportLines, JsonLines};
use taskreel_log::sled::{Frontier, Head, SledImport, SledStore, blob_files};
use taskreel_log::testing::conformance::{check_log, stream};

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

fn import(text: &str, dir: &Path) -> Result<ImportSummary, ImportError<AppendError>> {
    let lines = ExportLines::open(Cursor::new(text.as_bytes()))?;
    let durability = Durability::of_name(&lines.header().durability).unwrap();
    let id = lines.header().id;
    let mut log = SledImport::create(dir, id, durability).unwrap();
    let done = audit::import(lines, |append| log.take(append))?;
    log.finish().unwrap();
    Ok(done)
}

/// Returns the faults of a log, without those of these tests' artificial events.
fn faults(found: &VerifyReport) -> Vec<FindingKind> {
    let of_bytes = found
        .findings
        .iter()
        .filter(|finding| !matches!(finding.kind, FindingKind::Event | FindingKind::Lifecycle));
    of_bytes.map(|finding| finding.kind).collect()
}

#[test]
fn a_file_reads_as_its_log_and_exports_as_itself() {
    let text = sample();
    let log = opened(&text).unwrap();
    assert_eq!(check_log(&log), log.header().head.0);
    assert!(exported(&log, log.header().id, &log.header().durability) == text);
    assert!(faults(&verified(&text)).is_empty(), "{:?}", verified(&text).findings);
}

#[test]
fn an_import_is_the_same_log_byte_for_byte_and_is_gone_on_with_under_a_higher_epoch() {
    let base = tempfile::tempdir().unwrap();
    let (from, to) = (base.path().join("from"), base.path().join("to/new"));
    let author = fill(&from);
    let text = export_of(&from);
    let done = import(&text, &to).unwrap();
    assert_eq!(done.records, text.lines().count() as u64 - 2);
    assert!(export_of(&to) == text, "the export of the import is another");
    assert_eq!(Head::read(&to).unwrap().unwrap(), Head::read(&from).unwrap().unwrap());
    assert!(blob_files(&to).unwrap().is_empty());
    for _ in 0..2 {
        let store = SledStore::open(&to).unwrap();
        // Three processes wrote, one exported: the fourth epoch was the exporter's and is in no record.
        assert!(store.fence().epoch > 3, "{}", store.fence().epoch);
        assert_eq!(store.resolve(taskreel_log::testing::conformance::id(1)).unwrap().unwrap().parts.len(), 1);
        store.close().unwrap();
    }
    let store = SledStore::open(&to).unwrap();
    let mut author = author.with_fence(store.fence());
    append(&store, author.append_one(&stream("alone"), b"goes on"));
    check_log(&store);
    let text = exported(&store, store.header().id, "strict");
    store.close().unwrap();
    let again = base.path().join("again");
    import(&text, &again).unwrap();
    assert!(export_of(&again) == text);
}

#[test]
fn the_durability_of_a_log_survives_its_import() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("os");
    import(&sample().replacen("\"durability\":\"strict\"", "\"durability\":\"os\"", 1), &dir).unwrap();
    let store = SledStore::open(&dir).unwrap();
    assert_eq!(store.durability(), Durability::Os);
    store.close().unwrap();
}

#[test]
fn an_empty_log_is_exported_imported_and_run_on() {
    let base = tempfile::tempdir().unwrap();
    SledStore::open(base.path().join("from")).unwrap().close().unwrap();
    let text = export_of(&base.path().join("from"));
    assert_eq!(import(&text, &base.path().join("to")).unwrap(), ImportSummary::default());
    assert_eq!(export_of(&base.path().join("to")), text);
}

/// Checks that opening the changed file names this line, and that importing it imports nothing and leaves
/// nothing.
#[track_caller]
fn refused(text: &str, line: u64) {
    let named = |error: ExportError| match error {
        ExportError::Damaged(damaged) => damaged.line,
        ExportError::Cut { line, .. } => line + 1,
        other => panic!("{other}"),
    };
    assert_eq!(named(opened(text).unwrap_err()), line);
    let base = tempfile::tempdir().unwrap();
    for dir in [base.path().join("new"), base.path().to_owned()] {
        match import(text, &dir).unwrap_err() {
            ImportError::Export(error) => assert_eq!(named(error), line),
            other => panic!("{other}"),
        }
        assert!(base.path().read_dir().unwrap().next().is_none(), "something was left");
    }
    assert!(!faults(&verified(text)).is_empty(), "verify finds nothing");
}

#[test]
fn a_line_that_is_missing_changed_or_in_another_place_is_named_and_nothing_is_imported() {
    let text = sample();
    // The last record's line; the line of the end follows.
    let last = text.lines().count() - 1;
    refused(&without(&text, 2), 2);
    refused(&without(&text, 8), 8);
    refused(&without(&text, last), last as u64);
    refused(&without(&without(&text, last + 1), last), last as u64);
    refused(&without(&text, last + 1), last as u64 + 1);
    refused(&swapped(&text, 5, 6), 5);
    for line in [2, 6, last] {
        refused(&flipped(&text, line, "\"hash\""), line as u64);
        refused(&flipped(&text, line, "\"bytes\""), line as u64);
        // A change of the words only: the bytes are read, and `verify` and `import` check the words against
        // them.
        let words = flipped(&text, line, "\"previous\"");
        opened(&words).unwrap();
        assert_eq!(faults(&verified(&words)), [FindingKind::Words]);
        import(&words, &tempfile::tempdir().unwrap().path().join("new")).unwrap_err();
    }
    let large = 1 + text.lines().position(|line| line.contains("\"detached\":[{")).unwrap();
    refused(&flipped(&text, large, "\"body\""), large as u64);
    let doubled = text.lines().nth(3).unwrap();
    refused(&text.replacen(doubled, &format!("{doubled}\n{doubled}"), 1), 5);
    refused(&text.replacen(doubled, &format!("{doubled}\n\n"), 1), 5);
}

/// Checks a replaced record that is intact and has the right hash, version and position: only the next one
/// reveals it.
#[test]
fn a_record_that_was_exchanged_for_another_is_told_by_the_one_behind_it() {
    let log = |second: &[u8]| {
        let store = taskreel_log::memory::MemoryStore::new();
        let mut author = taskreel_log::testing::conformance::Author::new(store.fence());
        for body in [b"first", second, b"third"] {
            append(&store, author.append_one(&stream("s"), body));
        }
        exported(&store, LogId::default(), "strict")
    };
    let (ours, theirs) = (log(b"two"), log(b"TWO"));
    let exchanged = ours.replacen(ours.lines().nth(2).unwrap(), theirs.lines().nth(2).unwrap(), 1);
    assert_ne!(exchanged, ours);
    refused(&exchanged, 4);
    assert_eq!(faults(&verified(&exchanged)), [FindingKind::Chain, FindingKind::Root, FindingKind::Root]);
}

#[test]
fn a_file_cut_anywhere_is_never_taken_for_a_shorter_log() {
    let text = sample();
    let text = text.trim_end();
    for end in (0..text.len()).step_by(text.len() / 150) {
        let cut = &text[..end];
        match opened(cut) {
            Err(ExportError::NotAnExport { .. }) => assert!(!cut.contains('\n'), "cut at {end}"),
            Err(ExportError::Damaged(damaged)) => {
                assert_eq!(damaged.line, cut.lines().count() as u64, "cut at {end}");
            }
            Err(ExportError::Cut { .. }) => assert!(cut.ends_with(['\n', '}']), "cut at {end}"),
            other => panic!("cut at {end}: {other:?}"),
        }
    }
    // Without the last line end nothing is missing.
    opened(text).unwrap();
}

#[test]
fn an_error_names_the_place_of_a_damaged_line_as_far_as_it_can_be_read() {
    let text = sample();
    let line = text.lines().nth(2).unwrap();
    let cut = text.replacen(line, &line[..300], 1);
    let told = opened(&cut).unwrap_err().to_string();
    assert!(told.contains("line 3") && told.contains("stream task-agent/one"), "{told}");
    assert!(told.contains("version 1") && told.contains("position 2"), "{told}");
}

/// Returns an export's first line with an id that is none.
fn text_without_id() -> String {
    sample().lines().next().unwrap().replacen("\"log\":\"", "\"log\":\"x", 1)
}

#[test]
fn what_is_no_export_is_refused_as_such() {
    for text in ["", "\n", "{}", "[]", "\u{0}\u{1}", "{\"schema\":\"taskreel.event/1\"}", "hello"] {
        assert!(matches!(opened(text), Err(ExportError::NotAnExport { .. })), "{text:?}");
    }
    for other in [
        "{\"schema\":\"taskreel.export/1\",\"format\":1,\"durability\":\"strict\",\"head\":0}",
        "{\"schema\":\"taskreel.export/3\"}",
        "{\"schema\":\"taskreel.export/2\",\"format\":9,\"log\":\"\",\"durability\":\"strict\",\"head\":0}",
    ] {
        assert!(matches!(opened(other), Err(ExportError::OtherFormat { .. })), "{other}");
    }
    let nameless = text_without_id();
    assert!(matches!(opened(&nameless), Err(ExportError::NotAnExport { .. })), "{nameless}");
    let missing = JsonLines::open("/nowhere/at/all").unwrap_err();
    assert!(matches!(missing, ExportError::Io { missing: true, .. }));
}

#[test]
fn words_that_were_changed_are_held_against_the_bytes() {
    let text = sample();
    for (from, to) in [
        ("\"epoch\":1", "\"epoch\":2"),
        ("\"principal\":\"\"", "\"principal\":\"boss\""),
        ("\"kind_number\":1", "\"kind_number\":2"),
        ("\"detached\":[]", "\"detached\":[{\"event\":0,\"body\":\"00\"}]"),
        ("\"epoch\":1", "\"epoch\":1,\"note\":{\"a\":1}"),
        ("\"parts\":1,", ""),
        ("\"states\":[\"submitted\",", "\"states\":["),
        ("\"format\":2", "\"format\":2,\"note\":1"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        assert!(!faults(&verified(&changed)).is_empty(), "{from}");
        let dir = tempfile::tempdir().unwrap();
        import(&changed, &dir.path().join("new")).unwrap_err();
    }
}

#[test]
fn verifying_a_file_goes_on_behind_every_damaged_line() {
    let text = sample();
    let whole = verified(&text);
    let lines = [4, 9, 10, 20];
    let damaged = lines.iter().fold(text, |text, line| flipped(&text, *line, "\"bytes\""));
    let found = verified(&damaged);
    let unreadable: Vec<_> =
        found.findings.iter().filter(|finding| finding.kind == FindingKind::Unreadable).collect();
    assert_eq!(unreadable.len(), lines.len(), "{unreadable:?}");
    for (finding, line) in unreadable.iter().zip(lines) {
        assert!(finding.what.starts_with(&format!("line {line}:")), "{finding:?}");
        assert!(finding.stream.is_some() && finding.position.is_some(), "{finding:?}");
    }
    assert_eq!(found.records, whole.records - lines.len() as u64);
    assert!(found.unchecked.iter().any(|what| what.contains("could not be read")));
}

#[test]
fn verifying_one_stream_says_what_it_left_out() {
    let text = sample();
    let log = opened(&text).unwrap();
    let only = stream("two");
    let scope = Scope { only: Some(&only), file: Some(&log), ..Scope::default() };
    let found = verify_within(&log, &scope, &mut |_| {});
    assert_eq!((found.streams, found.events, faults(&found)), (1, 12, Vec::new()));
    assert!(found.unchecked[0].contains("other streams"), "{:?}", found.unchecked);
}

#[test]
fn head_is_held_against_the_records() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let head = Head::read(dir.path()).unwrap().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let with = |head: &Head| {
        faults(&verify_within(&store, &Scope { head: Some(head), ..Scope::default() }, &mut |_| {}))
    };
    assert_eq!(with(&head), []);
    let mut frontier = Frontier::default();
    store.read_all(Position(1), 5).unwrap().iter().for_each(|stored| frontier.push(stored.hash));
    let early = Head { position: store.read_all(Position(1), 5).unwrap()[4].last_position(), frontier };
    assert_eq!(with(&early), [], "a HEAD of before is one of the same log");
    assert_eq!(
        with(&Head { position: Position(early.position.0 + 1), ..early.clone() }),
        [FindingKind::Head]
    );
    let mut longer = head.clone();
    longer.frontier.push(proto_events::id::Digest::compute(b"one more"));
    assert_eq!(with(&longer), [FindingKind::Head], "the log was cut");
    let mut other = Frontier::default();
    for n in 0..5_u8 {
        other.push(proto_events::id::Digest::compute(&[n]));
    }
    assert_eq!(with(&Head { frontier: other, ..early }), [FindingKind::Head]);
    store.close().unwrap();
}

#[test]
fn an_import_takes_new_and_empty_directories_only_and_a_broken_one_leaves_them_so() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("log");
    let begun = SledImport::create(&dir, LogId::default(), Durability::Strict).unwrap();
    assert!(matches!(
        SledImport::create(&dir, LogId::default(), Durability::Strict),
        Err(OpenError::NotEmpty { .. })
    ));
    let refused = SledStore::open(&dir).unwrap_err();
    assert!(refused.to_string().contains("import into it was interrupted"), "{refused}");
    drop(begun);
    assert!(!dir.exists());
    std::fs::create_dir(&dir).unwrap();
    drop(SledImport::create(&dir, LogId::default(), Durability::Strict).unwrap());
    assert!(dir.read_dir().unwrap().next().is_none(), "an empty directory stays, and stays empty");
    std::fs::write(dir.join("precious"), "mine").unwrap();
    assert!(matches!(
        SledImport::create(&dir, LogId::default(), Durability::Strict),
        Err(OpenError::NotEmpty { .. })
    ));
    assert_eq!(dir.read_dir().unwrap().count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Checks the change of one byte of a small export.
    #[test]
    fn a_changed_byte_is_found_or_changes_nothing(at in 0..1_000_000_usize, to in 0x20..0x7f_u8) {
        let text = small();
        let at = at % (text.len() - 1);
        let mut bytes = text.clone().into_bytes();
        bytes[at] = to;
        let changed = String::from_utf8(bytes).unwrap();
        let (good, header) = (opened(&text).unwrap(), !text[..at].contains('\n'));
        match opened(&changed) {
            Err(ExportError::Damaged(damaged)) => {
                // A lost line end joins two lines; a record that is not the one the next names is found
                // there.
                let line = 1 + text[..at].matches('\n').count() as u64;
                prop_assert!((line..=line + 1).contains(&damaged.line), "byte {}: {}", at, damaged);
            }
            Err(ExportError::Cut { .. } | ExportError::NotAnExport { .. } | ExportError::OtherFormat { .. }) => {
                prop_assert!(header || at + 2 > text.len() || text.as_bytes()[at] == b'\n', "byte {at}");
            }
            Err(ExportError::OtherRoot { .. }) => {
                let last = text.trim_end().rfind('\n').unwrap();
                prop_assert!(header || at > last, "byte {at}");
            }
            Err(other) => prop_assert!(false, "byte {}: {}", at, other),
            Ok(log) => {
                let read = log.read_all(Position(1), 99).unwrap();
                prop_assert_eq!(&read, &good.read_all(Position(1), 99).unwrap());
                let said = faults(&verified(&changed)) == [FindingKind::Words];
                // The first line's words about itself belong to no record.
                prop_assert!(header || said || exported(&log, log.header().id, "strict") == text, "byte {at}");
            }
        }
    }
}

/// Returns a log of a few lines, made once.
fn small() -> String {
    use std::sync::OnceLock;
    static SMALL: OnceLock<String> = OnceLock::new();
    let made = SMALL.get_or_init(|| {
        let store = taskreel_log::memory::MemoryStore::new();
        let mut author = taskreel_log::testing::conformance::Author::new(store.fence());
        for n in 0..4_u8 {
            append(&store, author.append_one(&stream(&format!("s{}", n % 2)), &[n; 5]));
        }
        exported(&store, LogId::default(), "strict")
    });
    made.clone()
}
