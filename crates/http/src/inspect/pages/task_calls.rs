//! The call at a version of a task, and the prompt of an inference exactly as the model was sent it.

use proto_events::call::{Call, CallKind, CallStatus, Verdict};
use proto_events::id::Version;
use proto_events::json::{JsonObject, JsonText};
use taskreel_log::api::EventReader;
use taskreel_log::audit::words as log_words;
use taskreel_log::context::MessageView;
use taskreel_log::shown::{prompt_digest, prompt_of};
use taskreel_log::views::{Course, asked_args, cut};

use crate::inspect::block::Block;
use crate::inspect::pages::tab::Tab;
use crate::inspect::pages::task_place::Here;
use crate::inspect::words;

/// The columns of a call's status: a result may have megabytes.
const STATUS_COLUMNS: usize = 400;

/// Returns the call of the event at the version; else the last one before it.
fn call_at(course: &Course, is_wanted: impl Fn(&Call) -> bool) -> Option<&Call> {
    let own = course.calls.iter().filter(|call| call.version <= course.at);
    let of = |id: &str| course.now.calls().get(id).filter(|call| is_wanted(call));
    let is_here = |version: Version| {
        course.events.iter().find(|row| row.version == version).and_then(|row| match &row.event {
            Ok(proto_events::codec::AnyEvent::Task(proto_events::task::TaskEvent::Call(event))) => {
                Some(event.call_id().to_owned())
            }
            _ => None,
        })
    };
    let at_event = is_here(course.at).and_then(|id| of(&id));
    at_event.or_else(|| own.rev().find_map(|call| of(&call.call_id)))
}

/// Returns the tab of the call at the version: what was asked, and what came of it.
pub(crate) fn call_tab(here: &Here<'_>, course: &Course) -> Tab {
    let Some(call) = call_at(course, |_| true) else {
        return Tab::with_note("Up to this event the task has made no call.");
    };
    let request = &call.request;
    let whole_at = |version| here.cx.whole(here.stream, version);
    let of = course.calls.iter().find(|known| known.call_id == request.call_id);
    let (first, last) = of.map_or((course.at, course.at), |call| (call.version, call.last_version));
    let deadline = request.deadline.map_or_else(|| "–".to_owned(), |at| at.to_string());
    let mut tab = Tab {
        facts: vec![
            ("call", format!("{} {}", log_words::call_name(request), request.call_id)),
            // The whole result stands below.
            ("status", cut(&log_words::status_text(call), STATUS_COLUMNS, "…")),
            ("attempts", format!("{} of {}", call.attempts, request.max_attempts)),
            ("recovery", format!("{} ({})", request.recovery.as_str(), request.recovery_source)),
            (
                "time limit",
                words::micros(i64::try_from(request.timeout_ms).unwrap_or(i64::MAX).saturating_mul(1_000)),
            ),
            ("deadline", deadline),
            ("idempotency key", request.idempotency_key.clone()),
            ("tokens", call.usage.map_or_else(|| "–".to_owned(), words::tokens)),
            (
                "cost",
                call.cost()
                    .zip(request.price.as_ref())
                    .map_or_else(|| "–".to_owned(), |(cost, price)| format!("{cost} {}", price.currency)),
            ),
        ],
        ..Tab::default()
    };
    if let Some(approval) = &request.approval {
        tab.facts.push(("approval", approval.clone()));
    }
    if let Some(reduced) = log_words::reduction(request) {
        tab.facts.push(("prompt reduced", reduced));
    }
    tab.section("Arguments", "json", Block::json(&request.args, &whole_at(first)));
    if let Some(asked) = asked_args(&course.now, &request.origin, &request.target, &request.args) {
        tab.section("Arguments as they were asked for", "json", Block::json(&asked, &whole_at(first)));
    }
    for asked in &call.questions {
        tab.section("Question", "text", Block::text(&asked.question, &whole_at(last)));
        match &asked.answer {
            Some(proto_events::call::Answer::Given(given)) => {
                tab.section("Answer", "text", Block::text(given, &whole_at(last)));
            }
            Some(proto_events::call::Answer::Declined(why)) => {
                tab.section("Declined", "text", Block::text(why, &whole_at(last)));
            }
            None => {}
        }
    }
    match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            if request.kind == CallKind::Infer {
                reply_facts(&mut tab, result, &whole_at(last));
            }
            tab.section("Result", "json", Block::json(result, &whole_at(last)));
        }
        CallStatus::Failed(failure) => {
            let why = format!("{}: {}", failure.error_type, failure.message);
            tab.section("Failure", "text", Block::text(&why, &whole_at(last)));
        }
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => {
            tab.section("Outcome", "text", Block::text(why, &whole_at(last)));
        }
        _ => tab.note = Some("At this event the call has no outcome yet.".to_owned()),
    }
    tab
}

