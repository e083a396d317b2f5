//! A log with every code of every table of docs/format.md that the other logs have not.

use proto_events::call::{
    Answer, CallEvent, Cut, CutRule, FailureClass, KeptRange, MessageRule, Recovery, Selection, Sizes,
    TimeLimit, Verdict, VerdictBy,
};
use proto_events::codec::AnyEvent;
use proto_events::envelope::{Basis, Principal};
use proto_events::id::StreamId;
use proto_events::model::LlmRole::{Assistant, User};
use proto_events::model::TaskState::{Completed, Failed, InputRequired, Submitted, Unknown, Working};
use proto_events::model::{BudgetLimit, LimitUse, TaskState};
use proto_events::task::{ApprovalDecided, TaskEvent};

use super::events::*;
use super::log::Log;

fn call(event: CallEvent) -> AnyEvent {
    AnyEvent::Task(TaskEvent::Call(event))
}

fn ada() -> Principal {
    Principal { name: "ada".to_owned(), basis: Basis::Authenticated }
}

fn ended(limit: BudgetLimit) -> AnyEvent {
    let used = if limit == BudgetLimit::RuntimeSeconds { 3.5 } else { 4.0 };
    let budget = Some(LimitUse { limit, used, allowed: 3.0 });
    AnyEvent::Task(TaskEvent::StateChanged { from: Working, to: Failed, budget })
}

/// Returns the log.
pub(crate) fn codes() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let (programs, desk) = (StreamId::of_system(0), StreamId::of_agent("desk").unwrap());
    let first = revised(1, [1; 5], [Some("m"), Some("be brief"), Some("[]"), Some("[]"), Some("{}")]);
    log.append(vec![("first", &desk, vec![first]), ("started", &programs, vec![started(1, 1)])]);
    for (number, limit) in BudgetLimit::ALL.iter().enumerate() {
        let (id, task) = (format!("limit-{number}"), task(&format!("limit-{number}")));
        let events = vec![submitted(&id, Submitted), changed(Submitted, Working), ended(*limit)];
        log.append(vec![("limit", &task, events)]);
    }
    for (number, state) in TaskState::ALL.iter().enumerate() {
        let (id, task) = (format!("state-{number}"), task(&format!("state-{number}")));
        log.append(vec![("state", &task, vec![submitted(&id, *state), changed(*state, Unknown)])]);
    }
    failures(&mut log);
    persons(&mut log);
    cut(&mut log);
    log
}

/// Every class of a failure.
const CLASSES: [FailureClass; 5] = [
    FailureClass::BeforeEffect,
    FailureClass::AfterEffect,
    FailureClass::Rejected,
    FailureClass::Exhausted,
    FailureClass::Superseded,
];

/// Calls that end in each class of failure, and by each time limit.
fn failures(log: &mut Log) {
    let task = task("failures");
    log.append(vec![(
        "failures",
        &task,
        vec![submitted("failures", Submitted), changed(Submitted, Working)],
    )]);
    for (number, class) in CLASSES.iter().enumerate() {
        let id = format!("c{number}");
        let asked = requested(intent(&id, "read", Recovery::ReadOnly, 1));
        log.append(vec![("failure", &task, vec![asked, sent(&id, 1, 1, ""), failed(&id, 1, *class)])]);
    }
    for (number, limit) in [TimeLimit::Attempt, TimeLimit::Heartbeat].into_iter().enumerate() {
        let id = format!("t{number}");
        let asked = requested(intent(&id, "read", Recovery::ReadOnly, 1));
        let over = call(CallEvent::TimedOut { call_id: id.clone(), attempt: 1, after_ms: 70_000, limit });
        log.append(vec![("time limit", &task, vec![asked, sent(&id, 1, 1, ""), over])]);
    }
}

/// The decisions of a person who is authenticated: approved, settled, given up, declined to answer.
fn persons(log: &mut Log) {
    let task = task("persons");
    log.append(vec![("persons", &task, vec![submitted("persons", Submitted), changed(Submitted, Working)])]);
    let decided = ApprovalDecided {
        approval_id: "a1".to_owned(),
        approved: true,
        reason: Some("it is fine".to_owned()),
        decided_by: ada(),
    };
    let wanted = approval(asked("a1", "c1", "pay", json("{}")));
    log.append(vec![("decided", &task, vec![wanted, AnyEvent::Task(TaskEvent::ApprovalDecided(decided))])]);
    for (id, settled) in [
        (
            "c2",
            CallEvent::Reconciled {
                call_id: "c2".to_owned(),
                attempt: 1,
                verdict: Verdict::Landed(json("[1]")),
                by: VerdictBy::Operator(ada()),
            },
        ),
        (
            "c3",
            CallEvent::Abandoned { call_id: "c3".to_owned(), reason: "nobody knows".to_owned(), by: ada() },
        ),
    ] {
        let asked = requested(intent(id, "pay", Recovery::Manual, 1));
        log.append(vec![("settled", &task, vec![asked, sent(id, 1, 1, ""), unknown(id, 1), call(settled)])]);
    }
    let (call_id, question) = ("c4".to_owned(), "Which account?".to_owned());
    let asked = requested(intent("c4", "pay", Recovery::Idempotent, 1));
    let asks = call(CallEvent::Asked { call_id: call_id.clone(), attempt: 1, question });
    log.append(vec![(
        "asks",
        &task,
        vec![asked, sent("c4", 1, 1, ""), asks, changed(Working, InputRequired)],
    )]);
    let declined = Answer::Declined("none of your business".to_owned());
    let answered = call(CallEvent::Answered { call_id, answer: declined });
    log.append(vec![("declined", &task, vec![answered, changed(InputRequired, Working)])]);
    log.append(vec![("done", &task, vec![changed(Working, Completed)])]);
}

