//! Events of tasks for the tests of views: plausible and implausible ones, with hostile names.

use proptest::prelude::*;
use proto_events::call::{
    CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, CancelStage, FailureClass, NewCall,
    ParentCall, Recovery, TimeLimit,
};
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{AnyEvent, Storable as _};
use proto_events::envelope::{Metadata, Principal, Timestamp};
use proto_events::id::{Digest, ExpectedVersion, Position, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::task::{ApprovalDecided, ApprovalRequested, TaskEvent};

use crate::api::append::{Append, AppendPart};
use crate::api::store::EventStore;
use crate::views::event_row::EventRow;

/// The text with all that a screen, a page or a language of diagrams could obey.
pub(crate) const HOSTILE: &str = "<b>&'\"\u{1b}[2J\u{202e}]]>--%%;#end\n日本{}|\\";

pub(crate) fn stream() -> StreamId {
    StreamId::task("agent", "order-0001").unwrap()
}

/// Returns the row of an event; `at` is its version, and its time in milliseconds.
pub(crate) fn row(at: u64, caused_by: &str, set: u64, event: TaskEvent) -> EventRow {
    EventRow {
        stream: stream(),
        version: Version(at),
        position: Position(at + 10),
        at: Timestamp(i64::try_from(at).unwrap() * 1_000),
        kind_number: 1,
        kind: "Kind",
        schema: 1,
        command_id: format!("command-{set}"),
        causation_id: caused_by.to_owned(),
        correlation_id: String::new(),
        principal: String::new(),
        principal_basis: "asserted",
        set_id: format!("{set:032x}"),
        event: Ok(AnyEvent::Task(event)),
    }
}

/// Appends a new task with these events, in one record, and returns its stream. Each task of a log has another number.
pub(crate) fn append(store: &dyn EventStore, number: u64, events: &[TaskEvent]) -> StreamId {
    let stream = StreamId::task("agent", &format!("order-{number:04}")).unwrap();
    let (fence, set_id) = (store.fence(), u128::from(number).to_be_bytes());
    let encoded = events.iter().map(|event| event.encode().unwrap());
    let draft = RecordDraft {
        stream: stream.clone(),
        first_version: Version(1),
        set_id,
        part: 0,
        parts: 1,
        partition: fence.partition,
        epoch: fence.epoch,
        metadata: Metadata { command_id: format!("order-{number:04}"), ..Metadata::default() },
        fields: Vec::new(),
        previous: Digest::default(),
        events: encoded
            .map(|event| EventBody {
                kind: event.kind,
                schema: event.schema,
                salt: [3; 16],
                body: event.body,
            })
            .collect(),
    };
    let part = AppendPart {
        stream: stream.clone(),
        expected: ExpectedVersion::NoStream,
        record: draft.encode().unwrap(),
    };
    let append = Append { fence, set_id, parts: vec![part] };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.append(append)).unwrap();
    stream
}

pub(crate) fn requested(id: &str, kind: CallKind, target: &str, origin: CallOrigin) -> CallRequested {
    let mut request = CallRequested::new(NewCall {
        call_id: id.to_owned(),
        kind,
        target: target.to_owned(),
        args: JsonText::string(HOSTILE),
        idempotency_key: id.to_owned(),
        recovery: Recovery::Manual,
        recovery_source: "tool".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 3,
    });
    request.origin = origin;
    request
}

pub(crate) fn failure(message: &str) -> CallFailure {
    CallFailure {
        class: FailureClass::AfterEffect,
        error_type: "Error".to_owned(),
        message: message.to_owned(),
        usage: None,
    }
}

/// Returns any event of a task with calls `c0` to `c5` and approvals `a0` to `a2`; their order need not make sense.
fn event() -> impl Strategy<Value = TaskEvent> {
    let call = (0_u8..6).prop_map(|number| format!("c{number}"));
    let target = prop::sample::select(vec!["pay", "add", "a model with a long name indeed", HOSTILE, "end"]);
    let kind =
        prop::sample::select(vec![CallKind::Tool, CallKind::Infer, CallKind::Delegate, CallKind::Handler]);
    let within = prop::option::of((0_u8..6).prop_map(|number| format!("c{number}")));
    let approval = (0_u8..3).prop_map(|number| format!("a{number}"));
    let intent = (call.clone(), kind, target, within.clone(), within, prop::option::of(approval.clone()))
        .prop_map(|(id, kind, target, infer_call, parent, approval)| {
            let parent = parent.map(|call_id| ParentCall { call_id, ordinal: 1 });
            let mut request =
                requested(&id, kind, target, CallOrigin { infer_call, parent, ..CallOrigin::default() });
            request.approval = approval;
            TaskEvent::Call(CallEvent::Requested(Box::new(request)))
        });
    let outcome = (call, 1_u32..4, 0_u8..8).prop_map(|(call_id, attempt, which)| {
        TaskEvent::Call(match which {
            0 => CallEvent::Succeeded { call_id, attempt, result: JsonText::string(HOSTILE), usage: None },
            1 => CallEvent::Failed { call_id, attempt, failure: failure(HOSTILE) },
            2 => CallEvent::TimedOut { call_id, attempt, after_ms: 5, limit: TimeLimit::Attempt },
            3 => CallEvent::Canceled { call_id, stage: CancelStage::InFlight },
            4 => CallEvent::OutcomeUnknown { call_id, attempt, why: "lost".to_owned() },
            5 => CallEvent::RetryScheduled { call_id, attempt, failure: failure("again"), due: Timestamp(9) },
            6 => CallEvent::Asked { call_id, attempt, question: HOSTILE.to_owned() },
            _ => CallEvent::Dispatched { call_id, attempt, epoch: 1, cause: String::new() },
        })
    });
    let state = prop::sample::select(TaskState::ALL.to_vec())
        .prop_map(|to| TaskEvent::state_changed(TaskState::Working, to));
    let asked = approval.clone().prop_map(|approval_id| {
        TaskEvent::ApprovalRequested(Box::new(ApprovalRequested {
            approval_id,
            call_id: "c9".to_owned(),
            tool: HOSTILE.to_owned(),
            args: JsonText::null(),
            capabilities: Vec::new(),
            origin: CallOrigin::default(),
        }))
    });
    let decided = (approval, any::<bool>()).prop_map(|(approval_id, approved)| {
        TaskEvent::ApprovalDecided(ApprovalDecided {
            approval_id,
            approved,
            reason: None,
            decided_by: Principal::asserted("ada"),
        })
    });
    prop_oneof![3 => intent, 4 => outcome, 1 => state, 1 => asked, 1 => decided]
}

/// Returns rows of any events, in records of some of them each.
pub(crate) fn rows() -> impl Strategy<Value = Vec<EventRow>> {
    let caused = prop::sample::select(vec!["", "c0", "c1", "c2", "c3", "a0", "elsewhere"]);
    prop::collection::vec((event(), caused, any::<bool>()), 0..50).prop_map(|events| {
        let (mut set, mut rows) = (0, Vec::new());
        for (at, (event, caused, is_new)) in (1..).zip(events) {
            set += u64::from(is_new);
            rows.push(row(at, caused, set, event));
        }
        rows
    })
}
