//! The tasks that a session keeps: in memory by default.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::a2a::model::{Artifact, Content, Message, Task};

/// The most tasks that are kept in memory.
const TASKS_MAX: usize = 1_000;

/// The most bytes of content that are kept in memory.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// The most messages of which is kept to which task they led.
const SENT_MAX: usize = 10_000;

/// The reason why a task cannot be kept or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TaskStoreError(pub String);

/// A task that is kept, and the agent to which it belongs, where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTask {
    /// The id of the agent.
    pub agent: Option<String>,
    /// The task.
    pub task: Task,
}

/// The task to which a message led.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// The id of the agent.
    pub agent: String,
    /// The id of the task.
    pub task_id: String,
}

/// A store of tasks by their ids. Its operations block.
pub trait TaskStore: Send + Sync + 'static {
    /// Keeps a task of an agent, in the place of an earlier one of its id.
    ///
    /// # Errors
    /// [`TaskStoreError`] if it cannot be kept.
    fn save(&self, agent: &str, task: &Task) -> Result<(), TaskStoreError>;

    /// Returns a task; `None` if it is missing.
    ///
    /// # Errors
    /// [`TaskStoreError`] if it cannot be read.
    fn get(&self, task_id: &str) -> Result<Option<KeptTask>, TaskStoreError>;

    /// Forgets a task; it need not be there.
    ///
    /// # Errors
    /// [`TaskStoreError`] if it cannot be deleted.
    fn delete(&self, task_id: &str) -> Result<(), TaskStoreError>;

    /// Keeps to which task a message led, so that after a restart the task is taken up and the message is not sent again. By
    /// default nothing is kept.
    ///
    /// # Errors
    /// [`TaskStoreError`] if it cannot be kept.
    fn note_sent(&self, message_id: &str, sent: &SentMessage) -> Result<(), TaskStoreError> {
        let _ = (message_id, sent);
        Ok(())
    }

    /// Returns the task to which a message led; `None` if it is not known.
    ///
    /// # Errors
    /// [`TaskStoreError`] if it cannot be read.
    fn sent(&self, message_id: &str) -> Result<Option<SentMessage>, TaskStoreError> {
        let _ = message_id;
        Ok(None)
    }
}

/// Tasks in memory: the newest thousand, and no more than 256 MiB of them.
pub struct InMemoryTaskStore(Mutex<StoredTasks>);

impl Default for InMemoryTaskStore {
    fn default() -> Self {
        Self(Mutex::new(StoredTasks { bytes_max: BYTES_MAX, ..StoredTasks::default() }))
    }
}

#[derive(Default)]
struct StoredTasks {
    bytes_max: usize,
    tasks: HashMap<String, (u64, usize, KeptTask)>,
    sent: HashMap<String, (u64, SentMessage)>,
    bytes: usize,
    /// The number of the last entry.
    newest: u64,
}

impl fmt::Debug for InMemoryTaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.lock();
        f.debug_struct("InMemoryTaskStore")
            .field("tasks", &kept.tasks.len())
            .field("bytes", &kept.bytes)
            .finish_non_exhaustive()
    }
}

impl InMemoryTaskStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most bytes of content that are kept. The newest task is kept in any case.
    #[must_use]
    pub fn bytes_max(self, bytes: usize) -> Self {
        self.lock().bytes_max = bytes;
        self
    }

    /// Locks the tasks. A poisoned lock stays usable: no panic leaves them half changed.
    fn lock(&self) -> MutexGuard<'_, StoredTasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a task of which no agent is known.
    pub fn put(&self, task: Task) {
        self.lock().insert(KeptTask { agent: None, task });
    }
}

impl StoredTasks {
    fn insert(&mut self, kept: KeptTask) {
        self.remove(&kept.task.id);
        let bytes = size(&kept.task);
        self.newest += 1;
        self.bytes += bytes;
        self.tasks.insert(kept.task.id.clone(), (self.newest, bytes, kept));
        // The newest one stays, however large it is.
        while self.tasks.len() > 1 && (self.tasks.len() > TASKS_MAX || self.bytes > self.bytes_max) {
            let oldest = self.tasks.iter().min_by_key(|(_, (number, ..))| *number).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some((_, bytes, _)) = self.tasks.remove(id) {
            self.bytes -= bytes;
        }
    }
}

impl TaskStore for InMemoryTaskStore {
    fn save(&self, agent: &str, task: &Task) -> Result<(), TaskStoreError> {
        self.lock().insert(KeptTask { agent: Some(agent.to_owned()), task: task.clone() });
        Ok(())
    }

