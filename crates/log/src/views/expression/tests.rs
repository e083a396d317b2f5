//! Conditions: what they mean, compared with an evaluation that is written otherwise, and their faults.

use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn holds(text: &str, row: &Value) -> bool {
    let condition = Expression::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    condition.holds(&JsonValue::from(row.clone()))
}

#[test]
fn a_condition_means_what_it_says() {
    let row = json!({
        "kind": "CallFailed", "version": 17, "at": "2026-11-21T22:21:47.500000+00:00", "id": "17", "none": null, "no": false,
        "big": 9_007_199_254_740_993_u64, "odd name": 1,
        "payload": {"args": {"city": "Oslo", "tags": ["a", "b"]}, "calls": [{"to": "pay"}, {"to": "add"}]},
    });
    for yes in [
        "kind = CallFailed",
        "kind='CallFailed' and version>16",
        "not kind = StateChanged",
        "NOT (kind = x OR version < 3)",
        "kind = x or version = 17 and id = 17",
        "version = 17.0 and version >= 17 and version <= 17 and version != 18",
        "big = 9007199254740993 and big != 9007199254740992",
        "none = null and absent = null and not absent and no = false and not no",
        "payload.absent.deeper = null",
        "at > 2026-11-21 and at < 2026-11-22",
        "at = 2026-11-21T23:21:47.5+01:00",
        "payload.args.city ~ osl",
        "payload ~ OSLO and payload ~ city",
        "payload ~ /^Os.o$/",
        r"kind ~ /a\/b|Failed/",
        "payload.calls.to = add and payload.calls[0].to = pay",
        "payload.args.tags = b and payload.args.tags[1] = b",
        "payload.calls.to != none",
        "\"odd name\" = 1",
        "version",
        "(((version)))",
    ] {
        assert!(holds(yes, &row), "{yes}");
    }
    for no in [
        "version = '17'",
        "id = '18'",
        "kind = callfailed",
        "payload.calls.to != add",
        "payload.calls[2].to",
        "payload = x",
        "no",
        "none",
        "version < abc",
        "none < 1",
        "payload.args.city ~ /oslo/",
        "not (kind = CallFailed)",
    ] {
        assert!(!holds(no, &row), "{no}");
    }
}

