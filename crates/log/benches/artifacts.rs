//! Views and minimized forms beside the Python originals: lines of a text of 1 MB, its minimized form, and the summary of a
//! table of 100,000 rows with ten columns. `artifacts_peer.py` measures a2a-utils 0.7.3 on
//! the same inputs in the same run; `TASKREEL_A2A_PYTHON` names a Python that has it, and without it the rows stand alone.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "rows go to stdout, and a bench fails by panicking"
)]

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel_log::artifacts::{CharacterLimit, DataArtifacts, TextArtifacts, TextSelection};

const LINE: &str = "What shall I wear in Oslo today, and will it rain?";
const LINES: usize = 20_000;
const ROWS: usize = 100_000;
const RUNS: usize = 9;

fn text() -> String {
    vec![LINE; LINES].join("\n")
}

/// Returns rows of integers, floats, texts, truth values and nulls, the same as the peer's.
fn rows(count: usize) -> Vec<Value> {
    let row = |at: usize| {
        let float: Value =
            format!("{}.5", at % 1_000).parse::<proto_events::json::JsonNumber>().map(Value::Number).unwrap();
        let members: [(&str, Value); 10] = [
            ("id", at.into()),
            ("name", format!("Employee {at}").into()),
            ("department", ["Engineering", "Design", "Sales"].into_iter().nth(at % 3).unwrap().into()),
            ("salary", (60_000 + at % 500 * 10).into()),
            ("score", float),
            ("active", at.is_multiple_of(2).into()),
            ("manager", Value::Null),
            ("city", format!("City {}", at % 100).into()),
            ("level", (at % 7).into()),
            ("email", format!("employee{at}@example.com").into()),
        ];
        Value::from(JsonMap::from_iter(members))
    };
    (0..count).map(row).collect()
}

fn median(mut spent: Vec<f64>) -> f64 {
    spent.sort_by(f64::total_cmp);
    spent.get(spent.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the median of the milliseconds of a function.
fn millis<T>(runs: usize, mut run: impl FnMut() -> T) -> f64 {
    let one = |_| {
        let begin = Instant::now();
        black_box(run());
        begin.elapsed().as_secs_f64() * 1_000.0
    };
    median((0..runs).map(one).collect())
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let count = if quick { 1_000 } else { ROWS };
    let (text, rows) = (text(), rows(count));
    let limit = CharacterLimit::default();
    let lines =
        TextSelection { line_start: Some(10_000), line_end: Some(10_100), ..TextSelection::default() };
    let ours = [
        (
            "view of 100 lines of 1 MB",
            millis(99, || TextArtifacts::view(&text, &lines, limit).unwrap().len()),
        ),
        ("minimized form of 1 MB", millis(99, || TextArtifacts::minimize(&text, limit, None).characters())),
        ("summary of a table", millis(RUNS, || DataArtifacts::summarize_table(&rows))),
    ];
    let theirs = if quick { None } else { peer(count) };
    for (at, (name, spent)) in ours.iter().enumerate() {
        match theirs.as_ref().and_then(|theirs| theirs.get(at)) {
            Some(peer) => {
                println!("{name}: {spent:.3} ms, a2a-utils {peer:.3} ms, {:.0} times", peer / spent);
            }
            None => println!("{name}: {spent:.3} ms"),
        }
    }
}

fn peer(count: usize) -> Option<Vec<f64>> {
    let python = std::env::var_os("TASKREEL_A2A_PYTHON")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/artifacts_peer.py");
    let output = Command::new(python).arg(script).arg(count.to_string()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}
