//! The reader of a log for as long as an inspector shows it. Its end is looked at beside the pages or the screen: a program that opens
//! the log is found, and one that ends too.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

#[cfg(unix)]
use proto_events::id::LogId;
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{
    Compare, EventReader, Page, ReadError, ScanStep, ScannedRecord, StoredRecord, StreamInfo,
};
use taskreel_log::sled::is_held;
#[cfg(unix)]
use taskreel_log::socket::{SocketReader, SteadyReader};
use taskreel_log::views::LogUse;

use crate::args::Global;
use crate::dirs;
use crate::opened_log::{LogLocation, OpenedLog, into_reader};

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The time between two words where nothing has changed, from which the rate is made.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// The time between two copies of a log whose program has no socket.
const COPY_EVERY: Duration = Duration::from_secs(5);

/// The log as its end was last seen.
#[cfg_attr(not(feature = "tui"), allow(dead_code, reason = "the pages look at the log themselves"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenEnd {
    /// The position of the last event, or the reason why it cannot be read.
    pub(crate) head: Result<u64, String>,
    /// The program that has the log open, if there is one.
    pub(crate) writer: Option<String>,
    /// The time since the screen began.
    pub(crate) at: Duration,
}

/// The reader of the log, which another one replaces when a program opens the log or ends. Each read goes to the one of that moment:
/// all read the same log, and a later one no less of it.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<(Arc<dyn EventReader>, LogUse)>>);

impl Shared {
    /// Returns the reader of a log that was opened.
    pub(crate) fn new(opened: &OpenedLog) -> Self {
        Self(Arc::new(Mutex::new((Arc::clone(&opened.reader), opened.used))))
    }

    /// Returns the reader, and the use of the log by a program.
    pub(crate) fn now(&self) -> (Arc<dyn EventReader>, LogUse) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reader: Arc<dyn EventReader>, used: LogUse) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (reader, used);
    }

    fn reader(&self) -> Arc<dyn EventReader> {
        self.now().0
    }
}

