//! Parts, results and calls as one line of plain words.

use proto_events::call::{
    Call, CallEvent, CallFailure, CallRequested, CallStatus, CutRule, ParentCall, TimeLimit, Verdict,
};
use proto_events::envelope::Timestamp;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;
use proto_events::system::ToolServerSeen;
use proto_events::task::{ApprovalDecided, Task, WebhookEvent};

use crate::audit::json::{call_kind, one_line};

/// Returns parts as readable text.
pub fn parts_text(parts: &[Part]) -> String {
    parts.iter().map(part).collect::<Vec<_>>().join(" · ")
}

fn part(part: &Part) -> String {
    let content = part.content();
    let fields = content.read::<JsonObject>().unwrap_or_default();
    let said = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let plain = |json: &JsonText| json.to_str().unwrap_or_else(|| one_line(json));
    match part.kind() {
        "text" | "infer_output" => plain(content),
        "tool_call" => {
            let args = said("args").map(one_line).unwrap_or_default();
            format!("tool {} {args}", said("tool_name").map(plain).unwrap_or_default())
        }
        "infer" => format!("infer \"{}\"", said("prompt").map(plain).unwrap_or_default()),
        "tool_output" => match (said("error"), said("result")) {
            (Some(error), _) => format!("error {}", one_line(error)),
            (None, Some(result)) => one_line(result),
            (None, None) => "null".to_owned(),
        },
        kind => format!("{kind} {}", one_line(content)),
    }
}

/// Returns a result as readable text: the content, if it is the record of a model's reply.
pub fn result_text(result: &JsonText) -> String {
    let content = result
        .is_object()
        .then(|| result.tree().get("content").and_then(|text| text.as_str().map(str::to_owned)))
        .flatten();
    content.unwrap_or_else(|| one_line(result))
}

/// Returns a call's kind and target, and the call that asked for it in its middle.
pub fn call_name(request: &CallRequested) -> String {
    let name = format!("{} {}", call_kind(request.kind), request.target);
    match &request.origin.parent {
        Some(parent) => format!("{name} (request {} of {})", parent.ordinal, parent.call_id),
        None => name,
    }
}

/// Returns a call's status in words.
pub fn status_text(call: &Call) -> String {
    match &call.status {
        CallStatus::Requested => "not sent".to_owned(),
        CallStatus::Dispatched => format!("in flight, attempt {}", call.attempts),
        CallStatus::TimedOut if call.timed_out == Some(TimeLimit::Heartbeat) => {
            format!("attempt {} timed out: it reported no progress", call.attempts)
        }
        CallStatus::TimedOut => format!("attempt {} timed out", call.attempts),
        CallStatus::RetryScheduled(due, why) => {
            format!("attempt {} failed ({why}); the next one is sent at {due}", call.attempts)
        }
        CallStatus::Succeeded(result) => format!("succeeded: {}", result_text(result)),
        CallStatus::Failed(CallFailure { message, .. }) => format!("failed: {message}"),
        CallStatus::Canceled => "canceled".to_owned(),
        CallStatus::Unknown(why) => format!("unknown: {why}"),
        CallStatus::Asked(question) => format!("waits for a person's answer: {question}"),
        CallStatus::Answered => "answered by a person, not sent again yet".to_owned(),
        CallStatus::Unsent => format!("attempt {} had no effect", call.attempts),
        CallStatus::Reconciled(Verdict::Landed(result)) => format!("landed: {}", result_text(result)),
        CallStatus::Reconciled(verdict) => verdict.as_str().to_owned(),
        CallStatus::Abandoned(reason) => format!("abandoned: {reason}"),
    }
}

/// Returns the decision about an approval, with its author and reason.
pub fn decision_text(decided: &ApprovalDecided) -> String {
    let word = if decided.approved { "approved" } else { "denied" };
    let reason = decided.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{word} by {}{reason}", decided.decided_by)
}

