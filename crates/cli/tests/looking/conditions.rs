//! `--where`: conditions over the fields of what is printed.

use proto_events::json::JsonValue as Value;

use super::ran;
use crate::binary::{Place, small_log};

fn kept(place: &Place, line: &str, condition: &str) -> Vec<Value> {
    let words: Vec<&str> = line.split(' ').chain(["--json", "--where", condition]).collect();
    let ran = ran(place, &words);
    assert!(matches!(ran.code(), Some(0 | 1)), "{line} {condition}: {}", ran.err());
    ran.json()
}

#[test]
fn a_condition_selects_among_the_fields_of_each_command() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    let all = place.run("events --all --json").ended(0).json();
    let by_hand = |keep: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        all.iter().filter(|row| keep(row)).cloned().collect()
    };
    let is = |row: &Value, field: &str, value: &str| row[field] == value;
    for (condition, expected) in [
        (
            "kind = CallFailed or kind = CallSucceeded",
            by_hand(&|row| is(row, "kind", "CallFailed") || is(row, "kind", "CallSucceeded")),
        ),
        (
            "position > 3 and not id ~ bad",
            by_hand(&|row| row["position"].as_u64() > Some(3) && !is(row, "id", "bad-0001")),
        ),
        ("payload.args.city = Oslo", by_hand(&|row| row["payload"]["args"]["city"] == "Oslo")),
        ("payload ~ /[0-9]+ degrees/", by_hand(&|row| row.to_string().contains("20 degrees"))),
        ("at >= 2026-01-01", all.clone()),
    ] {
        assert!(!expected.is_empty(), "{condition}");
        assert_eq!(kept(&place, "events --all", condition), expected, "{condition}");
        assert_eq!(kept(&place, "events --all --file log.ndjson", condition), expected, "{condition}");
    }
    let one = kept(&place, "events --all --kind CallRequested --tool add", "payload.args.a < 4");
    assert_eq!(one.len(), 1, "{one:?}");
    assert_eq!(kept(&place, "ls", "state != completed and error ~ no").len(), 1);
    assert_eq!(kept(&place, "ls --sessions", "messages > 0").len(), 1);
    assert!(kept(&place, "ls --tools", "keys > 0").is_empty());
    assert_eq!(kept(&place, "stats", "group = tool and errors > 0")[0]["name"], "fail");
    assert!(kept(&place, "calls", "attempts > 5").is_empty());
    let extract = kept(&place, "export", "kind = CallFailed");
    assert_eq!((extract.len(), &extract[0]["schema"]), (3, &Value::from("taskreel.extract/1")));
    let none = kept(&place, "attention", "kind = none");
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn a_fault_in_a_condition_is_told_with_a_mark_under_it() {
    let place = small_log();
    for (line, condition, says, mark) in [
        ("events --all", "kind = ", "a value must come after `=`", "           ^"),
        (
            "events --all",
            "kind = x and stat = y",
            "there is no field `stat`; the fields are position",
            "                 ^",
        ),
        ("ls", "state == failed", "write `=`", "          ^"),
        ("ls --sessions", "state = failed", "there is no field `state`", "    ^"),
        ("stats", "calls ~ /(/", "unclosed group", "             ^"),
        ("calls", "\u{1b}[31m = 1", "the name of a field", "    ^"),
    ] {
        let words: Vec<&str> = line.split(' ').chain(["--where", condition]).collect();
        let told = ran(&place, &words).ended(2).told(&[says, "the condition of --where is not valid"]);
        assert_eq!(told.err().lines().last(), Some(mark), "{}", told.err());
        assert!(!told.err().contains('\u{1b}'));
    }
}
