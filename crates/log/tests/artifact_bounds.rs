//! Artifacts and arguments that somebody made as large or as odd as they can be: errors, views and minimized forms stay within
//! their sizes, and take a time that grows with what is given and not with its square.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use proptest::prelude::*;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel_log::artifacts::{
    ArtifactError, ArtifactSettings, CharacterLimit, ColumnSelection, DataArtifacts, DataSelection,
    MinimizeLimits, RowSelection, TextArtifacts,
};

/// The characters that an error has at most, with its advice.
const ERROR_CHARACTERS_MAX: usize = 2_000;

fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
    Value::from(members.into_iter().map(|(key, value)| (key.into(), value)).collect::<JsonMap>())
}

fn long() -> String {
    "é.".repeat(1 << 20)
}

fn refused(data: &Value, path: Option<&str>, rows: Option<&str>, columns: Option<&str>) -> ArtifactError {
    let selection = DataSelection {
        json_path: path.map(str::to_owned),
        rows: rows.map(RowSelection::from_text),
        columns: columns.map(ColumnSelection::from_text),
    };
    DataArtifacts::view(data, &selection, CharacterLimit::default()).unwrap_err()
}

#[track_caller]
fn assert_bounded(error: &ArtifactError) {
    for text in [error.to_string(), error.with_hint()] {
        assert!(text.chars().count() <= ERROR_CHARACTERS_MAX, "{} characters", text.chars().count());
    }
    assert!(error.subject().chars().count() <= 200);
}

/// The minimized forms of a value under several limits, each with a tip.
fn assert_minimized_within_caps(data: &Value) {
    let tip = "\u{1}".repeat(10_000);
    for limit in [2, 1_000, 50_000] {
        let limit = CharacterLimit::new(limit).unwrap();
        let least = ArtifactSettings::new(limit.get(), 5_000, 2).unwrap();
        let least = least.with_cap(limit.get() + 1_024).unwrap();
        let usual = MinimizeLimits::new(&ArtifactSettings::default()).limit(limit);
        for (options, cap) in [(usual, limit.cap()), (MinimizeLimits::new(&least), least.cap())] {
            for tip in [None, Some("see the rest"), Some(tip.as_str())] {
                let shown = DataArtifacts::minimize(data, &options.tip(tip)).characters();
                assert!(shown <= cap, "{shown} > {cap}");
            }
        }
    }
}

#[test]
fn an_error_of_a_long_argument_or_of_many_names_says_what_it_leaves_out() {
    let text = long();
    let many = object((0..100_000).map(|n| (format!("key {n}"), Value::Null)));
    let error = refused(&many, Some(&text), None, None);
    assert_bounded(&error);
    assert!(error.to_string().contains("key 0, key 1, key 2"), "{error}");
    let (_, rest) = error.to_string().split_once(", ... [99,").map(|(a, b)| (a.len(), b.to_owned())).unwrap();
    assert!(rest.ends_with(" more]"), "{error}");

    let table = Value::from(vec![many.clone(), many]);
    for (rows, columns) in [
        (None, Some(text.as_str())),
        (Some(text.as_str()), None),
        (Some(&*format!("1-{text}")), None),
        (Some(&*format!("-1{}", " ".repeat(1 << 20))), None),
        (None, Some(&*format!("key 1,{}", "key 2,".repeat(1 << 18)))),
    ] {
        assert_bounded(&refused(&table, None, rows, columns));
    }
    let digits = Value::parse(&"7".repeat(1 << 20)).unwrap();
    let rows = DataSelection { rows: Some(RowSelection::from_json(&digits)), ..DataSelection::default() };
    assert_bounded(&DataArtifacts::view(&table, &rows, CharacterLimit::default()).unwrap_err());

    // A key that no error can repeat, and one whose dots are escaped.
    let wide = object([(text.clone(), Value::Null), ("é.rest".to_owned(), Value::Null)]);
    for field in ["none", "é", &text] {
        assert_bounded(&refused(&wide, Some(field), None, None));
    }
    for error in [
        ArtifactError::NoSuchArtifact { artifact: text.clone(), task: text.clone() },
        ArtifactError::NoResult { call: text.clone(), why: text.clone() },
        ArtifactError::WrongContent { artifact: text.clone(), wanted: "text", found: vec!["DataPart"] },
        ArtifactError::NotA2a { what: "the task", why: text.clone() },
    ] {
        assert_bounded(&error);
    }
}

#[test]
fn a_path_of_many_keys_is_read_as_far_as_it_leads() {
    // Each key of the path in memory at once would take half a gigabyte.
    let error = refused(&object([("a", Value::Null)]), Some(&".".repeat(20 << 20)), None, None);
    assert_bounded(&error);
    let deep = Value::parse(&format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100))).unwrap();
    assert_bounded(&refused(&deep, Some(&"a.".repeat(10 << 20)), None, None));
    assert_minimized_within_caps(&deep);
}

