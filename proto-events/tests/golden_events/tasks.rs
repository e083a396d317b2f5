//! The events of a task, each with a value in each of its fields.

use proto_events::call::{CallOrigin, ParentCall};
use proto_events::envelope::Principal;
use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::model::{BudgetLimit, LimitUse, PostedTask, TaskState};
use proto_events::secret::KeptSecret;
use proto_events::task::{ApprovalDecided, ApprovalRequested, TaskEvent, Webhook, WebhookEvent};

use super::calls::call_events;
use super::messages::{artifact, message, object, turn_message};

pub(crate) fn task_events() -> Vec<TaskEvent> {
    let posted = PostedTask {
        filled_in: Vec::new(),
        source: Some(Digest([9; 32])),
        id: "task_1".into(),
        state: TaskState::Unknown,
        messages: vec![message()],
        artifacts: vec![artifact()],
        metadata: object(r#"{"state_history":"oops","b":2}"#),
        flow_state: JsonText::empty_object(),
        created_at: Some("2026-11-21".into()),
    };
    let mut events = vec![
        TaskEvent::Submitted(Box::new(posted)),
        TaskEvent::StateChanged {
            from: TaskState::Working,
            to: TaskState::Failed,
            budget: Some(LimitUse { limit: BudgetLimit::RuntimeSeconds, used: 2.25, allowed: 2.0 }),
        },
        TaskEvent::MessageAppended(message()),
        TaskEvent::ArtifactAppended { artifact: artifact(), part: Some(1) },
        TaskEvent::ArtifactPartAppended { artifact: artifact(), is_last: true },
        TaskEvent::PostedAgain { source: Digest([8; 32]) },
        TaskEvent::MetadataMerged(object(r#"{"error":"boom"}"#)),
        TaskEvent::CancelRequested { reason: Some("user asked".into()) },
        TaskEvent::ApprovalRequested(Box::new(ApprovalRequested {
            approval_id: "approval_1".into(),
            call_id: "call_1".into(),
            tool: "pay".into(),
            args: JsonText::parse(r#"{"cents": 1250.00}"#).unwrap(),
            capabilities: vec!["money.spend".into()],
            origin: CallOrigin {
                run: 1,
                part: 2,
                step: 3,
                infer_call: Some("call_0".into()),
                part_call_id: None,
                parent: Some(ParentCall { call_id: "call_0".into(), ordinal: 2 }),
            },
        })),
        TaskEvent::ApprovalDecided(ApprovalDecided {
            approval_id: "approval_1".into(),
            approved: false,
            reason: Some("too much".into()),
            decided_by: Principal::authenticated("ada"),
        }),
        TaskEvent::InferMessageAppended(turn_message()),
        TaskEvent::Webhook(WebhookEvent::Set(Box::new(Webhook {
            id: "hook_1".into(),
            url: "https://example.com/hook?a=b".into(),
            format: "1.0".into(),
            token: Some(KeptSecret { salt: [1; 16], digest: Digest([2; 32]) }),
            scheme: Some("Bearer".into()),
            credentials: Some(KeptSecret { salt: [3; 16], digest: Digest([4; 32]) }),
            after: 300,
        }))),
        TaskEvent::Webhook(WebhookEvent::Removed { id: "hook_1".into() }),
        TaskEvent::Webhook(WebhookEvent::Delivered { id: "hook_1".into(), through: 70_000, is_over: true }),
        TaskEvent::Webhook(WebhookEvent::Failed {
            id: "hook_1".into(),
            attempts: 3,
            error: "HTTP 500: Internal Server Error".into(),
            gives_up: true,
        }),
    ];
    events.extend(call_events().into_iter().map(TaskEvent::Call));
    events
}
