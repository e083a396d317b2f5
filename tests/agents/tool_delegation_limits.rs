//! Requests of a tool to other agents at their limits: approvals at an awkward moment, the number of open
//! calls, secret values, and the words for readers and subscribers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::desk::{Desk, assert_sound, children, lead, leads, message, ordinals, outputs};
use proto_events::call::CallKind;
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::Scripted;
use taskreel::testing::{TestSystem, sleep, system};
use taskreel::tool::{AgentWork, ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{BoxFuture, Builder, JsonSchema, Part, TaskCommand, TaskState};
use taskreel_log::audit::{Explanation, explain};
use taskreel_log::views::unsettled;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn asked(builder: Builder) -> Builder {
    builder.capability_policy(CapabilityPolicy::new().require_approval("agent.*"))
}

async fn slow_approver(_: ApprovalRequest) -> ApprovalVerdict {
    sleep(Duration::from_millis(50)).await;
    ApprovalVerdict::Approved
}

/// Returns an approver that never answers its first request, and approves all others.
fn silent_at_first()
-> impl Fn(ApprovalRequest) -> BoxFuture<'static, ApprovalVerdict> + Clone + Send + Sync + 'static {
    let asked_before = Arc::new(AtomicBool::new(false));
    move |_| {
        let first = !asked_before.swap(true, Ordering::SeqCst);
        Box::pin(async move {
            if first {
                std::future::pending::<()>().await;
            }
            ApprovalVerdict::Approved
        })
    }
}

fn parts(tool: &str, count: usize) -> Vec<Part> {
    (0..count).map(|_| Part::tool_call(tool, json!({})).unwrap()).collect()
}

/// Runs these parts on an agent beside the desk, and returns it with the task's end.
async fn run(
    desk: &Desk,
    parts: Vec<Part>,
    describe: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> (TestSystem, taskreel::TaskSnapshot) {
    let peer = desk.clone();
    let system = system(move |builder: Builder| describe(builder.peer(peer.clone()))).await.unwrap();
    let task = system.submit(message(parts)).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_sound(&system);
    (system, end)
}

#[tokio::test]
async fn an_approval_that_is_given_before_the_attempt_has_ended_is_used_in_the_same_run() {
    let desk = Desk::idempotent();
    let tardy = |cx: ToolContext, _: Nothing| async move {
        match cx.delegate("desk", "ok 5").await {
            Ok(answer) => Ok(answer.result.as_str().to_owned()),
            Err(error) => {
                sleep(Duration::from_secs(1)).await;
                Err(error)
            }
        }
    };
    let peer = desk.clone();
    let describe = move |builder: Builder| {
        asked(builder).approvals_by_person().tool("tardy", "Is tardy", tardy).peer(peer.clone())
    };
    let system = system(describe).await.unwrap();
    let task = system.submit(message(parts("tardy", 1))).await.unwrap();
    system.advance(Duration::from_millis(100)).await;
    let approval = task.approvals().await.unwrap()[0].request.approval_id.clone();
    task.approve(&approval, "ada").await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), end.task().runs(), desk.times()), (TaskState::Completed, 1, 1));
    assert!(outputs(end.task()).contains("answer to ok 5"));
    assert_sound(&system);
}

#[tokio::test]
async fn the_approval_handler_is_asked_about_one_request_at_a_time() {
    let desk = Desk::idempotent();
    let one = |cx: ToolContext, _: Nothing| async move {
        Ok::<_, ToolError>(cx.delegate("desk", "ok 5").await?.result.as_str().to_owned())
    };
    let policy = ToolPolicy::read_only().parallel();
    let (_system, end) = run(&desk, parts("one", 3), move |builder| {
        asked(builder).approval_handler(slow_approver).tool_with("one", "Asks", one, policy.clone())
    })
    .await;
    assert_eq!((end.state(), ordinals(end.task()), desk.times()), (TaskState::Completed, vec![1, 1, 1], 3));
}

#[tokio::test]
async fn a_request_that_is_given_up_while_it_waits_for_approval_keeps_its_place() {
    let desk = Desk::idempotent();
    let hasty = |cx: ToolContext, _: Nothing| async move {
        tokio::select! {
            _ = cx.delegate("desk", "ok 5 first") => {}
            () = sleep(Duration::from_millis(10)) => {}
        }
        Ok::<_, ToolError>(cx.delegate("desk", "ok 5 second").await?.result.as_str().to_owned())
    };
    let (_system, end) = run(&desk, parts("hasty", 1), move |builder| {
        asked(builder).approval_handler(slow_approver).tool("hasty", "Is hasty", hasty)
    })
    .await;
    assert!(outputs(end.task()).contains("answer to ok 5 second"), "{:?}", end.task().error());
    assert_eq!(ordinals(end.task()), [1, 2]);
}