/// A pass here reads one piece on one thread, as one reader does.
impl EventReader for Shared {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader().read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader().read_all(from, limit)
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader().page_stream(stream, from, page)
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader().page_all(from, page)
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        self.reader().scan(from, compare, visit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.reader().head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.reader().stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.reader().list_streams(prefix, after, limit)
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.reader().open_work()
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.reader().survey(show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.reader().survey_while(goes_on, show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.reader().survey_index(show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        self.reader().survey_index_while(goes_on, show);
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.reader().survey_stream(stream, show);
    }
}

/// A program that has the log open: its process, and the time when it opened it, since ids of processes come again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Writer {
    pid: u32,
    started: String,
}

/// A look at the end of a log, again and again.
pub(crate) struct LogWatch {
    shared: Shared,
    opened: OpenedLog,
    global: Global,
    began: Instant,
    /// Whether the reader reads through the socket of a program.
    has_socket: bool,
    /// The reader through that socket, once one was made here.
    #[cfg(unix)]
    steady: Option<Arc<SteadyReader>>,
    /// The program behind the socket, and the time when it was last asked.
    writer: Option<(Writer, Instant)>,
    copied: Instant,
    /// The time of the last copy that could not be made.
    failed: Option<Instant>,
    head_file: Option<SystemTime>,
}

impl LogWatch {
    /// Returns a watch over a log that was opened.
    pub(crate) fn new(shared: Shared, opened: OpenedLog, global: Global, began: Instant) -> Self {
        let head_file = match &opened.place {
            LogLocation::Dir(dir, _) => newest_head(dir),
            _ => None,
        };
        let has_socket = opened.is_followed;
        Self {
            shared,
            opened,
            global,
            began,
            has_socket,
            #[cfg(unix)]
            steady: None,
            writer: None,
            copied: Instant::now(),
            failed: None,
            head_file,
        }
    }

    /// Looks until it is over. Only of a directory, and one whose log is not damaged, another program can become the reader's.
    #[cfg(feature = "inspector")]
    pub(crate) fn run_until(mut self, is_over: &AtomicBool) {
        if !matches!(self.opened.place, LogLocation::Dir(_, Some(_))) {
            return;
        }
        while !is_over.load(Ordering::Acquire) {
            let _writer = self.check_log();
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    /// Looks until it is over, and says what was seen when it has changed, and once a second.
    #[cfg(feature = "tui")]
    pub(crate) fn run(mut self, is_over: &AtomicBool, say: impl Fn(SeenEnd) -> bool) {
        let mut last: Option<(Result<u64, String>, Option<String>)> = None;
        let mut said = Instant::now();
        while !is_over.load(Ordering::Acquire) {
            let writer = self.check_log();
            let (reader, _) = self.shared.now();
            let head = reader.head().map(|head| head.0).map_err(|error| error.to_string());
            let now = (head, writer);
            let is_due = now.1.is_some() && said.elapsed() >= SAY_EVERY;
            if last.as_ref() != Some(&now) || is_due {
                said = Instant::now();
                let seen = SeenEnd { head: now.0.clone(), writer: now.1.clone(), at: self.began.elapsed() };
                last = Some(now);
                if !say(seen) {
                    return;
                }
            }
            if matches!(self.opened.place, LogLocation::File(_)) {
                // An export stays as it is.
                return;
            }
            // A server is asked over the network.
            let is_far = matches!(self.opened.place, LogLocation::Server(_));
            std::thread::sleep(if is_far { LOOK_EVERY * 3 } else { LOOK_EVERY });
        }
    }

    /// Finds out whether a program has the log open, and reads through it, or what it has left.
    fn check_log(&mut self) -> Option<String> {
        let (dir, id) = match &self.opened.place {
            LogLocation::File(_) => return None,
            LogLocation::Server(_) => return Some(String::new()),
            LogLocation::Dir(dir, id) => (dir.clone(), *id),
        };
        // A damaged log is not opened again: no program can have it open.
        let id = id?;
        let is_held = is_held(&dir);
        #[cfg(unix)]
        if is_held && let Some(writer) = self.at_socket(&dir, id) {
            return Some(writer);
        }
        self.writer = None;
        let head_file = newest_head(&dir);
        let is_stale = if is_held {
            self.copied.elapsed() >= COPY_EVERY
        } else {
            self.has_socket || head_file != self.head_file || self.shared.now().1 == LogUse::Open
        };
        // Whatever keeps a copy from being made may last.
        let is_due = self.failed.is_none_or(|failed| failed.elapsed() >= COPY_EVERY);
        if is_stale && is_due {
            match dirs::open_quietly(&dir, &self.global) {
                Ok(log) => {
                    if log.header().id == id {
                        let used = if is_held { LogUse::Open } else { LogUse::Closed };
                        self.shared.set(into_reader(log), used);
                        #[cfg(unix)]
                        {
                            self.steady = None;
                        }
                    }
                    (self.has_socket, self.copied, self.head_file) = (false, Instant::now(), head_file);
                    self.failed = None;
                }
                Err(_) => self.failed = Some(Instant::now()),
            }
        }
        is_held.then(|| "without a socket".to_owned())
    }
}

#[cfg(unix)]
impl LogWatch {
    /// Returns the program behind the socket of the log; none without a socket. It is asked once a second.
    fn at_socket(&mut self, dir: &Path, id: LogId) -> Option<String> {
        let said = |writer: &Writer| format!("pid {}", writer.pid);
        // A reader that has lost its program for a moment reads a copy from then on.
        let is_at_socket = self.steady.as_ref().is_some_and(|steady| steady.is_at_socket());
        let is_asked = |(_, at): &&(Writer, Instant)| at.elapsed() < SAY_EVERY;
        if let Some((writer, _)) = self.writer.as_ref().filter(is_asked).filter(|_| is_at_socket) {
            return Some(said(writer));
        }
        let socket = SocketReader::connect(dir).ok()?;
        let writer = Writer { pid: socket.holder().pid, started: socket.holder().started.clone() };
        let is_another = self.writer.take().is_some_and(|(before, _)| before != writer);
        if (is_another || !is_at_socket) && socket.header().id == id {
            let steady = Arc::new(SteadyReader::new(socket, dirs::reading(&self.global)));
            self.shared.set(Arc::clone(&steady) as Arc<dyn EventReader>, LogUse::Open);
            (self.steady, self.has_socket, self.failed) = (Some(steady), true, None);
        }
        let told = said(&writer);
        self.writer = Some((writer, Instant::now()));
        Some(told)
    }
}

fn newest_head(dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(dir.join("HEAD")).ok()?.modified().ok()
}
