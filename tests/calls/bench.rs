//! A tool with a secret argument, and searches for its value in a log's directory.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::call::{Call, CallFailure, CallStatus};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use serde::Deserialize;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Artifact, Builder, JsonSchema, Part, PostedTask, System, TaskHandle, TaskSnapshot, Version};
use taskreel_log::ports::Ports;
use taskreel_log::secrets::SECRETS_DIR;
use tokio::sync::Notify;

/// A value that stands nowhere else, with a character that JSON escapes.
pub(crate) const PASSWORD: &str = "correct-\"horse\"-battery-4711";

/// The text of a task with one call.
pub(crate) const TASK: &str = "t";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// The tool's use of the value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Does {
    #[default]
    Repeats,
    Fails,
    Panics,
    Loses,
    Hangs,
}

/// The tool, and the values that it was given.
#[derive(Clone, Default)]
pub(crate) struct Bench {
    does: Does,
    given: Arc<Mutex<Vec<String>>>,
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl Bench {
    pub(crate) fn that(does: Does) -> Self {
        Self { does, ..Self::default() }
    }

    pub(crate) fn given(&self) -> Vec<String> {
        self.given.lock().unwrap().clone()
    }

    /// Waits until the tool that hangs is called.
    pub(crate) async fn reached(&self) {
        tokio::time::timeout(Duration::from_secs(30), self.reached.notified()).await.unwrap();
    }

    pub(crate) fn let_go(&self) {
        self.go.notify_one();
    }

    async fn call(self, cx: ToolContext, asked: Login) -> Result<Value, ToolError> {
        let Login { user, password } = asked;
        self.given.lock().unwrap().push(password.clone());
        cx.progress(&format!("{user} uses {password}"));
        cx.state().put("last", &password, Version(0))?;
        let said = Artifact::new(vec![Part::text(&password)], &mut Ports::default());
        cx.attach(Artifact { name: Some(password.clone()), uri: Some(password.clone()), ..said });
        match self.does {
            Does::Fails => return Err(ToolError::failed(format!("wrong: {password}"))),
            Does::Panics => panic!("cannot use {password}"),
            Does::Loses => return Err(ToolError::lost(format!("sent {password}, no answer"))),
            Does::Hangs => {
                self.reached.notify_one();
                self.go.notified().await;
            }
            Does::Repeats => {}
        }
        Ok(json!({"welcome": user, "you sent": password}))
    }

    pub(crate) fn builder(&self, dir: &Path, policy: ToolPolicy) -> Builder {
        let bench = self.clone();
        let login = move |cx: ToolContext, asked: Login| bench.clone().call(cx, asked);
        System::builder(dir).tool_with("login", "Logs in", login, policy.secret_args(["password"]))
    }

    pub(crate) async fn start(&self, dir: &Path, policy: ToolPolicy) -> System {
        self.builder(dir, policy).start().await.unwrap()
    }
}

/// Returns the task with one call of the tool.
pub(crate) fn login(password: &str) -> PostedTask {
    task(
        TASK,
        &json!({"type": "tool_call", "content": json!({
            "tool_name": "login", "args": json!({"user": "ada", "password": password}), "call_id": "c",
        })}),
    )
}

/// Returns a task whose message has this part.
pub(crate) fn task(id: &str, part: &Value) -> PostedTask {
    let message =
        json!({"id": "m", "role": "user", "parts": [part.clone()], "timestamp": "2026-11-22T00:00:00+00:00"});
    let posted = json!({"id": id, "messages": [message], "created_at": "2026-11-22T00:00:00+00:00"});
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

pub(crate) async fn ended(task: &TaskHandle) -> TaskSnapshot {
    tokio::time::timeout(Duration::from_secs(30), task.finished()).await.expect("the run ends").unwrap()
}

pub(crate) fn last_call(end: &TaskSnapshot) -> Call {
    end.task().calls().iter().next_back().unwrap().clone()
}

/// Returns what stands in the place of the value.
pub(crate) fn argument(call: &Call) -> String {
    let args: JsonObject = call.request.args.read().unwrap();
    args.get("password").unwrap().to_str().unwrap()
}

pub(crate) fn failure(end: &TaskSnapshot) -> CallFailure {
    match last_call(end).status {
        CallStatus::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// Returns the files of secret values.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join(SECRETS_DIR));
    entries.map(|entries| entries.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}

/// Returns the files outside the folder of secret values that hold a part of the value which no encoding changes.
pub(crate) fn spills(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend((!path.ends_with(SECRETS_DIR)).then_some(path));
            } else if path.is_file() && holds(&std::fs::read(&path).unwrap()) {
                found.push(path);
            }
        }
    }
    found
}

/// Whether the bytes hold a part of the value.
pub(crate) fn holds(bytes: &[u8]) -> bool {
    let part = b"-battery-4711";
    bytes.windows(part.len()).any(|window| window == part)
}

/// Copies a directory, as a snapshot of the machine would at a power loss.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&path, &to);
        } else if path.is_file() {
            // A socket holds nothing.
            std::fs::copy(&path, &to).unwrap();
        }
    }
}
