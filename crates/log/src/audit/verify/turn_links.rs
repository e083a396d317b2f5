//! Checks what a conversation's turn and its task say of one another: the inferences that led to messages, the calls that
//! messages ask for and answer, and the session that the task names; and the defaults of a tool's schema, which its agent holds.

use proto_events::call::CallRequested;
use proto_events::id::StreamId;
use proto_events::turn::TurnMessage;

use crate::api::record::StoredRecord;
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::audit::verify::stream::StreamCheck;
use crate::audit::verify::streams::CheckedStreams;
use crate::audit::verify::turn_messages::of_message;

/// Returns the faults of a message of a session's newest turn.
pub(crate) fn message_faults(
    session: &StreamId,
    message: &TurnMessage,
    streams: &CheckedStreams<'_>,
) -> Vec<String> {
    let task =
        streams.get(session).and_then(StreamCheck::newest_task).and_then(|task| StreamId::parse(task).ok());
    let Some((stream, task)) = task.and_then(|task| Some((task.clone(), streams.get(&task)?))) else {
        return Vec::new();
    };
    of_message(message, &stream, |call_id| task.target(call_id).map(|(kind, _)| kind))
}

/// Returns the fault of what an intent or a request for an approval has that nobody asked for: the tool's schema fills it in.
pub(crate) fn filled_fault(
    (stored, version): (&StoredRecord, u64),
    streams: &CheckedStreams<'_>,
) -> Option<Finding> {
    let stream = &stored.record.stream;
    let agent = StreamId::of_agent(&stream.agent()).ok().and_then(|agent| streams.get(&agent))?;
    let filled = streams.get(stream)?.filled_in().iter().find(|filled| filled.version == version)?;
    let is_new = filled.values.iter().any(|value| !agent.has_default(&filled.tool, value));
    is_new.then(|| {
        let what = format!("{} has arguments that nobody asked for and no schema fills in", filled.of);
        Finding::new(stored, version, FindingKind::Call, what)
    })
}

/// Returns the faults of an intent that other streams show.
pub(crate) fn intent_faults(
    request: &CallRequested,
    (stored, version): (&StoredRecord, u64),
    streams: &CheckedStreams<'_>,
) -> Vec<Finding> {
    let stream = &stored.record.stream;
    let Some(task) = streams.get(stream) else { return Vec::new() };
    let id = &request.call_id;
    let session = session_fault(request, stream, task);
    let unasked = unasked(request, stream, streams)
        .then(|| format!("call `{id}` was intended, but no message of its conversation asks for it"));
    let faults = session.into_iter().chain(unasked);
    faults.map(|what| Finding::new(stored, version, FindingKind::Call, what)).collect()
}

/// Returns the fault of an inference in another session than its task names: the one in the metadata, or its own id.
fn session_fault(request: &CallRequested, stream: &StreamId, task: &StreamCheck) -> Option<String> {
    let shown = request.prompt.as_ref()?.session.as_ref()?;
    let own = stream.id();
    let named = task.session().unwrap_or(&own);
    let is_its = StreamId::session(&stream.agent(), named).is_ok_and(|session| session.as_str() == shown);
    (!is_its).then(|| {
        format!("call `{}` is in {shown}, but its task names the session `{named}`", request.call_id)
    })
}

/// Whether the open turn of the task's conversation does not ask for a call that the model is said to have asked for.
fn unasked(request: &CallRequested, stream: &StreamId, streams: &CheckedStreams<'_>) -> bool {
    if request.origin.infer_call.is_none() || request.origin.parent.is_some() {
        return false;
    }
    let own = stream.id();
    let named = streams.get(stream).and_then(StreamCheck::session).unwrap_or(&own);
    let session = StreamId::session(&stream.agent(), named).ok().and_then(|session| streams.get(&session));
    let open = session.filter(|session| session.open_task() == Some(stream.as_str()));
    open.and_then(StreamCheck::asks).is_some_and(|asks| !asks.contains(&request.call_id))
}
