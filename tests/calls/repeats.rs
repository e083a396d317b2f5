//! Commands that are sent again because their answer was lost: the same post, and the same command under the same
//! id, get the first answer, whatever their task has become since. Callers that give up, and whom the log names for a command.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::approvals_support::{Cents, Purse, pay};
use proto_events::envelope::{Basis, Principal};
use proto_events::id::Position;
use proto_events::model::{Message, PostedTask, TaskState};
use proto_events::task::{TaskCommand, TaskRejection};
use taskreel::tool::ToolContext;
use taskreel::{Error, Part, System, TaskHandle};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{IdSource, Ports, RandomIds};

/// A task as a client posts it: without ids of its message and call, without times.
const POSTED: &str = r#"{"id": "t", "messages": [{"role": "user", "parts": [
    {"type": "tool_call", "content": {"tool_name": "pay", "args": {"cents": 5}}}]}]}"#;

fn read(text: &str) -> PostedTask {
    PostedTask::parse(text, &mut Ports::default()).unwrap()
}

async fn started(purse: &Purse, store: &Arc<MemoryStore>) -> System {
    purse.system(store).approvals_by_person().start().await.unwrap()
}

/// Approves what the task waits for, and waits for its end.
async fn approve(task: &TaskHandle) {
    let waiting = task.approvals().await.unwrap().remove(0);
    task.approve(&waiting.request.approval_id, "ada").await.unwrap();
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
}

