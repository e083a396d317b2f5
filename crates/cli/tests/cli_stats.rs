//! `stats` and logging of the built binary.

mod binary;

use binary::{Place, SCRIPT, TASKS, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

fn row<'a>(rows: &'a [Value], group: &str, name: &Value) -> &'a Value {
    rows.iter().find(|row| row["group"] == group && row["name"] == *name).expect("there is such a row")
}

#[test]
fn stats_sums_calls_errors_and_times_by_tool_model_and_session() {
    let place = small_log();
    let rows = place.run("stats --json").ended(0).json();
    assert!(rows.iter().all(|row| row["schema"] == "taskreel.stats/1"));
    let all = row(&rows, "all", &Value::Null);
    assert_eq!([&all["calls"], &all["errors"], &all["open"]], [5, 1, 0].map(Value::from).each_ref());
    assert_eq!([&all["succeeded"], &all["failed"], &all["attempts"]], [4, 1, 5].map(Value::from).each_ref());
    let failed = row(&rows, "tool", &json!("fail"));
    assert_eq!([&failed["calls"], &failed["errors"]], [1, 1].map(Value::from).each_ref());
    let model = rows.iter().find(|row| row["group"] == "model").expect("the model that was asked");
    assert_eq!(model["calls"], 2);
    assert_eq!(model["measured"], 2);
    assert!(model["p50_us"].as_u64() <= model["p99_us"].as_u64());
    assert_eq!([&model["with_usage"], &model["input_tokens"]], [0, 0].map(Value::from).each_ref());
    let sum = |group: &str| -> u64 {
        rows.iter().filter(|row| row["group"] == group).map(|row| row["calls"].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("tool") + sum("model"), sum("session")), (5, 5));
    let table = place.run("stats").ended(0).out();
    assert!(table.contains("lookup") && table.contains("p95"), "{table}");
}

#[test]
fn stats_reads_an_export_as_it_reads_the_log_and_says_when_there_is_nothing() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    assert_eq!(place.run("stats --json --file log.ndjson").ended(0).out(), place.run("stats --json").out());
    let empty = Place::new();
    std::fs::write(empty.path().join("none.json"), "[]").unwrap();
    empty.run("stats").ended(5);
}

#[test]
fn logs_go_to_stderr_as_json_lines_that_name_their_spans() {
    let place = Place::new();
    std::fs::write(place.path().join("script.json"), SCRIPT).unwrap();
    let ran = place.run_tasks(TASKS, "--script script.json --log-format json").ended(1);
    let lines: Vec<Value> = ran
        .err()
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("every line is an object"))
        .collect();
    let closed = |name: &str| lines.iter().filter(move |line| line["span"]["name"] == name).count();
    assert_eq!((closed("tool.call"), closed("infer"), closed("task")), (3, 2, 3), "{lines:#?}");
    let infer = lines.iter().find(|line| line["span"]["name"] == "infer").unwrap();
    assert_eq!([&infer["span"]["task"], &infer["span"]["attempt"]], [&json!("ask-0001"), &json!(1)]);
    assert_eq!(infer["fields"]["message"], "close", "with how long it took: {infer}");
    assert!(infer["fields"]["time.busy"].is_string(), "{infer}");
    assert_eq!(ran.json().len(), 3, "stdout holds data alone");
}

#[test]
fn a_level_chooses_what_is_logged_and_one_that_is_none_is_refused() {
    let place = Place::new();
    let one = TASKS.lines().next().unwrap();
    let quiet = place.run_tasks(one, "--log-format json --log-level error").ended(0);
    assert!(!quiet.err().contains("tool.call"), "{}", quiet.err());
    let silent = Place::new();
    assert!(
        !silent.run_tasks(one, "").ended(0).err().contains("tool.call"),
        "without asking nothing is logged"
    );
    place.run("ls --log-level taskreel=loud").ended(2).told(&["--log-level"]);
    place.run("ls --log-format xml").ended(2);
}