#[tokio::test]
async fn no_more_calls_are_open_at_once_than_one_record_can_close() {
    let desk = Desk::idempotent();
    let many = |cx: ToolContext, _: Nothing| async move {
        let mut all = tokio::task::JoinSet::new();
        for number in 0..taskreel::limits::PARALLEL_CALLS_MAX + 20 {
            let cx = cx.clone();
            all.spawn(async move { cx.delegate("desk", format!("ok 50 {number}")).await.is_ok() });
        }
        let made = all.join_all().await;
        Ok::<_, ToolError>(format!("{} of {}", made.iter().filter(|made| **made).count(), made.len()))
    };
    let peer = desk.clone();
    let describe = move |builder: Builder| builder.tool("many", "Asks often", many).peer(peer.clone());
    let system = system(describe).await.unwrap();
    let task = system.submit(message(parts("many", 1))).await.unwrap();
    system.advance(Duration::from_millis(20)).await;
    let now = task.snapshot().await.unwrap();
    let open = now.task().calls().open().filter(|call| call.request.origin.parent.is_some());
    assert_eq!(open.count(), taskreel::limits::PARALLEL_CALLS_MAX, "beside the call that asks");
    let end = system.finish(&task).await.unwrap();
    assert!(outputs(end.task()).contains("148 of 148"), "{}", outputs(end.task()));
    assert_sound(&system);
}

#[tokio::test]
async fn a_request_repeats_no_secret_value_of_its_call() {
    #[derive(Deserialize, JsonSchema)]
    struct Login {
        password: String,
    }
    let desk = Desk::idempotent();
    let leaks = |cx: ToolContext, login: Login| async move {
        Ok::<_, ToolError>(
            cx.delegate("desk", format!("ok 5 {}", login.password)).await?.result.as_str().to_owned(),
        )
    };
    let policy = ToolPolicy::manual().secret_args(["password"]);
    let part = Part::tool_call("leaks", json!({"password": "hunter2000"})).unwrap();
    let (system, end) =
        run(&desk, vec![part], move |builder| builder.tool_with("leaks", "Leaks", leaks, policy.clone()))
            .await;
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let prompts = desk.prompts();
    assert!(prompts[0].starts_with("ok 5") && !prompts[0].contains("hunter2000"), "{prompts:?}");
    let intent = children(end.task())[0].request.args.as_str();
    assert!(!intent.contains("hunter2000"), "{intent}");
    drop(system);
}

#[tokio::test]
async fn readers_are_told_which_call_asked_and_that_its_request_waits_for_it() {
    let desk = Desk::idempotent();
    let peer = desk.clone();
    let describe = move |builder: Builder| {
        builder.tool_with("lead", "Leads", lead, ToolPolicy::read_only()).peer(peer.clone())
    };
    let system = system(describe).await.unwrap();
    let task = system.submit(message(vec![leads(&["ok 60000"], &[])])).await.unwrap();
    system.advance(Duration::from_secs(1)).await;
    let now = task.snapshot().await.unwrap();
    let parent = now.task().calls().iter().next().unwrap().request.call_id.clone();
    let waits = format!("it waits for the next attempt of {parent}, which asked for it");
    let found = explain(system.store().as_ref(), task.stream(), now.version()).unwrap();
    let Explanation::Task { calls, .. } = found.explanation else { panic!("a task") };
    assert!(calls[0].words.contains("it is sent again as attempt 2"), "{}", calls[0].words);
    assert!(calls[1].words.starts_with(&waits) && calls[1].events.is_empty(), "{}", calls[1].words);
    let rows = unsettled(system.store().as_ref(), Some(task.stream()), taskreel::Timestamp(0)).unwrap().rows;
    let row = rows.iter().find(|row| row.kind == "delegate").unwrap();
    assert!(row.next_step.as_deref().unwrap().starts_with(&waits), "{row:?}");
    let name = taskreel_log::audit::words::call_name(&children(now.task())[0].request);
    assert_eq!(name, format!("delegate desk (request 1 of {parent})"));
    task.cancel(None).await.unwrap();
}

