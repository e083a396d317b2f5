//! Words about a task that is over which its state does not tell: the calls that took effect before it failed or was canceled,
//! and those whose outcome is unknown. While a task waits for a person its own words say so.

use proto_events::call::{Call, CallKind, CallStatus, Recovery, Verdict};
use proto_events::json::JsonObject;
use proto_events::model::TaskState;
use proto_events::task::Task;

use crate::a2a::mapping::message::MessagePlace;
use crate::a2a::mapping::notes::Notes;
use crate::a2a::model::{Content, Message, Part, Role};

/// The note of a part that is a remark.
const REMARK: &str = "remark";

/// The most calls that are named.
const NAMED_MAX: usize = 20;

/// The most characters of the reason why an outcome is unknown.
const REASON_MAX: usize = 200;

/// Returns what people are told about the calls of a task; `None` if its state says enough.
pub(crate) fn remark_of(task: &Task) -> Option<String> {
    if !task.state().is_terminal() {
        return None;
    }
    let lost: Vec<&Call> = task.lost_calls().collect();
    let unknown = (!lost.is_empty()).then(|| {
        let named = listed(lost.iter().map(|call| match &call.status {
            CallStatus::Unknown(why) if !why.is_empty() => {
                format!("{} ({})", call.request.target, why.chars().take(REASON_MAX).collect::<String>())
            }
            _ => call.request.target.clone(),
        }));
        format!("Outcome unknown: {named}. A person must find out what happened.")
    });
    let is_broken = matches!(task.state(), TaskState::Failed | TaskState::Canceled);
    let done: Vec<&Call> = task.calls().iter().filter(|call| is_broken && has_effect(call)).collect();
    let done = (!done.is_empty())
        .then(|| format!("Done before: {}.", listed(done.iter().map(|call| call.request.target.clone()))));
    let remarks: Vec<String> = done.into_iter().chain(unknown).collect();
    (!remarks.is_empty()).then(|| remarks.join(" "))
}

/// Returns the status message of a task with a remark behind its words.
pub(crate) fn with_remark(
    said: Option<Message>,
    remark: Option<&str>,
    place: MessagePlace<'_>,
) -> Option<Message> {
    let Some(remark) = remark else { return said };
    let mut notes = Notes::default();
    notes.set_flag(REMARK);
    let mut part = Part::text(remark);
    notes.write_to(&mut part.metadata);
    let mut said = said.unwrap_or_else(|| Message { parts: Vec::new(), ..error_message("", place) });
    said.parts.push(part);
    Some(said)
}

/// Returns a status message without a remark; `None` if it is nothing else.
pub(crate) fn without_remark(mut said: Message) -> Option<Message> {
    said.parts.retain(|part| !Notes::extract(&mut part.metadata.clone()).flag(REMARK));
    (!said.parts.is_empty()).then_some(said)
}

/// Whether the call changed something outside the system.
fn has_effect(call: &Call) -> bool {
    matches!(call.request.kind, CallKind::Tool | CallKind::Delegate)
        && call.request.recovery != Recovery::ReadOnly
        && matches!(&call.status, CallStatus::Succeeded(_) | CallStatus::Reconciled(Verdict::Landed(_)))
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let listed = names.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

/// Returns the error of a task as a message, which is in no history.
pub(crate) fn error_message(error: &str, place: MessagePlace<'_>) -> Message {
    Message {
        id: error_id(place.task),
        role: Role::Agent,
        parts: vec![Part::from_content(Content::Text(error.to_owned()))],
        context_id: Some(place.context.to_owned()),
        task_id: Some(place.task.to_owned()),
        metadata: JsonObject::new(),
        extensions: Vec::new(),
        references: Vec::new(),
    }
}

pub(crate) fn error_id(task: &str) -> String {
    format!("{task}-error")
}
