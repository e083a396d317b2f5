//! The ends of requests of a tool to another agent: approvals, cancels, timeouts, crashes, restarts, and attempts that ask
//! for something else.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::desk::{Desk, assert_sound, children, lead, leads, message, ordinals, outputs};
use proto_events::call::{CallStatus, Verdict};
use proto_events::json::JsonText;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::testing::{CrashMatrix, TestSystem, appends, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, Operator, Part, TaskCommand, TaskHandle, TaskSnapshot, TaskState};
use taskreel_log::api::EventStore;

fn describe(
    desk: &Desk,
    policy: ToolPolicy,
    more: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> impl Fn(Builder) -> Builder + Send + Sync + 'static {
    let desk = desk.clone();
    move |builder: Builder| more(builder.tool_with("lead", "Leads", lead, policy.clone()).peer(desk.clone()))
}

async fn start(desk: &Desk, policy: ToolPolicy) -> TestSystem {
    system(describe(desk, policy, |builder| builder)).await.unwrap()
}

async fn start_asked(desk: &Desk, by_person: bool) -> TestSystem {
    let more = move |builder: Builder| {
        let builder = builder.capability_policy(CapabilityPolicy::new().require_approval("agent.*"));
        if by_person { builder.approvals_by_person() } else { builder.approval_handler(approver) }
    };
    system(describe(desk, ToolPolicy::manual(), more)).await.unwrap()
}

/// An approval handler that denies what is named so.
async fn approver(asked: ApprovalRequest) -> ApprovalVerdict {
    taskreel::testing::sleep(Duration::from_millis(20)).await;
    match asked.args.as_str() {
        text if text.contains("deny") => ApprovalVerdict::Denied { reason: Some("too dear".into()) },
        text if text.contains("person") => ApprovalVerdict::AskPerson,
        _ => ApprovalVerdict::Approved,
    }
}

async fn submit(system: &TestSystem, part: Part) -> TaskHandle {
    system.submit(message(vec![part])).await.unwrap()
}

async fn run(system: &TestSystem, part: Part) -> TaskSnapshot {
    let task = submit(system, part).await;
    system.finish(&task).await.unwrap()
}

/// Decides the one approval that is awaited, and waits for what follows.
async fn decide(system: &TestSystem, task: &TaskHandle, approve: bool) -> TaskSnapshot {
    let awaited = task.approvals().await.unwrap();
    assert_eq!(awaited.len(), 1, "one at a time");
    let id = &awaited[0].request.approval_id;
    if approve {
        task.approve(id, "ada").await.unwrap();
    } else {
        task.deny(id, Some("not today"), "ada").await.unwrap();
    }
    system.finish(task).await.unwrap()
}

#[tokio::test]
async fn a_person_approves_one_request_and_denies_the_other_while_no_attempt_is_in_flight() {
    let desk = Desk::idempotent();
    let system = start_asked(&desk, true).await;
    let task = submit(&system, leads(&["ok 5 one", "ok 5 two"], &[])).await;
    let waits = system.finish(&task).await.unwrap();
    assert_eq!((waits.state(), desk.times()), (TaskState::InputRequired, 0), "nothing is sent before");
    let said = waits.task().messages().last().unwrap().parts[0].content().as_str().to_owned();
    let typed = format!("taskreel approve {} ", task.stream());
    assert!(said.contains("needs approval") && said.contains(&typed), "{said}");
    system.advance(Duration::from_secs(3_600)).await;
    let waits = decide(&system, &task, true).await;
    assert_eq!((waits.state(), desk.prompts()), (TaskState::InputRequired, vec!["ok 5 one".to_owned()]));
    let done = decide(&system, &task, false).await;
    assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
    let said = outputs(done.task());
    assert!(
        said.contains("answer to ok 5 one") && said.contains("Denied: Action 'desk' denied: not today"),
        "{said}"
    );
    assert_eq!((ordinals(done.task()), desk.times()), (vec![1], 1));
    assert!(children(done.task())[0].request.approval.is_some());
    let parent = done.task().calls().iter().next().unwrap();
    assert_eq!((parent.attempts, parent.counted_attempts()), (3, 1), "waiting is no failed attempt");
    assert_sound(&system);
}

