//! A copy of a damaged log's database, for whoever looks at what is left of it: sled changes a damaged file when it
//! opens it, and the original is the evidence.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::{Holder, OpenError};

use super::super::dir::{DATA_FILE, io_error};
use super::{cache, lock};

/// The copy. It is removed with this value.
#[derive(Debug)]
pub(in crate::store::sled) struct Copy(PathBuf);

impl Copy {
    /// Copies the database in `dir`, without what sled would refuse to begin with.
    ///
    /// # Errors
    /// [`OpenError`] if somebody has the log open, or there is no room for the copy.
    pub(in crate::store::sled) fn of(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(DATA_FILE);
        let db = File::open(&path).map_err(io_error(&path, "the database's file could not be opened"))?;
        if !lock(&db, &path)? {
            return Err(OpenError::Held { path: dir.to_owned(), holder: Holder::read(dir) });
        }
        let to = dir.join(format!("looked-at-{}", std::process::id()));
        let copy = Self(to.clone());
        copy.fill(dir).map_err(io_error(&to, "the damaged database could not be copied to be looked at"))?;
        cache::look(&to, &mut Vec::new())?;
        Ok(copy)
    }

    fn fill(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let text = name.to_string_lossy();
            if text == DATA_FILE || text == "conf" || text.starts_with(cache::SNAPSHOT) {
                fs::copy(entry.path(), self.0.join(&name))?;
            }
        }
        Ok(())
    }

    /// Where it is.
    pub(in crate::store::sled) fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What stays behind is a copy of what is there anyway.
        let _ = fs::remove_dir_all(&self.0);
    }
}
