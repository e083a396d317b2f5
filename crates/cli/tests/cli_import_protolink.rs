//! `import protolink`: files that the real packages wrote come in whole and once; whatever else a file holds is refused in
//! words, and the log stays as it was.
//!
//! The files in `protolink_db` were written by protolink 0.6.4 and 0.8.3 with `tests/interop/protolink/make_db.py`, whose
//! output (what the packages read back) stands beside them. `TASKREEL_PROTOLINK_064` and `TASKREEL_PROTOLINK_083` name
//! Pythons with the packages (`tests/interop/venv`), which then write files anew.
#![cfg(all(unix, feature = "import-protolink"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use binary::{Place, Ran};
use proto_events::json::JsonValue as Value;
use rusqlite::Connection;

const VERSIONS: [&str; 2] = ["0.6.4", "0.8.3"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protolink_db")
}

fn import(place: &Place, file: &Path) -> Ran {
    Ran(place
        .command(["import", "protolink"])
        .arg(file)
        .args(["--data-dir", "log", "--json"])
        .stdin(Stdio::null())
        .output()
        .unwrap())
}

fn rows(ran: &Ran) -> Vec<Value> {
    ran.out().lines().map(|line| Value::parse(line).unwrap()).collect()
}

fn sums(ran: &Ran) -> [u64; 4] {
    let rows = rows(ran);
    let last = rows.last().unwrap();
    assert_eq!(last["schema"], "taskreel.import-protolink/1");
    ["new", "known", "changed", "refused"].map(|name| last[name].as_u64().unwrap())
}

/// Returns the whole log as it is exported.
fn exported(place: &Place) -> String {
    place.run("export --data-dir log").ended(0).out()
}

/// Copies a file of the real package, and opens the copy for changes.
fn changed(place: &Place, version: &str, change: impl FnOnce(&Connection)) -> PathBuf {
    let file = place.path().join("changed.db");
    std::fs::copy(folder().join(format!("{version}.db")), &file).unwrap();
    let connection = Connection::open(&file).unwrap();
    change(&connection);
    connection.close().unwrap();
    file
}

/// Compares the log with what the real package reads from the file.
fn assert_same(place: &Place, read: &Value) {
    for row in read["tasks"].as_array().unwrap() {
        let theirs = &row["task"];
        let id = theirs["id"].as_str().unwrap().to_owned();
        let mut ours =
            Value::parse(&place.run(&format!("state {id} --json --data-dir log")).ended(0).out()).unwrap();
        let Value::Object(metadata) = &mut ours["metadata"] else { panic!("{ours}") };
        let kept = metadata.remove("protolink_import").unwrap();
        assert_eq!(kept["updated_at"], row["updated_at"]);
        if theirs["state"] == "working" {
            assert_eq!(ours["state"], "input-required");
            continue;
        }
        assert_eq!(&ours, theirs, "{id}");
    }
    let Value::Object(namespaces) = &read["sessions"] else { panic!("{read}") };
    for (agent, sessions) in namespaces {
        let Value::Object(sessions) = sessions else { panic!("{sessions}") };
        for (id, theirs) in sessions {
            let stream = format!("state session-{agent}/{id} --json --data-dir log");
            let ours = Value::parse(&place.run(&stream).ended(0).out()).unwrap();
            let ours = ours.get("messages").or_else(|| ours.get("history")).unwrap_or(&ours);
            assert_eq!(ours, theirs, "{stream}");
        }
    }
}

fn comes_in_once(file: &Path, read: &Value) {
    let place = Place::new();
    let before = std::fs::read(file).unwrap();
    let first = import(&place, file).ended(0);
    let [new, known, changed, refused] = sums(&first);
    assert!(new >= 7 && known + changed + refused == 0, "{}", first.out());
    assert_same(&place, read);
    place.run("verify --data-dir log").ended(0);
    let log = exported(&place);
    assert!(log.contains("import protolink"), "the records name the import as their principal");
    assert_eq!(sums(&import(&place, file).ended(0)), [0, new, 0, 0]);
    assert_eq!(exported(&place), log, "nothing was added");
    assert_eq!(std::fs::read(file).unwrap(), before, "the file is only read");
}

#[test]
fn a_file_of_each_version_comes_in_as_the_package_reads_it_and_once() {
    for version in VERSIONS {
        let read = std::fs::read_to_string(folder().join(format!("{version}.json"))).unwrap();
        comes_in_once(&folder().join(format!("{version}.db")), &Value::parse(&read).unwrap());
    }
}

