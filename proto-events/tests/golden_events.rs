//! The bytes of every event version ever shipped. Golden files may be added, but never changed: a log written
//! today must be readable by every later release. Missing files are written with `TASKREEL_WRITE_GOLDEN=1`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use proto_events::call::{
    Answer, CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, CancelStage, Cut, CutRule,
    FailureClass, KeptRange, MessageRule, NewCall, ParentCall, Price, PromptRef, Recovery, Selection, Sizes,
    TimeLimit, TokenUsage, Verdict, VerdictBy,
};
use proto_events::codec::{AnyEvent, Payload, Storable, kind};
use proto_events::definition::{AgentEvent, Revised, RevisedText};
use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::{Category, Digest, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    Artifact, BudgetLimit, LimitUse, LlmMessage, LlmRole, Message, Part, PostedTask, TaskState,
};
use proto_events::session::SessionEvent;
use proto_events::system::{AgentRevision, Started, SystemEvent, ToolLeftOut, ToolServerSeen};
use proto_events::task::{ApprovalDecided, ApprovalRequested, TaskEvent};
use proto_events::tool_store::ToolStoreEvent;
use proto_events::turn::TurnMessage;

fn object(json: &str) -> JsonObject {
    JsonText::parse(json).unwrap().read().unwrap()
}

