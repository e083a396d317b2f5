//! The log that is inspected: a reader of it, the name under which people know it, and how a command about it is typed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use taskreel::System;
use taskreel_log::api::{EventReader, EventStore, ReadError};
use taskreel_log::views::{Courses, LogUse, Readable, StatsRow, StatsWatch, shell_word};

/// Returns a command line, of a command as typed after the program's name.
type Typed = dyn Fn(&str) -> String + Send + Sync;

/// A log that is inspected.
pub struct InspectedLog {
    reader: Arc<dyn EventReader>,
    name: String,
    used: LogUse,
    note: Option<String>,
    typed: Box<Typed>,
    courses: Courses,
    stats: Mutex<StatsWatch>,
}

impl fmt::Debug for InspectedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InspectedLog")
            .field("name", &self.name)
            .field("used", &self.used)
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
            used: LogUse::Open,
            note: None,
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
        let dir = dir.display().to_string();
        let option = format!(" --data-dir {}", shell_word(&dir));
        Self::new(store, dir).typed(move |command| format!("taskreel {command}{option}"))
    }

    /// Says whether a program has the log open.
    #[must_use]
    pub fn used(mut self, used: LogUse) -> Self {
        self.used = used;
        self
    }

    /// Says what is to be known of the log on every page, such as why only a part of it can be read.
    #[must_use]
    pub fn noted(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
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

    pub(crate) fn note(&self) -> Option<&str> {
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

    pub(crate) const fn use_of(&self) -> LogUse {
        self.used
    }

    pub(crate) fn line(&self, command: &str) -> String {
        (self.typed)(command)
    }
}
