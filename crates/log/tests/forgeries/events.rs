//! Events in few words.

use std::sync::Arc;

use proto_events::call::{
    Answer, CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, CancelStage, FailureClass, NewCall,
    PromptRef, Recovery, TimeLimit, Verdict, VerdictBy,
};
use proto_events::codec::AnyEvent;
use proto_events::definition::{AgentEvent, Definition, DefinitionRevision, RevisedText};
use proto_events::envelope::Timestamp;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, LlmMessage, LlmRole, Message, Part, PostedTask, TaskState};
use proto_events::secret::KeptSecret;
use proto_events::session::SessionEvent;
use proto_events::system::{AgentRevision, SystemEvent, ToolLeftOut, ToolServerSeen, WriterStart};
use proto_events::task::{ApprovalDecided, ApprovalRequested, TaskEvent, Webhook, WebhookEvent};
use proto_events::tool_store::ToolStoreEvent;
use proto_events::turn::TurnMessage;
use taskreel_log::shown::Offer;

pub(crate) fn json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

pub(crate) fn task(id: &str) -> StreamId {
    StreamId::task("desk", id).unwrap()
}

pub(crate) fn session() -> StreamId {
    StreamId::session("desk", "s").unwrap()
}

pub(crate) fn tool(name: &str) -> StreamId {
    StreamId::tool("desk", name).unwrap()
}

