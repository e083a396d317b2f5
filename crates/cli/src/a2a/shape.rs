//! The shape of a card by A2A's definition: its members, their types, and which of them must be there. Cards of 1.0 and of 0.3
//! are checked each by its own.

use proto_events::json::{JsonMap, JsonText, JsonValue};

/// The most faults that are told.
const FAULTS_MAX: usize = 20;

/// A type of a member. With `true` it must be there.
type Members = &'static [(&'static str, ValueType, bool)];

/// The type of a value.
#[derive(Debug, Clone, Copy)]
enum ValueType {
    Text,
    Flag,
    /// An address over HTTP, or the host and port of gRPC.
    Address,
    Any,
    Texts,
    One(Members),
    Many(Members),
    Map(Members),
}

const EXTENSION: Members = &[
    ("uri", ValueType::Text, true),
    ("description", ValueType::Text, false),
    ("required", ValueType::Flag, false),
    ("params", ValueType::Any, false),
];

const PROVIDER: Members = &[("organization", ValueType::Text, true), ("url", ValueType::Text, true)];

const SKILL: Members = &[
    ("id", ValueType::Text, true),
    ("name", ValueType::Text, true),
    ("description", ValueType::Text, true),
    ("tags", ValueType::Texts, true),
    ("examples", ValueType::Texts, false),
    ("inputModes", ValueType::Texts, false),
    ("outputModes", ValueType::Texts, false),
];

const INTERFACE: Members = &[
    ("url", ValueType::Address, true),
    ("protocolBinding", ValueType::Text, true),
    ("protocolVersion", ValueType::Text, true),
    ("tenant", ValueType::Text, false),
];

const CAPABILITIES: Members = &[
    ("streaming", ValueType::Flag, false),
    ("pushNotifications", ValueType::Flag, false),
    ("extendedAgentCard", ValueType::Flag, false),
    ("stateTransitionHistory", ValueType::Flag, false),
    ("extensions", ValueType::Many(EXTENSION), false),
];

const SIGNATURE: Members = &[
    ("protected", ValueType::Text, true),
    ("signature", ValueType::Text, true),
    ("header", ValueType::Any, false),
];

const ADDITIONAL: Members = &[("url", ValueType::Address, true), ("transport", ValueType::Text, true)];

/// The members that both versions have.
const BOTH: Members = &[
    ("name", ValueType::Text, true),
    ("description", ValueType::Text, true),
    ("version", ValueType::Text, true),
    ("capabilities", ValueType::One(CAPABILITIES), true),
    ("defaultInputModes", ValueType::Texts, true),
    ("defaultOutputModes", ValueType::Texts, true),
    ("skills", ValueType::Many(SKILL), true),
    ("provider", ValueType::One(PROVIDER), false),
    ("securitySchemes", ValueType::Map(&[]), false),
    ("signatures", ValueType::Many(SIGNATURE), false),
    ("iconUrl", ValueType::Text, false),
    ("documentationUrl", ValueType::Text, false),
];

const NEW: Members = &[
    ("supportedInterfaces", ValueType::Many(INTERFACE), true),
    ("securityRequirements", ValueType::Many(&[]), false),
];

const OLD: Members = &[
    ("url", ValueType::Address, true),
    ("protocolVersion", ValueType::Text, true),
    ("preferredTransport", ValueType::Text, false),
    ("additionalInterfaces", ValueType::Many(ADDITIONAL), false),
    ("security", ValueType::Many(&[]), false),
];

/// Returns what is wrong with a card.
pub(crate) fn faults(card: &JsonText) -> Vec<String> {
    let mut faults = Vec::new();
    let tree = card.tree();
    let JsonValue::Object(members) = &tree else { return vec!["it is no object".to_owned()] };
    object(members, BOTH, "", &mut faults);
    // A card may be readable by both versions.
    let is_new = members.contains_key("supportedInterfaces");
    if is_new || !members.contains_key("url") {
        object(members, NEW, "", &mut faults);
    }
    if members.contains_key("url") && (!is_new || members.contains_key("protocolVersion")) {
        object(members, OLD, "", &mut faults);
    }
    for name in ["supportedInterfaces", "defaultInputModes", "defaultOutputModes"] {
        if members.get(name).and_then(items).is_some_and(<[JsonValue]>::is_empty) {
            faults.push(format!("{name} is empty"));
        }
    }
    faults.truncate(FAULTS_MAX);
    faults
}

