//! The child of the kill test: a system under load that reports every acknowledgement until it is killed. Its
//! tools write to ledgers that are independent of the log.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use proto_events::id::{Digest, Mint, Position};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::{TaskCommand, TaskRejection};
use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, System};
use taskreel_log::read::Delivery;

use crate::dice::Dice;

/// The agent that both processes run.
pub(crate) const AGENT: &str = "shop";
/// The log's directory, below the round's folder.
pub(crate) const LOG: &str = "log";
/// The ledger with a line for each time that `pay` took effect.
pub(crate) const PAID: &str = "paid.ledger";
/// The ledger with a line for each time that `reserve` took effect.
pub(crate) const RESERVED: &str = "reserved.ledger";

/// The number of tasks worked on at the same time.
const WORKERS: u64 = 24;
/// The number of conversations shared by tasks.
const TABLES: u64 = 3;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Number of the order.
    n: u64,
}

/// A file outside the log. Each line is one write at its end, so that it is complete or absent.
#[derive(Clone)]
struct Ledger(Arc<File>);

impl Ledger {
    fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(Arc::new(file.unwrap()))
    }

    fn note(&self, line: &str) {
        (&*self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Yields for a while, so that a kill finds tools before, in and after their effect.
async fn dawdle(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Returns the system that runs in the child, and that recovers in the parent.
pub(crate) fn system(base: &Path) -> Builder {
    let (paid, reserved) = (Ledger::open(&base.join(PAID)), Ledger::open(&base.join(RESERVED)));
    let pay = move |cx: ToolContext, order: Order| {
        let paid = paid.clone();
        async move {
            dawdle(order.n % 50).await;
            paid.note(&format!("{} {}", cx.task_id(), cx.call_id()));
            dawdle(order.n % 70).await;
            Ok::<_, String>(order.n)
        }
    };
    let reserve = move |cx: ToolContext, order: Order| {
        let reserved = reserved.clone();
        async move {
            let (task, call, attempt) = (cx.task_id(), cx.call_id(), cx.attempt());
            reserved.note(&format!("{task} {call} {attempt} {}", cx.idempotency_key()));
            dawdle(order.n % 70).await;
            Ok::<_, String>(order.n)
        }
    };
    let look = async move |order: Order| {
        dawdle(order.n % 30).await;
        Ok::<_, String>(order.n)
    };
    System::builder(base.join(LOG))
        .name(AGENT)
        .tool("pay", "Pays: must not happen twice", pay)
        .tool_with("look", "Looks: changes nothing", look, ToolPolicy::read_only())
        .tool_with("reserve", "Reserves: honours its key", reserve, ToolPolicy::idempotent())
        .infer(model())
}

fn model() -> Scripted {
    let call =
        |tool: &str, n: u64| Entry::json(&json!({"type": "tool_call", "tool": tool, "args": {"n": n}}));
    let done = Entry::json(&json!({"type": "final", "content": "done"}));
    Scripted::by_prompt([
        ("buy".to_owned(), vec![call("look", 7), call("pay", 40), call("reserve", 9), done.clone()]),
        ("just pay".to_owned(), vec![call("pay", 60), done.clone()]),
        (String::new(), vec![done]),
    ])
}

/// Returns the task of an id: the same id always gives the same task.
pub(crate) fn posted(id: &str) -> PostedTask {
    let digest = Digest::compute(id.as_bytes()).0;
    let mut dice = Dice::new(u64::from_be_bytes(*digest.first_chunk().unwrap()));
    let n = dice.below(1_000);
    let call = |tool: &str, at: u32| {
        let args = JsonText::from(json!({ "n": n }));
        Part::tool_call_of(tool, args, Some(&format!("tool_call_{id}_{at}")))
    };
    let mut metadata = JsonObject::new();
    let parts = match dice.below(8) {
        0 | 1 => vec![call("pay", 0)],
        2 => vec![call("look", 0), call("pay", 1), Part::text("and"), call("reserve", 2)],
        // A body of hundreds of kilobytes, stored in chunks.
        3 if n < 600 => {
            vec![
                call("reserve", 0),
                Part::text("large ".repeat(10_000 + usize::try_from(dice.below(50_000)).unwrap())),
            ]
        }
        3 => vec![call("reserve", 0), call("look", 1)],
        4 => vec![Part::infer(format!("buy {id}"))],
        5 => vec![Part::infer("say something"), Part::infer(format!("just pay {id}"))],
        _ => {
            let table = format!("table-{}", dice.below(TABLES));
            metadata.set("session_id", JsonText::string(&table));
            vec![Part::infer(format!("buy {id} at the table"))]
        }
    };
    let at = Some("2026-11-21T10:00:00+00:00".to_owned());
    let message = Message {
        id: Some(format!("msg_{id}")),
        role: Some("user".to_owned()),
        parts,
        timestamp: at.clone(),
    };
    PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: id.to_owned(),
        state: TaskState::Submitted,
        messages: vec![message],
        artifacts: Vec::new(),
        metadata,
        flow_state: JsonText::empty_object(),
        created_at: at,
    }
}

/// Returns the command id under which a task is posted.
pub(crate) fn command_of(id: &str) -> String {
    format!("post-{id}")
}

/// Writes a line to the parent, in one write. Without a parent there is nothing to do.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Works until the process is killed.
pub(crate) fn run(base: &Path, seed: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let system = system(base).start().await.unwrap();
        tokio::spawn(tell_of_the_log(system.clone()));
        let workers = (0..WORKERS).map(|worker| tokio::spawn(work(system.clone(), seed, worker)));
        futures_util::future::join_all(workers).await;
    });
}

/// Reports all published records: what is published must be durable, so it counts as acknowledged.
async fn tell_of_the_log(system: System) {
    let head = system.log().head().unwrap();
    let mut subscription = system.subscribe(Position(head.0 + 1));
    while let Some(delivery) = subscription.next().await {
        if let Delivery::Record(stored) = delivery.unwrap() {
            let record = &stored.record;
            tell(&format!("seen {} {} {}", record.stream, record.last_version(), stored.hash));
        }
    }
}

async fn work(system: System, seed: u64, worker: u64) {
    let mut dice = Dice::new(seed ^ (worker << 32));
    for n in 0_u64.. {
        let id = format!("{seed:x}-{worker}-{n}");
        if let Err(error) = one_task(&system, &id, &mut dice).await {
            tell(&format!("error {id}: {error}"));
        }
    }
}

async fn one_task(system: &System, id: &str, dice: &mut Dice) -> Result<(), Error> {
    let task = system.submit_once(&command_of(id), posted(id)).await?;
    tell(&format!("ack {} 1", task.stream()));
    let fate = dice.below(8);
    if fate == 0 {
        dawdle(dice.below(200)).await;
        match task.cancel(Some("changed my mind")).await {
            Ok(canceled) => tell(&format!("ack {} {}", task.stream(), canceled.version)),
            Err(Error::TaskNotCancelable { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if fate < 3 {
        let mut mint = taskreel_log::ports::Ports::default();
        let note = Message::user(&mint.uuid(), &mut mint);
        match task.command(TaskCommand::AppendMessage(note)).await {
            Ok(noted) => tell(&format!("ack {} {}", task.stream(), noted.version)),
            // It came while the last part was being carried out.
            Err(Error::Task(TaskRejection::NoInferenceFollows(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let end = task.finished().await?;
    tell(&format!("end {} {} {}", task.stream(), end.version(), end.state()));
    Ok(())
}