pub(crate) fn submitted(id: &str, state: TaskState) -> AnyEvent {
    AnyEvent::Task(TaskEvent::Submitted(Box::new(PostedTask {
        filled_in: Vec::new(),
        source: Some(Digest::compute(id.as_bytes())),
        id: id.to_owned(),
        state,
        messages: vec![text(id)],
        artifacts: Vec::new(),
        metadata: json(r#"{"session_id": "s"}"#).read().unwrap(),
        flow_state: JsonText::empty_object(),
        created_at: None,
    })))
}

fn text(said: &str) -> Message {
    let (id, role) = (Some(format!("msg_{said}")), Some("user".to_owned()));
    Message { id, role, parts: vec![Part::text(said)], timestamp: None }
}

pub(crate) fn changed(from: TaskState, to: TaskState) -> AnyEvent {
    AnyEvent::Task(TaskEvent::state_changed(from, to))
}

pub(crate) fn message(said: &str) -> AnyEvent {
    AnyEvent::Task(TaskEvent::MessageAppended(text(said)))
}

pub(crate) fn artifact(id: &str, part: Option<u32>) -> AnyEvent {
    let artifact = Artifact {
        id: Some(id.to_owned()),
        parts: vec![Part::text(id)],
        metadata: JsonObject::new(),
        timestamp: None,
        kind: "result".to_owned(),
        name: None,
        uri: None,
        media_type: None,
        action_id: None,
    };
    AnyEvent::Task(TaskEvent::ArtifactAppended { artifact, part })
}

pub(crate) fn metadata(key: &str) -> AnyEvent {
    let entries = [(key.to_owned(), JsonText::string("set"))].into_iter().collect();
    AnyEvent::Task(TaskEvent::MetadataMerged(entries))
}

pub(crate) fn posted_again(source: &str) -> AnyEvent {
    AnyEvent::Task(TaskEvent::PostedAgain { source: Digest::compute(source.as_bytes()) })
}

pub(crate) fn webhook_set(id: &str, after: u64) -> AnyEvent {
    let kept = |salt: u8| KeptSecret::new([salt; 16], &JsonText::string("hunter2"));
    let is_secret = id == "w";
    AnyEvent::Task(TaskEvent::Webhook(WebhookEvent::Set(Box::new(Webhook {
        id: id.to_owned(),
        url: "https://example.com/hook".to_owned(),
        format: "1.0".to_owned(),
        token: is_secret.then(|| kept(1)),
        scheme: is_secret.then(|| "Bearer".to_owned()),
        credentials: is_secret.then(|| kept(2)),
        after,
    }))))
}

pub(crate) fn webhook_removed(id: &str) -> AnyEvent {
    AnyEvent::Task(TaskEvent::Webhook(WebhookEvent::Removed { id: id.to_owned() }))
}

pub(crate) fn webhook_delivered(id: &str, through: u64, is_over: bool) -> AnyEvent {
    let id = id.to_owned();
    AnyEvent::Task(TaskEvent::Webhook(WebhookEvent::Delivered { id, through, is_over }))
}

pub(crate) fn webhook_failed(id: &str, attempts: u32, gives_up: bool) -> AnyEvent {
    let (id, error) = (id.to_owned(), "HTTP 500".to_owned());
    AnyEvent::Task(TaskEvent::Webhook(WebhookEvent::Failed { id, attempts, error, gives_up }))
}

pub(crate) fn cancel_requested() -> AnyEvent {
    AnyEvent::Task(TaskEvent::CancelRequested { reason: Some("enough".to_owned()) })
}

/// An intent of a run, in a mode, with room for three attempts.
pub(crate) fn intent(id: &str, target: &str, recovery: Recovery, run: u32) -> CallRequested {
    let is_infer = recovery == Recovery::Reissue;
    let kind = if is_infer { CallKind::Infer } else { CallKind::Tool };
    let (target, args) = if is_infer {
        (format!("test/{target}"), format!(r#"{{"backend": "test", "model": "{target}"}}"#))
    } else {
        (target.to_owned(), r#"{"euros": 5}"#.to_owned())
    };
    CallRequested {
        origin: CallOrigin { run, ..CallOrigin::default() },
        ..CallRequested::new(NewCall {
            call_id: id.to_owned(),
            kind,
            target,
            args: json(&args),
            idempotency_key: format!("key of {id}"),
            recovery,
            recovery_source: "tool".to_owned(),
            timeout_ms: 120_000,
            max_attempts: 3,
        })
    }
}

pub(crate) fn requested(call: CallRequested) -> AnyEvent {
    AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(Box::new(call))))
}

/// The prompt of an inference that was shown a session. Version and digest, left open here, are filled in when the log
/// is encoded.
pub(crate) fn prompt(session: Option<&StreamId>) -> PromptRef {
    PromptRef {
        session: session.map(ToString::to_string),
        read_through: Version(0),
        revision: 1,
        messages: 2,
        tokens: None,
        selection: None,
        digest: Digest::default(),
        renderer: 1,
    }
}

fn call(event: CallEvent) -> AnyEvent {
    AnyEvent::Task(TaskEvent::Call(event))
}

pub(crate) fn sent(id: &str, attempt: u32, epoch: u64, cause: &str) -> AnyEvent {
    let (call_id, cause) = (id.to_owned(), cause.to_owned());
    call(CallEvent::Dispatched { call_id, attempt, epoch, cause })
}

pub(crate) fn succeeded(id: &str, attempt: u32) -> AnyEvent {
    call(CallEvent::Succeeded { call_id: id.to_owned(), attempt, result: json("true"), usage: None })
}

/// The success of an inference with this reply.
pub(crate) fn replied(id: &str, reply: &str) -> AnyEvent {
    call(CallEvent::Succeeded { call_id: id.to_owned(), attempt: 1, result: json(reply), usage: None })
}

/// The origin of a call that the reply of an inference asks for, in this step of the first part.
pub(crate) fn of_reply(infer_call: &str, step: u32) -> CallOrigin {
    CallOrigin { run: 1, step, infer_call: Some(infer_call.to_owned()), ..CallOrigin::default() }
}

pub(crate) fn failed(id: &str, attempt: u32, class: FailureClass) -> AnyEvent {
    let failure =
        CallFailure { class, error_type: "Error".to_owned(), message: "no".to_owned(), usage: None };
    call(CallEvent::Failed { call_id: id.to_owned(), attempt, failure })
}

/// A time after all times of the log.
pub(crate) const FAR: Timestamp = Timestamp(1_900_000_000_000_000);

pub(crate) fn retried(id: &str, attempt: u32, due: Timestamp) -> AnyEvent {
    let (class, error_type, message) = (FailureClass::AfterEffect, "Error".to_owned(), "no".to_owned());
    let failure = CallFailure { class, error_type, message, usage: None };
    call(CallEvent::RetryScheduled { call_id: id.to_owned(), attempt, failure, due })
}

pub(crate) fn silent(id: &str, attempt: u32) -> AnyEvent {
    let (call_id, limit) = (id.to_owned(), TimeLimit::Heartbeat);
    call(CallEvent::TimedOut { call_id, attempt, after_ms: 120_000, limit })
}

pub(crate) fn timed_out(id: &str, attempt: u32) -> AnyEvent {
    call(CallEvent::TimedOut {
        call_id: id.to_owned(),
        attempt,
        after_ms: 120_000,
        limit: TimeLimit::Attempt,
    })
}

pub(crate) fn canceled(id: &str, stage: CancelStage) -> AnyEvent {
    call(CallEvent::Canceled { call_id: id.to_owned(), stage })
}

pub(crate) fn unknown(id: &str, attempt: u32) -> AnyEvent {
    call(CallEvent::OutcomeUnknown { call_id: id.to_owned(), attempt, why: "lost".to_owned() })
}

pub(crate) fn late(id: &str, attempt: u32) -> AnyEvent {
    let (call_id, said) = (id.to_owned(), "late".to_owned());
    call(CallEvent::LateResultIgnored { call_id, attempt, succeeded: true, said })
}

pub(crate) fn verdict(id: &str, attempt: u32, verdict: Verdict, by_person: bool) -> AnyEvent {
    let by = if by_person { VerdictBy::Operator("ada".into()) } else { VerdictBy::Probe };
    call(CallEvent::Reconciled { call_id: id.to_owned(), attempt, verdict, by })
}

pub(crate) fn landed() -> Verdict {
    Verdict::Landed(json("true"))
}

pub(crate) fn abandoned(id: &str) -> AnyEvent {
    call(CallEvent::Abandoned { call_id: id.to_owned(), reason: "lost".to_owned(), by: "ada".into() })
}

pub(crate) fn asked(approval_id: &str, call_id: &str, tool: &str, args: JsonText) -> ApprovalRequested {
    ApprovalRequested {
        approval_id: approval_id.to_owned(),
        call_id: call_id.to_owned(),
        tool: tool.to_owned(),
        args,
        capabilities: Vec::new(),
        origin: CallOrigin { run: 1, ..CallOrigin::default() },
    }
}

/// A question whether the first run goes on beyond its budget.
pub(crate) fn over_budget(approval_id: &str, call_id: &str) -> ApprovalRequested {
    asked(approval_id, call_id, "desk", json(r#"{"limit": "max_tool_calls", "used": 3.0, "allowed": 2.0}"#))
}

pub(crate) fn approval(asked: ApprovalRequested) -> AnyEvent {
    AnyEvent::Task(TaskEvent::ApprovalRequested(Box::new(asked)))
}

pub(crate) fn decided(approval_id: &str, approved: bool) -> AnyEvent {
    let (approval_id, decided_by) = (approval_id.to_owned(), "ada".into());
    AnyEvent::Task(TaskEvent::ApprovalDecided(ApprovalDecided {
        approval_id,
        approved,
        reason: None,
        decided_by,
    }))
}

/// Returns a message of a turn: of the model it asks for this call, of anyone else it answers it.
pub(crate) fn turn_message(role: LlmRole, call: Option<&str>) -> TurnMessage {
    let message = LlmMessage {
        role,
        content: "said".to_owned(),
        name: None,
        metadata: JsonObject::new(),
        id: "m".to_owned(),
        created_at: String::new(),
        tool_calls: JsonText::empty_object(),
        tool_name: None,
    };
    let call = call.map(str::to_owned);
    let (asks, answers) = if role == LlmRole::Assistant { (call, None) } else { (None, call) };
    TurnMessage { message, part: 0, infer_call: None, asks: asks.into_iter().collect(), answers }
}

pub(crate) fn said(role: LlmRole, call: Option<&str>) -> AnyEvent {
    AnyEvent::Session(SessionEvent::MessageAppended(turn_message(role, call)))
}

pub(crate) fn said_in_task(role: LlmRole, call: Option<&str>) -> AnyEvent {
    AnyEvent::Task(TaskEvent::InferMessageAppended(turn_message(role, call)))
}

pub(crate) fn opened(id: &str) -> AnyEvent {
    AnyEvent::Session(SessionEvent::Opened { session_id: id.to_owned() })
}

pub(crate) fn turn_started(turn: &str, task: &StreamId) -> AnyEvent {
    AnyEvent::Session(SessionEvent::TurnStarted { turn_id: turn.to_owned(), task: task.to_string() })
}

/// The system prompt of the first definition of the agent.
pub(crate) fn system_prompt(role: LlmRole) -> AnyEvent {
    system_prompt_of(role, &rendered("b"))
}

pub(crate) fn system_prompt_of(role: LlmRole, text: &str) -> AnyEvent {
    let mut message = turn_message(role, None).message;
    text.clone_into(&mut message.content);
    AnyEvent::Session(SessionEvent::SystemPromptSet(message))
}

/// Renders the system prompt of a definition with these instructions, without tools and agents.
pub(crate) fn rendered(instructions: &str) -> String {
    let definition = Definition(["a", instructions, "[]", "[]", "{}"].map(Into::into));
    taskreel_log::shown::system_prompt(&Offer::from_definition(&definition).unwrap())
}

pub(crate) fn turn_committed(turn: &str) -> AnyEvent {
    AnyEvent::Session(SessionEvent::TurnCommitted { turn_id: turn.to_owned() })
}

pub(crate) fn turn_aborted(turn: &str) -> AnyEvent {
    AnyEvent::Session(SessionEvent::TurnAborted { turn_id: turn.to_owned(), reason: "over".to_owned() })
}

pub(crate) fn put(task: &StreamId, call: &str, key: &str) -> AnyEvent {
    let (task, call_id, key) = (task.to_string(), call.to_owned(), key.to_owned());
    AnyEvent::Tool(ToolStoreEvent::KeyPut { task, call_id, key, value: json("1") })
}

pub(crate) fn deleted(task: &StreamId, call: &str, key: &str) -> AnyEvent {
    let (task, call_id, key) = (task.to_string(), call.to_owned(), key.to_owned());
    AnyEvent::Tool(ToolStoreEvent::KeyDeleted { task, call_id, key })
}

pub(crate) fn started(epoch: u64, revision: u32) -> AnyEvent {
    let agents = vec![AgentRevision { name: "desk".to_owned(), number: revision }];
    AnyEvent::System(SystemEvent::Started(WriterStart {
        epoch,
        release: "1".to_owned(),
        build: None,
        agents,
    }))
}

pub(crate) fn stopped(epoch: u64) -> AnyEvent {
    AnyEvent::System(SystemEvent::Stopped { epoch, reason: None })
}

/// Returns what a program of this epoch saw of a server of tools.
pub(crate) fn server_seen(epoch: u64) -> AnyEvent {
    AnyEvent::System(SystemEvent::ToolServerSeen(ToolServerSeen {
        epoch,
        agent: "desk".to_owned(),
        server: "files".to_owned(),
        failure: None,
        tools: vec!["read".to_owned()],
        left_out: vec![ToolLeftOut { tool: "write".to_owned(), why: "its name is in use".to_owned() }],
    }))
}

/// A revision whose texts were held first by these revisions. A new text names its number and the salt.
pub(crate) fn revised(number: u32, since: [u32; 5], texts: [Option<&str>; 5]) -> AnyEvent {
    let mut texts = texts.into_iter();
    let texts = since.map(|since| RevisedText { since, text: texts.next().unwrap().map(Arc::from) });
    AnyEvent::Agent(AgentEvent::Revised(Box::new(DefinitionRevision { number, texts })))
}

/// A question of the call `h1`.
pub(crate) fn asks(attempt: u32) -> AnyEvent {
    let question = "which?".to_owned();
    AnyEvent::Task(TaskEvent::Call(CallEvent::Asked { call_id: "h1".to_owned(), attempt, question }))
}

/// The word that another agent has the task of a call.
pub(crate) fn taken(call_id: &str, attempt: u32, handle: &str) -> AnyEvent {
    let (call_id, handle) = (call_id.to_owned(), handle.to_owned());
    AnyEvent::Task(TaskEvent::Call(CallEvent::Accepted { call_id, attempt, handle }))
}

/// The answer to the question of the call `h1`.
pub(crate) fn answers() -> AnyEvent {
    let answer = Answer::Given("this".to_owned());
    AnyEvent::Task(TaskEvent::Call(CallEvent::Answered { call_id: "h1".to_owned(), answer }))
}

/// A piece of an artifact.
pub(crate) fn piece(id: Option<&str>, is_last: bool) -> AnyEvent {
    let AnyEvent::Task(TaskEvent::ArtifactAppended { artifact, .. }) = artifact("art_p", None) else {
        panic!()
    };
    let artifact = Artifact { id: id.map(str::to_owned), ..artifact };
    AnyEvent::Task(TaskEvent::ArtifactPartAppended { artifact, is_last })
}
