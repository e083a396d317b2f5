//! A log that is open for one command, from whichever source: a directory, an export, or a server.

use std::path::{Path, PathBuf};

use proto_events::id::StreamId;
use taskreel_http::HttpLog;
use taskreel_log::api::EventReader;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::Head;
use taskreel_log::views::{AsOf, Point, find, position_at};

use crate::args::Global;
use crate::args::source::{ReadFrom, ServerArgs};
use crate::dirs::{DEMO_DIR, LOG_DIR, ReadLog};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_UNKNOWN, Problem};
use crate::print::screen::note;
use crate::print::show::at_point;
use crate::{dirs, server};

/// A log that is open for one command.
pub(crate) enum OpenLog {
    Dir { dir: PathBuf, log: ReadLog },
    File { path: PathBuf, log: Box<JsonLines>, fault: Option<Problem> },
    Server { from: ServerArgs, url: PathBuf, log: Box<HttpLog> },
}

impl OpenLog {
    /// Opens a log that is needed whole: an export that is cut or damaged is refused.
    ///
    /// # Errors
    /// [`Problem`] if no log exists, or it cannot be read.
    pub(crate) fn open_whole(from: &ReadFrom, global: &Global) -> Result<Self, Problem> {
        Self::open_by(from, global, dirs::open_to_read)
    }

    fn open_by(
        from: &ReadFrom,
        global: &Global,
        open: fn(&Path, &Global) -> Result<ReadLog, Problem>,
    ) -> Result<Self, Problem> {
        if let Some(log) = server::connect(&from.server)? {
            let (url, log) = (PathBuf::from(log.url()), Box::new(log));
            return Ok(Self::Server { from: from.server.clone(), url, log });
        }
        let Some(path) = &from.file else {
            let dir = dirs::to_read(global);
            let log = open(&dir, global)?;
            return Ok(Self::Dir { dir, log });
        };
        Ok(Self::File { path: path.clone(), log: Box::new(open_file(path)?), fault: None })
    }

    /// Shows a log. Of an export that is cut or damaged the part up to the first fault is shown, and the answer is the fault.
    ///
    /// # Errors
    /// [`Problem`] if no log exists, it cannot be read to its end, or `show` returns one.
    pub(crate) fn show(
        from: &ReadFrom,
        global: &Global,
        show: impl FnOnce(&Self) -> Result<Answer, Problem>,
    ) -> Result<Answer, Problem> {
        let log = Self::open_beginning(from, global)?;
        let answer = show(&log);
        log.finish(answer)
    }

    fn open_beginning(from: &ReadFrom, global: &Global) -> Result<Self, Problem> {
        let Some(path) = from.file.as_ref().filter(|_| from.server.url.is_none()) else {
            return Self::open_by(from, global, dirs::open_to_look);
        };
        let problem = |error| Problem::export(&error, path);
        let (log, fault) = JsonLines::open_beginning(path).map_err(problem)?;
        Ok(Self::File { path: path.clone(), log: Box::new(log), fault: fault.map(problem) })
    }

    /// Ends what was shown of a log: with its fault, if only its beginning could be read.
    fn finish(self, answer: Result<Answer, Problem>) -> Result<Answer, Problem> {
        let Self::File { log, fault: Some(mut fault), .. } = self else { return answer };
        let end = log.head().unwrap_or_default();
        match answer {
            Ok(_) => {
                fault.what = format!("{}; shown is what stands before, up to position {end}", fault.what);
                Err(fault)
            }
            // What was asked for may stand behind the fault.
            Err(problem) if problem.code == EXIT_UNKNOWN => {
                let Problem { what, why, .. } = problem;
                fault.what =
                    format!("{}; what can be read ends at position {end}: {what}: {why}", fault.what);
                Err(fault)
            }
            Err(problem) => Err(problem),
        }
    }

