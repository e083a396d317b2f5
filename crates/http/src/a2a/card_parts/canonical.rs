//! A card as it is signed: the canonical JSON of RFC 8785, of the card as it stands, or of what A2A 1.0 knows of it.

use serde_json::{Map, Value};

/// Returns the canonical JSON of a value, by RFC 8785: members in the order of their keys as UTF-16, no space, numbers as
/// ECMAScript writes them.
pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Number(number) => {
            text.push_str(&number.as_f64().map_or_else(|| number.to_string(), of_double));
        }
        // Its texts have the escapes of RFC 8785 and no others.
        other => text.push_str(&other.to_string()),
    }
}

/// Returns a double as ECMAScript writes it.
fn of_double(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that read back as the same number, and the power of ten of the first.
    let shortest = format!("{:e}", number.abs());
    let (digits, power) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let power: i32 = power.parse().unwrap_or_default();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let split = |at: i32| digits.split_at(usize::try_from(at).unwrap_or_default().min(digits.len()));
    let written = match power {
        0..=20 if count <= power + 1 => format!("{digits}{}", zeros(power + 1 - count)),
        0..=20 => {
            let (whole, rest) = split(power + 1);
            format!("{whole}.{rest}")
        }
        -6..=-1 => format!("0.{}{digits}", zeros(-power - 1)),
        _ => {
            let (first, rest) = split(1);
            let point = if rest.is_empty() { "" } else { "." };
            format!("{first}{point}{rest}e{power:+}")
        }
    };
    if number < 0.0 { format!("-{written}") } else { written }
}

/// Returns a card without its signatures.
pub(crate) fn unsigned(card: &Value) -> Value {
    let mut card = card.clone();
    if let Value::Object(members) = &mut card {
        members.remove("signatures");
    }
    card
}

/// The kind of a member of a card of A2A 1.0.
#[derive(Clone, Copy)]
enum MemberKind {
    /// A text, or any value as it is.
    Plain,
    /// A boolean that says nothing where it is false.
    Flag,
    /// A message of these members.
    Of(&'static [(&'static str, MemberKind)]),
    /// A list of such messages.
    List(&'static [(&'static str, MemberKind)]),
    /// A map to such messages.
    Map(&'static [(&'static str, MemberKind)]),
}

const EXTENSION: &[(&str, MemberKind)] = &[
    ("uri", MemberKind::Plain),
    ("description", MemberKind::Plain),
    ("required", MemberKind::Flag),
    ("params", MemberKind::Plain),
];
const REQUIREMENT: &[(&str, MemberKind)] = &[("schemes", MemberKind::Map(&[("list", MemberKind::Plain)]))];
const FLOW: &[(&str, MemberKind)] = &[
    ("authorizationUrl", MemberKind::Plain),
    ("deviceAuthorizationUrl", MemberKind::Plain),
    ("tokenUrl", MemberKind::Plain),
    ("refreshUrl", MemberKind::Plain),
    ("scopes", MemberKind::Plain),
    ("pkceRequired", MemberKind::Flag),
];
const SCHEME: &[(&str, MemberKind)] = &[
    (
        "apiKeySecurityScheme",
        MemberKind::Of(&[
            ("description", MemberKind::Plain),
            ("location", MemberKind::Plain),
            ("name", MemberKind::Plain),
        ]),
    ),
    (
        "httpAuthSecurityScheme",
        MemberKind::Of(&[
            ("description", MemberKind::Plain),
            ("scheme", MemberKind::Plain),
            ("bearerFormat", MemberKind::Plain),
        ]),
    ),
    (
        "oauth2SecurityScheme",
        MemberKind::Of(&[
            ("description", MemberKind::Plain),
            (
                "flows",
                MemberKind::Of(&[
                    ("authorizationCode", MemberKind::Of(FLOW)),
                    ("clientCredentials", MemberKind::Of(FLOW)),
                    ("implicit", MemberKind::Of(FLOW)),
                    ("password", MemberKind::Of(FLOW)),
                    ("deviceCode", MemberKind::Of(FLOW)),
                ]),
            ),
            ("oauth2MetadataUrl", MemberKind::Plain),
        ]),
    ),
    (
        "openIdConnectSecurityScheme",
        MemberKind::Of(&[("description", MemberKind::Plain), ("openIdConnectUrl", MemberKind::Plain)]),
    ),
    ("mtlsSecurityScheme", MemberKind::Of(&[("description", MemberKind::Plain)])),
];
const CARD: &[(&str, MemberKind)] = &[
    ("name", MemberKind::Plain),
    ("description", MemberKind::Plain),
    (
        "supportedInterfaces",
        MemberKind::List(&[
            ("url", MemberKind::Plain),
            ("protocolBinding", MemberKind::Plain),
            ("tenant", MemberKind::Plain),
            ("protocolVersion", MemberKind::Plain),
        ]),
    ),
    ("provider", MemberKind::Of(&[("url", MemberKind::Plain), ("organization", MemberKind::Plain)])),
    ("version", MemberKind::Plain),
    ("documentationUrl", MemberKind::Plain),
    (
        "capabilities",
        MemberKind::Of(&[
            ("streaming", MemberKind::Plain),
            ("pushNotifications", MemberKind::Plain),
            ("extensions", MemberKind::List(EXTENSION)),
            ("extendedAgentCard", MemberKind::Plain),
        ]),
    ),
    ("securitySchemes", MemberKind::Map(SCHEME)),
    ("securityRequirements", MemberKind::List(REQUIREMENT)),
    ("defaultInputModes", MemberKind::Plain),
    ("defaultOutputModes", MemberKind::Plain),
    (
        "skills",
        MemberKind::List(&[
            ("id", MemberKind::Plain),
            ("name", MemberKind::Plain),
            ("description", MemberKind::Plain),
            ("tags", MemberKind::Plain),
            ("examples", MemberKind::Plain),
            ("inputModes", MemberKind::Plain),
            ("outputModes", MemberKind::Plain),
            ("securityRequirements", MemberKind::List(REQUIREMENT)),
        ]),
    ),
    ("iconUrl", MemberKind::Plain),
];