/// Returns what happened to a webhook.
pub fn webhook_text(event: &WebhookEvent) -> String {
    match event {
        WebhookEvent::Set(webhook) => format!("{}: {}", webhook.id, webhook.url),
        WebhookEvent::Removed { id } => id.clone(),
        WebhookEvent::Delivered { id, through, is_over } => {
            let end = if *is_over { ", the last one" } else { "" };
            format!("{id}: up to v{through}{end}")
        }
        WebhookEvent::Failed { id, attempts, error, gives_up } => {
            let end = if *gives_up { "given up" } else { "tried again" };
            format!("{id}: attempt {attempts}, {end}: {error}")
        }
    }
}

/// Returns the first of these events that is the call's own: what closes the calls that it asked for comes before.
pub(crate) fn own_event<'a>(events: &'a [CallEvent], call: &Call) -> Option<&'a CallEvent> {
    events.iter().find(|event| event.call_id() == call.request.call_id)
}

/// Describes what an event does with a call that was open when a process started.
pub fn recovery_step(event: &CallEvent, request: &CallRequested) -> String {
    let most = request.max_attempts;
    match event {
        CallEvent::Dispatched { attempt, cause, .. } if cause.is_empty() => {
            format!(
                "it is sent as attempt {attempt} of {most}, after its turn if calls are limited: its intent was recorded, but it was never sent"
            )
        }
        CallEvent::Dispatched { attempt, cause, .. } => {
            format!(
                "it is sent again as attempt {attempt} of {most}, with the same idempotency key, because {cause}"
            )
        }
        CallEvent::OutcomeUnknown { why, .. } => format!(
            "it is not sent again, because its mode is {}; its outcome is unknown, because {why}; the task then waits for a person",
            request.recovery.as_str()
        ),
        CallEvent::Failed { failure, .. } => format!("it is not sent again and fails: {}", failure.message),
        CallEvent::Canceled { .. } => "it is canceled with its task".to_owned(),
        CallEvent::Requested(_)
        | CallEvent::RetryScheduled { .. }
        | CallEvent::Succeeded { .. }
        | CallEvent::TimedOut { .. }
        | CallEvent::Reconciled { .. }
        | CallEvent::Abandoned { .. }
        | CallEvent::Asked { .. }
        | CallEvent::Accepted { .. }
        | CallEvent::Answered { .. }
        | CallEvent::LateResultIgnored { .. } => "no action is taken".to_owned(),
    }
}

/// Describes the recovery of a call that asked a person.
pub fn question_step(question: &str) -> String {
    format!(
        "it waits for a person's answer; with `taskreel answer` it is sent again and given the answer: {question}"
    )
}

/// Describes the recovery of a call that waits for another agent's task.
pub fn agent_step(words: &str) -> String {
    format!("it waits for another agent's task, and is sent again when that has ended: {words}")
}

/// Describes what a program saw of a server of tools.
pub fn tool_server(seen: &ToolServerSeen) -> String {
    let mut said = match &seen.failure {
        Some(why) => format!("the tools of {} are missing: {why}", seen.server),
        None => format!("{} brings {} tools", seen.server, seen.tools.len()),
    };
    for left in &seen.left_out {
        said.extend(["; `", left.tool.as_str(), "` is left out: ", left.why.as_str()]);
    }
    said
}

/// Describes the recovery of a call that another one asked for in its middle.
pub fn parent_step(parent: &ParentCall) -> String {
    format!(
        "it waits for the next attempt of {}, which asked for it, and is canceled if that call ends without one",
        parent.call_id
    )
}

/// Describes the recovery of a call whose task waits for a person as it is: its agent has changed, or its budget is used
/// up. Empty where none waits.
pub fn held_step(task: &Task) -> Option<String> {
    let budget = task.budget_stop().filter(|(approval, _)| approval.decision.is_none());
    if let Some((approval, over)) = budget {
        let id = &approval.request.approval_id;
        return Some(format!("nothing before a person decides approval {id}: {over}"));
    }
    let (approval, change) = task.changed_agent().filter(|_| task.is_held())?;
    let id = &approval.request.approval_id;
    Some(format!("nothing before a person decides approval {id}: {}", change.in_words()))
}

