//! A command whose outcome is in doubt: the error names the id under which it was sent, for every command, and the
//! same command under this id takes effect exactly once, whether the first one was written or not.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use proto_events::call::{CallEvent, VerdictBy};
use proto_events::codec::AnyEvent;
use proto_events::envelope::{Basis, Principal};
use proto_events::id::{Position, StreamId};
use proto_events::json;
use proto_events::model::PostedTask;
use proto_events::task::TaskEvent;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{
    Error, JsonObject, JsonSchema, JsonText, Message, Part, RunBudget, System, TaskCommand, TaskHandle,
    TaskState,
};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::for_each_record;
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};
use taskreel_log::views::event_rows;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The commands that are sent, each through every kind of handle that has it.
const COMMANDS: [&str; 16] = [
    "submit a part",
    "submit a message",
    "submit a task without an id",
    "submit a task",
    "send",
    "send live",
    "run",
    "cancel",
    "approve",
    "deny",
    "command",
    "reconcile",
    "abandon",
    "answer",
    "decline",
    "raise the budget",
];

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it hangs")
}

async fn start(store: FaultyStore) -> System {
    let pay = async |_: Nothing| Ok::<_, Infallible>("paid");
    let ask = async |cx: ToolContext, _: Nothing| cx.ask("where?").await;
    let lose = async |_: Nothing| Err::<(), _>(ToolError::lost("no answer"));
    System::builder("-")
        .store(Arc::new(store))
        .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money"]))
        .tool("lose", "Loses", lose)
        .tool("ask", "Asks", ask)
        .capability_policy(CapabilityPolicy::new().require_approval("money"))
        .approvals_by_person()
        .infer(Scripted::from_json(r#"{"": [{"type": "final", "content": "yes"}]}"#).unwrap())
        .start()
        .await
        .unwrap()
}

fn text(id: &str) -> PostedTask {
    let id = if id.is_empty() { String::new() } else { format!(r#""id":"{id}","#) };
    let task = r#""messages":[{"role":"user","parts":[{"type":"text","content":"hello"}]}]"#;
    PostedTask::parse(&format!("{{{id}{task}}}"), &mut Ports::default()).unwrap()
}

/// A task that was brought to the point at which the command can be sent to it.
struct Ready {
    task: TaskHandle,
    about: String,
    posted: PostedTask,
}

async fn ready(system: &System, command: &str) -> Ready {
    let (part, posted) = match command {
        "approve" | "deny" => (Part::tool_call("pay", json!({})).unwrap(), text("")),
        "reconcile" | "abandon" | "cancel" => (Part::tool_call("lose", json!({})).unwrap(), text("")),
        "answer" | "decline" => (Part::tool_call("ask", json!({})).unwrap(), text("")),
        "submit a task" => (Part::text("first"), text("named")),
        _ => (Part::text("first"), text("")),
    };
    let task = system.submit(part).await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    let approval = task.approvals().await.unwrap().first().map(|asked| asked.request.approval_id.clone());
    let call = end.task().calls().iter().next().map(|call| call.request.call_id.clone());
    Ready { task, about: approval.or(call).unwrap_or_default(), posted }
}

/// The person who decides, as a host says whose credential it has checked.
fn ada() -> Principal {
    Principal::authenticated("ada@example.com")
}

fn metadata() -> JsonObject {
    let mut fields = JsonObject::new();
    fields.set("k", JsonText::string("v"));
    fields
}

/// Sends the command through handles for one command of this id, if there is one; returns the task's id.
async fn send(system: &System, command: &str, id: Option<&str>, at: &Ready) -> Result<String, Error> {
    let system = id.map_or_else(|| system.clone(), |id| system.once(id));
    let task = id.map_or_else(|| at.task.clone(), |id| at.task.once(id));
    let message = || Message::user("hello", &mut Ports::default());
    let submitted = |handle: TaskHandle| handle.id().to_owned();
    let changed = |_| at.task.id().to_owned();
    match command {
        "submit a part" => system.submit(Part::text("hello")).await.map(submitted),
        "submit a message" => system.submit(message()).await.map(submitted),
        "submit a task without an id" | "submit a task" => {
            system.submit(at.posted.clone()).await.map(submitted)
        }
        "send" => system.session("s").send(Part::text("hello")).await.map(submitted),
        "send live" => {
            let sent = system.session("s").send_live(Part::text("hello")).await;
            sent.map(|run| run.task().id().to_owned())
        }
        "run" => system.session("s").run("hello").await.map(submitted),
        "raise the budget" => task.raise_budget(RunBudget::new().llm_calls(9), ada()).await.map(changed),
        "cancel" => task.cancel(Some("enough")).await.map(changed),
        "approve" => task.approve(&at.about, ada()).await.map(changed),
        "deny" => task.deny(&at.about, Some("no"), ada()).await.map(changed),
        "command" => task.command(TaskCommand::MergeMetadata(metadata())).await.map(changed),
        "reconcile" => {
            task.reconcile(&at.about, Verdict::Landed(JsonText::string("7")), ada()).await.map(changed)
        }
        "answer" => task.answer(&at.about, "Oslo", ada()).await.map(changed),
        "decline" => task.decline(&at.about, "nowhere", ada()).await.map(changed),
        "abandon" => task.abandon(&at.about, "never mind", ada()).await.map(changed),
        other => panic!("{other}"),
    }
}

fn records_of(reader: &dyn EventReader, command_id: &str) -> Vec<StreamId> {
    let all = reader.read_all(Position(1), usize::MAX).unwrap();
    let of_it = all.iter().filter(|stored| stored.record.metadata.command_id == command_id);
    of_it
        .map(|stored| stored.record.stream.clone())
        .filter(|stream| stream.as_str().starts_with("task-"))
        .collect()
}

#[tokio::test]
async fn the_error_of_every_command_in_doubt_names_the_id_under_which_it_is_sent_again() {
    for command in COMMANDS {
        for fault in [AppendFault::AfterWrite, AppendFault::TearGroup { landing: 0 }] {
            let faults = Faults::none();
            let system = start(FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone())).await;
            let at = ready(&system, command).await;
            faults.at_next_append(fault);
            let error = send(&system, command, None, &at).await.unwrap_err();
            let id = error.command_id().unwrap_or_else(|| panic!("{command}: {error:?}")).to_owned();
            assert!(error.to_string().contains(&id), "{command}: {error}");
            assert!(matches!(error, Error::InDoubt { .. }), "{command}: {error:?}");
            // The log takes nothing more now, and the error says it of the next command too.
            let refused = send(&system, command, Some("another"), &at).await.unwrap_err();
            assert_eq!(refused.command_id(), Some("another"), "{command}: {refused:?}");

            soon(system.reopen()).await.unwrap();
            let first = send(&system, command, Some(&id), &at).await.unwrap();
            let again = send(&system, command, Some(&id), &at).await.unwrap();
            assert_eq!(first, again, "{command}");
            let stream = StreamId::task("agent", &first).unwrap();
            let written = records_of(system.log().as_ref(), &id);
            assert!(!written.is_empty() && written.iter().all(|of| *of == stream), "{command}: {written:?}");
            let end = soon(system.task(&first).unwrap().finished()).await.unwrap();
            assert_ne!(end.state(), TaskState::Submitted, "{command}");
            let hellos = end.task().messages().len();
            assert!(
                command == "send" || !command.starts_with("submit") || hellos == 1,
                "{command}: {hellos}"
            );
            soon(system.shutdown()).await.unwrap();
        }
    }
}

/// Returns the principal that an event keeps beside its record's.
fn kept(event: AnyEvent) -> Option<Principal> {
    match event {
        AnyEvent::Task(TaskEvent::ApprovalDecided(decided)) => Some(decided.decided_by),
        AnyEvent::Task(TaskEvent::Call(CallEvent::Abandoned { by, .. })) => Some(by),
        AnyEvent::Task(TaskEvent::Call(CallEvent::Reconciled { by: VerdictBy::Operator(by), .. })) => {
            Some(by)
        }
        _ => None,
    }
}

#[tokio::test]
async fn every_command_of_a_checked_person_is_recorded_so_and_has_a_digest_only_under_an_id_of_the_callers() {
    // The host's own handle names nobody: the one who decides is who sent it.
    let decides =
        |command: &str| COMMANDS[7..].contains(&command) && !["cancel", "command"].contains(&command);
    let by_host = COMMANDS.into_iter().filter(|command| decides(command)).map(|command| (command, false));
    for (command, by_eve) in COMMANDS.map(|command| (command, true)).into_iter().chain(by_host) {
        let log = Arc::new(MemoryStore::new());
        let system = start(FaultyStore::new(log.clone(), Faults::none())).await;
        let at = ready(&system, command).await;
        let eve = system.acting_as(Principal::authenticated("eve@example.com"));
        let sender = if by_eve { eve } else { system.clone() };
        let at = Ready { task: sender.task(at.task.id()).unwrap(), ..at };
        let id = send(&sender, command, Some("mine"), &at).await.unwrap();
        soon(system.task(&id).unwrap().finished()).await.unwrap();
        let who = if by_eve { "eve@example.com" } else { "ada@example.com" };
        let (mut named, mut by_events) = (0, Vec::new());
        for_each_record(log.as_ref(), Position(1), |stored| {
            let metadata = &stored.record.metadata;
            let is_named = metadata.command_id == "mine";
            assert_eq!(metadata.command_digest.is_some(), is_named, "{command}: {metadata:?}");
            if is_named {
                named += 1;
                let principal = &metadata.principal;
                assert_eq!(
                    (principal.name.as_str(), principal.basis),
                    (who, Basis::Authenticated),
                    "{command}"
                );
                by_events.extend(event_rows(stored).into_iter().filter_map(|row| kept(row.event.ok()?)));
            }
            Ok::<_, taskreel_log::api::ReadError>(())
        })
        .unwrap();
        assert!(named > 0, "{command}");
        let keeps = ["approve", "deny", "reconcile", "abandon"].contains(&command);
        assert_eq!(by_events, vec![ada(); usize::from(keeps)], "{command}");
        soon(system.shutdown()).await.unwrap();
    }
}
