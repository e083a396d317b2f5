//! A copy of a damaged log's database, for reading what is left of it: sled changes a damaged file when it
//! opens it, and the original is the evidence.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::api::error::OpenError;
use crate::api::holder::Holder;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::cache;
use crate::sled::guard::lock::lock;
use crate::sled::guard::pages::SNAPSHOT;

/// A copy of a database. It is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Copy(PathBuf);

impl Copy {
    /// Copies the database in `dir`, without files that sled would refuse.
    ///
    /// # Errors
    /// [`OpenError`] if another process has the log open, or there is no room for the copy.
    pub(crate) fn of(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(DATA_FILE);
        let db = File::open(&path).map_err(io_error(&path, "the database file could not be opened"))?;
        if !lock(&db, &path)? {
            return Err(OpenError::Held { path: dir.to_owned(), holder: Holder::read(dir) });
        }
        let to = dir.join(format!("looked-at-{}", std::process::id()));
        let copy = Self(to.clone());
        copy.fill(dir).map_err(io_error(&to, "the damaged database could not be copied"))?;
        cache::check(&to, &mut Vec::new())?;
        Ok(copy)
    }

    fn fill(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let text = name.to_string_lossy();
            if text == DATA_FILE || text == "conf" || text.starts_with(SNAPSHOT) {
                fs::copy(entry.path(), self.0.join(&name))?;
            }
        }
        Ok(())
    }

    /// Returns the directory of the copy.
    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A leftover copy is harmless.
        let _ = fs::remove_dir_all(&self.0);
    }
}