#[tokio::test]
async fn what_recovery_does_with_a_parent_is_told_by_its_own_event() {
    let desk = Desk::idempotent();
    let peer = desk.clone();
    let system =
        system(move |builder: Builder| builder.tool("lead", "Leads", lead).peer(peer.clone())).await.unwrap();
    let task = system.submit(message(vec![leads(&["ok 60000"], &[])])).await.unwrap();
    system.advance(Duration::from_secs(1)).await;
    let now = task.snapshot().await.unwrap();
    let found = explain(system.store().as_ref(), task.stream(), now.version()).unwrap();
    let Explanation::Task { calls, .. } = found.explanation else { panic!("a task") };
    assert!(calls[0].words.contains("its outcome is unknown"), "{}", calls[0].words);
    assert_eq!(calls[0].events.len(), 2, "the request is closed with it");
    let rows = unsettled(system.store().as_ref(), Some(task.stream()), taskreel::Timestamp(0)).unwrap().rows;
    let row = rows.iter().find(|row| row.kind == "tool").unwrap();
    assert!(row.next_step.as_deref().unwrap().contains("its outcome is unknown"), "{row:?}");
    task.cancel(None).await.unwrap();
}

#[tokio::test]
async fn a_subscriber_of_the_task_stream_is_not_told_of_a_tools_own_requests() {
    const SCRIPT: &str = r#"{"": [{"type": "tool_call", "tool": "lead", "args": {"prompts": ["ok 5"], "ends": []}},
        {"type": "final", "content": "done"}]}"#;
    let desk = Desk::idempotent();
    let (system, end) = run(&desk, vec![Part::infer("go")], |builder| {
        builder.tool("lead", "Leads", lead).infer(Scripted::from_json(SCRIPT).unwrap())
    })
    .await;
    assert_eq!(end.task().calls().iter().filter(|call| call.request.kind == CallKind::Delegate).count(), 1);
    let mut events = system.task(end.task().id()).unwrap().events().await.unwrap();
    let mut told = String::new();
    while let Some(event) = events.next().await {
        told.push_str(event.unwrap().to_json().as_str());
    }
    assert!(told.contains("tool_result") && !told.contains("agent_call"), "{told}");
}

#[tokio::test]
async fn a_run_that_ended_while_the_approval_handler_was_asked_does_not_keep_the_next_one_waiting() {
    let desk = Desk::idempotent();
    let approver = silent_at_first();
    let policy = ToolPolicy::manual().timeout(Duration::from_secs(1));
    let (system, waits) = run(&desk, vec![leads(&["ok 5"], &[])], move |builder| {
        asked(builder).approval_handler(approver.clone()).tool_with("lead", "Leads", lead, policy.clone())
    })
    .await;
    assert_eq!(waits.state(), TaskState::InputRequired, "its outcome is unknown");
    let parent = waits.task().calls().iter().next().unwrap().request.call_id.clone();
    let task = system.task(waits.task().id()).unwrap();
    task.reconcile(&parent, Verdict::DidNotHappen, "ada").await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), desk.times()), (TaskState::Completed, 1), "{}", outputs(end.task()));
    assert_sound(&system);
}

#[tokio::test]
async fn an_approval_of_a_request_that_was_given_up_does_not_keep_later_ones_of_the_run_waiting() {
    let desk = Desk::idempotent();
    let hasty = |cx: ToolContext, _: Nothing| async move {
        tokio::select! {
            _ = cx.delegate("desk", "ok 5 first") => {}
            () = sleep(Duration::from_millis(10)) => {}
        }
        Ok::<_, ToolError>("gave up")
    };
    let asks = |cx: ToolContext, _: Nothing| async move {
        Ok::<_, ToolError>(cx.delegate("desk", "ok 5 second").await?.result.as_str().to_owned())
    };
    let pays = |_: Nothing| async { Ok::<_, ToolError>("paid") };
    let approver = silent_at_first();
    let all = ["hasty", "pays", "asks"].map(|tool| Part::tool_call(tool, json!({})).unwrap());
    let (system, end) = run(&desk, all.to_vec(), move |builder| {
        let policy = CapabilityPolicy::new().require_approval("agent.*").require_approval("money");
        let builder = builder.capability_policy(policy).approval_handler(approver.clone());
        let builder = builder.tool_with("pays", "Pays", pays, ToolPolicy::manual().capabilities(["money"]));
        builder.tool("hasty", "Is hasty", hasty).tool("asks", "Asks", asks)
    })
    .await;
    assert_eq!((end.state(), desk.times()), (TaskState::Completed, 1), "{}", outputs(end.task()));
    assert_sound(&system);
}

