//! The card of an agent, as a system makes it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::AgentCard;
use taskreel::infer::{Entry, Scripted};
use taskreel::log::memory::MemoryStore;
use taskreel::{Builder, JsonSchema, System};

#[derive(serde::Deserialize, JsonSchema)]
struct Forecast {
    /// City, as a person would say it.
    #[allow(dead_code, reason = "the tool is never called")]
    city: String,
}

async fn forecast(_: Forecast) -> Result<f64, std::io::Error> {
    Ok(1.5)
}

fn builder() -> Builder {
    System::builder("in memory").store(Arc::new(MemoryStore::new()))
}

#[tokio::test]
async fn a_card_tells_what_the_agent_has_and_what_is_on() {
    let bare = builder().start().await.unwrap();
    let card = bare.card();
    assert_eq!(
        (card.name.as_str(), card.description.as_str(), card.url.as_str()),
        ("agent", "The agent agent", "")
    );
    let on = ["streaming", "state_transition_history", "max_concurrency: 10000", "timeout_support"];
    assert_eq!(card.capabilities.enabled(), on);
    assert!(card.skills.is_empty());
    bare.shutdown().await.unwrap();
    let full = builder()
        .description("Weather for people")
        .tool("zeta", "Weather for one city", forecast)
        .tool("alpha", "The same", forecast)
        .infer(Scripted::new([]))
        .delegation(true)
        .max_concurrency(3)
        .start()
        .await
        .unwrap();
    let card = full.card();
    assert_eq!(card.description, "Weather for people");
    let names: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(names, ["zeta", "alpha"], "in the order in which they were declared");
    assert!(card.skill("zeta").unwrap().input_schema.as_str().contains("City, as a person would say it."));
    let on = card.capabilities.enabled();
    for expected in ["delegation", "has_llm", "max_concurrency: 3", "tool_calling", "multi_step_reasoning"] {
        assert!(on.iter().any(|name| name == expected), "{expected} in {on:?}");
    }
    full.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_card_says_what_the_host_sets_and_stays_as_it_was_where_the_hosts_code_panics() {
    let change = |mut card: AgentCard| {
        assert_eq!(card.name, "agent");
        card.url = "http://127.0.0.1:8010".to_owned();
        card.tags.push("support".to_owned());
        card
    };
    let system = builder().card(change).start().await.unwrap();
    let card = system.card();
    assert_eq!(card.check(), Ok(()));
    assert_eq!(AgentCard::from_json(&JsonText::parse(card.to_json().as_str()).unwrap()).unwrap(), card);
    assert_eq!(card.tags, ["support"]);
    system.shutdown().await.unwrap();
    let panics = |_: AgentCard| -> AgentCard { panic!("a panic on purpose") };
    let system = builder().card(panics).start().await.unwrap();
    assert_eq!(system.card().name, "agent");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_is_shown_the_tools_of_another_agent_with_their_schemas() {
    let other =
        builder().name("weather").tool("get", "Weather for one city", forecast).start().await.unwrap();
    let model = Scripted::new([Entry::json(&json!({"type": "final", "content": "ok"}))]);
    let asked = model.clone();
    let system = builder().infer(model).peer(other.peer().described("weather")).start().await.unwrap();
    let task = system.session("s").send(taskreel::Part::infer("q")).await.unwrap().finished().await.unwrap();
    assert_eq!(task.answer().unwrap().as_str(), "\"ok\"");
    let shown = format!("{:?}", asked.requests());
    for text in ["name: weather,", "\\\"name\\\": get,", "'description': 'City, as a person would say it.'"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    system.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}
