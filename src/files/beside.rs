//! The files of artifacts on their way to a task's log: written to the store first where they stand there instead of the log, and
//! copied to it afterwards elsewhere.

use std::sync::Arc;

use proto_events::id::Digest;
use proto_events::model::{Artifact, Part};
use sha2::{Digest as _, Sha256};
use taskreel_log::artifacts::{A2aArtifact, A2aFile, A2aFileContent, A2aPart, KeptFile, is_file_part};
use taskreel_log::ports::Clock;
use taskreel_log::views::file_in;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::files::base64::{decoded, exactly};
use crate::files::digest::is_among;
use crate::files::error::FileError;
use crate::files::store::FileStore;
use crate::limits::{FILE_STORE_OPERATIONS, FILE_STORE_WITHIN};

/// The bytes from which on a file stands in the store instead of the log: below, the digest saves little.
const KEPT_FROM: usize = 4_096;

/// The file store of an agent, or none.
#[derive(Clone, Default)]
pub(crate) struct FilesBeside(Option<Beside>);

#[derive(Clone)]
struct Beside {
    store: Arc<dyn FileStore>,
    /// Permits for the operations of the store. One that hangs keeps its permit, so that a store that hangs does not take the
    /// threads on which everything else blocks.
    permits: Arc<Semaphore>,
}

/// The reason why an artifact must not go to the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotKept {
    pub(crate) artifact: String,
    pub(crate) why: String,
}

/// Artifacts as they go to the log, and the artifacts whose files the store copies when they are there.
#[derive(Debug, Default)]
pub(crate) struct KeptArtifacts {
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) to_copy: Vec<Artifact>,
}

/// References to files beside a log, each with its artifact's id.
pub(crate) type References = Vec<(String, KeptFile)>;

impl std::fmt::Debug for FilesBeside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FilesBeside").field(&self.0.is_some()).finish()
    }
}

impl FilesBeside {
    pub(crate) fn new(store: Arc<dyn FileStore>) -> Self {
        Self(Some(Beside { store, permits: Arc::new(Semaphore::new(FILE_STORE_OPERATIONS)) }))
    }

    /// Whether an artifact may have files of which the store is told, or refers to one. Contents are not read for it.
    pub(crate) fn concerns(&self, artifact: &Artifact) -> bool {
        let has_store = self.0.is_some();
        artifact
            .parts
            .iter()
            .any(|part| is_file_part(part) && (has_store || KeptFile::from_part(part).is_some()))
    }

    /// Whether files stand in the store instead of the log.
    pub(crate) fn is_instead_of_log(&self) -> bool {
        self.0.as_ref().is_some_and(|beside| beside.store.is_instead_of_log())
    }

    /// Whether the content of a part may stand beside the log, so that it does not count for the size of an event.
    pub(crate) fn may_take(&self, part: &Part) -> bool {
        is_file_part(part) && self.is_instead_of_log()
    }

    /// Checks that the store has the files to which artifacts refer, unless the task's log refers to them already; writes the
    /// files that stand in the store instead of the log, and puts their digests in their place.
    ///
    /// # Errors
    /// [`NotKept`] if a file cannot be written, or is not there: nothing of the artifacts may go to the log then.
    pub(crate) async fn check_and_store(
        &self,
        clock: &dyn Clock,
        task_id: &str,
        artifacts: Vec<Artifact>,
        known: References,
    ) -> Result<KeptArtifacts, NotKept> {
        let first = artifacts.iter().find(|artifact| self.concerns(artifact));
        let Some(id) = first.map(|artifact| artifact.id.clone().unwrap_or_default()) else {
            return Ok(KeptArtifacts { artifacts, to_copy: Vec::new() });
        };
        let is_known = references(&artifacts).iter().all(|reference| known.contains(reference));
        let Some(beside) = self.0.clone() else {
            let why = || NotKept { artifact: id, why: NO_STORE.to_owned() };
            return if is_known { Ok(KeptArtifacts { artifacts, to_copy: Vec::new() }) } else { Err(why()) };
        };
        if is_known && !beside.store.is_instead_of_log() {
            // The store is not asked: whether it hangs does not matter to the log.
            return Ok(with_copies(artifacts));
        }
        let (store, task_id) = (Arc::clone(&beside.store), task_id.to_owned());
        let work = move || store_files(&*store, &task_id, artifacts, &known);
        beside.within(clock, work).await.unwrap_or_else(|why| Err(NotKept { artifact: id, why }))
    }

