//! The log that is inspected: a reader of it, the name under which people know it, and how a command about it is typed.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use taskreel::System;
use taskreel_log::api::{EventReader, EventStore, ReadError};
use taskreel_log::sled::Head;
use taskreel_log::views::{Courses, LogUse, Readable, StatsRow, StatsWatch, shell_word};

/// Returns a command line, of a command as typed after the program's name.
type Typed = dyn Fn(&str) -> String + Send + Sync;

/// Returns whether a program has the log open at this moment.
type Used = dyn Fn() -> LogUse + Send + Sync;

/// The file HEAD of a log: what its program had made durable when it wrote the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadFile {
    /// The contents.
    pub head: Head,
    /// The time when it was written, where that is known.
    pub written: Option<SystemTime>,
}

/// Reads the file HEAD as it is at this moment.
type ReadHead = dyn Fn() -> Result<Option<HeadFile>, String> + Send + Sync;

/// A log that is inspected.
pub struct InspectedLog {
    reader: Arc<dyn EventReader>,
    name: String,
    used: Box<Used>,
    is_followed: bool,
    note: Option<String>,
    head_file: Option<Box<ReadHead>>,
    typed: Box<Typed>,
    courses: Courses,
    stats: Mutex<StatsWatch>,
}

impl fmt::Debug for InspectedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InspectedLog")
            .field("name", &self.name)
            .field("used", &self.use_of())
            .finish_non_exhaustive()
    }
}

impl InspectedLog {
    /// Returns a log with a name for people, such as its directory. Until [`used`](Self::used) says otherwise, a program has it open.
    pub fn new(reader: Arc<dyn EventReader>, name: impl Into<String>) -> Self {
        let typed = Box::new(|command: &str| format!("taskreel {command}"));
        Self {
            reader,
            name: name.into(),
            used: Box::new(|| LogUse::Open),
            is_followed: false,
            note: None,
            head_file: None,
            typed,
            courses: Courses::default(),
            stats: Mutex::default(),
        }
    }

    /// Returns the log of a running system.
    pub fn of(system: &System) -> Self {
        let store: Arc<dyn EventStore> = system.log();
        let Some(dir) = system.directory() else {
            return Self::new(store, "the log of this program");
        };
        let (path, dir) = (dir.to_path_buf(), dir.display().to_string());
        let option = format!(" --data-dir {}", shell_word(&dir));
        Self::new(store, dir).in_directory(path).typed(move |command| format!("taskreel {command}{option}"))
    }

    /// Says whether a program has the log open.
    #[must_use]
    pub fn used(mut self, used: LogUse) -> Self {
        self.used = Box::new(move || used);
        self
    }

    /// Says how it is found out whether a program has the log open at the moment of a page. The reader goes on with what programs
    /// write, so that pages that follow the log wait for one where none has it open.
    #[must_use]
    pub fn used_now(mut self, used: impl Fn() -> LogUse + Send + Sync + 'static) -> Self {
        (self.used, self.is_followed) = (Box::new(used), true);
        self
    }

    /// Says what is to be known of the log on every page, such as why only a part of it can be read.
    #[must_use]
    pub fn noted(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Names the directory in which the log stands: the audit shows its file HEAD, and compares the log with it.
    #[must_use]
    pub fn in_directory(self, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        // Whole: the program may change its working directory.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        self.with_head(move || {
            let written = std::fs::metadata(dir.join("HEAD")).and_then(|file| file.modified()).ok();
            Ok(Head::read(&dir)?.map(|head| HeadFile { head, written }))
        })
    }

    /// Says how the file HEAD of the log is read, for the audit.
    #[must_use]
    pub fn with_head(
        mut self,
        read: impl Fn() -> Result<Option<HeadFile>, String> + Send + Sync + 'static,
    ) -> Self {
        self.head_file = Some(Box::new(read));
        self
    }

    /// Says how a command about this log is typed: the function is given the command with its arguments, as
    /// [`CallRow::commands`](taskreel_log::views::CallRow::commands) has it, and returns the line for a terminal.
    #[must_use]
    pub fn typed(mut self, typed: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.typed = Box::new(typed);
        self
    }

    pub(crate) fn reader(&self) -> &Arc<dyn EventReader> {
        &self.reader
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the file HEAD; `None` if the log has none, or it is not known where.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn head_file(&self) -> Result<Option<HeadFile>, String> {
        self.head_file.as_ref().map_or(Ok(None), |read| read())
    }

    pub(crate) fn banner(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the courses of long tasks, kept between pages.
    pub(crate) const fn courses(&self) -> &Courses {
        &self.courses
    }

    /// Returns the sums over all calls of the log, kept between pages.
    pub(crate) fn stats(&self, log: &dyn EventReader) -> Result<Readable<StatsRow>, ReadError> {
        // Who asks at the same time waits for one reading.
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).now(log)
    }

    pub(crate) fn use_of(&self) -> LogUse {
        (self.used)()
    }

    /// Whether new events may come.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed || self.use_of() == LogUse::Open
    }

    pub(crate) fn command_line(&self, command: &str) -> String {
        (self.typed)(command)
    }
}