#[tokio::test]
async fn an_approval_outlives_a_restart_and_is_given_in_a_log_that_no_system_has_open() {
    let desk = Desk::idempotent();
    let system = start_asked(&desk, true).await;
    let task = submit(&system, leads(&["ok 5 one"], &[])).await;
    system.finish(&task).await.unwrap();
    let approval = task.approvals().await.unwrap()[0].request.approval_id.clone();
    let store: Arc<dyn EventStore> = Arc::new(system.store().reopened().unwrap());
    let decided = Operator::new(Arc::clone(&store)).approve(task.stream(), &approval, "ada").await.unwrap();
    assert_eq!(decided.task.state(), TaskState::Working, "the decision resumes the task");
    assert!(taskreel_log::audit::verify(store.as_ref()).is_sound());
    let system = system.crash().await.unwrap();
    let task = system.task(task.id()).unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    let done = decide(&system, &task, true).await;
    assert_eq!((done.state(), desk.times()), (TaskState::Completed, 1));
    assert_sound(&system);
}

#[tokio::test]
async fn an_approval_handler_decides_while_the_attempt_waits_and_may_leave_it_to_a_person() {
    let desk = Desk::idempotent();
    let system = start_asked(&desk, false).await;
    let end = run(&system, leads(&["ok 5", "ok 5 deny", "ok 5 last"], &[])).await;
    let said = outputs(end.task());
    assert!(said.contains("Denied: Action 'desk' denied: too dear; completed:"), "{said}");
    assert_eq!((end.task().runs(), ordinals(end.task())), (1, vec![1, 2]));
    let task = submit(&system, leads(&["ok 5 person"], &[])).await;
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    let done = decide(&system, &task, true).await;
    assert_eq!((done.state(), children(done.task()).len()), (TaskState::Completed, 1));
    assert_sound(&system);
}

/// A tool that asks a person after it has asked another agent.
async fn asks_both(cx: ToolContext, asks: crate::desk::Asks) -> Result<String, ToolError> {
    let first = cx.delegate("desk", asks.prompts[0].as_str()).await?;
    let place = cx.ask("Where?").await?;
    let second = cx.delegate("desk", format!("ok 5 in {place}")).await?;
    Ok(format!("{} {}", first.result, second.result))
}

#[tokio::test]
async fn questions_to_a_person_and_approvals_of_requests_keep_their_places() {
    let desk = Desk::idempotent();
    let peer = desk.clone();
    let describe = move |builder: Builder| {
        builder
            .tool("lead", "Leads", asks_both)
            .peer(peer.clone())
            .capability_policy(CapabilityPolicy::new().require_approval("agent.*"))
            .approvals_by_person()
    };
    let system = system(describe).await.unwrap();
    let task = submit(&system, leads(&["ok 5 one"], &[])).await;
    system.finish(&task).await.unwrap();
    // A word in place of the decision is no approval: it names the one to be decided, and repeats nothing.
    let open = task.questions().await.unwrap()[0].request.call_id.clone();
    let approval = task.approvals().await.unwrap()[0].request.approval_id.clone();
    let before = task.snapshot().await.unwrap().version();
    for refused in [
        task.answer(&open, "well", "ada").await.unwrap_err(),
        task.command(TaskCommand::AppendMessage(message(vec![Part::text("yes")]))).await.unwrap_err(),
    ] {
        assert!(refused.to_string().contains(&approval), "{refused}");
    }
    assert_eq!((task.snapshot().await.unwrap().version(), desk.times()), (before, 0));
    let waits = decide(&system, &task, true).await;
    assert_eq!(waits.task().open_questions().next().unwrap().open_question(), Some("Where?"));
    let next = waits.task().open_questions().next().unwrap().question_id();
    task.answer(&next, "Oslo", "ada").await.unwrap();
    system.finish(&task).await.unwrap();
    let done = decide(&system, &task, true).await;
    assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
    assert!(outputs(done.task()).contains("answer to ok 5 in Oslo"));
    assert_eq!((ordinals(done.task()), desk.times()), (vec![1, 2], 2), "each request was sent once");
    assert_sound(&system);
}

#[tokio::test]
async fn a_cancel_of_the_task_closes_and_recalls_the_request_with_its_parent() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::manual()).await;
    let task = submit(&system, leads(&["ok 60000"], &[])).await;
    system.advance(Duration::from_secs(1)).await;
    task.cancel(None).await.unwrap();
    let over = task.snapshot().await.unwrap();
    assert_eq!(children(over.task())[0].status, CallStatus::Canceled);
    system.advance(Duration::from_secs(120)).await;
    let end = task.snapshot().await.unwrap();
    assert_eq!((end.task().calls().open().count(), desk.canceled(), desk.times()), (0, 1, 1));
    assert_sound(&system);
}

