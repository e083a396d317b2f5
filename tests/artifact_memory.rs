//! The memory that summaries take beside the data that they are of: at most three times as much, whatever the columns.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::alloc::System as Machine;
use std::hint::black_box;
use std::sync::Mutex;

use proto_events::json::{JsonMap, JsonValue as Value};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use taskreel_log::artifacts::{ArtifactSettings, CharacterLimit, DataArtifacts, MinimizeLimits};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Machine> = &INSTRUMENTED_SYSTEM;

/// The lock that lets one test run at a time: the bytes of the whole program are counted.
static ALONE: Mutex<()> = Mutex::new(());

/// Asserts that all that is ever allocated, which is at least what stands at once, is at most three times the data.
#[track_caller]
fn assert_within_three_times(what: &str, make: impl FnOnce() -> Value) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let region = Region::new(ALLOCATOR);
    let data = make();
    let change = region.change();
    let input = change.bytes_allocated - change.bytes_deallocated;
    let least = ArtifactSettings::new(2, 2, 2).unwrap();
    let large = MinimizeLimits::new(&least).limit(CharacterLimit::new(10_000_000).unwrap());
    let forms = [MinimizeLimits::new(&ArtifactSettings::default()), MinimizeLimits::new(&least), large];
    for (number, options) in forms.iter().enumerate() {
        let region = Region::new(ALLOCATOR);
        black_box(DataArtifacts::minimize(&data, options));
        let taken = region.change().bytes_allocated;
        assert!(taken <= 3 * input, "{what}, form {number}: {taken} bytes for {input}");
    }
    if let Value::Array(rows) = &data {
        let region = Region::new(ALLOCATOR);
        black_box(DataArtifacts::summarize_table(rows));
        let taken = region.change().bytes_allocated;
        // Rows that are their own summary are copied, once the statistics are freed.
        assert!(taken <= 4 * input, "{what}: {taken} bytes for {input}");
    }
}

fn rows(count: usize, row: impl Fn(usize) -> JsonMap) -> Value {
    (0..count).map(|at| Value::from(row(at))).collect()
}

fn employee(at: usize) -> JsonMap {
    let text = |text: String| Value::from(text);
    JsonMap::from_iter([
        ("id", at.into()),
        ("name", text(format!("Employee {at}"))),
        ("department", text(["Engineering", "Design", "Sales"].into_iter().nth(at % 3).unwrap().to_owned())),
        ("salary", (60_000 + at % 500 * 10).into()),
        ("score", Value::parse(&format!("{}.5", at % 1_000)).unwrap()),
        ("active", at.is_multiple_of(2).into()),
        ("manager", Value::Null),
        ("city", text(format!("City {}", at % 100))),
        ("level", (at % 7).into()),
        ("email", text(format!("employee{at}@example.com"))),
    ])
}

#[test]
fn a_table_of_a_hundred_thousand_rows_and_ten_columns() {
    assert_within_three_times("ten columns", || rows(100_000, employee));
}

#[test]
fn a_table_with_a_column_of_its_own_for_each_row() {
    let row = |at: usize| JsonMap::from_iter([(format!("k{at:06}"), Value::from(1))]);
    assert_within_three_times("a column for each row", || rows(100_000, row));
}

#[test]
fn a_few_rows_of_many_columns() {
    for count in [1, 2, 5] {
        let row = |_| (0..20_000).map(|at| (format!("k{at:06}"), Value::from(at))).collect();
        assert_within_three_times(&format!("{count} wide rows"), || rows(count, row));
    }
}

#[test]
fn an_object_of_many_short_lists() {
    let list = |at: usize| (format!("k{at:06}"), Value::from(vec![Value::from(1)]));
    assert_within_three_times("short lists", || (0..50_000).map(list).collect::<JsonMap>().into());
}