    /// Returns a stream, and the log as it was at a point of the stream, if one is given. At the newest event of the stream it is
    /// the log as it is: what other streams tell of it may stand behind.
    ///
    /// # Errors
    /// [`Problem`] if the stream does not exist, or it has no such point.
    pub(crate) fn find_at(&self, id: &str, at: Option<Point>) -> Result<(StreamId, AtPoint<'_>), Problem> {
        let stream = self.find(id)?;
        let log = self.reader();
        let Some(point) = at else { return Ok((stream, AtPoint { log, then: None })) };
        let version = at_point(log, &stream, point)?;
        let named =
            AsOf::version(log, &stream, version).map_err(|error| Problem::point(error, &stream.id()))?;
        note(&format!("as it was at version {version}, position {}", named.through()));
        let then = match point {
            Point::Position(position) => Some(AsOf::position(log, position)),
            _ if version == log.stream_version(&stream)? => None,
            _ => Some(named),
        };
        Ok((stream, AtPoint { log, then }))
    }

    /// Returns the whole log, as it was at a point if one is given.
    ///
    /// # Errors
    /// [`Problem`] if it has no such point.
    pub(crate) fn at_point(&self, at: Option<Point>) -> Result<AtPoint<'_>, Problem> {
        let log = self.reader();
        let then = at.map(|point| {
            let through = position_at(log, point).map_err(|error| Problem::point(error, "the log"))?;
            note(&format!("as it was at position {through}"));
            Ok::<_, Problem>(AsOf::position(log, through))
        });
        Ok(AtPoint { log, then: then.transpose()? })
    }

    pub(crate) fn reader(&self) -> &dyn EventReader {
        match self {
            Self::Dir { log, .. } => log.reader(),
            Self::File { log, .. } => &**log,
            Self::Server { log, .. } => &**log,
        }
    }

    pub(crate) fn find(&self, id: &str) -> Result<StreamId, Problem> {
        find(self.reader(), id).map_err(Problem::from)
    }

    /// Returns the full command line of a decision, which needs the log itself, not an export.
    pub(crate) fn typed_to_decide(&self, command: &str) -> String {
        match self {
            Self::File { .. } => format!("{} {command}", dirs::program()),
            Self::Dir { .. } | Self::Server { .. } => self.typed(command),
        }
    }

    /// Returns a decision as typed after the program's name, with the directory of the log.
    pub(crate) fn arguments_to_decide(&self, command: &str) -> String {
        let typed = self.typed_to_decide(command);
        typed
            .strip_prefix(dirs::program())
            .map_or_else(|| typed.clone(), |words| words.trim_start().to_owned())
    }

    /// Returns the contents of the file HEAD behind a server, as it was before the log was read.
    pub(crate) fn head(&self) -> Option<&Head> {
        match self {
            Self::Server { log, .. } => log.about().head.as_ref(),
            _ => None,
        }
    }

    /// Returns the place of the log, as it is named.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } => path,
            Self::Dir { dir, .. } => dir,
            Self::Server { url, .. } => url,
        }
    }

    pub(crate) fn typed(&self, command: &str) -> String {
        match self {
            Self::File { path, .. } => dirs::typed_with(command, "--file", path),
            Self::Server { from, .. } => format!("{} {command}{}", dirs::program(), server::options(from)),
            Self::Dir { dir, .. } => {
                // Without `--data-dir` it was the first default that exists.
                let default = if Path::new(LOG_DIR).exists() { LOG_DIR } else { DEMO_DIR };
                dirs::typed(command, dir, default)
            }
        }
    }
}

/// A log, or the log as it was at a point.
pub(crate) struct AtPoint<'a> {
    log: &'a dyn EventReader,
    then: Option<AsOf<'a>>,
}

impl AtPoint<'_> {
    /// Returns the reader.
    pub(crate) fn reader(&self) -> &dyn EventReader {
        match &self.then {
            Some(then) => then,
            None => self.log,
        }
    }
}

/// Opens an export that is needed whole.
///
/// # Errors
/// [`Problem`] if it cannot be read to its end.
pub(crate) fn open_file(path: &Path) -> Result<JsonLines, Problem> {
    JsonLines::open(path).map_err(|error| Problem::export(&error, path))
}