    fn get(&self, task_id: &str) -> Result<Option<KeptTask>, TaskStoreError> {
        Ok(self.lock().tasks.get(task_id).map(|(.., kept)| kept.clone()))
    }

    fn delete(&self, task_id: &str) -> Result<(), TaskStoreError> {
        self.lock().remove(task_id);
        Ok(())
    }

    fn note_sent(&self, message_id: &str, sent: &SentMessage) -> Result<(), TaskStoreError> {
        let mut kept = self.lock();
        kept.newest += 1;
        let number = kept.newest;
        kept.sent.insert(message_id.to_owned(), (number, sent.clone()));
        if kept.sent.len() > SENT_MAX {
            // Half of them at once, so that it is rarely done.
            let mut numbers: Vec<u64> = kept.sent.values().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            let middle = numbers.get(SENT_MAX / 2).copied().unwrap_or_default();
            kept.sent.retain(|_, (number, _)| *number > middle);
        }
        Ok(())
    }

    fn sent(&self, message_id: &str) -> Result<Option<SentMessage>, TaskStoreError> {
        Ok(self.lock().sent.get(message_id).map(|(_, sent)| sent.clone()))
    }
}

/// Returns the bytes of a task's content.
fn size(task: &Task) -> usize {
    let content = |content: &Content| match content {
        Content::Text(text) | Content::Raw(text) | Content::Url(text) => text.len(),
        Content::Data(data) => data.as_str().len(),
    };
    let message = |message: &Message| message.parts.iter().map(|part| content(&part.content)).sum::<usize>();
    let artifact = |one: &Artifact| one.parts.iter().map(|part| content(&part.content)).sum::<usize>();
    task.artifacts.iter().flatten().map(artifact).sum::<usize>()
        + task.history.iter().chain(&task.status.message).map(message).sum::<usize>()
        + 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::toolkit::test_script::task_of_0_3;

    fn task(id: &str, characters: usize) -> Task {
        let text = "x".repeat(characters);
        let json = format!(
            r#"{{"id":"{id}","contextId":"c","kind":"task","status":{{"state":"working"}},
                "artifacts":[{{"artifactId":"a","parts":[{{"kind":"text","text":"{text}"}}]}}]}}"#
        );
        task_of_0_3(&json).unwrap()
    }

    #[test]
    fn the_oldest_tasks_go_when_there_is_no_room() {
        let store = InMemoryTaskStore::new();
        let named = |id: String, task: &Task| Task { id, ..task.clone() };
        let small = task("t", 1);
        for number in 0..1_100 {
            store.save("a", &named(format!("t{number}"), &small)).unwrap();
        }
        assert!(store.get("t99").unwrap().is_none() && store.get("t100").unwrap().is_some());
        let store = store.bytes_max(100_000);
        let large = task("large", 20_000);
        for number in 0..30 {
            store.save("a", &named(format!("large{number}"), &large)).unwrap();
        }
        assert!(store.lock().bytes <= 100_000 && store.get("large29").unwrap().is_some());
        assert!(store.get("t1099").unwrap().is_none());
        store.save("a", &task("whole", 200_000)).unwrap();
        assert!(store.get("whole").unwrap().is_some() && store.get("large29").unwrap().is_none());
        store.delete("whole").unwrap();
        assert!(store.get("whole").unwrap().is_none() && store.lock().bytes == 0);
        for number in 0..=SENT_MAX {
            let sent = SentMessage { agent: "a".to_owned(), task_id: number.to_string() };
            store.note_sent(&format!("m{number}"), &sent).unwrap();
        }
        assert!(
            store.sent("m0").unwrap().is_none() && store.sent(&format!("m{SENT_MAX}")).unwrap().is_some()
        );
    }
}
