//! The log that the inspectors show: opened once for a whole sitting, with its name and the way to type commands about it. A damaged
//! one is opened as far as it can be read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_events::id::{LogId, StreamId};
#[cfg(feature = "inspector")]
use taskreel_http::HttpLog;
use taskreel_log::api::EventReader;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::{SledDamaged, is_held};
use taskreel_log::views::{LogUse, find};

use crate::args::Global;
use crate::args::source::{ReadFrom, ServerArgs};
use crate::dirs::{DEMO_DIR, LOG_DIR, ReadLog};
use crate::print::problem::{EXIT_LOG, Problem};
use crate::print::screen::note;
use crate::{dirs, server};

/// The full command line of a command, given as typed after the program's name.
pub(crate) type Typed = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The place of a log.
#[cfg_attr(not(feature = "tui"), allow(dead_code, reason = "the pages need not know the place"))]
#[derive(Debug, Clone)]
pub(crate) enum LogLocation {
    /// A directory, and the id of the log in it, where that could be read.
    Dir(PathBuf, Option<LogId>),
    /// An exported file.
    File(PathBuf),
    /// A server.
    Server(ServerArgs),
}

/// A log that is open.
#[cfg_attr(not(feature = "tui"), allow(dead_code, reason = "the pages need not know the place"))]
#[derive(Clone)]
pub(crate) struct OpenedLog {
    /// The reader of the log.
    pub(crate) reader: Arc<dyn EventReader>,
    /// The name of the log for people.
    pub(crate) name: String,
    /// The use of the log by a program.
    pub(crate) used: LogUse,
    /// Whether the reader reads what a program writes meanwhile.
    pub(crate) is_followed: bool,
    /// The reason why only a part of it can be read.
    pub(crate) note: Option<String>,
    /// The fault because of which only a part of it can be read.
    fault: Option<Problem>,
    /// The log behind a server, to ask the server of it.
    #[cfg(feature = "inspector")]
    pub(crate) server: Option<Arc<HttpLog>>,
    /// The place of the log.
    pub(crate) place: LogLocation,
    /// The way to type commands about it.
    pub(crate) typed: Typed,
}

impl fmt::Debug for OpenedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedLog")
            .field("name", &self.name)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl OpenedLog {
    /// Opens a log; of a damaged one, what can be read.
    ///
    /// # Errors
    /// [`Problem`] if nothing of it can be read.
    pub(crate) fn new(from: &ReadFrom, global: &Global) -> Result<Self, Problem> {
        if let Some(log) = server::connect(&from.server)? {
            let (name, options) = (log.url().to_owned(), server::options(&from.server));
            let typed: Typed = Arc::new(move |command| format!("{} {command}{options}", dirs::program()));
            let place = LogLocation::Server(from.server.clone());
            let log = Arc::new(log);
            return Ok(Self {
                reader: Arc::clone(&log) as Arc<dyn EventReader>,
                name,
                used: LogUse::Open,
                is_followed: true,
                note: None,
                fault: None,
                #[cfg(feature = "inspector")]
                server: Some(log),
                place,
                typed,
            });
        }
        match &from.file {
            Some(path) => Self::file(path),
            None => Self::dir(&dirs::to_read(global), global),
        }
    }

    /// Opens an export; of a damaged one, what can be read.
    ///
    /// # Errors
    /// [`Problem`] if nothing of it can be read.
    pub(crate) fn file(path: &Path) -> Result<Self, Problem> {
        let (mut note, mut fault) = (None, None);
        let log = JsonLines::open(path).or_else(|refused| {
            // A file that is not a log, or is missing, cannot be read in part either.
            let log = JsonLines::open_damaged(path)?;
            note = Some(only_a_part(&refused.to_string()));
            fault = Some(Problem::export(&refused, path));
            Ok(log)
        });
        let log = log.map_err(|error| Problem::export(&error, path))?;
        let (name, path) = (path.display().to_string(), path.to_path_buf());
        let place = LogLocation::File(path.clone());
        let typed: Typed = Arc::new(move |command| dirs::typed_with(command, "--file", &path));
        let (reader, used) = (Arc::new(log), LogUse::Exported);
        Ok(Self {
            reader,
            name,
            used,
            is_followed: false,
            note,
            fault,
            #[cfg(feature = "inspector")]
            server: None,
            place,
            typed,
        })
    }

    fn dir(dir: &Path, global: &Global) -> Result<Self, Problem> {
        let used = if is_held(dir) { LogUse::Open } else { LogUse::Closed };
        let (mut note, mut fault, mut id, mut is_followed) = (None, None, None, false);
        let reader: Arc<dyn EventReader> = match dirs::open_to_read(dir, global) {
            Ok(log) => {
                id = Some(log.header().id);
                is_followed = !matches!(log, ReadLog::Copy(_));
                into_reader(log)
            }
            Err(refused) if refused.code == EXIT_LOG => {
                let Ok(log) = SledDamaged::open_with(dir, &dirs::reading(global)) else {
                    return Err(refused);
                };
                note = Some(only_a_part(&refused.why));
                fault = Some(refused);
                Arc::new(log)
            }
            Err(refused) => return Err(refused),
        };
        // Without `--data-dir` it was the first default that exists.
        let default = if Path::new(LOG_DIR).exists() { LOG_DIR } else { DEMO_DIR };
        let (name, dir) = (dir.display().to_string(), dir.to_path_buf());
        let place = LogLocation::Dir(dir.clone(), id);
        let typed: Typed = Arc::new(move |command| dirs::typed(command, &dir, default));
        Ok(Self {
            reader,
            name,
            used,
            is_followed,
            note,
            fault,
            #[cfg(feature = "inspector")]
            server: None,
            place,
            typed,
        })
    }

    /// Returns the stream that an id names.
    ///
    /// # Errors
    /// [`Problem`] if it names none, or several; of a damaged log the fault, behind which it may stand.
    #[cfg_attr(
        not(feature = "inspector"),
        allow(dead_code, reason = "only a report looks for a stream here")
    )]
    pub(crate) fn find(&self, id: &str) -> Result<StreamId, Problem> {
        find(self.reader.as_ref(), id).map_err(|error| match &self.fault {
            Some(fault) => Problem::from(error).behind(fault),
            None => Problem::from(error),
        })
    }
}

/// Returns the reader of a log that was opened in a directory.
pub(crate) fn into_reader(log: ReadLog) -> Arc<dyn EventReader> {
    match log {
        ReadLog::Copy(log) => Arc::from(log as Box<dyn EventReader>),
        #[cfg(unix)]
        ReadLog::LocalSocket(log) => Arc::from(log as Box<dyn EventReader>),
    }
}

/// Says on stderr why only a part of a log is shown, and returns what the inspector says about it.
fn only_a_part(why: &str) -> String {
    let told = format!("The log is damaged; what can be read of it is shown: {why}");
    note(&format!("note: {told}"));
    told
}