/// Returns what a reader of A2A 1.0 keeps of a card: the members that it knows, without empty ones, as readers that are built on
/// protobuf have it.
pub(crate) fn of_1(card: &Value) -> Value {
    message(card, CARD).unwrap_or_default()
}

fn message(value: &Value, members: &'static [(&'static str, MemberKind)]) -> Option<Value> {
    let object = value.as_object()?;
    let known =
        |(name, kind): &(&str, MemberKind)| Some(((*name).to_owned(), member(object.get(*name)?, *kind)?));
    let kept: Map<String, Value> = members.iter().filter_map(known).collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

fn member(value: &Value, kind: MemberKind) -> Option<Value> {
    match kind {
        MemberKind::Plain => plain(value),
        MemberKind::Flag => (value == &Value::Bool(true)).then(|| value.clone()),
        MemberKind::Of(members) => message(value, members),
        MemberKind::List(members) => {
            let kept: Vec<Value> =
                value.as_array()?.iter().filter_map(|item| message(item, members)).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        MemberKind::Map(members) => {
            let one = |(key, item): (&String, &Value)| Some((key.clone(), message(item, members)?));
            let kept: Map<String, Value> = value.as_object()?.iter().filter_map(one).collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
    }
}

/// Returns a value without empty texts, lists and objects; `None` if nothing is left.
fn plain(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) => {
            let kept: Vec<Value> = items.iter().filter_map(plain).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        Value::Object(members) => {
            let one = |(key, item): (&String, &Value)| Some((key.clone(), plain(item)?));
            let kept: Map<String, Value> = members.iter().filter_map(one).collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        // The examples of RFC 8785, appendix B.
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (295_147_905_179_352_830_000.0, "295147905179352830000"),
            (9.999_999_999_999_997e22, "9.999999999999997e+22"),
            (1e23, "1e+23"),
            (1e21, "1e+21"),
            (999_999_999_999_999_900_000.0, "999999999999999900000"),
            (333_333_333.333_333_3, "333333333.3333333"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (-0.000_003_333_333_333_333_333_3, "-0.0000033333333333333333"),
            (4.5, "4.5"),
            (2e-3, "0.002"),
        ] {
            assert_eq!(of_double(number), text);
        }
    }

    #[test]
    fn members_stand_in_the_order_of_utf_16_and_texts_have_the_short_escapes() {
        let value =
            json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "ö": 7});
        let text = canonical(&value);
        let order: Vec<char> = text.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(order, ['2', '1', '4', '6', '7', '1', '5', '3'], "{text}");
        let text = canonical(
            &json!({"s": "\u{8}\t\n\u{c}\r\"\\/\u{0}\u{1f}\u{7f}é", "a": [56, {"d": true, "c": null}]}),
        );
        assert_eq!(
            text,
            "{\"a\":[56,{\"c\":null,\"d\":true}],\"s\":\"\\b\\t\\n\\f\\r\\\"\\\\/\\u0000\\u001f\u{7f}é\"}"
        );
    }

    #[test]
    fn of_a_card_what_1_0_does_not_know_and_what_is_empty_falls_away() {
        let card = json!({
            "name": "n", "description": "", "url": "http://h", "signatures": [{}],
            "capabilities": {"streaming": false, "stateTransitionHistory": true,
                "extensions": [{"uri": "u", "required": false}, {}]},
            "securitySchemes": {"b": {"type": "http", "httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            "skills": [], "defaultInputModes": ["a"],
        });
        let kept = json!({
            "name": "n", "capabilities": {"streaming": false, "extensions": [{"uri": "u"}]},
            "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            "defaultInputModes": ["a"],
        });
        assert_eq!(of_1(&card), kept);
        assert_eq!(of_1(&json!([])), Value::Null);
    }
}