#[test]
fn a_hundred_thousand_columns_are_looked_up_and_not_searched() {
    let count = 100_000;
    let name = |n: usize| format!("column {n}");
    // One wide row, all of whose columns are named from the last to the first.
    let wide = Value::from(vec![object((0..count).map(|n| (name(n), Value::from(n))))]);
    let names: Vec<String> = (0..count).rev().map(name).collect();
    let selection = |columns| DataSelection { columns: Some(columns), ..DataSelection::default() };
    let unlimited = CharacterLimit::new(usize::MAX).unwrap();
    let shown = DataArtifacts::view(&wide, &selection(ColumnSelection::Names(names)), unlimited).unwrap();
    let first = shown.as_array().unwrap().first().unwrap().as_object().unwrap();
    assert_eq!((first.len(), first.keys().next().map(String::as_str)), (count, Some("column 99999")));
    // A column for each row.
    let long = Value::from((0..count).map(|n| object([(name(n), Value::from(n))])).collect::<Vec<_>>());
    let shown = DataArtifacts::view(&long, &selection(ColumnSelection::All), unlimited).unwrap();
    assert_eq!(*shown, long);
    assert!(DataArtifacts::view(&long, &selection(ColumnSelection::All), CharacterLimit::default()).is_err());
}

#[test]
fn a_row_keeps_its_columns_in_the_order_in_which_they_were_named() {
    let table = Value::parse(r#"[{"a":1,"b":2,"c":3},{"b":4},{"c":5,"a":6}]"#).unwrap();
    let columns = ColumnSelection::from_text("c,a,c,b");
    let selection = DataSelection { columns: Some(columns), ..DataSelection::default() };
    let shown = DataArtifacts::view(&table, &selection, CharacterLimit::default()).unwrap();
    let rows: Vec<String> = shown.as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(rows, [r#"{"c":3,"a":1,"b":2}"#, r#"{"b":4}"#, r#"{"c":5,"a":6}"#]);
}

#[test]
fn keys_and_columns_of_a_megabyte_keep_to_the_caps() {
    let key = "k".repeat(1 << 20);
    assert_minimized_within_caps(&Value::from(vec![object([(key.as_str(), Value::from(1))]); 3]));
    assert_minimized_within_caps(&object([(key.clone(), Value::from(vec![Value::from(1); 5_000]))]));
}

#[test]
fn lists_under_a_long_key_do_not_each_repeat_it() {
    let minimized = |key: &str| {
        let list = || Value::from(vec![Value::from("x".repeat(5_000)); 3]);
        let lists = object((0..100).map(|n| (n.to_string(), list())));
        let settings = ArtifactSettings::new(2, 5_000, 2).unwrap().with_cap(usize::MAX).unwrap();
        let under = object([(key, lists)]);
        DataArtifacts::minimize(&under, &MinimizeLimits::new(&settings)).to_json()
    };
    let shown = minimized("key");
    assert_eq!(shown.pointer("/data/key/7/_json_path").and_then(Value::as_str), Some("key.7"));
    let shown = minimized(&"k".repeat(5_000)).to_string();
    assert!(shown.contains("_total_items") && !shown.contains("_json_path"), "{shown}");
}

#[test]
fn nested_lists_and_objects_keep_to_the_caps() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
        let depth = 120 / open.matches(['[', '{']).count();
        let text = format!("{}\"{}\"{}", open.repeat(depth), "x".repeat(100_000), close.repeat(depth));
        assert_minimized_within_caps(&Value::parse(&text).unwrap());
    }
    let branch = Value::parse(&format!("{}7{}", "[".repeat(60), "]".repeat(60))).unwrap();
    assert_minimized_within_caps(&Value::from(vec![branch; 2_000]));
}

#[test]
fn a_text_shorter_than_its_tip_is_shown_whole() {
    let tip = "t".repeat(500);
    for text in ["", "a", "ab"] {
        let shown = TextArtifacts::minimize(text, CharacterLimit::new(2).unwrap(), Some(&tip));
        assert_eq!(shown.text(), text);
    }
    let shown = TextArtifacts::minimize("abc", CharacterLimit::new(2).unwrap(), Some(&tip));
    assert!(shown.characters() <= 2 + 1_024, "{}", shown.characters());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_argument_makes_an_error_exceed_its_size(
        path in "(\\PC|[.\\\\]){0,40}", rows in "(\\PC|[-,0-9]){0,40}", columns in "(\\PC|[\",]){0,40}",
        times in 1_usize..2_000, keys in proptest::collection::vec("\\PC{0,30}", 1..40),
    ) {
        let row = object(keys.iter().map(|key| (key.repeat(times), Value::Null)));
        let data = object([("rows".to_owned(), Value::from(vec![row.clone(); 2])), ("of".repeat(times), row)]);
        for (path, rows, columns) in [
            (Some(path.repeat(times)), None, None),
            (Some("rows".to_owned()), Some(rows.repeat(times)), None),
            (Some("rows".to_owned()), None, Some(columns.repeat(times))),
        ] {
            let selection = DataSelection {
                json_path: path,
                rows: rows.as_deref().map(RowSelection::from_text),
                columns: columns.as_deref().map(ColumnSelection::from_text),
            };
            if let Err(error) = DataArtifacts::view(&data, &selection, CharacterLimit::default()) {
                assert_bounded(&error);
            }
        }
    }
}
