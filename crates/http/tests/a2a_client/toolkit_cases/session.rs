//! The area `session_monitor`: a message or a task is followed by a clock that only the script advances.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use taskreel::files::{FileError, FileStore};
use taskreel_http::a2a::{
    A2aSession, KeptTask, OutgoingMessage, SessionAnswer, SessionError, Task, TaskStore, TaskStoreError,
};
use taskreel_log::artifacts::{A2aArtifact, A2aMessage};

use super::script::{Scripted, same_times};
use super::{Case, Failure, broken, on_own_clock, python_error};

/// A store that notes what it is given.
#[derive(Default)]
struct Noted {
    saves: Mutex<Vec<Value>>,
    files: Mutex<Vec<Value>>,
    saved: Value,
}

impl TaskStore for Noted {
    fn save(&self, _: &str, task: &Task) -> Result<(), TaskStoreError> {
        self.saves.lock().unwrap().push(json!([task.id.as_str(), state(task)]));
        Ok(())
    }

    fn get(&self, _: &str) -> Result<Option<KeptTask>, TaskStoreError> {
        Ok(None)
    }

    fn delete(&self, _: &str) -> Result<(), TaskStoreError> {
        Ok(())
    }
}

/// The files of a [`Noted`].
struct Files(Arc<Noted>);

impl Files {
    fn known(&self, id: &str) -> Vec<PathBuf> {
        let paths = self.0.saved[id].as_array().into_iter().flatten();
        paths.filter_map(Value::as_str).map(PathBuf::from).collect()
    }

    fn note(&self, id: &str) -> Vec<PathBuf> {
        self.0.files.lock().unwrap().push(id.into());
        Vec::new()
    }
}

impl FileStore for Files {
    fn save_artifact(&self, _: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError> {
        Ok(self.note(&artifact.artifact_id))
    }

    fn get_artifact(&self, _: &str, artifact_id: &str) -> Result<Vec<PathBuf>, FileError> {
        Ok(self.known(artifact_id))
    }

    fn delete_artifact(&self, _: &str, _: &str) -> Result<(), FileError> {
        Ok(())
    }

    fn save_message(&self, message: &A2aMessage) -> Result<Vec<PathBuf>, FileError> {
        Ok(self.note(&message.message_id))
    }

    fn get_message(&self, message_id: &str) -> Result<Vec<PathBuf>, FileError> {
        Ok(self.known(message_id))
    }

    fn delete_message(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }
}

/// Returns the word for a task's state in 0.3.
fn state(task: &Task) -> &'static str {
    use taskreel_http::a2a::State;
    match task.status.state {
        State::Submitted => "submitted",
        State::Working => "working",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Canceled => "canceled",
        State::Rejected => "rejected",
        State::InputRequired => "input-required",
        State::AuthRequired => "auth-required",
        State::Unspecified => "unknown",
    }
}

fn result(task: &Task) -> Value {
    json!({"kind": "task", "state": state(task), "id": task.id.as_str()})
}

async fn run(session: &A2aSession, case: &Case) -> Result<Result<Value, SessionError>, Failure> {
    let args = &case.input()["args"];
    let text = |name: &str| args[name].as_str().unwrap_or_default();
    let seconds = |name: &str| args[name].as_f64().map(Duration::from_secs_f64);
    let answer = match case.text("method")? {
        "send_message" => {
            let mut message = OutgoingMessage::new(text("message"));
            if let Some(id) = args["context_id"].as_str() {
                message = message.context(id);
            }
            if let Some(id) = args["task_id"].as_str() {
                message = message.task(id);
            }
            if let Some(timeout) = seconds("timeout") {
                message = message.timeout(timeout);
            }
            for data in args["data"].as_array().into_iter().flatten() {
                message = message.data(JsonText::from(data.clone()));
            }
            for file in args["files"].as_array().into_iter().flatten() {
                message = message.file(file.as_str().unwrap_or_default());
            }
            session.send(text("agent_id"), message).await
        }
        "get_task" => {
            let (timeout, pause) = (seconds("timeout"), seconds("poll_interval"));
            let told = session.get(text("agent_id"), text("task_id"), timeout, pause).await;
            told.map(|told| SessionAnswer::Task(Box::new(told)))
        }
        other => return Err(broken(format!("no method `{other}`"))),
    };
    Ok(answer.map(|answer| match answer {
        SessionAnswer::Task(told) => result(&told.task),
        SessionAnswer::Message(told) => json!({"kind": "message", "id": told.message.id.as_str()}),
    }))
}

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    on_own_clock(async {
        let script = Scripted::of(case);
        let noted =
            Arc::new(Noted { saved: case.input()["saved_artifact_paths"].clone(), ..Noted::default() });
        let session =
            A2aSession::new(script.agents(case)?).task_store(Arc::clone(&noted) as Arc<dyn TaskStore>);
        let session = if case.input()["file_store"] == true {
            session.file_store(Arc::new(Files(Arc::clone(&noted))))
        } else {
            session
        };
        let answer = run(&session, case).await?;
        let mut ours = json!({
            "calls": Value::from(script.calls()),
            "sleeps": Value::from(script.sleeps()),
            "store_saves": Value::from(noted.saves.lock().unwrap().clone()),
            "file_saves": Value::from(noted.files.lock().unwrap().clone()),
            "clock_end": script.seconds(),
            "card_requests": script.card_requests(),
        });
        match answer {
            Ok(result) => ours["result"] = result,
            Err(error) => ours["error"] = python_error(&error),
        }
        Ok(same_times(&case.whole["expected"], ours))
    })
}
