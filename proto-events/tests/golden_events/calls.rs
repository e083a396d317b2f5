//! The events of a call, each with a value in each of its fields.

use proto_events::call::{
    Answer, CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, CancelStage, Cut, CutRule,
    FailureClass, KeptRange, MessageRule, NewCall, ParentCall, Price, PromptRef, Recovery, Selection, Sizes,
    TimeLimit, TokenUsage, Verdict, VerdictBy,
};
use proto_events::envelope::Timestamp;
use proto_events::id::{Digest, Version};
use proto_events::json::JsonText;

pub(crate) fn requested() -> CallRequested {
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
        ..CallRequested::new(NewCall {
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
pub(crate) fn requested_with_sizes() -> CallRequested {
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
pub(crate) fn requested_with_minimized() -> CallRequested {
    let mut requested = requested_with_sizes();
    let selection = requested.prompt.as_mut().and_then(|prompt| prompt.selection.as_mut()).unwrap();
    selection.strategy = "minimize-outputs(50000)".into();
    selection.cuts[0] = Cut { message: 3, rule: CutRule::Minimized, characters: 50_000, marker: None };
    requested
}

/// An intent that only the third schema version of its kind holds.
pub(crate) fn requested_with_rules() -> CallRequested {
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

pub(crate) fn call_events() -> Vec<CallEvent> {
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
        CallEvent::Accepted { call_id: call_id(), attempt: 2, handle: "task-☃".into() },
    ]
}
