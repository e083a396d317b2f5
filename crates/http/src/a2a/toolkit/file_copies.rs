//! Files that came: saved in the host's store, each artifact and message until all of its files are there. A file that cannot be
//! saved takes nothing else with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use taskreel::files::{FileError, FileStore};
use taskreel_log::artifacts::SavedFiles;

use crate::a2a::model::{Message, Part, Task};
use crate::a2a::toolkit::convert::{self, is_file};

/// The files of an answer: the paths of copies, and the reasons why they are missing, by the ids of artifacts and of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileCopies {
    pub(crate) artifacts: SavedFiles,
    pub(crate) messages: SavedFiles,
    pub(crate) unsaved: BTreeMap<String, String>,
}

impl FileCopies {
    fn record_paths(&mut self, id: &str, paths: Result<Vec<PathBuf>, FileError>, is_artifact: bool) {
        let paths = match paths {
            Ok(paths) => paths,
            Err(error) => {
                tracing::warn!(id, %error, "the files of an answer could not be saved");
                self.unsaved.insert(id.to_owned(), error.to_string());
                return;
            }
        };
        if paths.is_empty() {
            return;
        }
        let paths = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let saved = if is_artifact { &mut self.artifacts } else { &mut self.messages };
        saved.insert(id.to_owned(), paths);
    }

    fn message(&mut self, store: &dyn FileStore, message: &Message) {
        let files = files(&message.parts);
        if files == 0 {
            return;
        }
        let saved = store.get_message(&message.id).and_then(|known| {
            if known.len() >= files {
                return Ok(known);
            }
            store.save_message(&convert::message(message))?;
            store.get_message(&message.id)
        });
        self.record_paths(&message.id, saved, false);
    }

    fn task(&mut self, store: &dyn FileStore, task: &Task) {
        for artifact in task.artifacts.iter().flatten() {
            let files = files(&artifact.parts);
            if files == 0 {
                continue;
            }
            let saved = store.get_artifact(&task.id, &artifact.id).and_then(|known| {
                if known.len() >= files {
                    return Ok(known);
                }
                store.save_artifact(&task.id, &convert::artifact(artifact))?;
                store.get_artifact(&task.id, &artifact.id)
            });
            self.record_paths(&artifact.id, saved, true);
        }
        for message in task.status.message.iter().chain(&task.history) {
            self.message(store, message);
        }
    }
}

fn files(parts: &[Part]) -> usize {
    parts.iter().filter(|part| is_file(part)).count()
}

/// Saves the files of a task, and returns where they are.
pub(crate) async fn of_task(store: Option<&Arc<dyn FileStore>>, task: &Task) -> FileCopies {
    let has_files = |task: &Task| {
        let messages = task.status.message.iter().chain(&task.history);
        task.artifacts.iter().flatten().any(|artifact| files(&artifact.parts) > 0)
            || messages.into_iter().any(|message| files(&message.parts) > 0)
    };
    let Some(store) = store.filter(|_| has_files(task)) else { return FileCopies::default() };
    let (store, task) = (Arc::clone(store), task.clone());
    blocking(move |saved| saved.task(store.as_ref(), &task)).await
}

/// Saves the files of a message, and returns where they are.
pub(crate) async fn of_message(store: Option<&Arc<dyn FileStore>>, message: &Message) -> FileCopies {
    let Some(store) = store.filter(|_| files(&message.parts) > 0) else { return FileCopies::default() };
    let (store, message) = (Arc::clone(store), message.clone());
    blocking(move |saved| saved.message(store.as_ref(), &message)).await
}

async fn blocking(save: impl FnOnce(&mut FileCopies) + Send + 'static) -> FileCopies {
    let saved = tokio::task::spawn_blocking(move || {
        let mut saved = FileCopies::default();
        save(&mut saved);
        saved
    });
    // The store of a host may panic; the answer does not go with it.
    saved.await.unwrap_or_default()
}