#[tokio::test]
async fn the_same_text_posted_again_is_the_same_post_before_and_after_a_person_a_crash_and_the_end() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = started(&purse, &store).await;
    let task = system.submit(read(POSTED)).await.unwrap();
    let waits = task.finished().await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    // The program ends here, and the client, which has no answer, posts its request again.
    let store = Arc::new(store.reopened().unwrap());
    let system = started(&purse, &store).await;
    for _ in 0..2 {
        let again = system.submit(read(POSTED)).await.unwrap();
        assert_eq!(again.finished().await.unwrap().version(), waits.version());
    }
    let task = system.task("t").unwrap();
    approve(&task).await;
    let end = task.snapshot().await.unwrap().version();
    assert_eq!(system.submit(read(POSTED)).await.unwrap().finished().await.unwrap().version(), end);
    assert_eq!(purse.spent(), [5], "nothing is paid twice");
    // The request printed anew, with the ids that the log gave: no other content.
    let stored = task.snapshot().await.unwrap();
    let first = stored.task().messages()[0].to_json();
    let printed = format!("{{\"id\":\"t\",\"messages\":[{first}]}}");
    assert_eq!(system.submit(read(&printed)).await.unwrap().finished().await.unwrap().version(), end);
    // The same id with other content is a conflict still.
    let other = POSTED.replace("\"cents\": 5", "\"cents\": 6");
    let refused = system.submit(read(&other)).await.unwrap_err();
    assert!(matches!(refused, Error::Task(TaskRejection::Differs { .. })), "{refused}");
    assert_eq!(purse.spent(), [5]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_longer_post_is_carried_out_once_however_often_its_text_comes() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = started(&purse, &store).await;
    let task = system.submit(read(POSTED)).await.unwrap();
    task.finished().await.unwrap();
    approve(&task).await;
    let json = task.snapshot().await.unwrap().to_json();
    // The client's history and one more message, which has no id.
    let more = json.as_str().replacen("\"artifacts\"", "\"more\": 0, \"artifacts\"", 1);
    let mut tree: proto_events::json::JsonValue = proto_events::json::JsonText::parse(&more).unwrap().tree();
    let added = proto_events::json::JsonText::parse(
        r#"{"role": "user", "parts": [{"type": "text", "content": "thanks"}]}"#,
    )
    .unwrap();
    if let proto_events::json::JsonValue::Object(fields) = &mut tree
        && let Some(proto_events::json::JsonValue::Array(messages)) = fields.get_mut("messages")
    {
        messages.push(added.tree());
    }
    let longer = proto_events::json::JsonText::from(tree);
    let count = |task: &taskreel::TaskSnapshot| task.task().messages().len();
    let before = count(&task.snapshot().await.unwrap());
    for _ in 0..3 {
        system.submit(read(longer.as_str())).await.unwrap();
    }
    assert_eq!(count(&task.snapshot().await.unwrap()), before + 1);
    // So it stays when the state is read from the log.
    let store = Arc::new(store.reopened().unwrap());
    let system = started(&purse, &store).await;
    system.submit(read(longer.as_str())).await.unwrap();
    let task = system.task("t").unwrap();
    assert_eq!(count(&task.snapshot().await.unwrap()), before + 1);
    assert_eq!(purse.spent(), [5]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_text_without_an_id_is_one_task_under_one_command_id_and_two_under_two() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = started(&purse, &store).await;
    let nameless = POSTED.replacen("\"id\": \"t\", ", "", 1);
    let first = system.submit_once("c1", read(&nameless)).await.unwrap();
    let version = first.finished().await.unwrap().version();
    for system in [&system, &started(&purse, &Arc::new(store.reopened().unwrap())).await] {
        let again = system.submit_once("c1", read(&nameless)).await.unwrap();
        assert_eq!(again.id(), first.id());
        assert_eq!(again.finished().await.unwrap().version(), version);
        let clash = system.submit_once("c1", read(&nameless.replace('5', "6"))).await;
        assert!(matches!(clash, Err(Error::CommandIdReused { .. })), "{clash:?}");
    }
    let second = system.submit_once("c2", read(&nameless)).await.unwrap();
    assert_ne!(second.id(), first.id());
    system.shutdown().await.unwrap();
}

/// Ids that come again on the thread of the test, on which those of its tasks are made, whenever it winds them back.
struct WoundBack {
    on: ThreadId,
    next: AtomicU64,
}

impl IdSource for WoundBack {
    fn random(&self) -> [u8; 16] {
        if std::thread::current().id() != self.on {
            return RandomIds.random();
        }
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
    }
}

/// Returns a tool that pays without approval, and notes what it has paid.
fn till(paid: Arc<Mutex<Vec<i64>>>) -> impl Fn(Cents) -> Ready<Result<i64, Infallible>> + Send + Sync {
    move |args: Cents| {
        paid.lock().unwrap().push(args.cents);
        ready(Ok(args.cents))
    }
}

#[tokio::test]
async fn tasks_that_get_the_same_id_by_chance_are_tasks_of_their_own() {
    const TASKS: i64 = 40;
    let ids = Arc::new(WoundBack { on: std::thread::current().id(), next: AtomicU64::new(0) });
    let spent = Arc::new(Mutex::new(Vec::new()));
    let tool = till(Arc::clone(&spent));
    let ports = Ports { ids: ids.clone(), ..Ports::default() };
    let store = Arc::new(MemoryStore::new());
    let system =
        System::builder("-").store(store).ports(ports).tool("pay", "Pays", tool).start().await.unwrap();
    let mut made = HashSet::new();
    for cents in 0..TASKS {
        // Each begins with the id of the one before, unless a second has begun in between.
        ids.next.store(u64::try_from(cents).unwrap() / 2 * 1_000, Ordering::SeqCst);
        let done = if cents % 4 < 2 {
            system.run_to_end(pay(cents)).await.unwrap()
        } else {
            system.submit(pay(cents)).await.unwrap().finished().await.unwrap()
        };
        assert_eq!(done.state(), TaskState::Completed);
        assert!(made.insert(done.task().id().to_owned()), "a task of its own");
    }
    assert_eq!(*spent.lock().unwrap(), (0..TASKS).collect::<Vec<_>>(), "each was paid, once");
    system.shutdown().await.unwrap();
}

/// Polls this for so long, with the other tasks of the runtime between; then its caller gives up.
async fn poll_and_drop<F: Future>(work: F, time: Duration) {
    let (mut work, begin) = (Box::pin(work), Instant::now());
    while futures_util::poll!(&mut work).is_pending() && begin.elapsed() < time {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_whose_caller_gives_up_at_any_point_goes_on_to_its_end_and_is_done_once() {
    const TASKS: i64 = 60;
    let spent = Arc::new(Mutex::new(Vec::new()));
    let tool = till(Arc::clone(&spent));
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("-").store(store).tool("pay", "Pays", tool).start().await.unwrap();
    for cents in 0..TASKS {
        // From right after the first poll to after the end.
        let (id, time) = (format!("t{cents}"), Duration::from_micros(u64::try_from(cents / 2).unwrap() * 30));
        let text = POSTED
            .replace("\"t\"", &format!("{id:?}"))
            .replace("\"cents\": 5", &format!("\"cents\": {cents}"));
        if cents % 2 == 0 {
            poll_and_drop(system.run_to_end(read(&text)), time).await;
        } else {
            poll_and_drop(system.try_run(read(&text)), time).await;
        }
        let end = system.task(&id).unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "given up after {time:?}");
    }
    assert_eq!(*spent.lock().unwrap(), (0..TASKS).collect::<Vec<_>>(), "each was paid, once");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn any_command_under_an_id_of_the_callers_own_is_carried_out_once() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = started(&purse, &store).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let sent = system.session("s").once("send").send(pay(7)).await.unwrap();
        sent.finished().await.unwrap();
        ids.push(sent.id().to_owned());
    }
    assert_eq!(ids.first(), ids.last());
    let other = system.session("s").once("send").send(pay(8)).await;
    assert!(matches!(other, Err(Error::CommandIdReused { .. })), "{other:?}");
    let elsewhere = system.session("other").once("send").send(pay(7)).await;
    assert!(matches!(elsewhere, Err(Error::CommandIdReused { .. })), "{elsewhere:?}");
    let task = system.task(ids.first().unwrap()).unwrap();
    let note = || {
        let mut message = Message::user("note", &mut Ports::default());
        message.id = Some("m".to_owned());
        message.timestamp = None;
        Box::new(message)
    };
    for _ in 0..2 {
        task.once("note").command(TaskCommand::AppendMessage(*note())).await.unwrap();
    }
    let messages = task
        .snapshot()
        .await
        .unwrap()
        .task()
        .messages()
        .iter()
        .filter(|m| m.id.as_deref() == Some("m"))
        .count();
    assert_eq!(messages, 1);
    let waiting = task.approvals().await.unwrap().remove(0).request.approval_id;
    for _ in 0..2 {
        task.once("yes").approve(&waiting, "ada").await.unwrap();
    }
    let end = task.finished().await.unwrap();
    assert_eq!((end.state(), purse.spent()), (TaskState::Completed, vec![7]));
    let clash = task.once("yes").deny(&waiting, None, "ada").await;
    assert!(matches!(clash, Err(Error::CommandIdReused { .. })), "{clash:?}");
    let open = system.once("open").submit(pay(9)).await.unwrap();
    open.finished().await.unwrap();
    // The id was for the submission; what the handle sends has ids of its own.
    open.command(TaskCommand::AppendMessage(*note())).await.unwrap();
    for _ in 0..2 {
        open.once("stop").cancel(Some("enough")).await.unwrap();
        assert_eq!(open.snapshot().await.unwrap().state(), TaskState::Canceled);
    }
    let reserved = open.once("~stop").cancel(None).await;
    assert!(matches!(reserved, Err(Error::ReservedCommandId { .. })), "{reserved:?}");
    assert!(matches!(open.once("").cancel(None).await, Err(Error::Id(_))));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_log_names_who_sent_each_command_and_how_the_name_is_known() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = started(&purse, &store).await;
    let eve = system.acting_as(Principal::authenticated("eve@example.com"));
    let task = eve.submit(read(POSTED)).await.unwrap();
    task.finished().await.unwrap();
    let approval = task.approvals().await.unwrap().remove(0).request.approval_id;
    // The host's own handle sends what a person decided, whose credential it has checked.
    let host = system.task("t").unwrap();
    host.approve(&approval, Principal::authenticated("ada@example.com")).await.unwrap();
    host.finished().await.unwrap();
    system.session("s").acting_as("bob").send(pay(1)).await.unwrap().finished().await.unwrap();
    let decided = host.snapshot().await.unwrap();
    let verdict = decided.task().approvals().get(&approval).unwrap().verdict().unwrap().clone();
    assert_eq!(verdict.decided_by, Principal::authenticated("ada@example.com"));
    let records = store.read_all(Position(1), usize::MAX).unwrap();
    let named: Vec<(String, Basis)> = records
        .iter()
        .map(|stored| &stored.record.metadata.principal)
        .filter(|principal| !principal.name.is_empty())
        .map(|principal| (principal.name.clone(), principal.basis))
        .collect();
    for wanted in [
        ("eve@example.com", Basis::Authenticated),
        ("ada@example.com", Basis::Authenticated),
        ("bob", Basis::Asserted),
    ] {
        assert!(named.contains(&(wanted.0.to_owned(), wanted.1)), "{wanted:?} is not in {named:?}");
    }
    system.shutdown().await.unwrap();
}

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn an_answer_and_a_refusal_under_one_id_are_given_once() {
    for declines in [false, true] {
        let store = Arc::new(MemoryStore::new());
        let asks = async |cx: ToolContext, _: Nothing| match cx.ask("Where?").await {
            Ok(place) => cx.ask(&format!("Where in {place}?")).await,
            Err(refused) => Err(refused),
        };
        let system =
            System::builder("-").store(store.clone()).tool("ask", "Asks", asks).start().await.unwrap();
        let part = Part::tool_call("ask", proto_events::json!({})).unwrap();
        let task = system.submit(part).await.unwrap();
        task.finished().await.unwrap();
        let call = task.questions().await.unwrap().remove(0).request.call_id;
        for _ in 0..2 {
            let once = task.once("told");
            if declines {
                once.decline(&call, "nowhere", "ada").await.unwrap();
            } else {
                once.answer(&call, "Oslo", "ada").await.unwrap();
            }
            task.finished().await.unwrap();
        }
        let answered = store.read_all(Position(1), usize::MAX).unwrap();
        let answered = answered.iter().filter(|stored| stored.record.metadata.command_id == "told").count();
        assert_eq!(answered, 1);
        let open = task.questions().await.unwrap();
        assert_eq!(open.len(), usize::from(!declines), "the answer is not taken for the next question's");
        let other = task.once("told").answer(&call, "Rome", "ada").await;
        assert!(matches!(other, Err(Error::CommandIdReused { .. })), "{other:?}");
        system.shutdown().await.unwrap();
    }
}
