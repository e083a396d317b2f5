//! Tasks in files, which a2a-utils reads and writes too.

use std::path::Path;

use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use taskreel::files::{FileError, JsonTaskStore};

use crate::a2a::model::Task;
use crate::a2a::toolkit::store::{KeptTask, SentMessage, TaskStore, TaskStoreError};
use crate::a2a::wire::write::Members;
use crate::a2a::wire::{DataForm, read, write};

/// The member of a task's metadata that names the agent to which it belongs.
const AGENT: &str = "urn:taskreel:a2a:agent:v1";

/// The member of its metadata by which a file says to which task a message led.
const SENT: &str = "urn:taskreel:a2a:sent:v1";

/// Tasks as JSON files in a folder, as [`JsonTaskStore`] keeps them, each with the agent to which it belongs in its metadata; and in
/// the folder `sent` below, to which task each message led, so that a restart sends nothing twice.
#[derive(Debug, Clone)]
pub struct JsonTasks {
    tasks: JsonTaskStore,
    sent: JsonTaskStore,
}

fn failed(error: &FileError) -> TaskStoreError {
    TaskStoreError(error.to_string())
}

impl JsonTasks {
    /// Opens the store in a folder, which is made if it is missing.
    ///
    /// # Errors
    /// [`TaskStoreError`] if it cannot be made.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self, TaskStoreError> {
        let folder = folder.as_ref();
        let open = |folder: &Path| JsonTaskStore::new(folder).map_err(|error| failed(&error));
        Ok(Self { tasks: open(folder)?, sent: open(&folder.join("sent"))? })
    }
}

fn tree(task: &Task) -> Value {
    write::task(DataForm::V03, task).tree()
}

/// Takes a text out of metadata.
fn taken(metadata: &mut JsonObject, name: &str) -> Option<String> {
    metadata.remove(name).and_then(|value| value.to_str())
}

impl TaskStore for JsonTasks {
    fn save(&self, agent: &str, task: &Task) -> Result<(), TaskStoreError> {
        let mut marked = task.clone();
        marked.metadata.set(AGENT, JsonText::string(agent));
        self.tasks.save(&tree(&marked)).map_err(|error| failed(&error))
    }

    fn get(&self, task_id: &str) -> Result<Option<KeptTask>, TaskStoreError> {
        let Some(json) = self.tasks.get(task_id).map_err(|error| failed(&error))? else { return Ok(None) };
        // A file of another form is as good as none, as a2a-utils has it.
        let Ok(mut task) = read::task(DataForm::V03, &json.to_text(), "") else { return Ok(None) };
        let agent = taken(&mut task.metadata, AGENT);
        Ok(Some(KeptTask { agent, task }))
    }

    fn delete(&self, task_id: &str) -> Result<(), TaskStoreError> {
        self.tasks.delete(task_id).map_err(|error| failed(&error))
    }

    fn note_sent(&self, message_id: &str, sent: &SentMessage) -> Result<(), TaskStoreError> {
        let led = Members::default().text("agent", &sent.agent).text("task", &sent.task_id).end();
        let status = Members::default().text("state", "submitted").end();
        let note = Members::default()
            .text("kind", "task")
            .text("id", message_id)
            .text("contextId", message_id)
            .json("status", status)
            .json("metadata", Members::default().json(SENT, led).end());
        self.sent.save(&note.end().tree()).map_err(|error| failed(&error))
    }

    fn sent(&self, message_id: &str) -> Result<Option<SentMessage>, TaskStoreError> {
        let note = self.sent.get(message_id).map_err(|error| failed(&error))?;
        let led = note.and_then(|note| note.get("metadata")?.get(SENT).cloned());
        let text = |name: &str| Some(led.as_ref()?.get(name)?.as_str()?.to_owned());
        Ok(text("agent").zip(text("task")).map(|(agent, task_id)| SentMessage { agent, task_id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::toolkit::test_script::task_of_0_3;

    #[test]
    fn a_task_comes_back_with_its_agent_and_no_agent_can_say_that_it_is_anothers() {
        let folder = tempfile::tempdir().unwrap();
        let store = JsonTasks::new(folder.path()).unwrap();
        let forged = format!(
            r#"{{"id":"t","contextId":"c","kind":"task","status":{{"state":"working"}},"metadata":{{"{AGENT}":"other","n":1}}}}"#
        );
        store.save("own", &task_of_0_3(&forged).unwrap()).unwrap();
        let kept = JsonTasks::new(folder.path()).unwrap().get("t").unwrap().unwrap();
        assert_eq!(kept.agent.as_deref(), Some("own"));
        assert_eq!(kept.task.metadata.to_text().as_str(), r#"{"n":1}"#);
        let sent = SentMessage { agent: "own".to_owned(), task_id: "t".to_owned() };
        store.note_sent("m-1", &sent).unwrap();
        assert_eq!(JsonTasks::new(folder.path()).unwrap().sent("m-1").unwrap(), Some(sent));
        assert_eq!(store.sent("m-2").unwrap(), None);
        std::fs::write(folder.path().join("odd.json"), "[]").unwrap();
        assert_eq!(store.get("odd").unwrap(), None);
        assert!(store.get("../t").is_err() && store.get("sent").unwrap().is_none());
    }
}
