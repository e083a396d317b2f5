//! Approvals of a task: who may request them, who may decide them, and the call that each approval permits.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::{CallCommand, CallEvent, CallKind, CallOrigin, CallRequested, NewCall, Recovery};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::scenario::Scenario;
use proto_events::task::{
    AgentChange, ApprovalDecided, ApprovalRejection, ApprovalRequested, CHANGED_AGENT_ID, Task, TaskCommand,
    TaskEvent, TaskRejection,
};

const ARGS: &str = r#"{"cents":100}"#;

fn message() -> Message {
    let parts = vec![Part::text("pay")];
    Message { id: Some("m".to_owned()), role: Some("user".to_owned()), parts, timestamp: None }
}

/// Returns a task in its first run.
fn running() -> Vec<TaskEvent> {
    vec![TaskEvent::Submitted(Box::new(PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "t".to_owned(),
        state: TaskState::Working,
        messages: vec![message()],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
    }))]
}

fn asked(run: u32) -> ApprovalRequested {
    let args = JsonText::parse(ARGS).unwrap();
    ApprovalRequested {
        approval_id: "a".to_owned(),
        call_id: "c".to_owned(),
        tool: "pay".to_owned(),
        args,
        capabilities: vec!["money.spend".to_owned()],
        origin: CallOrigin { run, ..CallOrigin::default() },
    }
}

fn asking() -> TaskEvent {
    TaskEvent::ApprovalRequested(Box::new(asked(1)))
}