    /// Reads a file that stands beside the log. The caller compares the digest.
    ///
    /// # Errors
    /// A description of the fault, if the store has no such file, or does not answer.
    pub(crate) async fn read(
        &self,
        clock: &dyn Clock,
        task_id: &str,
        artifact_id: &str,
        kept: KeptFile,
    ) -> Result<Vec<u8>, String> {
        let Some(beside) = &self.0 else { return Err("the agent has no file store".to_owned()) };
        let (store, task_id, artifact_id) =
            (Arc::clone(&beside.store), task_id.to_owned(), artifact_id.to_owned());
        let work = move || {
            let paths = store.get_artifact(&task_id, &artifact_id).map_err(|error| error.to_string())?;
            let path = paths.iter().find(|path| is_among([path.as_path()], &kept));
            let path =
                path.ok_or_else(|| format!("the file store does not have the file {}", kept.sha256))?;
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        beside.within(clock, work).await?
    }

    /// Copies the files of artifacts that are in the log now. A copy that fails is named in the program's own log: the file
    /// itself is safe.
    pub(crate) async fn copy(&self, clock: &dyn Clock, task_id: &str, artifacts: Vec<Artifact>) {
        let Some(beside) = self.0.as_ref().filter(|_| !artifacts.is_empty()) else { return };
        let (store, id) = (Arc::clone(&beside.store), task_id.to_owned());
        let work = move || artifacts.iter().for_each(|artifact| copy(&*store, &id, artifact));
        if let Err(why) = beside.within(clock, work).await {
            tracing::warn!(task_id, why, "the files of artifacts may not have been copied; the log has them");
        }
    }
}

impl Beside {
    /// Carries out an operation of the store on the blocking pool, within a time: its answer is not waited for beyond that.
    async fn within<T: Send + 'static>(
        &self,
        clock: &dyn Clock,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let late = clock.sleep(FILE_STORE_WITHIN);
        let done = async {
            let permit =
                Arc::clone(&self.permits).acquire_owned().await.map_err(|error| error.to_string())?;
            let work = move || {
                let done = work();
                drop(permit);
                done
            };
            spawn_blocking(work).await.map_err(|error| error.to_string())
        };
        tokio::select! {
            biased;
            done = done => done,
            () = late => {
                let seconds = FILE_STORE_WITHIN.as_secs();
                Err(format!("the file store did not answer within {seconds} s"))
            }
        }
    }
}

const NO_STORE: &str =
    "it refers to a file beside the log, but the agent has no file store; send the file's content";

/// Takes an artifact out of its place, where one without parts is left.
pub(crate) fn taken(place: &mut Artifact) -> Artifact {
    let parts = std::mem::take(&mut place.parts);
    Artifact { parts, ..place.clone() }
}

/// Returns the references of artifacts to files beside a log.
pub(crate) fn references<'a>(artifacts: impl IntoIterator<Item = &'a Artifact>) -> References {
    let of = |artifact: &'a Artifact| {
        let id = artifact.id.clone().unwrap_or_default();
        artifact.parts.iter().filter_map(KeptFile::from_part).map(move |kept| (id.clone(), kept))
    };
    artifacts.into_iter().flat_map(of).collect()
}

fn store_files(
    store: &dyn FileStore,
    task_id: &str,
    mut artifacts: Vec<Artifact>,
    known: &References,
) -> Result<KeptArtifacts, NotKept> {
    // Nobody makes the log refer to what is not there, and the auditor name a fault that does not exist.
    for reference in references(&artifacts).iter().filter(|reference| !known.contains(reference)) {
        let (id, kept) = reference;
        let why = match store.has_file(task_id, id, kept) {
            Ok(true) => continue,
            Ok(false) => format!(
                "it refers to the file {} of {} bytes, which the store does not have under this task and artifact; send its content",
                kept.sha256, kept.size
            ),
            Err(error) => error.to_string(),
        };
        return Err(NotKept { artifact: id.clone(), why });
    }
    if !store.is_instead_of_log() {
        return Ok(with_copies(artifacts));
    }
    for artifact in &mut artifacts {
        write(store, task_id, artifact).map_err(|error| NotKept {
            artifact: artifact.id.clone().unwrap_or_default(),
            why: error.to_string(),
        })?;
    }
    Ok(KeptArtifacts { artifacts, to_copy: Vec::new() })
}