#[tokio::test]
async fn a_manual_parent_whose_time_is_up_is_unknown_and_its_request_is_canceled_and_never_sent_again() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::manual().timeout(Duration::from_secs(2))).await;
    let task = submit(&system, leads(&["ok 600000"], &[])).await;
    let waits = system.finish(&task).await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let parent = waits.task().calls().iter().next().unwrap();
    assert_eq!((parent.status.as_str(), children(waits.task())[0].status.as_str()), ("unknown", "canceled"));
    let parent = parent.request.call_id.clone();
    system.run_out_timers().await.unwrap();
    assert_eq!((desk.times(), desk.canceled()), (1, 1));
    let system = system.crash().await.unwrap();
    system.run_out_timers().await.unwrap();
    assert_eq!(desk.times(), 1, "a restart does not send it either");
    let task = system.task(task.id()).unwrap();
    task.reconcile(&parent, Verdict::Landed(JsonText::string("found")), "ada").await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), desk.times()), (TaskState::Completed, 1));
    assert_sound(&system);
}

#[tokio::test]
async fn the_next_attempt_of_a_parent_whose_time_is_up_takes_the_open_request_over() {
    let desk = Desk::idempotent();
    let policy = ToolPolicy::read_only().timeout(Duration::from_secs(2));
    let system = start(&desk, policy).await;
    let end = run(&system, leads(&["ok 3000 slow"], &[])).await;
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let parent = end.task().calls().iter().next().unwrap();
    assert_eq!((parent.attempts, desk.times(), ordinals(end.task())), (2, 1, vec![1]));
    assert_sound(&system);
    let end = run(&system, leads(&["ok 600000"], &[])).await;
    system.run_out_timers().await.unwrap();
    let parent = end.task().calls().iter().next().unwrap();
    assert_eq!(
        (parent.status.as_str(), end.task().calls().open().count()),
        ("failed", 0),
        "no attempt is left"
    );
    assert_eq!((children(end.task())[0].status.as_str(), desk.canceled()), ("canceled", 1));
    assert_sound(&system);
}

#[tokio::test]
async fn a_retry_of_the_parent_is_given_the_recorded_answers_and_sends_nothing_twice() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::idempotent().retries(2)).await;
    let end = run(&system, leads(&["ok 5 one", "fail 5", "ok 5 two"], &["fail", "fail", "ok"])).await;
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let said = outputs(end.task());
    assert!(said.contains("answer to ok 5 one") && said.contains("PeerError: the desk broke"), "{said}");
    let parent = end.task().calls().iter().next().unwrap();
    assert_eq!((parent.attempts, desk.times(), ordinals(end.task())), (3, 3, vec![1, 2, 3]));
    assert_sound(&system);
}

#[tokio::test]
async fn an_attempt_that_asks_for_something_else_is_told_so_and_nothing_is_sent() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::read_only().retries(1)).await;
    let end = run(&system, leads(&["ok 5", "ok 5 {n}"], &["fail", "ok"])).await;
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let said = outputs(end.task());
    assert!(said.contains("RequestChanged: request 2 of the call"), "{said}");
    assert_eq!(desk.prompts(), ["ok 5", "ok 5 1"], "never a second paid call");
    assert_eq!(desk.times(), 2);
    assert_sound(&system);
}

async fn probe(_: ToolContext, _: crate::desk::Asks) -> Result<taskreel::tool::Verdict, ToolError> {
    Ok(Verdict::DidNotHappen)
}

