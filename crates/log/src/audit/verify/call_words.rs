//! The texts of findings about calls.

use proto_events::call::{CallEvent, CallStatus};

/// The text for an event that may not happen to a call of this status.
pub(crate) fn misplaced(id: &str, event: &CallEvent, status: &CallStatus) -> String {
    let (word, before) = (word(event), status.as_str());
    match event {
        CallEvent::Abandoned { .. } => format!("call `{id}` was abandoned, but its outcome is not unknown"),
        CallEvent::Reconciled { .. } if status.is_open() => {
            format!("call `{id}` was looked into, but it is {before}")
        }
        CallEvent::Answered { .. } if status.is_open() => {
            format!("call `{id}` was answered by a person, but has no open question")
        }
        CallEvent::Dispatched { .. } if matches!(status, CallStatus::Asked(_)) => {
            format!("call `{id}` was sent while its question to a person was open")
        }
        _ if status.is_open() => format!("call `{id}` {word}, but it is {before}"),
        CallEvent::Dispatched { .. } => format!("call `{id}` was sent again after its outcome ({before})"),
        CallEvent::Reconciled { .. } => format!("call `{id}` was looked into after its outcome ({before})"),
        CallEvent::Asked { .. } => format!("call `{id}` asked a person after its outcome ({before})"),
        CallEvent::Accepted { .. } => {
            format!("call `{id}` was taken by another agent after its outcome ({before})")
        }
        CallEvent::Answered { .. } => {
            format!("call `{id}` was answered by a person after its outcome ({before})")
        }
        CallEvent::TimedOut { .. } => format!("call `{id}` timed out after its outcome ({before})"),
        _ => format!("call `{id}` has a second outcome: {before}, then {word}"),
    }
}

/// The verb for an event.
pub(crate) fn word(event: &CallEvent) -> &'static str {
    match event {
        CallEvent::Requested(_) => "intended",
        CallEvent::Dispatched { .. } => "sent",
        CallEvent::Succeeded { .. } => "succeeded",
        CallEvent::Failed { .. } => "failed",
        CallEvent::RetryScheduled { .. } => "failed and was to be sent again",
        CallEvent::TimedOut { .. } => "timed out",
        CallEvent::Canceled { .. } => "canceled",
        CallEvent::OutcomeUnknown { .. } => "unknown",
        CallEvent::Reconciled { .. } => "looked into",
        CallEvent::Abandoned { .. } => "abandoned",
        CallEvent::LateResultIgnored { .. } => "late result",
        CallEvent::Asked { .. } => "asked a person",
        CallEvent::Accepted { .. } => "was taken by another agent",
        CallEvent::Answered { .. } => "answered by a person",
    }
}
