//! The calls for summaries of sessions, as the views of calls show them: inferences of one attempt each, which stand in the
//! session's own stream.

use proto_events::call::{
    CallEvent, CallFailure, CallKind, CallRequested, Costs, FailureClass, NewCall, Recovery,
};
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::session::{SessionEvent, SummaryRequested};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::audit::json::{call_kind, number};
use crate::read::fold::decode_record;
use crate::views::call_row::CallRow;
use crate::views::readable::Readable;

/// Returns what an event of a session says of its call for a summary, as the events of a call: its intent and its one attempt,
/// or its outcome. A summary that was received and not put in place was paid for as any other.
pub(crate) fn as_calls(event: &SessionEvent) -> Vec<CallEvent> {
    let first = 1;
    match event {
        SessionEvent::SummaryRequested(request) => {
            let (call_id, cause) = (request.call_id.clone(), String::new());
            let sent = CallEvent::Dispatched { call_id, attempt: first, epoch: 0, cause };
            vec![CallEvent::Requested(Box::new(intent(request))), sent]
        }
        SessionEvent::SummaryReceived { call_id, reply, usage, .. } => vec![CallEvent::Succeeded {
            call_id: call_id.clone(),
            attempt: first,
            result: reply.clone(),
            usage: *usage,
        }],
        SessionEvent::SummaryFailed { call_id, error_type, message, usage } => vec![CallEvent::Failed {
            call_id: call_id.clone(),
            attempt: first,
            failure: CallFailure {
                class: FailureClass::Exhausted,
                error_type: error_type.clone(),
                message: message.clone(),
                usage: *usage,
            },
        }],
        _ => Vec::new(),
    }
}

fn intent(request: &SummaryRequested) -> CallRequested {
    CallRequested::new(NewCall {
        call_id: request.call_id.clone(),
        kind: CallKind::Infer,
        target: request.target.clone(),
        args: args(request),
        idempotency_key: request.call_id.clone(),
        recovery: Recovery::Reissue,
        recovery_source: "inference".to_owned(),
        timeout_ms: 0,
        max_attempts: 1,
    })
}

fn args(request: &SummaryRequested) -> JsonText {
    let mut args = JsonObject::new();
    args.set("summary_of_messages", number(request.messages));
    args.set("max_tokens", number(request.max_tokens));
    args.to_text()
}

/// Returns the calls for summaries that these sessions have open. Sessions that a newer release wrote are left out and named.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub(crate) fn open_summaries(
    reader: &dyn EventReader,
    sessions: &[StreamId],
) -> Result<Readable<CallRow>, ReadError> {
    let mut found = Readable::default();
    for stream in sessions {
        match open_summary(reader, stream) {
            Ok(row) => found.rows.extend(row),
            Err(error @ ReadError::Newer { .. }) => found.newer.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn open_summary(reader: &dyn EventReader, stream: &StreamId) -> Result<Option<CallRow>, ReadError> {
    let mut open = None;
    for_each_page_of(reader, stream, Version(1), |page| {
        for stored in &page {
            for recorded in decode_record::<SessionEvent>(stored)? {
                match &recorded.event {
                    SessionEvent::SummaryRequested(request) => {
                        open = Some(row(stream, request, recorded.metadata.at));
                    }
                    SessionEvent::SummaryReceived { .. } | SessionEvent::SummaryFailed { .. } => open = None,
                    _ => {}
                }
            }
        }
        Ok::<_, ReadError>(std::ops::ControlFlow::Continue(()))
    })?;
    Ok(open)
}

fn row(stream: &StreamId, request: &SummaryRequested, since: proto_events::envelope::Timestamp) -> CallRow {
    let messages = request.messages;
    CallRow {
        stream: stream.clone(),
        session: stream.id(),
        call_id: request.call_id.clone(),
        question_id: None,
        approval_id: None,
        kind: call_kind(CallKind::Infer),
        target: request.target.clone(),
        args: args(request),
        asked_args: None,
        status: "dispatched",
        since,
        waits_for: format!("the model's summary of {messages} messages of the session"),
        next_step: Some(
            "the call is given up; whoever compacts the session next asks the model anew".to_owned(),
        ),
        attempts: 1,
        max_attempts: 1,
        costs: Costs::default(),
        recovery: Some(Recovery::Reissue.as_str()),
    }
}
