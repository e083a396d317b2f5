//! Agents: addresses, files, and what cards say.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Returns the addresses of cards with a query, without their fragments.
fn with_query(case: &Value) -> Vec<String> {
    let input = &case["input"];
    let listed =
        input["config"].as_object().into_iter().flatten().filter_map(|(_, agent)| agent["url"].as_str());
    let added = input["ops"].as_array().into_iter().flatten().filter(|op| op[0] == "add_agent");
    let urls = listed.chain(added.filter_map(|op| op[2].as_str()));
    let urls = urls.filter_map(|url| url.split('#').next());
    urls.filter(|url| url.contains('?')).map(str::to_owned).collect()
}

pub(super) fn has_query(case: &Value) -> bool {
    !with_query(case).is_empty() && case["expected"]["card_requests"].is_array()
}

pub(super) fn keep_query(case: &mut Value) {
    for url in with_query(case) {
        let Some((without, query)) = url.split_once('?') else { continue };
        let requests = case.pointer_mut("/expected/card_requests").and_then(Value::as_array_mut);
        let is_it = |request: &&mut Value| {
            let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
            text("base_url") + &text("card_path") == without
        };
        if let Some(request) = requests.into_iter().flatten().find(is_it) {
            let path = request["card_path"].as_str().unwrap_or_default();
            request["card_path"] = format!("{path}?{query}").into();
        }
    }
}

pub(super) fn query_example() -> (Value, Value) {
    let case = |path: &str| {
        json!({"input": {"config": {"a": {"url": "https://h/c.json?t=7#f"}}},
            "expected": {"card_requests": [{"base_url": "https://h", "card_path": path}]}})
    };
    (case("/c.json"), case("/c.json?t=7"))
}

pub(super) fn is_file_refused(case: &Value) -> bool {
    case["input"].get("config_file").is_some() && !case["error"].is_null()
}

pub(super) fn leave_words_open(case: &mut Value) {
    case["python_specific_text"] = true.into();
}

pub(super) fn file_example() -> (Value, Value) {
    let theirs = json!({"input": {"config_file": "{", "ops": []}, "error": {"message": "Expecting"}});
    let mut ours = theirs.clone();
    ours["python_specific_text"] = true.into();
    (theirs, ours)
}

fn cut(text: &str, most: usize) -> String {
    let is_cut = text.ends_with(" more chars]") && text.chars().take(most + 5).skip(most).eq("... [".chars());
    match text.chars().count().saturating_sub(most) {
        _ if is_cut => text.to_owned(),
        0 => text.to_owned(),
        more => format!("{}... [{more} more chars]", text.chars().take(most).collect::<String>()),
    }
}

fn cut_agent(agent: &mut Value, of: usize) {
    let most = (50_000 / of.max(1)).clamp(200, 5_000);
    if let Some(name) = agent["name"].as_str() {
        agent["name"] = cut(name, 200).into();
    }
    let cut_description = |shown: &mut Value| {
        if let Some(description) = shown["description"].as_str() {
            shown["description"] = cut(description, most).into();
        }
    };
    cut_description(agent);
    for skill in agent.get_mut("skills").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(name) = skill.as_str() {
            *skill = cut(name, 200).into();
        } else if let Some(name) = skill["name"].as_str() {
            skill["name"] = cut(name, 200).into();
            cut_description(skill);
        }
    }
}

pub(super) fn is_long(case: &Value) -> bool {
    let mut ours = case.clone();
    cut_long(&mut ours);
    ours != *case
}

pub(super) fn cut_long(case: &mut Value) {
    let ops = case["input"]["ops"].clone();
    let results = case.pointer_mut("/expected/results").and_then(Value::as_array_mut);
    for (op, result) in ops.as_array().into_iter().flatten().zip(results.into_iter().flatten()) {
        let Some(shown) = result.get_mut("ok") else { continue };
        match op[0].as_str() {
            Some("get_agent_for_llm") if shown.is_object() => cut_agent(shown, 1),
            Some("get_agents_for_llm") => {
                let of = shown.as_object().map_or(0, proto_events::json::JsonMap::len);
                for agent in shown.as_object_mut().into_iter().flat_map(|agents| agents.values_mut()) {
                    cut_agent(agent, of);
                }
            }
            _ => {}
        }
    }
}

pub(super) fn long_example() -> (Value, Value) {
    let case = |name: &str| json!({"input": {"ops": [["get_agent_for_llm", "a"]]}, "expected": {"results": [{"ok": {"name": name}}]}});
    let (long, short) = ("x".repeat(203), format!("{}... [3 more chars]", "x".repeat(200)));
    (case(&long), case(&short))
}