#[tokio::test]
async fn arguments_that_say_nothing_are_the_empty_object_and_others_that_are_none_are_refused() {
    const NOTHING: [&str; 6] = ["null", "[]", "\"\"", "0", "false", "{}"];
    async fn works(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
        let mut said = Vec::new();
        for args in NOTHING.into_iter().chain(["[1]", "7", "\"text\"", "true"]) {
            let work = AgentWork::tool_call("look", JsonText::parse(args).unwrap());
            match cx.delegate("desk", work).await {
                Ok(answer) => said.push(answer.state.to_string()),
                Err(error) if error.type_name() == "WaitsForApproval" => return Err(error),
                Err(error) => said.push(format!("{args}: {}", error.type_name())),
            }
        }
        Ok(said.join(", "))
    }
    let desk = Desk::idempotent();
    let peer = desk.clone();
    let describe = move |builder: Builder| {
        asked(builder).approvals_by_person().tool("works", "Works", works).peer(peer.clone())
    };
    let system = system(describe).await.unwrap();
    let task = system.submit(message(vec![Part::tool_call("works", json!({})).unwrap()])).await.unwrap();
    for _ in NOTHING {
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
        let approval = task.approvals().await.unwrap()[0].request.approval_id.clone();
        task.approve(&approval, "ada").await.unwrap();
    }
    let end = system.finish(&task).await.unwrap();
    let said = outputs(end.task());
    let refused = ["[1]", "7", "\\\"text\\\"", "true"].map(|args| format!("{args}: InvalidArguments"));
    assert!(refused.iter().all(|refused| said.contains(refused)), "{said}");
    assert_eq!((said.matches("completed").count(), desk.times()), (6, 6), "{said}");
    assert_sound(&system);
}

#[tokio::test]
async fn a_request_between_two_attempts_when_its_call_asks_a_person_is_taken_up_by_the_next_attempt() {
    let desk = Desk::idempotent();
    let (peer, sent) = (desk.clone(), Arc::new(AtomicUsize::new(1)));
    let wanted = Arc::clone(&sent);
    let describe = move |builder: Builder| {
        let (seen, wanted) = (peer.clone(), Arc::clone(&wanted));
        let beside = move |cx: ToolContext, _: Nothing| {
            let (seen, wanted) = (seen.clone(), wanted.load(Ordering::SeqCst));
            async move {
                let mut slow = Box::pin(cx.delegate("desk", "again 500 slow"));
                let sent = async {
                    while seen.times() < wanted {
                        sleep(Duration::from_millis(1)).await;
                    }
                };
                // The request is under way before the person is asked, and is lost while the person thinks.
                tokio::select! { biased; _ = &mut slow => {}, () = sent => {} }
                let place = cx.ask("Where?").await?;
                Ok::<_, ToolError>(format!("{} in {place}", slow.await?.result))
            }
        };
        builder.tool("beside", "Asks", beside).peer(peer.clone())
    };
    let system = system(describe).await.unwrap();
    for (number, wait) in [(1, 0), (3, 3)] {
        sent.store(number, Ordering::SeqCst);
        let task = system.submit(message(vec![Part::tool_call("beside", json!({})).unwrap()])).await.unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
        system.advance(Duration::from_secs(wait)).await;
        let call = task.questions().await.unwrap()[0].request.call_id.clone();
        task.answer(&call, "Oslo", "ada").await.unwrap();
        let end = system.finish(&task).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
        assert!(
            outputs(end.task()).contains("answer to again 500 slow\\\" in Oslo"),
            "{}",
            outputs(end.task())
        );
        assert_eq!((desk.times(), ordinals(end.task())), (number + 1, vec![1]));
    }
    // Work in place of the answer gives the question up, and the request with it.
    sent.store(5, Ordering::SeqCst);
    let task = system.submit(message(vec![Part::tool_call("beside", json!({})).unwrap()])).await.unwrap();
    system.finish(&task).await.unwrap();
    let more = message(vec![Part::text("never mind"), Part::tool_call("gone", json!({})).unwrap()]);
    task.command(TaskCommand::AppendMessage(more)).await.unwrap();
    task.command(TaskCommand::Begin).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert!(end.task().calls().open().next().is_none(), "nothing is left open");
    assert_sound(&system);
}
