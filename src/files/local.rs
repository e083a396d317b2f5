//! Files in a folder of this machine, in the layout of a2a-utils: `artifacts/TASK/ARTIFACT/FILE` and
//! `messages/MESSAGE/FILE`.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taskreel_log::artifacts::{A2aArtifact, A2aFile, A2aFileContent, A2aMessage, A2aPart};

use crate::files::base64::decoded;
use crate::files::error::FileError;
use crate::files::folder::kind::{Kind, MissingFolder};
use crate::files::folder::{Folder, resolved};
use crate::files::identifier::Ids;
use crate::files::name::cleaned;
use crate::files::remote::{FetchRemote, RemoteUri, UriSchemes};
use crate::files::store::FileStore;
use crate::files::store_folder::made_durably;
use crate::files::write::{FileAddition, UNFINISHED, remove_left};

/// The bytes of a remote file that are fetched unless a host says otherwise (10 MiB), as in a2a-utils.
const REMOTE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The bytes of all remote files of one artifact or message that are fetched unless a host says otherwise (100 MiB).
const REMOTE_BYTES_TOGETHER_MAX: u64 = 100 * 1024 * 1024;

/// The folders in a store's own.
const OWN: [&str; 3] = ["artifacts", "messages", UNFINISHED];

/// Whether names that differ only in case are usually one name here.
const FOLDS_CASE: bool = cfg!(any(windows, target_vendor = "apple"));

/// A store of files in a folder. No file is ever replaced: another file of the same name gets the beginning of its SHA-256.
#[derive(Debug, Clone)]
pub struct LocalFileStore {
    root: PathBuf,
    ids: Ids,
    /// Whether artifacts stand in the folder itself.
    is_flat: bool,
    is_instead_of_log: bool,
    schemes: UriSchemes,
    remote_bytes_max: u64,
    remote_bytes_together_max: u64,
    client: Option<Arc<dyn FetchRemote>>,
}