fn change() -> ApprovalRequested {
    let args = JsonText::parse(r#"{"from":1,"to":2}"#).unwrap();
    ApprovalRequested { tool: "agent".to_owned(), args, ..asked(1) }
}

fn verdict(approved: bool) -> ApprovalDecided {
    let decided_by = "ada".into();
    ApprovalDecided { approval_id: "a".to_owned(), approved, reason: None, decided_by }
}

fn went(from: TaskState, to: TaskState) -> TaskEvent {
    TaskEvent::state_changed(from, to)
}

fn given(more: impl IntoIterator<Item = TaskEvent>) -> Scenario<Task> {
    Scenario::given(running().into_iter().chain(more))
}

fn rejected(rejection: ApprovalRejection) -> TaskRejection {
    TaskRejection::Approval(rejection)
}

fn call(approval: Option<&str>, tool: &str, args: &str, call_id: &str) -> CallRequested {
    let args = JsonText::parse(args).unwrap();
    CallRequested {
        capabilities: vec!["money.spend".to_owned()],
        approval: approval.map(str::to_owned),
        origin: CallOrigin { run: 1, ..CallOrigin::default() },
        ..CallRequested::new(NewCall {
            call_id: call_id.to_owned(),
            kind: CallKind::Tool,
            target: tool.to_owned(),
            args,
            idempotency_key: "k".to_owned(),
            recovery: Recovery::Manual,
            recovery_source: "tool".to_owned(),
            timeout_ms: 1,
            max_attempts: 1,
        })
    }
}

fn request(call: &CallRequested) -> TaskCommand {
    TaskCommand::Call(CallCommand::Request(Box::new(call.clone())))
}

#[test]
fn a_run_asks_once_and_only_while_it_goes_on() {
    let ask = |run| TaskCommand::RequestApproval(Box::new(asked(run)));
    given([]).when(ask(1)).then([asking()]);
    let not_running = rejected(ApprovalRejection::NotRunning("a".to_owned()));
    given([]).when(ask(2)).then_rejected(&not_running);
    given([went(TaskState::Working, TaskState::InputRequired)]).when(ask(1)).then_rejected(&not_running);
    let again = rejected(ApprovalRejection::AlreadyRequested("a".to_owned()));
    given([asking()]).when(ask(1)).then_rejected(&again);
}

#[test]
fn a_call_that_was_denied_is_refused_although_it_names_no_approval() {
    let denied = given([asking(), TaskEvent::ApprovalDecided(verdict(false))]);
    let (call_id, approval_id) = ("c".to_owned(), "a".to_owned());
    let refused = ApprovalRejection::NotApproved { call_id, approval_id, why: "it was denied" };
    denied.when(request(&call(None, "pay", ARGS, "c"))).then_rejected(&rejected(refused));
}

#[test]
fn a_call_is_requested_in_a_run_only() {
    let rest = [went(TaskState::Working, TaskState::InputRequired)];
    let (call_id, state) = ("c".to_owned(), TaskState::InputRequired);
    let refused = TaskRejection::NotRunning { call_id, state };
    given(rest).when(request(&call(None, "pay", ARGS, "c"))).then_rejected(&refused);
}

#[test]
fn what_is_asked_for_is_awaited_until_it_is_decided_called_gone_on_without_or_over() {
    let awaited =
        |more: Vec<TaskEvent>| given([asking()].into_iter().chain(more)).state().awaited_approvals().count();
    let rest = || went(TaskState::Working, TaskState::InputRequired);
    assert_eq!(awaited(vec![]), 1);
    assert_eq!(awaited(vec![rest()]), 1, "a person may take as long as it takes");
    assert_eq!(awaited(vec![TaskEvent::ApprovalDecided(verdict(false))]), 0);
    let requested = TaskEvent::Call(CallEvent::Requested(Box::new(call(None, "pay", ARGS, "c"))));
    assert_eq!(awaited(vec![requested]), 0, "the policy may have been loosened");
    assert_eq!(awaited(vec![rest(), went(TaskState::InputRequired, TaskState::Working)]), 0);
    assert_eq!(awaited(vec![went(TaskState::Working, TaskState::Canceled)]), 0);
}

#[test]
fn a_decision_stands_and_is_named_to_a_second_decider() {
    let decide = |approved| TaskCommand::DecideApproval(verdict(approved));
    let decided = |approved| TaskEvent::ApprovalDecided(verdict(approved));
    given([]).when(decide(true)).then_rejected(&rejected(ApprovalRejection::Unknown("a".to_owned())));
    for approved in [true, false] {
        given([asking()]).when(decide(approved)).then([decided(approved)]);
        let known = || given([asking(), decided(approved)]);
        known().when(decide(approved)).then([]);
        let (approval_id, by) = ("a".to_owned(), "ada".to_owned());
        let other = ApprovalRejection::AlreadyDecided { approval_id, approved, by };
        known().when(decide(!approved)).then_rejected(&rejected(other));
    }
    // Also long after the task's end: the reply to the first decision may have been lost.
    let over = went(TaskState::Working, TaskState::Completed);
    given([asking(), decided(true), over]).when(decide(true)).then([]);
}

#[test]
fn nobody_decides_what_is_not_awaited_any_more() {
    let decide = || TaskCommand::DecideApproval(verdict(true));
    let over = went(TaskState::Working, TaskState::Canceled);
    let (approval_id, state) = ("a".to_owned(), TaskState::Canceled);
    let refused = rejected(ApprovalRejection::TaskOver { approval_id, state });
    given([asking(), over]).when(decide()).then_rejected(&refused);
    let next_run = [
        went(TaskState::Working, TaskState::InputRequired),
        went(TaskState::InputRequired, TaskState::Working),
    ];
    let superseded = rejected(ApprovalRejection::Superseded("a".to_owned()));
    given([asking()].into_iter().chain(next_run)).when(decide()).then_rejected(&superseded);
}

#[test]
fn an_approval_is_good_for_the_very_call_that_was_asked_for_and_for_no_other() {
    let approved = || given([asking(), TaskEvent::ApprovalDecided(verdict(true))]);
    let meant = call(Some("a"), "pay", ARGS, "c");
    approved().when(request(&meant)).then([TaskEvent::Call(CallEvent::Requested(Box::new(meant.clone())))]);
    let refused = |call_id: &str, why| {
        let (call_id, approval_id) = (call_id.to_owned(), "a".to_owned());
        rejected(ApprovalRejection::NotApproved { call_id, approval_id, why })
    };
    let others = [
        (call(Some("a"), "pay", r#"{"cents":101}"#, "c"), "it is for other arguments"),
        (call(Some("a"), "give", ARGS, "c"), "it is for another tool"),
        (call(Some("a"), "pay", ARGS, "d"), "it is for another call"),
    ];
    for (other, why) in others {
        approved().when(request(&other)).then_rejected(&refused(&other.call_id, why));
    }
    // A request to another agent carries a task generated for it, which is not part of the approved content.
    let with_task = ARGS.replacen('{', r#"{"task":1,"#, 1);
    let question =
        |call_id| CallRequested { kind: CallKind::Delegate, ..call(Some("a"), "pay", &with_task, call_id) };
    let put = TaskEvent::Call(CallEvent::Requested(Box::new(question("d"))));
    approved().when(request(&question("d"))).then([put.clone()]);
    given([asking(), TaskEvent::ApprovalDecided(verdict(true)), put])
        .when(request(&question("e")))
        .then_rejected(&refused("e", "it was already used for a call"));
    given([asking()]).when(request(&meant)).then_rejected(&refused("c", "it is not decided yet"));
    let denied = given([asking(), TaskEvent::ApprovalDecided(verdict(false))]);
    denied.when(request(&meant)).then_rejected(&refused("c", "it was denied"));
    given([]).when(request(&meant)).then_rejected(&refused("c", "it was never requested"));
}

#[test]
fn the_approval_of_a_changed_agent_permits_no_call_that_looks_like_it() {
    let held = ApprovalRequested { call_id: format!("{CHANGED_AGENT_ID}1"), ..change() };
    assert_eq!(held.changed_agent(), Some(AgentChange { from: 1, to: 2 }));
    let call = call(Some("a"), "agent", held.args.as_str(), &held.call_id);
    let (call_id, approval_id) = (call.call_id.clone(), "a".to_owned());
    let why = "it is about the agent and permits no call";
    let refused = rejected(ApprovalRejection::NotApproved { call_id, approval_id, why });
    let decided = TaskEvent::ApprovalDecided(verdict(true));
    given([TaskEvent::ApprovalRequested(Box::new(held)), decided])
        .when(request(&call))
        .then_rejected(&refused);
}

#[test]
fn a_run_is_held_until_the_newest_question_about_its_agent_is_decided() {
    let held = |approval_id: &str, run| {
        let origin = CallOrigin { run, ..CallOrigin::default() };
        let call_id = format!("{CHANGED_AGENT_ID}{approval_id}");
        let asked = ApprovalRequested { approval_id: approval_id.to_owned(), call_id, origin, ..change() };
        TaskEvent::ApprovalRequested(Box::new(asked))
    };
    let folded = |events: &[TaskEvent]| given(events.iter().cloned()).state().is_held();
    assert!(!folded(&[]));
    assert!(folded(&[held("a", 1)]));
    assert!(!folded(&[held("a", 1), TaskEvent::ApprovalDecided(verdict(true))]));
    assert!(folded(&[held("a", 1), TaskEvent::ApprovalDecided(verdict(true)), held("b", 1)]));
    assert!(!folded(&[held("a", 1), went(TaskState::Working, TaskState::InputRequired)]));
    assert!(!folded(&[asking()]), "another approval");
}
