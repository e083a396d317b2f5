//! Agent cards: what is written is read back, what a registry would not take is refused, and a model is shown them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use proptest::prelude::*;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{AgentCapabilities, AgentCard, AgentRole, AgentSkill, MimeType, TransportType};

fn json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

fn capabilities() -> impl Strategy<Value = AgentCapabilities> {
    (any::<[bool; 11]>(), any::<i64>(), any::<Option<bool>>()).prop_map(|(on, max_concurrency, supports)| {
        let [
            streaming,
            push_notifications,
            state_transition_history,
            delegation,
            has_llm,
            message_batching,
            tool_calling,
            multi_step_reasoning,
            timeout_support,
            rag,
            code_execution,
        ] = on;
        AgentCapabilities {
            streaming,
            push_notifications,
            state_transition_history,
            delegation,
            has_llm,
            max_concurrency,
            message_batching,
            tool_calling,
            multi_step_reasoning,
            timeout_support,
            rag,
            code_execution,
            supports_inference: supports,
        }
    })
}

fn skills() -> impl Strategy<Value = AgentSkill> {
    (".+", ".*", prop::collection::vec(".*", 0..3), prop::collection::vec(any::<i64>(), 0..3)).prop_map(
        |(id, description, tags, numbers)| AgentSkill {
            description,
            input_schema: json(r#"{"type":"object","properties":{"n":{"maximum":1.50}}}"#),
            examples: numbers.iter().map(|number| json(&number.to_string())).collect(),
            tags,
            ..AgentSkill::new(id)
        },
    )
}

fn cards() -> impl Strategy<Value = AgentCard> {
    let texts = (".+", ".+", ".+", "(http|sse|pigeon)", "(worker|gateway|judge)");
    let lists = (
        prop::collection::vec(skills(), 0..3),
        prop::collection::vec(".*", 0..3),
        prop::collection::vec("(text/plain|text/x-own)", 0..3),
    );
    (texts, capabilities(), lists, any::<bool>()).prop_map(|(texts, capabilities, lists, secured)| {
        let (name, description, url, transport, role) = texts;
        let (skills, tags, formats) = lists;
        let mut schemes = JsonObject::new();
        schemes.set("http", json(r#"{"scheme":"bearer"}"#));
        AgentCard {
            transport: TransportType::of(&transport),
            role: AgentRole::of(&role),
            capabilities,
            skills,
            tags,
            input_formats: formats.iter().map(|format| MimeType::of(format)).collect(),
            security_schemes: secured.then_some(schemes),
            ..AgentCard::new(name, description, url)
        }
    })
}

proptest! {
    #[test]
    fn a_card_that_is_written_is_read_back_as_it_was(card in cards()) {
        prop_assert_eq!(AgentCard::from_json(&card.to_json()).unwrap(), card);
    }

    #[test]
    fn what_is_on_are_the_flags_that_are_set_and_a_concurrency_above_zero(capabilities in capabilities()) {
        let on = capabilities.enabled();
        let number = on.iter().find(|name| name.starts_with("max_concurrency"));
        prop_assert_eq!(number.is_some(), capabilities.max_concurrency > 0);
        prop_assert_eq!(on.iter().any(|name| name == "streaming"), capabilities.streaming);
        prop_assert_eq!(on.iter().any(|name| name == "supports_inference"), capabilities.supports_inference == Some(true));
    }

    #[test]
    fn any_card_is_shown_to_a_model_with_its_name_and_each_skill(card in cards()) {
        let (text, newer) = (card.get_prompt_format(), card.get_prompt_json());
        prop_assert!(text.contains(&card.name));
        let is_shown = |skill: &AgentSkill| text.contains(&format!("\"name\": {},", skill.id));
        prop_assert!(card.skills.iter().all(is_shown));
        let tree = json(&newer).tree();
        let listed = tree.get("tools").and_then(|tools| tools.as_array()).map(Vec::len);
        prop_assert_eq!(listed, Some(card.skills.len()));
    }
}

#[test]
fn a_card_that_cannot_be_registered_is_refused_with_the_reason() {
    let card = AgentCard::new("desk", "Answers", "http://127.0.0.1:8010");
    assert_eq!(card.check(), Ok(()));
    for url in ["https://a.example/agents/desk?x=1", "wss://[::1]:1", "grpc://host", "runtime://desk"] {
        assert_eq!(AgentCard { url: url.to_owned(), ..card.clone() }.check(), Ok(()), "{url}");
    }
    let wrong = [
        AgentCard { name: "a\nb".to_owned(), ..card.clone() },
        AgentCard { name: "x".repeat(201), ..card.clone() },
        AgentCard { description: String::new(), ..card.clone() },
        AgentCard { version: String::new(), ..card.clone() },
        AgentCard { protocol_version: String::new(), ..card.clone() },
        AgentCard { skills: vec![AgentSkill::new("")], ..card.clone() },
    ];
    for card in wrong {
        assert!(card.check().unwrap_err().to_string().starts_with("Agent "), "{card:?}");
    }
    let long = format!("http://{}", "x".repeat(3_000));
    for url in [
        "",
        "desk",
        "http://",
        "http:///x",
        "://h",
        "1http://h",
        "http://h h",
        "http://u:p@h",
        "http://h\n",
        &long,
    ] {
        let refused = AgentCard { url: url.to_owned(), ..card.clone() }.check().unwrap_err().to_string();
        assert!(refused.starts_with("Agent URL") && refused.len() < 200, "{url}: {refused}");
    }
}

#[test]
fn a_value_that_is_no_card_or_capability_is_refused() {
    let card = |member: &str| {
        let text = format!(r#"{{"name":"a","description":"d","url":"http://h",{member}}}"#);
        AgentCard::from_json(&json(&text))
    };
    assert!(card(r#""tags":null,"skills":null,"version":null,"transport":null,"inputFormats":null"#).is_ok());
    for wrong in [
        r#""capabilities":{"streaming":"yes"}"#,
        r#""capabilities":{"max_concurrency":"many"}"#,
        r#""capabilities":[1]"#,
        r#""skills":[{"id":null}]"#,
        r#""skills":{"id":"a"}"#,
        r#""tags":{"a":1}"#,
        r#""securitySchemes":["http"]"#,
    ] {
        assert!(card(wrong).is_err(), "{wrong}");
    }
    assert!(AgentCard::from_json(&json(r#"{"name":7,"description":"d","url":"u"}"#)).is_err());
    assert!(AgentCard::from_json(&json("[]")).is_err());
}

#[test]
fn a_card_is_shown_as_newer_protolinks_show_it() {
    let skills = r#"[{"id":"z"},{"id":"a","examples":[true,null,"é"]}]"#;
    let text = format!(r#"{{"name":"w","description":"\"q\"","url":"http://h","skills":{skills}}}"#);
    let shown = AgentCard::from_json(&json(&text)).unwrap().get_prompt_json();
    assert!(shown.starts_with("{\n  \"capabilities\": {\n    \"code_execution\": false,"), "{shown}");
    let tools = shown.split_once("\"tools\": ").unwrap().1;
    let first = "[\n    {\n      \"description\": \"\",\n      \"examples\": [\n        true,\n        null,\n        \"é\"\n      ],\n      \"input_schema\": {},\n      \"name\": \"a\",\n";
    assert!(tools.starts_with(first), "{tools}");
}
