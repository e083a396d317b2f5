//! A task that is under way when its agent's definition changes follows the newest one, or waits for a person.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::host::{Host, assert_sound, call, held_by, message, restarted, under_way};
use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::task::AgentChange;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Operator, Part, TaskCommand, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::audit::{Explanation, explain};
use taskreel_log::views::{agent_change, changed_tools, unsettled, waiting_for};

#[tokio::test]
async fn under_a_changed_prompt_nothing_is_sent_before_a_person_approves_and_then_the_same_call_again() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    let approval = held_by(&system, &task).await;
    assert_eq!(system.ledger().executions().len(), 1, "only the attempt before the crash");
    system.approve(task.id(), &approval, "ada").await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!(
        (done.state(), done.task().runs(), done.task().calls().iter().count()),
        (TaskState::Completed, 1, 1)
    );
    let sent = system.ledger().executions();
    assert_eq!((sent.len(), sent[1].attempt), (2, 2));
    assert_eq!(sent[0].idempotency_key, sent[1].idempotency_key);
    let decided = done.task().approvals().get(&approval).unwrap().verdict().unwrap();
    assert_eq!((decided.approved, decided.decided_by.name.as_str()), (true, "ada"));
    assert_sound(&system);
}

#[tokio::test]
async fn an_agent_whose_tool_takes_less_is_changed() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("read")).await;
    host.is_narrow.store(true, Ordering::SeqCst);
    let (system, task) = restarted(&host, system, task.id()).await;
    let approval = held_by(&system, &task).await;
    task.approve(&approval, "ada").await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed);
    assert_sound(&system);
}

#[tokio::test]
async fn under_the_same_agent_a_task_goes_on_at_once() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    let (system, task) = restarted(&host, system, task.id()).await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), done.task().approvals().iter().count()), (TaskState::Completed, 0));
}

#[tokio::test]
async fn a_task_follows_a_changed_agent_where_the_host_says_so() {
    let host = Host::new();
    host.follows.store(true, Ordering::SeqCst);
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), done.task().approvals().iter().count()), (TaskState::Completed, 0));
}

#[tokio::test]
async fn a_person_who_denies_the_change_fails_the_task_and_a_cancel_ends_it() {
    for (tool, status) in [("idempotent", "canceled"), ("manual", "unknown")] {
        let host = Host::new();
        let (system, task) = under_way(&host, call(tool)).await;
        host.change();
        let (system, task) = restarted(&host, system, task.id()).await;
        let approval = held_by(&system, &task).await;
        task.deny(&approval, Some("too old"), "ada").await.unwrap();
        let done = system.finish(&task).await.unwrap();
        assert_eq!(done.state(), TaskState::Failed);
        let error = done.task().error().unwrap();
        assert!(
            error.contains("from revision 1 to revision 2")
                && error.ends_with("ada decided that it does not go on: too old"),
            "{error}"
        );
        assert_eq!(done.task().calls().iter().next().unwrap().status.as_str(), status);
        assert_eq!(system.ledger().executions().len(), 1);
        assert_sound(&system);
    }
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    held_by(&system, &task).await;
    task.cancel(Some("enough")).await.unwrap();
    let over = task.snapshot().await.unwrap();
    assert_eq!(over.state(), TaskState::Canceled);
    assert_eq!(over.task().calls().iter().next().unwrap().status, CallStatus::Canceled);
    assert_eq!(system.ledger().executions().len(), 1);
    assert_sound(&system);
}

#[tokio::test]
async fn a_task_is_asked_about_once_for_each_change_however_often_the_program_starts() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    let id = task.id().to_owned();
    host.change();
    let (system, task) = restarted(&host, system, &id).await;
    let first = held_by(&system, &task).await;
    let (system, task) = restarted(&host, system, &id).await;
    assert_eq!(held_by(&system, &task).await, first, "the same question after another restart");
    host.change();
    let (system, task) = restarted(&host, system, &id).await;
    let second = held_by(&system, &task).await;
    assert_ne!(second, first);
    let superseded = task.snapshot().await.unwrap();
    let superseded = superseded.task().approvals().get(&first).unwrap().verdict().unwrap();
    assert_eq!((superseded.approved, superseded.decided_by.name.as_str()), (false, "taskreel"));
    task.approve(&second, "ada").await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), done.task().approvals().iter().count()), (TaskState::Completed, 2));
    assert_sound(&system);
}

#[tokio::test]
async fn a_question_is_withdrawn_when_the_agent_is_again_what_it_was_or_changes_are_followed() {
    for follows in [false, true] {
        let host = Host::new();
        let (system, task) = under_way(&host, call("idempotent")).await;
        host.change();
        let (system, task) = restarted(&host, system, task.id()).await;
        held_by(&system, &task).await;
        if follows {
            host.follows.store(true, Ordering::SeqCst);
        } else {
            host.prompt.store(0, Ordering::SeqCst);
        }
        let (system, task) = restarted(&host, system, task.id()).await;
        let done = system.finish(&task).await.unwrap();
        assert_eq!(done.state(), TaskState::Completed);
        let decided = done.task().approvals().iter().next().unwrap().verdict().unwrap();
        assert_eq!((decided.approved, decided.decided_by.name.as_str()), (true, "taskreel"));
        assert_sound(&system);
    }
}

