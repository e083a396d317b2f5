//! The end of the log, looked at beside the screen: a program that opens the log is found, and one that ends too.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

#[cfg(unix)]
use proto_events::id::LogId;
use taskreel_log::api::EventReader;
#[cfg(unix)]
use taskreel_log::door::{DoorReader, SteadyReader};
use taskreel_log::sled::is_held;
use taskreel_log::views::LogUse;

use crate::args::Global;
use crate::dirs;
use crate::opened::{Opened, Place, into_reader};
use crate::tui::ask::Seen;

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The time between two words where nothing has changed, from which the rate is made.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// The time between two copies of a log whose program has no door.
const COPY_EVERY: Duration = Duration::from_secs(5);

/// The reader of the log, which another one replaces when a program opens the log or ends.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<(Arc<dyn EventReader>, LogUse)>>);

impl Shared {
    /// Returns the reader of a log that was opened.
    pub(crate) fn new(opened: &Opened) -> Self {
        Self(Arc::new(Mutex::new((Arc::clone(&opened.reader), opened.used))))
    }

    /// Returns the reader, and the use of the log by a program.
    pub(crate) fn now(&self) -> (Arc<dyn EventReader>, LogUse) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reader: Arc<dyn EventReader>, used: LogUse) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (reader, used);
    }
}

/// A look at the end of a log, again and again.
pub(crate) struct Watch {
    shared: Shared,
    opened: Opened,
    global: Global,
    began: Instant,
    /// Whether the reader reads through the door of a program.
    has_door: bool,
    /// The program behind the door, and the time when it was last asked.
    writer: Option<(String, Instant)>,
    copied: Instant,
    head_file: Option<SystemTime>,
}

impl Watch {
    /// Returns a watch over a log that was opened.
    pub(crate) fn new(shared: Shared, opened: Opened, global: Global, began: Instant) -> Self {
        let head_file = match &opened.place {
            Place::Dir(dir, _) => newest_head(dir),
            _ => None,
        };
        let has_door = opened.is_followed;
        Self { shared, opened, global, began, has_door, writer: None, copied: Instant::now(), head_file }
    }

    /// Looks until it is over, and says what was seen when it has changed, and once a second.
    pub(crate) fn run(mut self, is_over: &AtomicBool, say: impl Fn(Seen) -> bool) {
        let mut last: Option<(Result<u64, String>, Option<String>)> = None;
        let mut said = Instant::now();
        while !is_over.load(Ordering::Acquire) {
            let writer = self.look();
            let (reader, _) = self.shared.now();
            let head = reader.head().map(|head| head.0).map_err(|error| error.to_string());
            let now = (head, writer);
            let is_due = now.1.is_some() && said.elapsed() >= SAY_EVERY;
            if last.as_ref() != Some(&now) || is_due {
                said = Instant::now();
                let seen = Seen { head: now.0.clone(), writer: now.1.clone(), at: self.began.elapsed() };
                last = Some(now);
                if !say(seen) {
                    return;
                }
            }
            if matches!(self.opened.place, Place::File(_)) {
                // An export stays as it is.
                return;
            }
            // A server is asked over the network.
            let is_far = matches!(self.opened.place, Place::Server(_));
            std::thread::sleep(if is_far { LOOK_EVERY * 3 } else { LOOK_EVERY });
        }
    }

    /// Finds out whether a program has the log open, and reads through it, or what it has left.
    fn look(&mut self) -> Option<String> {
        let (dir, id) = match &self.opened.place {
            Place::File(_) => return None,
            Place::Server(_) => return Some(String::new()),
            Place::Dir(dir, id) => (dir.clone(), *id),
        };
        // A damaged log is not opened again: no program can have it open.
        let id = id?;
        let is_held = is_held(&dir);
        #[cfg(unix)]
        if is_held && let Some(writer) = self.at_door(&dir, id) {
            return Some(writer);
        }
        self.writer = None;
        let head_file = newest_head(&dir);
        let is_stale = if is_held {
            self.copied.elapsed() >= COPY_EVERY
        } else {
            self.has_door || head_file != self.head_file || self.shared.now().1 == LogUse::Open
        };
        if is_stale && let Ok(log) = dirs::open_quietly(&dir, &self.global) {
            if log.header().id == id {
                let used = if is_held { LogUse::Open } else { LogUse::Closed };
                self.shared.set(into_reader(log), used);
            }
            (self.has_door, self.copied, self.head_file) = (false, Instant::now(), head_file);
        }
        is_held.then(|| "without a door".to_owned())
    }
}

#[cfg(unix)]
impl Watch {
    /// Returns the program behind the door of the log; none if there is no door. It is asked once a second.
    fn at_door(&mut self, dir: &Path, id: LogId) -> Option<String> {
        if let Some((writer, _)) = self.writer.as_ref().filter(|(_, at)| at.elapsed() < SAY_EVERY) {
            return Some(writer.clone());
        }
        let door = DoorReader::connect(dir).ok()?;
        let writer = format!("pid {}", door.holder().pid);
        let is_another = self.writer.take().is_some_and(|(before, _)| before != writer);
        if (is_another || !self.has_door) && door.header().id == id {
            self.shared.set(Arc::new(SteadyReader::new(door, dirs::reading(&self.global))), LogUse::Open);
            self.has_door = true;
        }
        self.writer = Some((writer.clone(), Instant::now()));
        Some(writer)
    }
}

fn newest_head(dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(dir.join("HEAD")).ok()?.modified().ok()
}