/// Adds what a model's reply holds beside its answer: its reasoning, and whether its end has no reason.
fn reply_facts(tab: &mut Tab, reply: &JsonText, whole_at: &str) {
    let Ok(reply) = reply.read::<JsonObject>() else { return };
    if reply.get("without_reason").is_some_and(|marked| marked.as_str() == "true") {
        tab.facts.push(("end", "without a reason from the provider: the answer may be cut off".to_owned()));
    }
    if let Some(reasoning) = reply.get("reasoning").and_then(JsonText::to_str) {
        tab.section("Reasoning, which is no part of the answer", "text", Block::text(&reasoning, whole_at));
    }
}

/// Returns the tab of the prompt that the last inference up to the version was shown, rendered again from the log and checked.
pub(crate) fn prompt_tab(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Tab {
    let Some(call) = call_at(course, |call| call.request.kind == CallKind::Infer) else {
        return Tab::with_note("Up to this event no model was asked.");
    };
    let (id, stream) = (&call.request.call_id, here.stream);
    let shown = match prompt_of(log, stream, id) {
        Ok(shown) => shown,
        Err(why) => return Tab::with_note(format!("The prompt of {id} cannot be shown: {why}")),
    };
    let whole_at = here.cx.whole(stream, course.at);
    let mut tab = Tab {
        facts: vec![
            ("inference", format!("{} {id}", call.request.target)),
            ("messages", (shown.messages.len() + 1).to_string()),
            ("left out", format!("{} messages of the history", shown.left_out)),
            ("tools offered", shown.offer.tools.len().to_string()),
        ],
        ..Tab::default()
    };
    tab.check = Some(match prompt_digest(log, stream, id) {
        Ok(digest) if digest.is_equal() => (
            true,
            format!("rendered again from the log; its digest is the one in the intent: {}", digest.named),
        ),
        Ok(digest) => (
            false,
            format!(
                "the intent names the digest {}, but what the log holds has {}",
                digest.named, digest.computed
            ),
        ),
        Err(why) => (false, format!("its digest cannot be computed: {why}")),
    });
    tab.section("system", "text", Block::text(&shown.system, &whole_at));
    for (said, omitted, images) in shown.sent() {
        let mut title = said.role.as_str().to_owned();
        if let Some(answered) = MessageView::from_message(said).answers.and_then(JsonText::to_str) {
            title = format!("{title}, the answer to {answered}");
        }
        if omitted > 0 {
            title = format!("{title}, {omitted} characters are left out");
        }
        for image in images {
            title = format!("{title}, with {image}");
        }
        tab.section(title, "text", Block::text(&said.content, &whole_at));
        if let Some(calls) = MessageView::from_message(said).calls {
            tab.section("calls asked for", "json", Block::json(calls, &whole_at));
        }
    }
    for tool in &shown.offer.tools {
        let schema = format!("{}\n{}", tool.description, tool.input_schema);
        tab.section(format!("tool {}", tool.name), "text", Block::text(&schema, &whole_at));
    }
    tab
}
