//! Generated inputs of every area: lists and tables of numbers of all sizes, texts of all characters, and selections that fit and
//! that do not. Numbers are printed as Python prints them.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python::repr_float;

/// Returns the areas, each with `count` inputs.
pub(crate) fn cases(count: usize) -> Vec<(&'static str, Vec<Value>)> {
    let made = |strategy: BoxedStrategy<Value>| {
        let mut runner = TestRunner::deterministic();
        (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
    };
    vec![
        ("summarize_values", made(list().prop_map(|list| json!({"values": list})).boxed())),
        ("summarize_table", made(table().prop_map(|rows| json!({"rows": rows})).boxed())),
        ("text_view", made(text_view().boxed())),
        ("text_minimize", made(text_minimize().boxed())),
        ("data_view", made(data_view().boxed())),
        ("data_minimize", made(data_minimize().boxed())),
        ("minimize_artifacts", made(artifacts().boxed())),
    ]
}

fn parsed(text: &str) -> Value {
    Value::parse(text).unwrap()
}

fn integer() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-20_i64..20).prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => "-?[1-9][0-9]{18,60}".prop_map(|text| parsed(&text)),
    ]
}

fn float() -> impl Strategy<Value = Value> {
    let finite = any::<f64>().prop_filter("JSON has no other", |float| float.is_finite());
    let float = prop_oneof![
        3 => (-1_000_i32..1_000).prop_map(|eighths| f64::from(eighths) / 8.0),
        3 => (-100_000_i32..100_000).prop_map(|thousandths| f64::from(thousandths) / 1_000.0),
        1 => finite,
        1 => Just(1e308), 1 => Just(1.2e308), 1 => Just(-0.0), 1 => Just(1e16),
        1 => (1.0_f64..2.0).prop_map(|float| float * 1e200),
    ];
    float.prop_map(|float| parsed(&repr_float(float)))
}

/// Integers that lie close together, far from zero.
fn series() -> impl Strategy<Value = Vec<Value>> {
    let first = prop_oneof![
        Just(1_700_000_000_000_000_000_i128),
        Just(1 << 62),
        Just(-(1 << 62)),
        Just(1 << 100),
        any::<i64>().prop_map(i128::from),
    ];
    (first, 1_i128..2_000, 2_i128..120).prop_map(|(first, step, count)| {
        (0..count).map(|n| parsed(&(first + n * step).to_string())).collect()
    })
}

fn short() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-c.é]{0,4}", 1 => "[a\"\\\\\n\u{1}日😀]{0,12}"]
}

/// A text of up to some thousand characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![short(), ("[abé\n]{1,12}", 1_usize..250).prop_map(|(piece, times)| piece.repeat(times))]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::from),
        4 => integer(),
        4 => float(),
        4 => short().prop_map(Value::from),
        1 => text().prop_map(Value::from),
    ]
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = prop_oneof![6 => "[a-e]", 1 => "[ab.\\\\]{0,3}", 1 => "é😀?"];
    prop::collection::vec((key, inner), 0..6)
        .prop_map(|members| Value::from(members.into_iter().collect::<JsonMap>()))
}

fn nested() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from), object(inner)]
    })
}

/// A list of one type, of several, or of values of any.
fn list() -> impl Strategy<Value = Value> {
    let items = prop_oneof![
        3 => series(),
        2 => prop::collection::vec(integer(), 0..60),
        3 => prop::collection::vec(float(), 0..60),
        2 => prop::collection::vec(short().prop_map(Value::from), 0..60),
        2 => prop::collection::vec(prop_oneof![integer(), float(), any::<bool>().prop_map(Value::from)], 0..60),
        2 => prop::collection::vec(leaf(), 0..40),
        2 => prop::collection::vec(nested(), 0..20),
    ];
    items.prop_map(Value::from)
}

