//! Properties of views and minimized forms: a minimized form never exceeds its cap, a view shows exactly what a minimized text
//! leaves out, and no JSON, path, row or column text makes a view panic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use proptest::prelude::*;
use proto_events::json::{JsonMap, JsonNumber, JsonValue as Value};
use taskreel_log::artifacts::{
    A2aArtifact, A2aFile, A2aFileContent, A2aPart, ArtifactSettings, CharacterLimit, ColumnSelection,
    DataArtifacts, DataSelection, KeyCase, MinimizeLimits, MinimizedText, MinimizedValue, RowSelection,
    SavedFiles, TextArtifacts, TextSelection, Tips, minimize_artifacts,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab\n\r.é日😀\"\\\\]{0,40}",
        ("[xé\n😀]{1,3}", 1_usize..3_000).prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "-?(0|[1-9][0-9]{0,60})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?"
            .prop_map(|text| Value::Number(text.parse::<JsonNumber>().unwrap())),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(14, 120, 8, |inner| {
        let row = proptest::collection::vec(("[ab.\\\\_é]{0,2}", inner.clone()), 0..4);
        let object = row.prop_map(|members| Value::from(members.into_iter().collect::<JsonMap>()));
        prop_oneof![
            proptest::collection::vec(inner, 0..8).prop_map(Value::from),
            proptest::collection::vec(object.clone(), 0..12).prop_map(Value::from),
            object,
        ]
    })
}

/// Texts that are longer as JSON.
fn escaped_text() -> impl Strategy<Value = String> {
    ("[x\"\\\\\n\u{1}é😀]{1,4}", 1_usize..2_000).prop_map(|(piece, times)| piece.repeat(times))
}

fn printed(json: &Value) -> usize {
    json.to_string().chars().count()
}

/// The characters of a list of short texts from which on its summary is shorter, whatever path the summary names.
const SUMMARY_CHARACTERS: usize = 300;