fn items(value: &JsonValue) -> Option<&[JsonValue]> {
    match value {
        JsonValue::Array(items) => Some(items),
        _ => None,
    }
}

fn object(members: &JsonMap, known: Members, at: &str, faults: &mut Vec<String>) {
    for (name, kind, is_required) in known {
        let path = if at.is_empty() { (*name).to_owned() } else { format!("{at}.{name}") };
        match members.get(name) {
            None | Some(JsonValue::Null) => {
                if *is_required {
                    faults.push(format!("{path} is missing"));
                }
            }
            Some(found) => value(found, *kind, &path, faults),
        }
    }
}

fn value(found: &JsonValue, kind: ValueType, at: &str, faults: &mut Vec<String>) {
    let inner = |found: &JsonValue, known: Members, at: &str, faults: &mut Vec<String>| match found {
        JsonValue::Object(members) => object(members, known, at, faults),
        _ => faults.push(format!("{at} is no object")),
    };
    match kind {
        ValueType::Any => {}
        ValueType::Text => {
            if found.as_str().is_none() {
                faults.push(format!("{at} is no text"));
            }
        }
        ValueType::Flag => {
            if !matches!(found, JsonValue::Bool(_)) {
                faults.push(format!("{at} is neither true nor false"));
            }
        }
        ValueType::Address => match found.as_str() {
            Some(text) if is_address(text) => {}
            _ => faults.push(format!("{at} is no address")),
        },
        ValueType::Texts => match items(found) {
            Some(items) if items.iter().all(|item| item.as_str().is_some()) => {}
            _ => faults.push(format!("{at} is no list of texts")),
        },
        ValueType::One(known) => inner(found, known, at, faults),
        ValueType::Many(known) => match items(found) {
            None => faults.push(format!("{at} is no list")),
            Some(items) => {
                for (place, item) in items.iter().enumerate() {
                    inner(item, known, &format!("{at}[{place}]"), faults);
                }
            }
        },
        ValueType::Map(known) => match found {
            JsonValue::Object(members) => {
                for (name, member) in members {
                    inner(member, known, &format!("{at}.{name}"), faults);
                }
            }
            _ => faults.push(format!("{at} is no object")),
        },
    }
}

fn is_address(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    !rest.is_empty()
        && !rest.starts_with('/')
        && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        faults(&JsonText::parse(text).unwrap())
    }

    #[test]
    fn each_fault_of_a_card_is_named_with_its_place() {
        let sound = r#"{"name":"n","description":"d","version":"1","capabilities":{"streaming":true},
            "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
            "skills":[{"id":"s","name":"s","description":"d","tags":["t"]}],
            "supportedInterfaces":[{"url":"http://h","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#;
        assert!(of(sound).is_empty(), "{:?}", of(sound));
        for (from, to, fault) in [
            (r#""name":"n","description""#, r#""description""#, "name is missing"),
            (
                r#""streaming":true"#,
                r#""streaming":"yes""#,
                "capabilities.streaming is neither true nor false",
            ),
            (r#""tags":["t"]"#, r#""tags":"t""#, "skills[0].tags is no list of texts"),
            (r#"["text/plain"],"default"#, r#"[],"default"#, "defaultInputModes is empty"),
            ("http://h", "http:///", "supportedInterfaces[0].url is no address"),
            (r#","protocolVersion":"1.0""#, "", "supportedInterfaces[0].protocolVersion is missing"),
        ] {
            assert_eq!(of(&sound.replacen(from, to, 1)), [fault], "{from}");
        }
        assert_eq!(of("[]"), ["it is no object"]);
        let old = sound.split("\"supportedInterfaces\"").next().unwrap().to_owned()
            + r#""url":"http://h","protocolVersion":"0.3.0","additionalInterfaces":[{"url":"http://h"}]}"#;
        assert_eq!(of(&old), ["additionalInterfaces[0].transport is missing"]);
    }
}