fn with_copies(artifacts: Vec<Artifact>) -> KeptArtifacts {
    let to_copy = artifacts.iter().filter(|artifact| artifact.parts.iter().any(is_file_part)).cloned();
    let to_copy = to_copy.collect();
    KeptArtifacts { artifacts, to_copy }
}

/// Writes the files of an artifact that stand in the store instead of the log, and puts their digests in their place.
fn write(store: &dyn FileStore, task_id: &str, artifact: &mut Artifact) -> Result<(), FileError> {
    let (mut parts, mut kept) = (places(artifact), Vec::new());
    for (index, part) in artifact.parts.iter().enumerate() {
        if let (Some((file, replaced)), Some(place)) = (beside_log(part), parts.get_mut(index)) {
            *place = A2aPart::File(file);
            kept.push((index, replaced));
        }
    }
    if kept.is_empty() {
        return Ok(());
    }
    store.save_artifact(task_id, &only(artifact, parts))?;
    for (index, replaced) in kept {
        if let Some(part) = artifact.parts.get_mut(index) {
            *part = replaced;
        }
    }
    Ok(())
}

/// Returns the file of a part that stands beside the log, and the part that refers to it; nothing where the file would not give
/// back the very content that the part has.
fn beside_log(part: &Part) -> Option<(A2aFile, Part)> {
    let (file, text) = with_content(part)?;
    if text.len() / 4 * 3 < KEPT_FROM {
        return None;
    }
    let content = exactly(&text).filter(|content| content.len() >= KEPT_FROM)?;
    let kept = KeptFile {
        sha256: Digest(Sha256::digest(&content).into()).to_string(),
        size: content.len() as u64,
        name: file.name.clone(),
        mime_type: file.mime_type.clone(),
    };
    let replaced = kept.in_place_of_content(part)?;
    Some((file, replaced))
}

/// Copies the files of an artifact, each that can be copied.
fn copy(store: &dyn FileStore, task_id: &str, artifact: &Artifact) {
    let artifact_id = artifact.id.as_deref().unwrap_or_default();
    let warn = |error: &FileError| {
        tracing::warn!(task_id, artifact_id, %error, "a file of an artifact was not copied; the log has it");
    };
    let mut files = Vec::new();
    for (index, part) in artifact.parts.iter().enumerate() {
        let Some((file, text)) = with_content(part) else { continue };
        match decoded(&text) {
            Ok(_) => files.push((index, A2aPart::File(file))),
            Err(error) => warn(&error),
        }
    }
    let mut parts = places(artifact);
    for (index, file) in &files {
        if let Some(place) = parts.get_mut(*index) {
            place.clone_from(file);
        }
    }
    let copied =
        if files.is_empty() { Ok(Vec::new()) } else { store.save_artifact(task_id, &only(artifact, parts)) };
    let Err(error) = copied else { return };
    if files.len() == 1 {
        return warn(&error);
    }
    // One of them may be at fault.
    let mut alone = only(artifact, places(artifact));
    for (index, file) in files {
        let Some(place) = alone.parts.get_mut(index) else { continue };
        *place = file;
        if let Err(error) = store.save_artifact(task_id, &alone) {
            warn(&error);
        }
        if let Some(place) = alone.parts.get_mut(index) {
            *place = A2aPart::Text(String::new());
        }
    }
}

/// Returns the file that a part holds with its content, and that content in base64.
fn with_content(part: &Part) -> Option<(A2aFile, String)> {
    let file = file_in(part)?;
    let text = match &file.content {
        A2aFileContent::Bytes(text) => text.clone(),
        A2aFileContent::Uri(_) => return None,
    };
    Some((file, text))
}

/// Returns an empty text in the place of each part: the number of a part is in the name of a file without one.
fn places(artifact: &Artifact) -> Vec<A2aPart> {
    artifact.parts.iter().map(|_| A2aPart::Text(String::new())).collect()
}

fn only(artifact: &Artifact, parts: Vec<A2aPart>) -> A2aArtifact {
    let artifact_id = artifact.id.clone().unwrap_or_default();
    A2aArtifact { artifact_id, name: None, description: None, parts }
}