fn limit() -> impl Strategy<Value = CharacterLimit> {
    prop_oneof![2_usize..50, 50_usize..20_000].prop_map(|limit| CharacterLimit::new(limit).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_view_of_what_a_minimized_text_leaves_out_is_exactly_that(text in text(), limit in limit()) {
        let minimized = TextArtifacts::minimize(&text, limit, Some("tip"));
        let MinimizedText::Cut(cut) = &minimized else {
            prop_assert!(text.chars().count() <= limit.get());
            prop_assert_eq!(minimized.text(), text.as_str());
            return Ok(());
        };
        let half = limit.get() / 2;
        let head: String = text.chars().take(half).collect();
        let tail: String = text.chars().skip(cut.total_characters() - half).collect();
        let all = CharacterLimit::new(usize::MAX).unwrap();
        let omitted = TextArtifacts::view(&text, &cut.omitted(), all).unwrap();
        prop_assert_eq!(format!("{head}{omitted}{tail}"), text.clone());
        prop_assert!(cut.text().starts_with(&head) && cut.text().ends_with(&tail));
        prop_assert!(minimized.characters() <= limit.cap());
    }

    #[test]
    fn lines_and_characters_are_those_that_a_plain_walk_finds(
        text in text(), start in -60_i64..60, end in -60_i64..60,
    ) {
        let all = CharacterLimit::new(usize::MAX).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        let total = i64::try_from(lines.len()).unwrap();
        let place = |line: i64| if line < 0 { total + line + 1 } else { line };
        let selection = TextSelection { line_start: Some(start), line_end: Some(end), ..TextSelection::default() };
        let (first, last) = (place(start), place(end));
        let walked = (first >= 1 && last <= total && first <= last).then(|| {
            lines[usize::try_from(first - 1).unwrap()..usize::try_from(last).unwrap()].join("\n")
        });
        prop_assert_eq!(TextArtifacts::view(&text, &selection, all).ok().map(str::to_owned), walked);

        let selection =
            TextSelection { character_start: Some(start), character_end: Some(end), ..TextSelection::default() };
        let chars: Vec<char> = text.chars().collect();
        let total = i64::try_from(chars.len()).unwrap();
        let place = |at: i64| usize::try_from(if at < 0 { (total + at).max(0) } else { at.min(total) }).unwrap();
        let walked: String = chars.get(place(start)..place(end)).unwrap_or_default().iter().collect();
        prop_assert_eq!(TextArtifacts::view(&text, &selection, all).unwrap(), walked);
    }

    #[test]
    fn a_minimized_form_never_exceeds_its_cap(
        data in json(), limit in limit(), string_length in 0_usize..6_000, tip in proptest::option::of(text()),
    ) {
        let options = MinimizeLimits::new(&ArtifactSettings::default())
            .limit(limit)
            .string_length(string_length)
            .tip(tip.as_deref());
        let minimized = DataArtifacts::minimize(&data, &options);
        prop_assert!(printed(&minimized.to_json()) <= limit.cap(), "{} > {}", printed(&minimized.to_json()), limit.cap());
        prop_assert!(minimized.characters() <= limit.cap(), "{} > {}", minimized.characters(), limit.cap());
        if let MinimizedValue::Text(MinimizedText::Cut(cut)) = &minimized {
            let whole = data.as_str().map_or_else(|| DataArtifacts::text(&data), str::to_owned);
            prop_assert_eq!(cut.total_characters(), whole.chars().count());
        }
    }

    #[test]
    fn a_cap_of_the_host_holds_too(
        data in json(), text in escaped_text(), limit in 2_usize..2_000, more in 0_usize..2_000, tip in proptest::option::of(escaped_text()),
    ) {
        let cap = limit + 1_024 + more;
        let settings = ArtifactSettings::new(limit, 5_000, 2).unwrap().with_cap(cap).unwrap();
        for data in [&data, &Value::from(text.as_str())] {
            // The limit is another one, and the cap stays.
            let other = MinimizeLimits::new(&settings).limit(CharacterLimit::new(limit * 3).unwrap());
            for options in [MinimizeLimits::new(&settings), other] {
                let minimized = DataArtifacts::minimize(data, &options.tip(tip.as_deref()));
                prop_assert!(printed(&minimized.to_json()) <= cap, "{} > {cap}", printed(&minimized.to_json()));
            }
        }
        let parts = vec![A2aPart::Text(text), A2aPart::Data(JsonMap::from_iter([("k", data)]).into())];
        let artifact = A2aArtifact { artifact_id: "a".to_owned(), name: None, description: None, parts };
        let tips = Tips { text: tip.as_deref(), data: tip.as_deref() };
        for artifact in minimize_artifacts(&[artifact], &settings, &SavedFiles::new(), tips) {
            for part in &artifact.parts {
                let part = part.to_json(KeyCase::Camel);
                prop_assert!(printed(&part) <= cap, "{} > {cap}", printed(&part));
            }
        }
    }

    #[test]
    fn the_path_of_a_summary_leads_to_the_list_that_it_is_of(
        keys in proptest::collection::vec("[ab.\\\\é]{0,3}", 1..6), list in proptest::collection::vec("[a-c]{0,3}", 60..90),
        aside in "[ab]{0,2}",
    ) {
        let list: Value = list.iter().map(String::as_str).map(Value::from).collect();
        let data = keys.iter().rev().fold(list.clone(), |inner, key| {
            JsonMap::from_iter([(aside.clone(), Value::from(1)), (key.clone(), inner)]).into()
        });
        let least = MinimizeLimits::new(&ArtifactSettings::default()).limit(CharacterLimit::new(2).unwrap());
        let shown = DataArtifacts::minimize(&data, &least).to_json();
        let summary = keys.iter().fold(&shown["data"], |at, key| &at[key.as_str()]);
        // A list that is shorter than its summary stands itself: only a short one is.
        if summary.as_array().is_some() {
            prop_assert_eq!(summary, &list);
            prop_assert!(printed(&list) < SUMMARY_CHARACTERS, "{} characters", printed(&list));
            return Ok(());
        }
        prop_assert_eq!(summary["_total_items"].as_u64(), list.as_array().map(|list| list.len() as u64));
        match summary["_json_path"].as_str() {
            None => prop_assert_eq!(keys, [""], "only the empty key alone has no path"),
            Some(path) => {
                let selection = DataSelection { json_path: Some(path.to_owned()), ..DataSelection::default() };
                let found = DataArtifacts::view(&data, &selection, CharacterLimit::default()).unwrap();
                prop_assert_eq!(found.as_ref(), &list);
            }
        }
    }

    #[test]
    fn no_path_row_or_column_makes_a_view_panic(
        data in json(),
        path in proptest::option::of("[ab.\\\\_é]{0,6}"),
        rows in proptest::option::of("[-0-9, a_.]{0,8}|all|-?[0-9]{1,25}-?[0-9]{0,25}"),
        columns in proptest::option::of("[ab.,\"\\\\ ]{0,8}|all"),
        argument in json(),
        limit in limit(),
    ) {
        let selection = DataSelection {
            json_path: path,
            rows: rows.as_deref().map(RowSelection::from_text),
            columns: columns.as_deref().map(ColumnSelection::from_text),
        };
        let shown = DataArtifacts::view(&data, &selection, limit);
        if let Err(error) = &shown {
            prop_assert!(error.with_hint().starts_with(&error.to_string()), "{error:?}");
        }
        let raw = DataSelection {
            rows: Some(RowSelection::from_json(&argument)),
            columns: Some(ColumnSelection::from_json(&argument)),
            ..selection
        };
        let _ = DataArtifacts::view(&data, &raw, limit);
        if let Value::Array(items) = &data {
            let _ = (DataArtifacts::summarize_values(items), DataArtifacts::summarize_table(items));
        }
    }

    #[test]
    fn a_view_never_exceeds_its_limit(data in json(), limit in limit(), rows in "[0-9]-|all|[0-9](,[0-9]){1,9}") {
        let selection = DataSelection { rows: Some(RowSelection::from_text(&rows)), ..DataSelection::default() };
        if let Ok(shown) = DataArtifacts::view(&data, &selection, limit) {
            let characters = proto_events::model::python_json::indented_characters(&shown);
            prop_assert!(characters <= limit.get());
        }
    }
}

#[test]
fn a_row_named_a_million_times_is_measured_and_refused_without_being_copied() {
    let data = Value::from(vec![Value::from("x".repeat(1_000_000)); 2]);
    let rows = RowSelection::Rows(vec![1; 1_000_000]);
    let selection = DataSelection { rows: Some(rows), ..DataSelection::default() };
    let refused = DataArtifacts::view(&data, &selection, CharacterLimit::default()).unwrap_err();
    assert!(
        refused.to_string().starts_with("The selection (1000000 item(s)) resulted in 1,000,00"),
        "{refused}"
    );
}

#[test]
fn a_table_of_a_column_for_each_row_is_summarized_in_one_pass() {
    let row = |row: usize| Value::from(JsonMap::from_iter([(format!("column {row}"), Value::from(row))]));
    let rows: Vec<Value> = (0..20_000).map(row).collect();
    let minimized =
        DataArtifacts::minimize(&Value::from(rows), &MinimizeLimits::new(&ArtifactSettings::default()))
            .to_json();
    assert!(
        minimized["text"].as_str().is_some_and(|text| text.contains("characters omitted")),
        "the head and tail"
    );
}

#[test]
fn what_is_missing_is_named_with_advice_that_fits() {
    let data = Value::parse(r#"{"a.b": 1, "rows": [{"artifact not found": 1}]}"#).unwrap();
    let ask = |path: &str, columns: Option<&str>| {
        let selection = DataSelection {
            json_path: Some(path.to_owned()),
            columns: columns.map(ColumnSelection::from_text),
            ..DataSelection::default()
        };
        DataArtifacts::view(&data, &selection, CharacterLimit::default()).unwrap_err()
    };
    let error = ask("a", None);
    assert_eq!((error.subject(), error.kind()), ("a", taskreel_log::artifacts::ArtifactErrorKind::NotFound));
    assert_eq!(
        error.with_hint(),
        "Field 'a' not found. Available fields: a.b, rows The dots of a key are escaped: write a\\.b."
    );
    assert_eq!(
        ask("rows", Some("x")).with_hint(),
        "Column 'x' not found. Available columns: artifact not found"
    );
}

#[test]
fn keys_are_spelled_as_the_package_of_the_language_spells_them() {
    let file = A2aFile {
        name: None,
        mime_type: Some("text/plain".to_owned()),
        content: A2aFileContent::Uri("https://a".to_owned()),
    };
    let parts = vec![A2aPart::Text("abcd".to_owned()), A2aPart::File(file)];
    let artifact = A2aArtifact { artifact_id: "a".to_owned(), name: None, description: None, parts };
    let settings = ArtifactSettings::new(2, 2, 2).unwrap();
    let shown = minimize_artifacts(&[artifact], &settings, &SavedFiles::new(), Tips::default());
    let [snake, camel] = [KeyCase::Snake, KeyCase::Camel].map(|case| shown[0].to_json(case).to_string());
    assert!(camel.starts_with(
        r#"{"artifactId":"a","description":null,"name":null,"parts":[{"kind":"text","text":"a\n\n"#
    ));
    assert!(camel.contains(r#""mimeType":"text/plain""#) && camel.contains("_total_lines"), "{camel}");
    assert_eq!(camel.replace("artifactId", "artifact_id").replace("mimeType", "mime_type"), snake);
}

#[test]
fn a_tip_for_which_the_cap_has_room_stands_whole() {
    let tip = "see the rest ".repeat(100);
    let data = Value::from(vec![Value::from("x"); 1_000]);
    let options = MinimizeLimits::new(&ArtifactSettings::default())
        .limit(CharacterLimit::new(50).unwrap())
        .tip(Some(&tip));
    assert_eq!(
        DataArtifacts::minimize(&data, &options).to_json()["data"]["_tip"].as_str(),
        Some(tip.as_str())
    );
    let text = Value::from("x".repeat(1_000));
    assert_eq!(DataArtifacts::minimize(&text, &options).to_json()["_tip"].as_str(), Some(tip.as_str()));
    let narrow = ArtifactSettings::new(50, 50, 50).unwrap().with_cap(1_100).unwrap();
    let cut = DataArtifacts::minimize(&data, &MinimizeLimits::new(&narrow).tip(Some(&tip))).to_json();
    assert_eq!(cut["data"]["_tip"].as_str(), tip.get(..500), "{cut}");
}