fn message() -> Message {
    Message {
        id: Some("msg_1".into()),
        role: Some("user".into()),
        parts: vec![
            Part::text("héllo ☃"),
            Part::new("json", JsonText::parse(r#"{"big": 1180591620717411303424, "z":-0.0}"#).unwrap()),
        ],
        timestamp: None,
    }
}

fn artifact() -> Artifact {
    Artifact {
        id: Some("art_1".into()),
        parts: vec![Part::tool_output("c1", JsonText::parse("1e16").unwrap())],
        metadata: object(r#"{"k":1.0}"#),
        timestamp: Some("2026-11-21T07:03:20.123456+00:00".into()),
        kind: "result".into(),
        name: Some("report".into()),
        uri: None,
        media_type: Some("text/plain".into()),
        action_id: None,
    }
}

fn llm_message(role: LlmRole) -> LlmMessage {
    LlmMessage {
        role,
        content: "what is said".into(),
        name: Some("tool".into()),
        metadata: object(r#"{"m":[1,2]}"#),
        id: "6f1c2b1e-0000-4000-8000-000000000001".into(),
        created_at: "2026-11-21T07:03:20+00:00".into(),
        tool_calls: JsonText::parse(r#"{"x":1}"#).unwrap(),
        tool_name: None,
    }
}

fn turn_message() -> TurnMessage {
    TurnMessage {
        message: llm_message(LlmRole::Assistant),
        part: 2,
        infer_call: Some("call_1".into()),
        asks: vec!["call_2".into(), "call_3".into()],
        answers: Some("call_0".into()),
    }
}

fn requested() -> CallRequested {
    CallRequested {
        heartbeat_ms: Some(30_000),
        retry_errors: true,
        window_ms: Some(86_400_000),
        deadline: Some(Timestamp(1_795_000_000_123_456)),
        secrets: vec!["token".into()],
        capabilities: vec!["net.read".into()],
        approval: Some("approval_1".into()),
        origin: CallOrigin {
            run: 1,
            part: 2,
            step: 3,
            infer_call: Some("call_0".into()),
            part_call_id: Some(String::new()),
            parent: Some(ParentCall { call_id: "call_9".into(), ordinal: 300 }),
        },
        prompt: Some(PromptRef {
            session: Some("session-agent/s".into()),
            read_through: Version(9),
            messages: 5,
            digest: Digest([1; 32]),
            tokens: Some(1_200),
            revision: 7,
            selection: Some(Selection {
                strategy: "fit-window".into(),
                kept: vec![KeptRange { first: 0, count: 1 }, KeptRange { first: 2, count: 2 }],
                cuts: vec![Cut { message: 3, rule: CutRule::Head, characters: 4_000, marker: None }],
                ..Selection::default()
            }),
            renderer: 1,
        }),
        price: Some(Price {
            input_per_million: 3_000_000,
            output_per_million: 15_000_000,
            currency: "USD".into(),
        }),
        ..CallRequested::of(NewCall {
            call_id: "call_1".into(),
            kind: CallKind::Infer,
            target: "scripted/demo".into(),
            args: JsonText::parse(r#"{"model":"demo"}"#).unwrap(),
            idempotency_key: "0123abcd".into(),
            recovery: Recovery::Reissue,
            recovery_source: "inference".into(),
            timeout_ms: 120_000,
            max_attempts: 4,
        })
    }
}

/// An intent that only the second schema version of its kind holds.
fn requested_with_sizes() -> CallRequested {
    let mut requested = requested();
    let selection = requested.prompt.as_mut().and_then(|prompt| prompt.selection.as_mut()).unwrap();
    selection.cuts[0].marker = Some(0);
    selection.markers = vec!["...[cut]".into()];
    selection.sizes = Some(Sizes {
        counter: "heuristic/4".into(),
        messages_before: 6,
        tokens_before: 70_000,
        tokens_after: 4_100,
        limit: Some(8_000),
    });
    requested
}

/// An intent whose prompt holds a minimized result. The rule is a code of the second version's bytes, with a golden file of
/// its own.
fn requested_with_minimized() -> CallRequested {
    let mut requested = requested_with_sizes();
    let selection = requested.prompt.as_mut().and_then(|prompt| prompt.selection.as_mut()).unwrap();
    selection.strategy = "minimize-outputs(50000)".into();
    selection.cuts[0] = Cut { message: 3, rule: CutRule::Minimized, characters: 50_000, marker: None };
    requested
}

/// An intent that only the third schema version of its kind holds.
fn requested_with_rules() -> CallRequested {
    let mut requested = requested_with_sizes();
    let selection = requested.prompt.as_mut().and_then(|prompt| prompt.selection.as_mut()).unwrap();
    selection.strategy = "minimize-outputs(50000), truncate-tool-outputs(4000)".into();
    selection.cuts[0].rule = CutRule::HeadWithTip;
    let rule = MessageRule { rule: CutRule::Head, characters: 4_000, marker: Some(0), except: vec![2, 300] };
    let minimized =
        MessageRule { rule: CutRule::Minimized, characters: 50_000, marker: None, except: Vec::new() };
    selection.rules = vec![minimized, rule];
    requested
}

fn call_events() -> Vec<CallEvent> {
    let call_id = || "call_1".to_owned();
    let failure = CallFailure {
        class: FailureClass::AfterEffect,
        error_type: "ValueError".into(),
        message: "boom".into(),
        usage: Some(TokenUsage { input_tokens: 9, output_tokens: 0 }),
    };
    let usage = Some(TokenUsage { input_tokens: 300, output_tokens: u64::MAX });
    let result = JsonText::parse(r#"{"temp": 20}"#).unwrap();
    vec![
        CallEvent::Requested(Box::new(requested())),
        CallEvent::Requested(Box::new(requested_with_sizes())),
        CallEvent::Dispatched { call_id: call_id(), attempt: 2, epoch: 77, cause: "rate limit".into() },
        CallEvent::Succeeded { call_id: call_id(), attempt: 1, result, usage },
        CallEvent::Failed { call_id: call_id(), attempt: 1, failure: failure.clone() },
        CallEvent::RetryScheduled {
            call_id: call_id(),
            attempt: 1,
            failure,
            due: Timestamp(1_795_000_030_000_000),
        },
        CallEvent::TimedOut {
            call_id: call_id(),
            attempt: 1,
            after_ms: 120_000,
            limit: TimeLimit::Heartbeat,
        },
        CallEvent::Canceled { call_id: call_id(), stage: CancelStage::InFlight },
        CallEvent::OutcomeUnknown { call_id: call_id(), attempt: 1, why: "the process ended".into() },
        CallEvent::Reconciled {
            call_id: call_id(),
            attempt: 1,
            verdict: Verdict::Landed(JsonText::parse("[1.50]").unwrap()),
            by: VerdictBy::Operator("ada".into()),
        },
        CallEvent::Abandoned { call_id: call_id(), reason: "too old".into(), by: "ada".into() },
        CallEvent::LateResultIgnored {
            call_id: call_id(),
            attempt: 1,
            succeeded: true,
            said: r#"{"temp": 21}"#.into(),
        },
        CallEvent::Asked { call_id: call_id(), attempt: 2, question: "which account?".into() },
        CallEvent::Answered { call_id: call_id(), answer: Answer::Given("the first ☃".into()) },
    ]
}

fn task_events() -> Vec<TaskEvent> {
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
    ];
    events.extend(call_events().into_iter().map(TaskEvent::Call));
    events
}

fn session_events() -> Vec<SessionEvent> {
    vec![
        SessionEvent::Opened { session_id: "s".into() },
        SessionEvent::SystemPromptSet(llm_message(LlmRole::System)),
        SessionEvent::TurnStarted { turn_id: "turn_1".into(), task: "task-agent/t".into() },
        SessionEvent::MessageAppended(turn_message()),
        SessionEvent::TurnCommitted { turn_id: "turn_1".into() },
        SessionEvent::TurnAborted { turn_id: "turn_1".into(), reason: "canceled".into() },
    ]
}

fn tool_events() -> Vec<ToolStoreEvent> {
    let call = || ("task-agent/t".to_owned(), "call_1".to_owned());
    let ((task, call_id), (for_task, its_call)) = (call(), call());
    let value = JsonText::parse(r#"{"n": 1.50}"#).unwrap();
    vec![
        ToolStoreEvent::KeyPut { task, call_id, key: "orders/ü".into(), value },
        ToolStoreEvent::KeyDeleted { task: for_task, call_id: its_call, key: "orders/ü".into() },
    ]
}

fn system_events() -> Vec<SystemEvent> {
    let agents = vec![AgentRevision { name: "desk".into(), number: 3 }];
    vec![
        SystemEvent::Started(Started {
            epoch: 300,
            release: "0.1.0".into(),
            build: Some("host 7".into()),
            agents,
        }),
        SystemEvent::Stopped { epoch: 300, reason: Some("no model".into()) },
        SystemEvent::ToolServerSeen(ToolServerSeen {
            epoch: 300,
            agent: "desk".into(),
            server: "files".into(),
            failure: Some("it does not answer".into()),
            tools: vec!["read".into()],
            left_out: vec![ToolLeftOut { tool: "read file".into(), why: "a bad name".into() }],
        }),
    ]
}

fn agent_event() -> AgentEvent {
    let new = |text: &str| RevisedText { since: 2, text: Some(text.into()) };
    let texts = [
        RevisedText { since: 1, text: None },
        new("Be brief."),
        new("[]"),
        RevisedText { since: 1, text: None },
        new("{}"),
    ];
    AgentEvent::Revised(Box::new(Revised { number: 2, texts }))
}

fn path(payload: &Payload, variant: &str) -> PathBuf {
    let Payload { kind, schema, .. } = payload;
    let file = format!("tests/golden/v2/{kind:03}_{}{variant}_v{schema}.bin", kind::name(*kind));
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Compares an event with its golden bytes, in both directions.
fn check<E: Storable + PartialEq + std::fmt::Debug>(event: &E) -> u16 {
    check_variant(event, "")
}

/// Compares an event of a kind that has several golden files with the one of this name.
fn check_variant<E: Storable + PartialEq + std::fmt::Debug>(event: &E, variant: &str) -> u16 {
    let payload = event.encode().unwrap();
    let path = path(&payload, variant);
    if !path.exists() && std::env::var_os("TASKREEL_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &payload.body).unwrap();
    }
    let golden = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(payload.body, golden, "{} has other bytes than its golden file", path.display());
    let back = E::decode(payload.kind, payload.schema, &golden).unwrap();
    assert_eq!(&back, event, "{}", path.display());
    payload.kind
}

#[test]
fn every_event_has_the_bytes_of_its_golden_file_and_is_read_back_from_them() {
    let mut seen: BTreeSet<u16> = task_events().iter().map(check).collect();
    seen.extend(session_events().iter().map(check));
    seen.extend(tool_events().iter().map(check));
    seen.extend(system_events().iter().map(check));
    seen.insert(check(&agent_event()));
    let minimized = TaskEvent::Call(CallEvent::Requested(Box::new(requested_with_minimized())));
    seen.insert(check_variant(&minimized, "Minimized"));
    seen.insert(check(&TaskEvent::Call(CallEvent::Requested(Box::new(requested_with_rules())))));
    let all: BTreeSet<u16> = kind::ALL.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(seen, all, "an event kind has no golden file");
}

#[test]
fn every_golden_file_ever_shipped_is_still_read() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let Some((number, rest)) = name.split_once('_') else {
            continue;
        };
        let Ok(number) = number.parse::<u16>() else {
            continue;
        };
        let schema: u8 = rest.rsplit_once("_v").unwrap().1.parse().unwrap();
        let category = match number {
            100..200 => Category::Session,
            300..400 => Category::Tool,
            400..500 => Category::System,
            500..600 => Category::Agent,
            _ => Category::Task,
        };
        let body = std::fs::read(&path).unwrap();
        AnyEvent::decode(Some(category), number, schema, &body)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        read += 1;
    }
    assert!(read >= kind::ALL.len());
}

#[test]
fn an_intent_of_the_first_version_has_no_sizes_and_no_markers() {
    let golden = |schema| {
        let file = format!("tests/golden/v2/200_CallRequested_v{schema}.bin");
        let body = std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        match TaskEvent::decode(kind::CALL_REQUESTED, schema, &body).unwrap() {
            TaskEvent::Call(CallEvent::Requested(request)) => request.prompt.unwrap().selection.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let (first, second) = (golden(1), golden(2));
    assert_eq!((golden(2).rules, golden(3).rules.len()), (Vec::new(), 2));
    assert_eq!((first.sizes, first.markers, first.cuts[0].marker), (None, Vec::new(), None));
    assert_eq!((first.kept, first.cuts[0].characters), (second.kept, second.cuts[0].characters));
    let encoded =
        |request: CallRequested| TaskEvent::Call(CallEvent::Requested(Box::new(request))).encode().unwrap();
    let plain = CallRequested { prompt: None, ..requested_with_sizes() };
    assert_eq!((encoded(plain).schema, encoded(requested()).schema), (1, 1), "earlier releases read them");
    assert_eq!((encoded(requested_with_sizes()).schema, encoded(requested_with_rules()).schema), (2, 3));
}

#[test]
fn every_limit_that_ends_a_run_is_read_back() {
    for limit in BudgetLimit::ALL {
        let budget = Some(LimitUse { limit, used: 3.0, allowed: -1.5 });
        let event = TaskEvent::StateChanged { from: TaskState::Working, to: TaskState::Failed, budget };
        let payload = event.encode().unwrap();
        assert_eq!(TaskEvent::decode(payload.kind, payload.schema, &payload.body).unwrap(), event);
        let mut wrong = payload.body;
        wrong[3] = 77;
        assert!(TaskEvent::decode(payload.kind, payload.schema, &wrong).is_err());
    }
}

#[test]
fn every_verdict_is_read_back() {
    for verdict in
        [Verdict::Landed(JsonText::null()), Verdict::DidNotHappen, Verdict::Inconclusive("no answer".into())]
    {
        for by in [VerdictBy::Probe, VerdictBy::Operator(Principal::default())] {
            let event = TaskEvent::Call(CallEvent::Reconciled {
                call_id: "c".into(),
                attempt: 2,
                verdict: verdict.clone(),
                by,
            });
            let stored = event.encode().unwrap();
            assert_eq!(TaskEvent::decode(stored.kind, stored.schema, &stored.body).unwrap(), event);
        }
    }
}

#[test]
fn an_event_of_another_category_and_a_newer_version_are_refused_by_name() {
    let session = session_events().remove(0).encode().unwrap();
    assert!(TaskEvent::decode(session.kind, session.schema, &session.body).is_err());
    let task = task_events().remove(1).encode().unwrap();
    let newer = TaskEvent::decode(task.kind, task.schema + 1, &task.body).unwrap_err();
    assert!(newer.to_string().contains("newer"), "{newer}");
}