/// Returns a log with an inference that is shown minimized and cut results: codes and a version of the intent that came after the
/// log of all others.
pub(crate) fn minimized() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let (programs, desk) = (StreamId::of_system(0), StreamId::of_agent("desk").unwrap());
    let first = revised(1, [1; 5], [Some("m"), Some("be brief"), Some("[]"), Some("[]"), Some("{}")]);
    log.append(vec![("first", &desk, vec![first]), ("started", &programs, vec![started(1, 1)])]);
    let task = task("minimized");
    let said = vec![
        submitted("minimized", Submitted),
        changed(Submitted, Working),
        said_in_task(User, None),
        said_in_task(Assistant, None),
    ];
    log.append(vec![("said", &task, said)]);
    let mut shown = prompt(None);
    shown.messages = 3;
    shown.selection = Some(Selection {
        strategy: "minimize-outputs(50000), truncate-tool-outputs(4000)".to_owned(),
        kept: vec![KeptRange { first: 0, count: 2 }],
        cuts: vec![Cut { message: 1, rule: CutRule::HeadWithTip, characters: 3_900, marker: Some(0) }],
        markers: vec!["...[truncated]".to_owned()],
        rules: vec![
            MessageRule { rule: CutRule::Minimized, characters: 50_000, marker: None, except: vec![0] },
            MessageRule { rule: CutRule::Head, characters: 3_986, marker: Some(0), except: Vec::new() },
        ],
        sizes: Some(Sizes {
            counter: "heuristic/4".to_owned(),
            messages_before: 3,
            tokens_before: 20_000,
            tokens_after: 13_000,
            limit: None,
        }),
    });
    let mut asked = intent("i1", "m", Recovery::Reissue, 1);
    (asked.kind, asked.prompt) = (proto_events::call::CallKind::Infer, Some(shown));
    log.append(vec![("shown", &task, vec![requested(asked)])]);
    log
}

/// Returns a log with a call to an agent elsewhere, which names the task that it has; a process ends meanwhile.
pub(crate) fn delegated() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let task = task("delegated");
    let mut asked = intent("d1", "remote", Recovery::Reconcile, 1);
    asked.kind = proto_events::call::CallKind::Delegate;
    let begun = vec![submitted("delegated", Submitted), changed(Submitted, Working), requested(asked)];
    log.append(vec![("asked", &task, begun)]);
    log.append(vec![("sent", &task, vec![sent("d1", 1, 1, "")])]);
    let (call_id, handle) = ("d1".to_owned(), "theirs-☃".to_owned());
    log.append(vec![("taken", &task, vec![call(CallEvent::Accepted { call_id, attempt: 1, handle })])]);
    log.epoch(2);
    log.append(vec![("again", &task, vec![sent("d1", 2, 2, "the process ended")])]);
    log
}

/// An inference that is shown a part of what was said, and of that a part of one message.
fn cut(log: &mut Log) {
    let task = task("cut");
    let said = vec![
        submitted("cut", Submitted),
        changed(Submitted, Working),
        said_in_task(User, None),
        said_in_task(Assistant, None),
        said_in_task(User, None),
    ];
    log.append(vec![("said", &task, said)]);
    let mut shown = prompt(None);
    (shown.messages, shown.tokens) = (3, Some(70));
    shown.selection = Some(Selection {
        strategy: "fit-window".to_owned(),
        kept: vec![KeptRange { first: 0, count: 1 }, KeptRange { first: 2, count: 1 }],
        cuts: vec![Cut { message: 2, rule: CutRule::Head, characters: 300, marker: None }],
        ..Selection::default()
    });
    let mut asked = intent("i1", "m", Recovery::Reissue, 1);
    (asked.kind, asked.prompt) = (proto_events::call::CallKind::Infer, Some(shown));
    log.append(vec![("shown", &task, vec![requested(asked)])]);
}