/// Describes the recovery of a call whose next attempt is scheduled.
pub fn wait_step(until: Timestamp) -> String {
    format!(
        "its next attempt is sent at {until}, when its back-off is over, or at once if that time has passed"
    )
}

/// Describes what a context strategy left out of an inference's prompt, if it did.
pub fn reduction(request: &CallRequested) -> Option<String> {
    let prompt = request.prompt.as_ref()?;
    let selection = prompt.selection.as_ref()?;
    let sizes = selection.sizes.as_ref().map_or_else(String::new, |sizes| {
        let (messages, tokens) = (sizes.messages_before, sizes.tokens_before);
        format!(" of {messages}, {} tokens of {tokens}", sizes.tokens_after)
    });
    let by = |is: fn(CutRule) -> bool, word: &str| match selection
        .cuts
        .iter()
        .filter(|cut| is(cut.rule))
        .count()
    {
        0 => String::new(),
        cut => format!(", {cut} {word}"),
    };
    let cut =
        by(|rule| rule != CutRule::Minimized, "cut") + &by(|rule| rule == CutRule::Minimized, "minimized");
    let rules = selection.rules.iter().map(|rule| match rule.rule {
        CutRule::Head => format!(", each longer answer cut to {} characters", rule.characters),
        CutRule::HeadWithTip => format!(", each longer result cut to {} characters", rule.characters),
        CutRule::Minimized => format!(", each result over {} characters minimized", rule.characters),
    });
    let rules: String = rules.collect();
    Some(format!("{}: {} messages{sizes}{cut}{rules}", selection.strategy, prompt.messages))
}

/// Describes the recovery of a call whose tool has a probe.
pub fn probe_step(why: &str) -> String {
    format!(
        "its tool is asked whether the attempt took effect, because {why}: if it did, its result is recorded; if not, it is sent \
         again while attempts are left; if the tool cannot tell, its outcome is unknown"
    )
}

#[cfg(test)]
mod tests {
    use proto_events::call::{CallKind, Cut, NewCall, PromptRef, Recovery, Selection};
    use proto_events::id::{Digest, Version};

    use super::*;

    #[test]
    fn parts_are_told_as_people_would_tell_them() {
        let json = |text: &str| JsonText::parse(text).unwrap();
        for (part, told) in [
            (Part::text("hi"), "hi"),
            (Part::infer("why?"), "infer \"why?\""),
            (Part::tool_call_of("add", json(r#"{"a": 1}"#), None), r#"tool add {"a":1}"#),
            (Part::tool_output("c", json("7")), "7"),
            (Part::tool_failure("c", json(r#"{"message": "no"}"#)), r#"error {"message":"no"}"#),
            (Part::new("odd", json("[1, 2]")), "odd [1,2]"),
        ] {
            assert_eq!(parts_text(&[part]), told);
        }
    }

    #[test]
    fn a_reduction_tells_texts_that_were_cut_from_results_that_were_minimized() {
        let cut = |message, rule| Cut { message, rule, characters: 9, marker: None };
        let selection = Selection {
            strategy: "s".to_owned(),
            cuts: vec![cut(0, CutRule::Minimized), cut(1, CutRule::Head), cut(2, CutRule::Minimized)],
            ..Selection::default()
        };
        let prompt = PromptRef {
            session: None,
            read_through: Version(1),
            revision: 1,
            messages: 4,
            tokens: None,
            selection: Some(selection),
            digest: Digest::default(),
            renderer: 1,
        };
        let text = String::new;
        let request = CallRequested::new(NewCall {
            call_id: text(),
            kind: CallKind::Infer,
            target: text(),
            args: JsonText::null(),
            idempotency_key: text(),
            recovery: Recovery::Reissue,
            recovery_source: text(),
            timeout_ms: 0,
            max_attempts: 1,
        });
        let request = CallRequested { prompt: Some(prompt), ..request };
        assert_eq!(reduction(&request).as_deref(), Some("s: 4 messages, 1 cut, 2 minimized"));
    }
}
