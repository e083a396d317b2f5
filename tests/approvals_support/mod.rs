//! A spending tool that needs approval, and the helpers of the approval tests.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::task::{ApprovalRejection, TaskRejection};
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, Error, JsonSchema, Part, PostedTask, System, TaskSnapshot};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Cents {
    pub(crate) cents: i64,
}

/// A tool that spends, and the amounts that it spent.
#[derive(Clone, Default)]
pub(crate) struct Purse(Arc<Mutex<Vec<i64>>>);

impl Purse {
    pub(crate) fn spent(&self) -> Vec<i64> {
        self.0.lock().unwrap().clone()
    }

    /// Returns a system whose tool `pay` needs approval; `look` needs none.
    pub(crate) fn system(&self, store: &Arc<MemoryStore>) -> Builder {
        let spent = Arc::clone(&self.0);
        let pay = move |args: Cents| {
            spent.lock().unwrap().push(args.cents);
            async move { Ok::<_, Infallible>(format!("paid {}", args.cents)) }
        };
        let policy = ToolPolicy::manual().capabilities(["money.spend"]);
        System::builder("in memory")
            .store(store.clone())
            .tool_with("pay", "Pays", pay, policy)
            .tool("look", "Looks", |_: Cents| async { Ok::<_, Infallible>("seen") })
            .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
    }
}

pub(crate) fn pay(cents: i64) -> Part {
    Part::tool_call_of("pay", JsonText::from(json!({"cents": cents})), Some("part-1"))
}

pub(crate) fn look() -> Part {
    Part::tool_call_of("look", JsonText::from(json!({"cents": 0})), Some("part-2"))
}

/// Returns a task of one message with these parts, in the session `s`.
pub(crate) fn task(id: &str, parts: &[Part]) -> PostedTask {
    let parts: Vec<Value> = parts.iter().map(|part| part.to_json().tree()).collect();
    let posted = json!({
        "id": id,
        "messages": [{"id": format!("m-{id}"), "role": "user", "parts": parts}],
        "metadata": {"session_id": "s"},
    });
    PostedTask::from_json(&JsonText::from(posted), &mut taskreel_log::ports::Ports::default()).unwrap()
}

pub(crate) const PAY_THEN_FINAL: &str = r#"{"buy": [{"type":"tool_call","tool":"pay","args":{"cents":"7"}}],
    "was approved": [{"type":"final","content":"bought"}], "was denied": [{"type":"final","content":"not bought"}],
    "else": [{"type":"final","content":"yes"}]}"#;

pub(crate) fn script() -> Scripted {
    Scripted::from_json(PAY_THEN_FINAL).unwrap()
}

pub(crate) async fn finished(system: &System, task: PostedTask) -> TaskSnapshot {
    system.submit(task).await.unwrap().finished().await.unwrap()
}

pub(crate) fn last_text(end: &TaskSnapshot) -> String {
    end.task().last_part_content().and_then(JsonText::to_str).unwrap_or_default()
}

pub(crate) fn outputs(end: &TaskSnapshot) -> Vec<Value> {
    let parts = end.task().artifacts().iter().flat_map(|artifact| artifact.parts.iter());
    parts.map(|part| part.content().tree()).collect()
}

pub(crate) fn rejection(error: Error) -> ApprovalRejection {
    match error {
        Error::Task(TaskRejection::Approval(rejection)) => rejection,
        other => panic!("{other}"),
    }
}