#[test]
fn a_fault_is_named_with_its_place() {
    for (text, at, says) in [
        ("", 0, "the name of a field is missing"),
        ("state =", 7, "a value must come after `=`"),
        ("state = a and", 13, "is missing here"),
        ("state = a b", 10, "`and`, `or` or the end"),
        ("state == a", 6, "`==` is not an operator; write `=`"),
        ("a = 1 && b = 2", 6, "write `and`"),
        ("a !~ b", 2, "write `not FIELD ~`"),
        ("(a = 1", 0, "no `)`"),
        ("a = 1)", 5, "no `(`"),
        ("(a = 1 b", 7, "`and`, `or`"),
        ("a = 'x", 4, "no end"),
        ("a ~ /x", 4, "no end"),
        ("a ~ /x(/", 6, "unclosed group"),
        ("a[x] = 1", 1, "`[0]`"),
        ("and b", 0, "before `and`"),
        ("a. = 1", 2, "name of a field"),
        ("ü = ü or", 10, "is missing here"),
    ] {
        let fault = Expression::parse(text).expect_err(text);
        assert_eq!(fault.at(), at, "{text}: {fault}");
        assert!(fault.to_string().contains(says), "{text}: {fault}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(64)).is_ok() && Expression::parse(&nested(65)).is_err());
    assert!(Expression::parse(&format!("{} a", "not ".repeat(4_000))).is_err());
    assert!(Expression::parse(&"(".repeat(16_000)).is_err());
    assert!(Expression::parse(&"a".repeat(20_000)).is_err());
    let wide = vec!["a = 1"; 1_500].join(" or ");
    assert!(!Expression::parse(&wide).unwrap().holds(&JsonValue::Null));
    // A value that nests deeper than any stack.
    let mut deep = JsonValue::from("end");
    for _ in 0..2_000 {
        deep = JsonValue::from(vec![deep]);
    }
    let row: proto_events::json::JsonMap = [("a", deep)].into_iter().collect();
    let row = JsonValue::Object(row);
    assert!(Expression::parse("a ~ end and a.b = null").unwrap().holds(&row));
}

/// A condition as the generator knows it.
#[derive(Debug, Clone)]
enum Known {
    Field(Vec<&'static str>, Option<(&'static str, Said)>),
    Not(Box<Known>),
    Join(bool, Vec<Known>),
}

#[derive(Debug, Clone)]
enum Said {
    Word(String),
    Quoted(String),
}

const OPERATORS_KNOWN: [&str; 7] = ["=", "!=", "<", "<=", ">", ">=", "~"];

fn known() -> impl Strategy<Value = Known> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let said = prop_oneof![
        prop::sample::select(vec!["1", "2.0", "-3", "true", "null", "x", "X-y", "10"])
            .prop_map(|word| Said::Word(word.to_owned())),
        r#"[ a-c1'"\\()ü]{0,3}"#.prop_map(Said::Quoted),
    ];
    let test = prop::option::of((prop::sample::select(OPERATORS_KNOWN.to_vec()), said));
    let field = (prop::collection::vec(name, 1..4), test).prop_map(|(path, test)| Known::Field(path, test));
    field.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|node| Known::Not(Box::new(node))),
            (any::<bool>(), prop::collection::vec(inner, 2..4))
                .prop_map(|(any, nodes)| Known::Join(any, nodes)),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4_i64..12).prop_map(Value::from),
        prop::sample::select(vec![1.0, 2.0, 2.5]).prop_map(Value::from),
        prop::sample::select(vec!["", "x", "X-y", "1", "true", "null", "ü", "ab", "a"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..4).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Writes a condition, with braces around everything.
fn written(known: &Known) -> String {
    match known {
        Known::Not(inner) => format!("not ({})", written(inner)),
        Known::Join(any, nodes) => {
            let nodes: Vec<_> = nodes.iter().map(|node| format!("({})", written(node))).collect();
            nodes.join(if *any { " or " } else { " and " })
        }
        Known::Field(path, None) => path.join("."),
        Known::Field(path, Some((operator, said))) => {
            let said = match said {
                Said::Word(word) => word.clone(),
                Said::Quoted(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
            };
            format!("{} {operator} {said}", path.join("."))
        }
    }
}

/// Evaluates a condition by recursion over serde's values.
fn naive(known: &Known, row: &Value) -> bool {
    match known {
        Known::Not(inner) => !naive(inner, row),
        Known::Join(true, nodes) => nodes.iter().filter(|node| naive(node, row)).count() > 0,
        Known::Join(false, nodes) => nodes.iter().filter(|node| naive(node, row)).count() == nodes.len(),
        Known::Field(path, test) => {
            let mut found = Vec::new();
            reach(row, path, &mut found);
            if found.is_empty() {
                found.push(Value::Null);
            }
            let Some((operator, said)) = test else {
                return found.iter().any(|value| *value != Value::Null && *value != Value::Bool(false));
            };
            let fits =
                |operator: &str| found.iter().filter(|value| compares(value, operator, said)).count() > 0;
            if *operator == "!=" { !fits("=") } else { fits(operator) }
        }
    }
}

fn reach(value: &Value, path: &[&str], found: &mut Vec<Value>) {
    match (path.split_first(), value) {
        (None, _) => found.push(value.clone()),
        (Some(_), Value::Array(items)) => items.iter().for_each(|item| reach(item, path, found)),
        (Some((first, rest)), Value::Object(members)) => {
            if let Some(inner) = members.get(*first) {
                reach(inner, rest, found);
            }
        }
        _ => {}
    }
}

/// Whether a value fits, by the rules of the language told once more.
fn compares(value: &Value, operator: &str, said: &Said) -> bool {
    let (text, is_word) = match said {
        Said::Word(text) => (text.as_str(), true),
        Said::Quoted(text) => (text.as_str(), false),
    };
    let number = text.parse::<f64>().ok().filter(|_| is_word);
    if let (Value::Array(items), true) = (value, operator != "~") {
        return items.iter().any(|item| compares(item, operator, said));
    }
    let order = match value {
        Value::Number(found) => number.and_then(|number| found.as_f64().unwrap().partial_cmp(&number)),
        Value::String(found) => Some(found.as_bytes().cmp(text.as_bytes())),
        _ => None,
    };
    let is = |orders: &[Ordering]| order.is_some_and(|order| orders.contains(&order));
    match operator {
        "<" => is(&[Ordering::Less]),
        "<=" => is(&[Ordering::Less, Ordering::Equal]),
        ">" => is(&[Ordering::Greater]),
        ">=" => is(&[Ordering::Greater, Ordering::Equal]),
        "~" => stands_in(value, &text.to_lowercase()),
        _ => {
            let is_other = is_word && !value.is_number() && !value.is_string();
            is(&[Ordering::Equal])
                || (is_other && serde_json::from_str::<Value>(text).ok().as_ref() == Some(value))
        }
    }
}

fn stands_in(value: &Value, text: &str) -> bool {
    match value {
        Value::Null => false,
        Value::String(found) => found.to_lowercase().contains(text),
        Value::Array(items) => items.iter().any(|item| stands_in_inner(item, text)),
        Value::Object(members) => members
            .iter()
            .any(|(name, inner)| name.to_lowercase().contains(text) || stands_in_inner(inner, text)),
        other => other.to_string().contains(text),
    }
}

/// In a list or an object, `null` is a text too, as in the filter `--text`.
fn stands_in_inner(value: &Value, text: &str) -> bool {
    if value.is_null() { "null".contains(text) } else { stands_in(value, text) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_condition_holds_where_a_plain_evaluation_says_so(known in known(), row in value()) {
        let text = written(&known);
        let condition = Expression::parse(&text).map_err(|fault| TestCaseError::fail(format!("{text}: {fault}")))?;
        prop_assert_eq!(condition.holds(&JsonValue::from(row.clone())), naive(&known, &row), "{} of {}", text, row);
    }

    #[test]
    fn any_text_is_parsed_or_refused_at_a_place_in_it(text in r#"([a-c.=<>~!&|()\[\]'"/\\ü ]|and |or |not ){0,40}"#) {
        match Expression::parse(&text) {
            Ok(condition) => { condition.holds(&JsonValue::Null); }
            Err(fault) => prop_assert!(text.is_char_boundary(fault.at()), "{} {}", text, fault),
        }
    }
}