fn modes() -> [(&'static str, ToolPolicy); 4] {
    let time = Duration::from_secs(60);
    [
        ("read-only", ToolPolicy::read_only().timeout(time)),
        ("idempotent", ToolPolicy::idempotent().timeout(time)),
        ("reconcile", ToolPolicy::reconcile(probe).timeout(time)),
        ("manual", ToolPolicy::manual().timeout(time)),
    ]
}

#[tokio::test]
async fn a_crash_between_the_answer_and_the_parents_outcome_never_asks_the_other_agent_twice() {
    for (mode, policy) in modes() {
        let desk = Desk::idempotent();
        let system = start(&desk, policy).await;
        let task = submit(&system, leads(&["ok 5 one"], &["hang", "ok"])).await;
        system.advance(Duration::from_secs(1)).await;
        let now = task.snapshot().await.unwrap();
        assert_eq!((children(now.task())[0].status.as_str(), desk.times()), ("succeeded", 1), "{mode}");
        let system = system.crash().await.unwrap();
        let task = system.task(task.id()).unwrap();
        let end = system.finish(&task).await.unwrap();
        let parent = end.task().calls().iter().next().unwrap();
        let expected =
            if mode == "manual" { (TaskState::InputRequired, 1) } else { (TaskState::Completed, 2) };
        assert_eq!((end.state(), parent.attempts), expected, "{mode}: {:?}", end.task().error());
        assert_eq!((desk.times(), ordinals(end.task())), (1, vec![1]), "{mode}");
        if mode != "manual" {
            assert!(outputs(end.task()).contains("answer to ok 5 one"), "{mode}: the recorded answer");
        }
        assert_sound(&system);
    }
}

#[tokio::test]
async fn a_crash_with_the_request_in_flight_follows_the_mode_of_the_peer_once_the_parent_runs_again() {
    for (peer, times, said) in
        [(ToolPolicy::idempotent(), 2, "completed"), (ToolPolicy::manual(), 1, "OutcomeUnknown")]
    {
        for (mode, policy) in modes() {
            let desk = Desk::with(peer.clone().timeout(Duration::from_secs(600)));
            let system = start(&desk, policy).await;
            let task = submit(&system, leads(&["ok 5000 one"], &["ok"])).await;
            system.advance(Duration::from_secs(1)).await;
            let system = system.crash().await.unwrap();
            let task = system.task(task.id()).unwrap();
            let end = system.finish(&task).await.unwrap();
            let (times, said) = if mode == "manual" { (1, "") } else { (times, said) };
            assert_eq!(desk.times(), times, "{mode}: {:?}", children(end.task())[0].status);
            assert!(outputs(end.task()).contains(said), "{mode}: {}", outputs(end.task()));
            assert_eq!((end.task().calls().open().count(), ordinals(end.task())), (0, vec![1]), "{mode}");
            assert_sound(&system);
        }
    }
}

#[tokio::test]
async fn a_parent_that_a_person_finds_not_to_have_happened_is_made_again_with_requests_of_its_own() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::manual()).await;
    let task = submit(&system, leads(&["ok 5"], &["hang"])).await;
    system.advance(Duration::from_secs(1)).await;
    let system = system.crash().await.unwrap();
    let task = system.task(task.id()).unwrap();
    let waits = system.finish(&task).await.unwrap();
    let parent = waits.task().calls().iter().next().unwrap().request.call_id.clone();
    task.reconcile(&parent, Verdict::DidNotHappen, "ada").await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(
        (ordinals(end.task()), desk.times()),
        (vec![1, 1], 2),
        "another call, with its own first request"
    );
    assert_sound(&system);
}

#[tokio::test]
async fn a_crash_after_each_append_leads_to_what_the_rules_say() {
    for (_, policy) in modes() {
        let desk = Desk::idempotent();
        let describe = describe(&desk, retries_if_repeated(policy), |builder| builder);
        let matrix = CrashMatrix::new(describe, |driver| async move {
            for part in
                [leads(&["ok 5 one", "fail 5", "ok 5 two"], &["ok"]), leads(&["ok 5"], &["fail", "ok"])]
            {
                let task = driver.submit(message(vec![part])).await?;
                driver.finish(&task).await?;
            }
            Ok(())
        });
        matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[tokio::test]
async fn a_restart_at_each_cut_sends_no_request_more_often_than_it_must() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::read_only()).await;
    let task = submit(&system, leads(&["ok 5 one", "ok 5 two"], &[])).await;
    system.finish(&task).await.unwrap();
    let cuts = appends(system.store().as_ref()).unwrap().len();
    for cut in 2..cuts {
        let before = desk.times();
        let again = system.cut_after(cut).await.unwrap();
        let task = again.task(task.id()).unwrap();
        let Ok(end) = again.finish(&task).await else { continue };
        assert_eq!(
            (end.state(), ordinals(end.task())),
            (TaskState::Completed, vec![1, 2]),
            "cut after {cut}"
        );
        let found = again.store().reopened().unwrap();
        let recorded = taskreel_log::audit::verify(&found);
        assert!(
            recorded.is_sound() && desk.times() - before <= 2,
            "cut after {cut}: {:#?}",
            recorded.findings
        );
    }
}

/// Returns a policy that retries errors where its mode allows it.
fn retries_if_repeated(policy: ToolPolicy) -> ToolPolicy {
    if policy.recovery().may_repeat() { policy.retries(1) } else { policy }
}