#[test]
fn a_file_that_the_real_package_writes_now_comes_in_the_same_way() {
    for (version, name) in VERSIONS.into_iter().zip(["TASKREEL_PROTOLINK_064", "TASKREEL_PROTOLINK_083"]) {
        let Some(python) = std::env::var_os(name) else {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{name} is not set");
            eprintln!("not tried with {version}: {name} is not set");
            continue;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/protolink/make_db.py");
        let made = tempfile::tempdir().unwrap();
        let file = made.path().join("made.db");
        let output = Command::new(python).arg(script).arg(&file).arg("601").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        comes_in_once(&file, &Value::parse(printed.lines().last().unwrap()).unwrap());
    }
}

#[test]
fn what_changed_in_the_file_is_reported_and_not_doubled() {
    let place = Place::new();
    let file = changed(&place, "0.6.4", |_| ());
    import(&place, &file).ended(0);
    let log = exported(&place);
    let file = changed(&place, "0.6.4", |connection| {
        connection
            .execute("UPDATE protolink_tasks SET task_json = replace(task_json, '\"state\": \"failed\"', '\"state\": \"canceled\"')", [])
            .unwrap();
        connection
            .execute("UPDATE storage SET value = replace(value, 'Take a coat', 'Take two')", [])
            .unwrap();
    });
    let ran = import(&place, &file).ended(1);
    let [new, _, changed, refused] = sums(&ran);
    assert_eq!((new, changed, refused), (0, 2, 0), "{}", ran.out());
    assert_eq!(exported(&place), log);
}

#[test]
fn an_item_that_no_log_can_hold_is_named_and_the_others_come_in() {
    let place = Place::new();
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let file = changed(&place, "0.6.4", |connection| {
        let add = "INSERT INTO protolink_tasks VALUES (?1,'completed',NULL,NULL,NULL,'weather',?2,'{}',NULL,'2026')";
        for (id, task) in [
            ("nan", r#"{"id":"nan","state":"completed","metadata":{"x":NaN}}"#.to_owned()),
            ("deep", format!(r#"{{"id":"deep","metadata":{{"x":{deep}}}}}"#)),
            ("state", r#"{"id":"state","state":"done"}"#.to_owned()),
            ("newline", r#"{"id":"a\nb","state":"completed"}"#.to_owned()),
            ("long", format!(r#"{{"id":"{}","state":"completed"}}"#, "x".repeat(201))),
            ("number", "7".to_owned()),
        ] {
            connection.execute(add, [id, &task]).unwrap();
        }
        let other = r#"{"entries":[{"card":{}}],"no list":{"a":1},"roles":[{"role":"boss","content":"x"}]}"#;
        connection.execute("INSERT INTO storage VALUES ('registry', ?1)", [other]).unwrap();
        connection.execute("INSERT INTO storage VALUES ('text', 'no JSON')", []).unwrap();
    });
    let ran = import(&place, &file).ended(1);
    let [new, _, _, refused] = sums(&ran);
    assert!(new >= 7 && refused == 10, "{}", ran.out());
    for row in rows(&ran).iter().filter(|row| row["outcome"] == "refused") {
        assert!(row["why"].as_str().is_some_and(|why| !why.is_empty()), "{row}");
    }
    place.run("verify --data-dir log").ended(0);
}

/// Imports a file that must be refused in words, into a log that must stay as it is.
#[track_caller]
fn refused(place: &Place, file: &Path, code: i32, words: &[&str]) {
    let log = exported(place);
    import(place, file).ended(code).told(words);
    assert_eq!(exported(place), log);
}

#[test]
fn a_hostile_file_is_refused_in_words_and_the_log_stays_as_it_was() {
    let place = Place::new();
    import(&place, &folder().join("0.8.3.db")).ended(0);
    let whole = std::fs::read(folder().join("0.6.4.db")).unwrap();
    let file = place.path().join("hostile.db");
    for (content, code) in [
        (Vec::new(), 5),
        (b"SQLite format 3\0".to_vec(), 5),
        (b"{\"schema\":\"taskreel.export/2\"}\n".repeat(9), 5),
        (whole[..whole.len() / 2].to_vec(), 5),
    ] {
        std::fs::write(&file, content).unwrap();
        refused(&place, &file, code, &["cannot import", "nothing was imported"]);
    }
    refused(&place, &place.path().join("missing.db"), 3, &["nothing was imported"]);
    refused(&place, place.path(), 3, &["it is not a file"]);
    let endless = "CREATE VIEW protolink_tasks AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) \
        SELECT i AS task_id, i AS run_id, i AS agent_name, i AS task_json, i AS metadata_json, i AS updated_at FROM n";
    for schema in [
        endless,
        "CREATE TABLE other (a, b)",
        "CREATE TABLE storage (key TEXT, value TEXT, more TEXT)",
        "CREATE TABLE protolink_tasks (task_id, run_id, agent_name, task_json AS (hex(zeroblob(9))), metadata_json, updated_at)",
    ] {
        std::fs::remove_file(&file).unwrap();
        Connection::open(&file).unwrap().execute_batch(schema).unwrap();
        refused(&place, &file, 5, &["none of Protolink's tables"]);
    }
    for (value, word) in
        [("7", "a number"), ("x'00'", "a blob"), ("NULL", "NULL"), ("cast(x'ff' as text)", "UTF-8")]
    {
        let file = changed(&place, "0.6.4", |connection| {
            connection.execute_batch(&format!("INSERT INTO storage VALUES ('wrong', {value})")).unwrap();
        });
        // A column of texts makes a text of a number.
        if value == "7" {
            import(&place, &file).ended(1);
        } else {
            refused(&place, &file, 5, &[word]);
        }
    }
}

#[test]
fn a_file_with_any_broken_byte_is_read_or_refused_and_the_log_verifies() {
    let whole = std::fs::read(folder().join("0.6.4.db")).unwrap();
    let place = Place::new();
    let file = place.path().join("broken.db");
    let every = std::env::var("TASKREEL_FLIPS")
        .map_or(2_003, |flips| whole.len() / flips.parse::<usize>().unwrap().max(1));
    for at in (0..whole.len()).step_by(every.max(1)) {
        let mut broken = whole.clone();
        broken[at] ^= 0xff;
        std::fs::write(&file, broken).unwrap();
        let ran = import(&place, &file);
        assert!(matches!(ran.code(), Some(0 | 1 | 5)), "{at}: {:?} {}", ran.code(), ran.err());
        assert!(!ran.err().contains("panicked"), "{at}: {}", ran.err());
    }
    place.run("verify --data-dir log").ended(0);
}

#[test]
fn a_file_that_a_program_is_writing_is_refused_and_one_with_a_write_ahead_log_is_read() {
    let place = Place::new();
    import(&place, &folder().join("0.8.3.db")).ended(0);
    let file = changed(&place, "0.6.4", |_| ());
    let writer = Connection::open(&file).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    refused(&place, &file, 4, &["another program writes to the file"]);
    writer.execute_batch("ROLLBACK").unwrap();
    let wal: String = writer.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0)).unwrap();
    assert_eq!(wal, "wal");
    writer.execute("UPDATE storage SET value = '{\"fresh\": []}' WHERE key = 'talker'", []).unwrap();
    let ran = import(&Place::new(), &file).ended(0);
    assert!(ran.out().contains("\"fresh\""), "what is in the write-ahead log counts: {}", ran.out());
}

#[test]
fn an_import_that_was_killed_is_completed_by_the_next() {
    let place = Place::new();
    let count = 3_000;
    let file = changed(&place, "0.6.4", |connection| {
        let add = "INSERT INTO protolink_tasks VALUES (?1,'completed',NULL,NULL,NULL,'weather',?2,'{}',NULL,'2026')";
        connection.execute_batch("BEGIN").unwrap();
        for number in 0..count {
            let id = format!("many-{number}");
            let task = format!(r#"{{"id":"{id}","state":"completed","metadata":{{"n":{number}}}}}"#);
            connection.execute(add, [&id, &task]).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    });
    let mut child = place
        .command(["import", "protolink"])
        .arg(&file)
        .args(["--data-dir", "log", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let [new, known, changed, refused] = sums(&import(&place, &file).ended(0));
    assert!(known > 0, "something had come in: {line}");
    assert_eq!((new + known, changed, refused), (count + 9, 0, 0));
    let listed = place.run("ls --json --data-dir log").ended(0).out();
    assert_eq!(
        listed.lines().filter(|line| line.contains("\"many-")).count(),
        usize::try_from(count).unwrap()
    );
    place.run("verify --data-dir log").ended(0);
}
