//! A call as JSON: its intent and its outcome.

use proto_events::call::{Answer, Call, CallQuestion, CallStatus, Costs, Verdict};
use proto_events::json::JsonText;

use crate::audit::json::{call_kind, costs_json, number, object, parent_json, text, text_or_null};

/// Returns what a call cost, by currency; nothing where no price or no usage is known.
pub(crate) fn costs_of(call: &Call) -> Costs {
    let mut costs = Costs::default();
    costs.add(call.request.price.as_ref(), call.usage);
    costs
}

/// Returns a call as JSON: its intent and its outcome.
pub fn call_json(call: &Call) -> JsonText {
    let (result, error) = match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            (result.clone(), JsonText::null())
        }
        CallStatus::Failed(failure) => (JsonText::null(), text(&failure.message)),
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => (JsonText::null(), text(why)),
        _ => (JsonText::null(), JsonText::null()),
    };
    object([
        ("call_id", text(&call.request.call_id)),
        ("kind", text(call_kind(call.request.kind))),
        ("target", text(&call.request.target)),
        ("parent", call.request.origin.parent.as_ref().map_or_else(JsonText::null, parent_json)),
        ("recovery", text(call.request.recovery.as_str())),
        ("args", call.request.args.clone()),
        ("attempts", number(call.attempts)),
        ("cost", costs_json(&costs_of(call))),
        ("status", text(call.status.as_str())),
        ("result", result),
        ("error", error),
        ("questions", JsonText::of_model(&call.questions.iter().map(question).collect::<Vec<_>>())),
    ])
}

fn question(asked: &CallQuestion) -> JsonText {
    let (answer, declined) = match &asked.answer {
        Some(Answer::Given(answer)) => (Some(answer.as_str()), None),
        Some(Answer::Declined(why)) => (None, Some(why.as_str())),
        None => (None, None),
    };
    let question = ("question", text(&asked.question));
    object([question, ("answer", text_or_null(answer)), ("declined", text_or_null(declined))])
}