#[tokio::test]
async fn an_approval_in_a_log_that_no_system_has_open_holds_for_that_change_alone() {
    for changes_again in [false, true] {
        let host = Host::new();
        let (system, task) = under_way(&host, call("idempotent")).await;
        host.change();
        let (system, task) = restarted(&host, system, task.id()).await;
        let approval = held_by(&system, &task).await;
        let store: Arc<dyn EventStore> = Arc::new(system.store().reopened().unwrap());
        let operator = Operator::new(Arc::clone(&store));
        let decided = operator.approve(task.stream(), &approval, "ada").await.unwrap();
        assert_eq!((decided.is_new, decided.task.state()), (true, TaskState::Working));
        if changes_again {
            host.change();
        }
        let builder = taskreel::System::builder("in memory").store(store);
        let next = host.describe(builder).start().await.unwrap();
        let rested = next.task(task.id()).unwrap().finished().await.unwrap();
        assert_eq!(rested.task().is_held(), changes_again);
        assert_eq!(rested.state() == TaskState::Completed, !changes_again);
        next.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_denial_in_a_log_that_no_system_has_open_stands_whatever_the_agent_is_then() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    let approval = held_by(&system, &task).await;
    let store: Arc<dyn EventStore> = Arc::new(system.store().reopened().unwrap());
    Operator::new(Arc::clone(&store)).deny(task.stream(), &approval, None, "ada").await.unwrap();
    host.change();
    let next = host.describe(taskreel::System::builder("in memory").store(store)).start().await.unwrap();
    let rested = next.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!((rested.state(), rested.task().is_held()), (TaskState::Failed, false));
    next.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_callers_add_to_a_task_before_or_after_it_waits_does_not_let_it_go_on() {
    let host = Host::new();
    let (system, task) = under_way(&host, Part::infer("go")).await;
    let id = task.id().to_owned();
    host.change();
    let (system, task) = restarted(&host, system, &id).await;
    task.command(TaskCommand::AppendMessage(message(vec![Part::text("and?")]))).await.unwrap();
    let approval = held_by(&system, &task).await;
    let (system, task) = restarted(&host, system, &id).await;
    assert_eq!(held_by(&system, &task).await, approval);
    assert_eq!(host.requests(), 1, "no inference is sent");
    assert_sound(&system);
}

#[tokio::test]
async fn a_message_under_the_changed_agent_is_no_sign_that_the_run_went_on() {
    let host = Host::new();
    let (system, first) = under_way(&host, Part::infer("one")).await;
    let session = first.id().to_owned();
    let second = system.session(&session).send(Part::infer("two")).await.unwrap();
    system.until_idle().await;
    // The second task waits for the turn; nothing of it is written under the changed agent but the message.
    host.follows.store(true, Ordering::SeqCst);
    host.change();
    let system = system.crash().await.unwrap();
    let second = system.task(second.id()).unwrap();
    second.command(TaskCommand::AppendMessage(message(vec![Part::text("and?")]))).await.unwrap();
    system.until_idle().await;
    host.follows.store(false, Ordering::SeqCst);
    let (system, second) = restarted(&host, system, second.id()).await;
    held_by(&system, &second).await;
    let first = system.finish(&system.task(&session).unwrap()).await.unwrap();
    assert_eq!(first.state(), TaskState::Completed, "it went on under the changed agent before");
    assert_sound(&system);
}

#[tokio::test]
async fn an_inference_goes_on_in_its_turn_and_the_conversations_next_task_after_it() {
    let host = Host::new();
    let own = Arc::clone(&host);
    let system = taskreel::testing::system(move |builder| own.describe(builder)).await.unwrap();
    let first = system.session("chat").send(Part::infer("one")).await.unwrap();
    system.until_idle().await;
    host.change();
    let (system, first) = restarted(&host, system, first.id()).await;
    let approval = held_by(&system, &first).await;
    let second = system.session("chat").send(Part::infer("two")).await.unwrap();
    system.until_idle().await;
    assert_eq!(host.requests(), 1, "the second task waits for the turn");
    first.approve(&approval, "ada").await.unwrap();
    for task in [&first, &second] {
        assert_eq!(system.finish(task).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(system.session("chat").history().await.unwrap().len(), 5);
    taskreel::testing::assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn whatever_the_cut_nothing_is_sent_before_the_approval_and_each_call_takes_effect_once() {
    let host = Host::new();
    host.let_go();
    let own = Arc::clone(&host);
    let system = taskreel::testing::system(move |builder| own.describe(builder)).await.unwrap();
    let parts = vec![call("manual"), call("idempotent"), Part::infer("go"), call("read")];
    let task = system.submit(message(parts)).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed);
    host.change();
    let appends = taskreel::testing::appends(system.store().as_ref()).unwrap().len();
    let mut held = 0;
    for cut in 2..=appends {
        let again = system.cut_after(cut).await.unwrap();
        let task = again.task(task.id()).unwrap();
        let Ok(rested) = again.finish(&task).await else { continue };
        if rested.state() == TaskState::Completed {
            continue;
        }
        held += 1;
        let approval = held_by(&again, &task).await;
        assert_eq!(again.ledger().executions().len(), 0, "cut after {cut}");
        task.approve(&approval, "ada").await.unwrap();
        let end = again.finish(&task).await.unwrap();
        let unknown = end.task().calls().iter().any(|call| matches!(call.status, CallStatus::Unknown(_)));
        let ends = if unknown { TaskState::InputRequired } else { TaskState::Completed };
        assert_eq!(end.state(), ends, "cut after {cut}");
        let mut once = std::collections::BTreeSet::new();
        assert!(
            again.ledger().executions().iter().all(|sent| once.insert(sent.call_id.clone())),
            "cut after {cut}"
        );
        assert_sound(&again);
    }
    assert!(held >= 4, "{held}");
}

#[tokio::test]
async fn a_task_that_its_host_stopped_meanwhile_is_not_begun_by_the_approval() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    let approval = held_by(&system, &task).await;
    task.command(TaskCommand::RequireInput(None)).await.unwrap();
    task.approve(&approval, "ada").await.unwrap();
    let rested = system.finish(&task).await.unwrap();
    assert_eq!((rested.state(), rested.task().runs()), (TaskState::InputRequired, 1));
    assert_eq!(system.ledger().executions().len(), 1);
    assert_sound(&system);
}

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Numbers {
    #[expect(dead_code, reason = "the arguments alone count")]
    from: u32,
    #[expect(dead_code, reason = "the arguments alone count")]
    to: u32,
}

/// The tool has the agent's name, and its arguments are those of the question about the agent.
#[tokio::test]
async fn the_approval_of_a_change_is_no_approval_of_a_call_that_looks_like_it() {
    let host = Host::new();
    let own = Arc::clone(&host);
    let system = taskreel::testing::system(move |builder| {
        own.describe(builder)
            .tool_with(
                "agent",
                "Pays",
                |_: Numbers| async { Ok::<_, ToolError>("paid") },
                ToolPolicy::manual().capabilities(["money"]),
            )
            .capability_policy(CapabilityPolicy::new().require_approval("money"))
            .approval_handler(|_: ApprovalRequest| std::future::pending::<ApprovalVerdict>())
            .approval_timeout(Duration::from_secs(1_000_000))
    });
    let system = system.await.unwrap();
    let pays = Part::tool_call("agent", json!({"from": 1, "to": 2})).unwrap();
    let task = system.submit(pays).await.unwrap();
    system.until_idle().await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    let rested = task.finished().await.unwrap();
    let (approval, _) = rested.task().changed_agent().unwrap();
    task.approve(&approval.request.approval_id, "ada").await.unwrap();
    system.until_idle().await;
    assert_eq!(system.ledger().executions().len(), 0, "the handler has not decided about the call");
    assert_eq!(task.snapshot().await.unwrap().task().awaited_approvals().count(), 1);
}

#[tokio::test]
async fn readers_say_what_a_held_task_waits_for_and_which_command_ends_the_wait() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.is_narrow.store(true, Ordering::SeqCst);
    let (system, task) = restarted(&host, system, task.id()).await;
    let approval = held_by(&system, &task).await;
    let (store, snapshot) = (system.store().as_ref(), task.snapshot().await.unwrap());
    let rows = unsettled(store, None, proto_events::envelope::Timestamp::default()).unwrap().rows;
    let asked = rows.iter().find(|row| row.kind == "agent").unwrap();
    assert!(asked.waits_for.contains("from revision 1 to revision 2"), "{}", asked.waits_for);
    assert_eq!(asked.commands()[0], format!("approve {} {approval}", task.stream()));
    let open = rows.iter().find(|row| row.kind == "tool").unwrap();
    assert!(open.next_step.as_ref().unwrap().starts_with("nothing before a person decides"));
    assert!(waiting_for(snapshot.task()).unwrap().starts_with("a person"));
    let Explanation::Task { calls, .. } =
        explain(store, task.stream(), snapshot.version()).unwrap().explanation
    else {
        panic!("a task")
    };
    assert!(calls[0].events.is_empty() && calls[0].words.contains(&approval), "{}", calls[0].words);
    let change = Some(AgentChange { from: 1, to: 2 });
    assert_eq!(agent_change(store, task.stream(), 2).unwrap(), change);
    assert_eq!(agent_change(store, task.stream(), 1).unwrap(), None, "the run went on in epoch 1 itself");
    let changed = changed_tools(store).unwrap().rows;
    assert!(changed[0].is_held, "{changed:?}");
}