impl LocalFileStore {
    /// Opens a store in a folder, which is made if it is missing. Files behind addresses are refused until the store is
    /// given a [`client`](Self::client). What a program left that was killed while it wrote is removed after an hour.
    ///
    /// # Errors
    /// [`FileError::Io`] if the folder cannot be made or found.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self, FileError> {
        let root = made_durably(folder.as_ref())?;
        remove_left(&root)?;
        Ok(Self::with_root(root))
    }

    /// Opens a store that is there, and changes nothing in it: for a look at what it holds.
    ///
    /// # Errors
    /// [`FileError::Io`] if the folder cannot be found.
    pub fn existing(folder: impl AsRef<Path>) -> Result<Self, FileError> {
        let folder = folder.as_ref();
        let root = folder.canonicalize().map_err(FileError::io("cannot find", folder))?;
        std::fs::read_dir(&root).map_err(FileError::io("cannot read", folder))?;
        Ok(Self::with_root(root))
    }

    fn with_root(root: PathBuf) -> Self {
        let schemes = UriSchemes::default();
        let ids = Ids::default();
        Self {
            root,
            ids,
            is_flat: false,
            is_instead_of_log: false,
            schemes,
            remote_bytes_max: REMOTE_BYTES_MAX,
            remote_bytes_together_max: REMOTE_BYTES_TOGETHER_MAX,
            client: None,
        }
    }

    /// Keeps the files of artifacts in this store instead of the log, which holds their digests. Each file is on disk before the
    /// event that names its digest, and a file that cannot be written keeps its artifact out of the log.
    ///
    /// The store is then part of the evidence: what is lost here is lost, `verify --files` names it, and no replay can bring
    /// it back. Files of fewer than 4,096 bytes stay in the log, and so does a content that is not base64 in its usual form, without
    /// line breaks: only what the file gives back character by character leaves the log. An artifact with such a file needs a
    /// task's and an artifact's id that the store takes: letters, digits, `.`, `_` and `-`, at most 250 bytes, not `.` or `..`;
    /// under any other id it is refused ([`Error::FileNotKept`](crate::Error::FileNotKept)), while a store of copies leaves it
    /// in the log with a warning.
    ///
    /// A reader of the task's JSON finds `"kept_file": {"sha256": ..., "size": ...}` in the place of the content, and gets the file
    /// from the store: another agent to which the task is sent, and a client over a protocol, do not have it.
    #[must_use]
    pub fn instead_of_log(self) -> Self {
        Self { is_instead_of_log: true, ..self }
    }

    /// Sets the schemes of addresses that may be fetched.
    #[must_use]
    pub fn uri_schemes(self, schemes: UriSchemes) -> Self {
        Self { schemes, ..self }
    }

    /// Sets the bytes of a remote file that are fetched at most.
    #[must_use]
    pub fn remote_bytes_max(self, bytes: u64) -> Self {
        Self { remote_bytes_max: bytes, ..self }
    }

    /// Sets the bytes that the remote files of one artifact or message may have together: by 100 names, one that is within the limit
    /// for a file could be fetched a hundred times.
    #[must_use]
    pub fn remote_bytes_together_max(self, bytes: u64) -> Self {
        Self { remote_bytes_together_max: bytes, ..self }
    }

    /// Sets who fetches files behind addresses.
    #[must_use]
    pub fn client(self, client: Arc<dyn FetchRemote>) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Keeps artifacts where a2a-utils 0.2.0 kept them, in `TASK/ARTIFACT/FILE`, under every id that is the name of one
    /// folder.
    #[must_use]
    pub fn layout_of_0_2_0(self) -> Self {
        Self { ids: Ids::Names, is_flat: true, ..self }
    }

    /// Returns the folder of an artifact's files, which need not be there.
    pub(super) fn artifact_folder(&self, task_id: &str, artifact_id: &str) -> Result<PathBuf, FileError> {
        self.ids.check("task id", task_id)?;
        self.ids.check("artifact id", artifact_id)?;
        // Messages stand beside tasks there.
        let is_own =
            |own: &&str| if FOLDS_CASE { own.eq_ignore_ascii_case(task_id) } else { **own == *task_id };
        if self.is_flat && OWN.iter().any(is_own) {
            return Err(FileError::Reserved { what: "task id", value: task_id.to_owned() });
        }
        let artifacts = if self.is_flat { self.root.clone() } else { self.root.join("artifacts") };
        self.within(artifacts.join(task_id).join(artifact_id))
    }

    fn message_folder(&self, message_id: &str) -> Result<PathBuf, FileError> {
        self.ids.check("message id", message_id)?;
        self.within(self.root.join("messages").join(message_id))
    }

    fn within(&self, folder: PathBuf) -> Result<PathBuf, FileError> {
        resolved(&self.root, &folder).map(|_| folder)
    }

    fn save(&self, folder: &Path, parts: &[A2aPart]) -> Result<Vec<PathBuf>, FileError> {
        let files = parts.iter().enumerate().filter_map(|(index, part)| match part {
            A2aPart::File(file) => Some((index, file)),
            _ => None,
        });
        let (mut paths, mut adding, mut room) = (Vec::new(), None, self.remote_bytes_together_max);
        for (index, file) in files {
            let bytes = self.content(file, &mut room)?;
            // No folder is made for an artifact without files.
            let adding = match &mut adding {
                Some(adding) => adding,
                none => none.insert(FileAddition::to(&self.root, folder)?),
            };
            paths.push(adding.add(&cleaned(file.name.as_deref(), index), &bytes)?);
        }
        adding.map_or(Ok(()), FileAddition::finish)?;
        Ok(paths)
    }

    /// Returns the content of a file. A remote one takes from the room that is left for remote files.
    fn content(&self, file: &A2aFile, room: &mut u64) -> Result<Vec<u8>, FileError> {
        let uri = match &file.content {
            A2aFileContent::Bytes(text) => return decoded(text),
            A2aFileContent::Uri(uri) => RemoteUri::parse(uri, &self.schemes)?,
        };
        let client = self.client.as_ref().ok_or_else(|| FileError::NoClient(uri.shown()))?;
        let limit = self.remote_bytes_max.min(*room);
        let content = client.fetch(&uri, limit).and_then(|content| {
            let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
            if bytes > limit { Err(FileError::TooLarge { limit, bytes }) } else { Ok((content, bytes)) }
        });
        let together = self.remote_bytes_together_max;
        let (content, bytes) = content.map_err(|error| match error {
            FileError::TooLarge { .. } if limit < self.remote_bytes_max => {
                FileError::TooLargeTogether { limit: together }
            }
            other => other,
        })?;
        *room = room.saturating_sub(bytes);
        Ok(content)
    }

    /// Returns the regular files of a folder, sorted.
    pub(super) fn files_in(&self, path: &Path) -> Result<Vec<PathBuf>, FileError> {
        let Some(folder) = Folder::within(&self.root, path, MissingFolder::None)? else {
            return Ok(Vec::new());
        };
        let entries = folder.entries().map_err(FileError::io("cannot read", path))?;
        // A link is not followed, and no file that was saved is hidden.
        let is_saved = |name: &OsStr, kind| kind == Kind::File && !name.to_string_lossy().starts_with('.');
        let saved = entries.into_iter().filter(|(name, kind)| is_saved(name, *kind));
        let mut paths: Vec<_> = saved.map(|(name, _)| path.join(name)).collect();
        paths.sort();
        Ok(paths)
    }

    fn delete(&self, path: &Path) -> Result<(), FileError> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let Some(folder) = Folder::within(&self.root, above, MissingFolder::None)? else { return Ok(()) };
        match folder.remove_folder(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(FileError::io("cannot delete", path)),
        }
    }
}

impl FileStore for LocalFileStore {
    fn is_instead_of_log(&self) -> bool {
        self.is_instead_of_log
    }

    fn save_artifact(&self, task_id: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError> {
        self.save(&self.artifact_folder(task_id, &artifact.artifact_id)?, &artifact.parts)
    }

    fn get_artifact(&self, task_id: &str, artifact_id: &str) -> Result<Vec<PathBuf>, FileError> {
        self.files_in(&self.artifact_folder(task_id, artifact_id)?)
    }

    fn delete_artifact(&self, task_id: &str, artifact_id: &str) -> Result<(), FileError> {
        self.delete(&self.artifact_folder(task_id, artifact_id)?)
    }

    fn save_message(&self, message: &A2aMessage) -> Result<Vec<PathBuf>, FileError> {
        self.save(&self.message_folder(&message.message_id)?, &message.parts)
    }

    fn get_message(&self, message_id: &str) -> Result<Vec<PathBuf>, FileError> {
        self.files_in(&self.message_folder(message_id)?)
    }

    fn delete_message(&self, message_id: &str) -> Result<(), FileError> {
        self.delete(&self.message_folder(message_id)?)
    }
}