/// A list of objects, most of which have the same columns; some rows are no objects.
fn table() -> impl Strategy<Value = Value> {
    let row = prop_oneof![
        12 => (integer(), float(), short(), any::<bool>(), leaf(), 0_u8..32).prop_map(|(a, b, c, d, e, kept)| {
            let members = [("a", a), ("b", b), ("c", c.into()), ("d", d.into()), ("e", e)];
            let members = members.into_iter().enumerate().filter(|(at, _)| kept & (1 << at) != 0 || kept < 16);
            Value::from(members.map(|(_, member)| member).collect::<JsonMap>())
        }),
        1 => object(leaf()),
    ];
    let other = prop_oneof![20 => row.clone().boxed(), 1 => nested().boxed()];
    (row, prop::collection::vec(other, 0..40), any::<bool>()).prop_map(|(first, mut rows, is_pure)| {
        rows.retain(|row| !is_pure || row.is_object());
        rows.insert(0, first);
        rows.into()
    })
}

fn limit() -> impl Strategy<Value = Value> {
    prop_oneof![8 => 2_i64..400, 4 => 400_i64..4_000, 2 => Just(50_000), 1 => -1_i64..2].prop_map(Value::from)
}

/// An object with the members that are there.
fn input(members: Vec<(&'static str, Option<Value>)>) -> Value {
    members.into_iter().filter_map(|(key, value)| Some((key, value?))).collect::<JsonMap>().into()
}

fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::of(value)
}

fn text_view() -> impl Strategy<Value = Value> {
    let at = || maybe((-8_i64..12).prop_map(Value::from));
    let selection = prop_oneof![
        (at(), at()).prop_map(|(start, end)| [start, end, None, None]),
        (at(), at()).prop_map(|(start, end)| [None, None, start, end]),
        (at(), at()).prop_map(|(start, end)| [start, None, None, end]),
    ];
    (text(), selection, maybe(limit())).prop_map(|(text, [first, last, start, end], limit)| {
        input(vec![
            ("text", Some(text.into())),
            ("line_start", first),
            ("line_end", last),
            ("character_start", start),
            ("character_end", end),
            ("character_limit", limit),
        ])
    })
}

fn tip() -> impl Strategy<Value = Option<Value>> {
    maybe(prop_oneof![3 => short(), 1 => ("[tT ]{1,9}", 1_usize..120).prop_map(|(tip, times)| tip.repeat(times))].prop_map(Value::from))
}

fn text_minimize() -> impl Strategy<Value = Value> {
    (text(), limit(), tip()).prop_map(|(text, limit, tip)| {
        input(vec![("text", Some(text.into())), ("character_limit", Some(limit)), ("tip", tip)])
    })
}

fn rows() -> impl Strategy<Value = Value> {
    let number = || {
        prop_oneof![
            8 => (-30_i64..50).prop_map(|row| row.to_string()),
            1 => Just("99999999999999999999".to_owned()),
            1 => Just("-1180591620717411303424".to_owned()),
        ]
    };
    let side = prop_oneof![
        8 => number(), 3 => Just(String::new()), 1 => " ?[+-]?[0-9]{1,2} ?", 1 => "[0-9]_[0-9]", 1 => "[x ]{1,2}",
    ];
    let value = prop_oneof![
        12 => number().prop_map(|row| parsed(&row)),
        1 => any::<bool>().prop_map(Value::from), 1 => Just(json!(1.5)), 1 => Just(Value::Null), 1 => Just(json!("1")),
        1 => Just(json!({})),
    ];
    prop_oneof![
        2 => value.clone(),
        4 => prop::collection::vec(value, 0..5).prop_map(Value::from),
        2 => Just(json!("all")),
        6 => (side.clone(), side).prop_map(|(start, end)| format!("{start}-{end}").into()),
        1 => "[0-9:, ]{0,3}".prop_map(Value::from),
    ]
}

fn columns() -> impl Strategy<Value = Value> {
    let name = prop_oneof![12 => "[a-e]".prop_map(Value::from), 1 => short().prop_map(Value::from)];
    prop_oneof![
        2 => Just(json!("all")),
        3 => name.clone(),
        4 => prop::collection::vec(name, 0..5).prop_map(Value::from),
        1 => prop_oneof![Just(json!(1)), Just(json!({})), Just(json!(true))],
    ]
}

