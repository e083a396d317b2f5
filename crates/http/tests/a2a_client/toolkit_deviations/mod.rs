//! Deliberate differences between our toolkit and that of a2a-utils, each a rule with an example.
#![allow(
    clippy::indexing_slicing,
    reason = "`Value` answers null for a key that is absent, and the cases are objects"
)]

mod agents;
#[path = "../../../../../tests/deviations/deviation.rs"]
mod deviation;
mod errors;
#[path = "../../../../../tests/artifact_support/deviations/paths.rs"]
#[allow(dead_code, reason = "its rules for minimized forms are others' areas")]
mod paths;
#[path = "../../../../../tests/artifact_support/deviations/rows.rs"]
mod rows;
mod selected;
mod shown;
#[path = "../../../../../tests/artifact_support/deviations/text_ranges.rs"]
mod text_ranges;
mod uploads;
mod watched;

pub(crate) use deviation::Deviation;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[
    Deviation {
        area: "agents_for_llm",
        name: "the query of a card's address is kept",
        theirs: "asks for the card without the query of its address",
        ours: "asks with it",
        why: "an address is what the host gave, and a query may say whose card it is",
        applies: agents::has_query,
        change: agents::keep_query,
        example: agents::query_example,
    },
    Deviation {
        area: "agents_for_llm",
        name: "a file of agents that cannot be read is told in our words",
        theirs: "raises Python's own error",
        ours: "says that it is the file of agents, which one, and what is wrong",
        why: "the words are those of Python's library",
        applies: agents::is_file_refused,
        change: agents::leave_words_open,
        example: agents::file_example,
    },
    Deviation {
        area: "agents_for_llm",
        name: "what a card says has a bound",
        theirs: "shows names and descriptions whole",
        ours: "shows 200 characters of a name and 5,000 of a description, less where there are many agents, and counts the rest",
        why: "a stranger writes the card, and a model must have room for more than one agent",
        applies: agents::is_long,
        change: agents::cut_long,
        example: agents::long_example,
    },
    watched::rule("session_monitor"),
    watched::rule("tools"),
    uploads::rule("session_monitor"),
    uploads::rule("tools"),
    Deviation {
        area: "tools",
        name: "agents that could not be loaded are told beside the others",
        theirs: "tells of them only where no agent could be loaded",
        ours: "lists them under errors whenever there are some",
        why: "a model that misses an agent must be able to see why",
        applies: errors::hides_failures,
        change: errors::show_failures,
        example: errors::failures_example,
    },
    Deviation {
        area: "tools",
        name: "a missing agent is not told as a missing artifact",
        theirs: "looks for the word artifact in the error, which may stand in an agent's id",
        ours: "tells what is missing by the kind of the error",
        why: "advice that follows from a name sends the model the wrong way",
        applies: errors::is_missing_agent,
        change: errors::tell_missing_agent,
        example: errors::missing_agent_example,
    },
    Deviation {
        area: "tools",
        name: "an answer that does not come in time is told with advice",
        theirs: "has the advice, but its HTTP client raises another error than the one that it looks for",
        ours: "gives the advice",
        why: "the advice is there to be given",
        applies: errors::is_timeout,
        change: errors::advise_on_timeout,
        example: errors::timeout_example,
    },
    Deviation {
        area: "tools",
        name: "a field or column that is missing is told plainly",
        theirs: "puts a missing field in quotes behind a prefix, and tells a missing column with advice about agents, or as a missing artifact",
        ours: "tells the name and those that exist",
        why: "errors are told by their kind, not by words in them",
        applies: selected::is_misreported,
        change: selected::report_plainly,
        example: selected::misreported_example,
    },
    Deviation {
        area: "tools",
        name: "rows and paths are read as in every view",
        theirs: "reads `-3` as the first three rows, crashes at mixed lists, and reaches no key with a dot",
        ours: "as the rules of the area data_view",
        why: "one view must not differ from another",
        applies: selected::is_read_otherwise,
        change: selected::read_as_in_views,
        example: selected::read_example,
    },
    Deviation {
        area: "tools",
        name: "limits below two are refused",
        theirs: "takes any limit, and shows what does not fit",
        ours: "refuses them where they are set",
        why: "a minimized text shows at least one character from each end",
        applies: shown::is_too_small,
        change: shown::refuse_limit,
        example: shown::limit_example,
    },
    Deviation {
        area: "tools",
        name: "a minimized text of an answer keeps its ranges and its tip, and is joined as the views join it",
        theirs: "drops both, and joins texts without anything between them, where the view puts line breaks",
        ours: "keeps them, and joins a text that is cut as the view does",
        why: "the ranges say which lines and characters to ask the view for",
        applies: shown::is_cut,
        change: shown::add_ranges,
        example: shown::cut_example,
    },
];

#[test]
fn every_rule_makes_of_its_example_what_it_says_and_of_the_result_nothing_else() {
    deviation::check_examples(RULES);
}

#[test]
fn every_rule_says_where_what_and_why_and_has_a_name_of_its_own() {
    deviation::check_words(RULES);
}

/// Returns the ids of the agents of a case in the order of its list, each with its card or the text with which it fails.
fn agents_of(case: &Value) -> Vec<(String, Result<Value, String>)> {
    let input = &case["input"];
    let default = crate::toolkit_cases::script::default_config();
    let config = input.get("config").unwrap_or(&default);
    let agents = config.as_object().into_iter().flatten().map(|(id, agent)| {
        let loaded = match agent["url"].as_str() {
            None => Err("KeyError: 'url'".to_owned()),
            Some(url) => match &input["cards"][url.split(['?', '#']).next().unwrap_or_default()] {
                Value::String(text) => Err(format!("A2AClientHTTPError: HTTP Error 503: {text}")),
                card => Ok(card.clone()),
            },
        };
        (id.clone(), loaded)
    });
    agents.collect()
}

/// Returns the ids of the agents that are loaded, sorted.
fn loaded(case: &Value) -> Vec<String> {
    let loaded = agents_of(case).into_iter().filter(|(_, card)| card.is_ok());
    let mut ids: Vec<String> = loaded.map(|(id, _)| id).collect();
    ids.sort();
    ids
}

/// Returns the object with an error.
fn told(message: &str) -> Value {
    proto_events::json!({"error": true, "error_message": message})
}

use proto_events::json::JsonValue as Value;
