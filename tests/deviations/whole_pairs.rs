//! Compactions that part a call from its answer: ours keeps both.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Whether a message answers the call of the message before it: a tool's after the model's, or another tool's.
fn answers(history: &[Value], place: usize) -> bool {
    let role = |at: usize| history.get(at).and_then(|message| message["role"].as_str());
    let note = |at: usize| {
        let text = history.get(at).and_then(|message| message["content"].as_str()).unwrap_or_default();
        role(at) == Some("system")
            && (text.starts_with("{\"type\": \"tool_result\"")
                || text.starts_with("{\"type\": \"agent_result\""))
    };
    let Some(before) = place.checked_sub(1) else { return false };
    (role(place) == Some("tool") || note(place))
        && (matches!(role(before), Some("assistant" | "tool")) || note(before))
}

/// Returns the place of the first message that theirs keeps after the system message, and of the first that ours keeps, if
/// they differ.
fn moved(case: &Value) -> Option<(usize, usize)> {
    let history = case["input"]["history"].as_array()?;
    let removed = case["expected"]["result"]["removed_messages"].as_u64()?;
    let removed = usize::try_from(removed).ok().filter(|removed| *removed > 0)?;
    let leading = usize::from(history.first().is_some_and(|first| first["role"] == "system"));
    let theirs = leading + removed;
    let mut ours = theirs;
    while ours > leading && answers(history, ours) {
        ours -= 1;
    }
    let with_tokens = case["input"]["options"]["strategy"] == "tokens";
    if with_tokens {
        return (ours < theirs).then(|| (theirs, whole_within(case, history, leading, (ours, theirs))));
    }
    (ours < theirs).then_some((theirs, ours))
}

/// Returns the cut of the strategy `tokens`: a pair that theirs parts is kept if its answer is protected, or if all of it
/// fits; otherwise it is left out.
fn whole_within(case: &Value, history: &[Value], leading: usize, (ours, theirs): (usize, usize)) -> usize {
    let options = &case["input"]["options"];
    let recent = options["preserve_recent"].as_u64().unwrap_or(6);
    let recent = usize::try_from(recent).unwrap_or(usize::MAX);
    let limit = options["max_tokens"].as_u64().unwrap_or(4_000);
    if theirs >= history.len().saturating_sub(recent) || tokens(history, leading, ours) <= limit {
        return ours;
    }
    (theirs..history.len()).find(|place| !answers(history, *place)).unwrap_or(history.len())
}

fn shown(message: &Value) -> Value {
    let mut shown = json!({"role": message["role"], "content": message["content"]});
    if message["name"].as_str().is_some_and(|name| !name.is_empty()) {
        shown["name"] = message["name"].clone();
    }
    shown
}

fn tokens(history: &[Value], leading: usize, from: usize) -> u64 {
    let kept: Vec<Value> = history[..leading].iter().chain(&history[from..]).map(shown).collect();
    taskreel_log::context::estimate_tokens(&kept.into())
}

pub(super) fn applies(case: &Value) -> bool {
    moved(case).is_some() && is_theirs(case)
}

/// Whether the answer is still the recorded one.
fn is_theirs(case: &Value) -> bool {
    let Some((theirs, _)) = moved(case) else { return false };
    let first = case["input"]["history"][theirs]["id"].as_str();
    let leading = usize::from(case["input"]["history"][0]["role"] == "system");
    let with_summary = usize::from(case["expected"]["result"]["summary_created"] == true);
    case["expected"]["kept"][leading + with_summary].as_str() == first
}

pub(super) fn change(case: &mut Value) {
    if !applies(case) {
        return;
    }
    let Some((_, ours)) = moved(case) else { return };
    let history = case["input"]["history"].as_array().cloned().unwrap_or_default();
    let leading = usize::from(history.first().is_some_and(|first| first["role"] == "system"));
    let removed = ours - leading;
    let expected = &mut case["expected"];
    // A summary stands between the system message and what is kept, unless nothing is left to sum up.
    let summary = (expected["result"]["summary_created"] == true && removed > 0).then(|| {
        let mut summary = expected["messages"][leading].clone();
        summary["id"] = expected["kept"][leading].clone();
        summary["metadata"] = expected["metadata"][leading].clone();
        summary
    });
    let kept: Vec<&Value> = history[..leading].iter().chain(&summary).chain(&history[ours..]).collect();
    let shown_now: Vec<Value> = kept.iter().map(|message| shown(message)).collect();
    expected["result"]["summary_created"] = json!(summary.is_some());
    let calls = expected.as_object_mut().and_then(|expected| expected.get_mut("summarizer_calls"));
    if let Some(calls) = calls.and_then(Value::as_array_mut).filter(|calls| !calls.is_empty()) {
        let ids: Vec<Value> = history[leading..ours].iter().map(|message| message["id"].clone()).collect();
        if ids.is_empty() {
            calls.clear();
        } else {
            calls[0]["ids"] = ids.into();
        }
    }
    expected["result"]["after_messages"] = json!(kept.len());
    expected["result"]["removed_messages"] = json!(removed);
    let after = taskreel_log::context::estimate_tokens(&shown_now.clone().into());
    expected["result"]["after_tokens"] = json!(after);
    expected["result"]["changed"] = json!(removed > 0);
    expected["kept"] = kept.iter().map(|message| message["id"].clone()).collect::<Vec<_>>().into();
    expected["messages"] = shown_now.into();
    expected["metadata"] = kept.iter().map(|message| message["metadata"].clone()).collect::<Vec<_>>().into();
}

pub(super) fn example() -> (Value, Value) {
    let message = |role: &str, content: &str| json!({"role": role, "content": content, "id": content, "metadata": json!({})});
    let history = json!([
        message("user", "q"),
        message("assistant", "call"),
        message("tool", "r"),
        message("assistant", "done")
    ]);
    let case = |kept: Vec<&str>, removed: usize, tokens: u64| {
        let messages = history
            .as_array()
            .into_iter()
            .flatten()
            .filter(|message| kept.contains(&message["id"].as_str().unwrap_or_default()));
        let messages: Vec<Value> = messages.map(shown).collect();
        let metadata: Vec<Value> = kept.iter().map(|_| json!({})).collect();
        json!({
            "input": {"history": history, "options": {"strategy": "recent", "max_messages": 2}},
            "expected": {
                "result": {"after_messages": kept.len(), "removed_messages": removed, "after_tokens": tokens, "summary_created": false, "changed": true},
                "kept": kept, "messages": messages, "metadata": metadata,
            },
        })
    };
    let after = |from: usize| tokens(history.as_array().map(Vec::as_slice).unwrap_or_default(), 0, from);
    (case(vec!["r", "done"], 2, after(2)), case(vec!["call", "r", "done"], 1, after(1)))
}