fn data_view() -> impl Strategy<Value = Value> {
    let data = prop_oneof![4 => table(), 2 => list(), 2 => nested(), 1 => object(table())];
    let of_path = (object(object(nested())), "[a-e.]{0,4}".prop_map(Value::from), maybe(limit())).prop_map(
        |(data, path, limit)| {
            input(vec![("data", Some(data)), ("json_path", Some(path)), ("character_limit", limit)])
        },
    );
    let limit = prop_oneof![3 => Just(None), 1 => limit().prop_map(Some)];
    let of_rows = (data, maybe("[a-e]".prop_map(Value::from)), maybe(rows()), maybe(columns()), limit)
        .prop_map(|(data, path, rows, columns, limit)| {
            let path = path.filter(|_| data.is_object());
            input(vec![
                ("data", Some(data)),
                ("json_path", path),
                ("rows", rows),
                ("columns", columns),
                ("character_limit", limit),
            ])
        });
    prop_oneof![1 => of_path, 4 => of_rows]
}

fn data_minimize() -> impl Strategy<Value = Value> {
    let large = (list(), 1_usize..40).prop_map(|(list, times)| {
        json!({"a": {"b": vec![list.clone(); times], "": list}, "": {"c": list, "": {"": list}}, "e.f": {"g\\": list}})
    });
    let deep = (nested(), 8_usize..14).prop_map(|(data, depth)| {
        (0..depth)
            .fold(data, |inner, at| json!({"k": inner, "at": at, "list": vec![Value::from("abc"); 200]}))
    });
    let data = prop_oneof![
        3 => table(), 3 => list(), 3 => nested(), 3 => object(list()), 2 => object(object(table())), 2 => large, 1 => deep,
        1 => text().prop_map(Value::from),
    ];
    let length = maybe(prop_oneof![0_u64..60, 60_u64..3_000].prop_map(Value::from));
    (data, limit(), length, tip()).prop_map(|(data, limit, length, tip)| {
        input(vec![
            ("data", Some(data)),
            ("character_limit", Some(limit)),
            ("minimized_object_string_length", length),
            ("tip", tip),
        ])
    })
}

fn artifacts() -> impl Strategy<Value = Value> {
    let file = prop_oneof![
        Just(json!({"bytes": "aGk=", "name": "a.txt"})),
        Just(json!({"uri": "https://example.com/a"}))
    ];
    let content = prop_oneof![
        3 => text().prop_map(|text| ("text", Value::from(text))),
        3 => object(list()).prop_map(|data| ("data", data)),
        1 => file.prop_map(|file| ("file", file)),
    ];
    let part = (content, any::<bool>()).prop_map(|((kind, content), has_kind)| {
        input(vec![("kind", has_kind.then(|| kind.into())), (kind, Some(content))])
    });
    let artifact = (prop::collection::vec(part, 0..4), "[ab]", maybe(short().prop_map(Value::from)));
    let artifact = artifact.prop_map(|(parts, id, name)| {
        input(vec![("artifactId", Some(id.into())), ("name", name), ("parts", Some(parts.into()))])
    });
    let saved = maybe(prop_oneof![
        Just(json!({})),
        Just(json!({"a": []})),
        Just(json!({"a": ["/x", "/y"], "b": []}))
    ]);
    let length = maybe((2_u64..3_000).prop_map(Value::from));
    (prop::collection::vec(artifact, 0..3), limit(), length, saved, tip(), tip()).prop_map(
        |(artifacts, limit, length, saved, text_tip, data_tip)| {
            input(vec![
                ("artifacts", Some(artifacts.into())),
                ("character_limit", Some(limit)),
                ("minimized_object_string_length", length),
                ("saved_file_paths", saved),
                ("text_tip", text_tip),
                ("data_tip", data_tip),
            ])
        },
    )
}
