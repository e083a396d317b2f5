//! A2A tasks as JSON files, one each, with the bytes that the `JSONTaskStore` of a2a-utils writes.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::{Style, written};

use crate::files::error::FileError;
use crate::files::folder::kind::MissingFolder;
use crate::files::folder::{Folder, resolved};
use crate::files::identifier::Ids;
use crate::files::python_numbers::as_python_prints;
use crate::files::store_folder::made_durably;
use crate::files::task_shape::{whole_task, without_nulls};
use crate::files::write::{remove_left, replace};

/// A folder of A2A tasks, each in the file `ID.json`. Files that a2a-utils wrote are read, and a2a-utils reads those
/// that are written here; a file is replaced as a whole.
#[derive(Debug, Clone)]
pub struct JsonTaskStore {
    root: PathBuf,
    ids: Ids,
}

impl JsonTaskStore {
    /// Opens a store in a folder, which is made if it is missing.
    ///
    /// # Errors
    /// [`FileError::Io`] if the folder cannot be made or found.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self, FileError> {
        let root = made_durably(folder.as_ref())?;
        remove_left(&root)?;
        Ok(Self { root, ids: Ids::default() })
    }

    /// Takes every id that is the name of one file, as a2a-utils 0.2.0 did; A2A allows such ids.
    #[must_use]
    pub fn any_name(self) -> Self {
        Self { ids: Ids::Names, ..self }
    }

    /// Saves a task, given as A2A's JSON. Fields that A2A does not know are left out, and numbers are written as Python
    /// prints them, so that a2a-utils writes the same file again; a number beyond the range of floats is null there.
    ///
    /// # Errors
    /// [`FileError`] if the value is not a task or has an integer that Python does not read, if its id is not a plain name, or
    /// if the file cannot be written.
    pub fn save(&self, task: &Value) -> Result<(), FileError> {
        let whole = as_python_prints(whole_task(task)?)?;
        let id = whole.get("id").and_then(Value::as_str).unwrap_or_default();
        self.path(id)?;
        let text = written(&whole, Style { indented: true, ..Style::default() });
        replace(&self.root, &name(id), text.as_bytes())
    }

    /// Returns a task as A2A's JSON; nothing if it is missing, or if its file does not hold a task.
    ///
    /// # Errors
    /// [`FileError`] if the id is not a plain name, or if the file cannot be read.
    pub fn get(&self, task_id: &str) -> Result<Option<Value>, FileError> {
        let path = self.path(task_id)?;
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        let task = std::str::from_utf8(&bytes).ok().and_then(|text| Value::parse(text).ok());
        let task = task.map(|task| whole_task(&task));
        match task {
            Some(Ok(task)) => Ok(Some(without_nulls(task))),
            other => {
                let why =
                    other.and_then(Result::err).map_or_else(|| "no JSON".to_owned(), |why| why.to_string());
                tracing::warn!(path = %path.display(), why, "the file holds no task");
                Ok(None)
            }
        }
    }

    /// Deletes a task; it need not be there.
    ///
    /// # Errors
    /// [`FileError`] if the id is not a plain name, or if the file cannot be deleted.
    pub fn delete(&self, task_id: &str) -> Result<(), FileError> {
        let path = self.path(task_id)?;
        let Some(folder) = Folder::within(&self.root, &self.root, MissingFolder::None)? else {
            return Ok(());
        };
        match folder.remove(&name(task_id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(FileError::io("cannot delete", &path)),
        }
    }

    /// Returns the path of a task's file, which may be a link within the folder.
    fn path(&self, task_id: &str) -> Result<PathBuf, FileError> {
        self.ids.check("task id", task_id)?;
        let path = self.root.join(name(task_id));
        resolved(&self.root, &path)
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
            return Ok(None);
        };
        let Some(folder) = Folder::within(&self.root, above, MissingFolder::None)? else { return Ok(None) };
        match folder.read(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            content => content.map_err(FileError::io("cannot read", path)),
        }
    }
}

fn name(task_id: &str) -> String {
    format!("{task_id}.json")
}
