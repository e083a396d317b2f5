//! `tail` and `events --follow`: what there is, then what is written, through the socket of the program that writes it.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use proto_events::id::{LogId, Position, Version};
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::sled::{LogHeader, is_held};
use taskreel_log::socket::{FollowEnd, FollowerItem, SocketError, SocketFollower, SocketReader};
use taskreel_log::views::event_rows;

use crate::args::Global;
use crate::args::read::{EventsArgs, TailArgs};
use crate::args::source::ReadFrom;
use crate::dirs;
use crate::look::open_log::OpenLog;
use crate::look::{follow_server, selection};
use crate::print::answer::Answer;
use crate::print::events::{EventLines, EventsOf, end_of, print_events, print_events_to, print_to_its_end};
use crate::print::problem::{EXIT_LOG, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};

/// The number of events that `tail` begins with.
const BEGIN_WITH: usize = 10;

/// The number of events before these that are read all the same: what a line says may stand in an earlier event.
const READ_BEFORE: u64 = 2_000;

/// The time between two looks for a program that has the log open.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The time between two copies of a log whose program has no socket.
const COPY_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn tail(args: &TailArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let filters = &args.filters;
    let limit = if filters.limit.is_some() { filters.limit() } else { Some(BEGIN_WITH) };
    let selection = selection(filters, &args.only)?;
    // Looked at before the log is opened: a copy holds what was written until then.
    let seen = newest_head(&dirs::to_read(global));
    let from = ReadFrom { file: None, server: args.server.clone() };
    let log = OpenLog::open_whole(&from, global)?;
    let of = match &args.id {
        None => EventsOf::All,
        Some(id) => EventsOf::Stream(log.find(id)?),
    };
    // With a filter the newest events that fit may stand anywhere.
    let before = selection.is_empty().then_some(limit).flatten();
    let from = match before {
        None => 1,
        Some(limit) => end_of(log.reader(), &of)?.saturating_sub(READ_BEFORE.max(limit as u64)).max(1),
    };
    let mut lines = EventLines::for_events(&of, selection, limit);
    if args.exit_at_end {
        return to_end(log.reader(), &of, from, &mut lines, screen);
    }
    follow((log, seen), of, lines, from, screen, global)
}

/// Prints all events that are taken, and goes on with those that are written.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn events(args: &EventsArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let selection = selection(&args.filters, &args.only)?;
    let seen = newest_head(&dirs::to_read(global));
    let log = OpenLog::open_whole(&args.from, global)?;
    let of = match &args.id {
        None => EventsOf::All,
        Some(id) => EventsOf::Stream(log.find(id)?),
    };
    let mut lines = EventLines::for_events(&of, selection, args.filters.limit());
    if args.exit_at_end {
        return to_end(log.reader(), &of, 1, &mut lines, screen);
    }
    follow((log, seen), of, lines, 1, screen, global)
}

/// Prints what there is, and ends: what is written meanwhile is left out.
pub(super) fn to_end(
    reader: &dyn EventReader,
    of: &EventsOf,
    from: u64,
    lines: &mut EventLines,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let end = end_of(reader, of)?;
    print_events_to(reader, of, (from, end), lines, screen)?;
    lines.finish(screen)?;
    screen.flush()?;
    Ok(Answer::Yes)
}

/// A log that is followed.
struct LogFollower<'a> {
    dir: &'a Path,
    global: &'a Global,
    of: EventsOf,
    lines: EventLines,
    screen: &'a mut Screen,
    /// The first position of the log, or version of the stream, that was not shown yet.
    next: u64,
    /// The reason that was told last why nothing comes.
    told: String,
    /// The id of the log.
    id: LogId,
    /// Whether it was said that no program has a socket, or the log, open.
    is_said: bool,
    /// Whether a program had the log open at the last look.
    was_held: bool,
    /// The time of the last copy, and that of `HEAD` before it.
    copied: Instant,
    seen: Option<SystemTime>,
}

/// Returns the time at which a log's `HEAD` was written last: it changes with each orderly end, and every second while
/// anything is written.
fn newest_head(dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(dir.join("HEAD")).ok()?.modified().ok()
}

fn follow(
    (log, seen): (OpenLog, Option<SystemTime>),
    of: EventsOf,
    mut lines: EventLines,
    from: u64,
    screen: &mut Screen,
    global: &Global,
) -> Result<Answer, Problem> {
    if let OpenLog::Server { log, .. } = &log {
        return follow_server::follow(log, of, lines, from, screen);
    }
    let OpenLog::Dir { dir, log: opened } = &log else {
        let why = "nobody writes to an export";
        let hint = "follow the log itself, with --data-dir";
        return Err(Problem::new(EXIT_USAGE, "an export cannot be followed", why, hint));
    };
    let (dir, id, was_held, copied) = (dir.clone(), opened.header().id, opened.is_live(), Instant::now());
    let next = print_to_its_end(log.reader(), &of, from, &mut lines, screen)?;
    lines.finish(screen)?;
    screen.flush()?;
    // A private copy is as old as its beginning.
    drop(log);
    let (dir, told, is_said) = (&*dir, String::new(), false);
    LogFollower { dir, global, of, lines, screen, next, told, id, is_said, was_held, copied, seen }.run()
}

impl LogFollower<'_> {
    /// Follows through socket after socket until an error; between two programs it says so and waits. While a program has no socket
    /// for this process, copies are read.
    fn run(mut self) -> Result<Answer, Problem> {
        loop {
            match self.at_socket()? {
                None => (self.is_said, self.was_held) = (false, true),
                Some(why) => self.without_socket(&why)?,
            }
        }
    }

    /// Follows through the socket until it ends. Returns the reason if no program serves this process; an empty one if
    /// no socket is open at all.
    fn at_socket(&mut self) -> Result<Option<String>, Problem> {
        match SocketReader::connect(self.dir) {
            Ok(socket) => {
                self.check_log(socket.header())?;
                self.through(&socket)
            }
            Err(SocketError::Shut { .. }) => Ok(Some(String::new())),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// Reads a copy if the log may have moved, and waits for the next look.
    fn without_socket(&mut self, why: &str) -> Result<(), Problem> {
        let held = is_held(self.dir);
        if held && !why.is_empty() {
            self.tell(&format!("{why}; a copy is read every 5 s"));
        } else if !std::mem::replace(&mut self.is_said, true) {
            note(if held {
                "the program that has the log open has no socket; a copy is read every 5 s"
            } else {
                "no program has the log open; waiting for one"
            });
        }
        // What a program wrote last is in the log, however it ended; so is what was decided between two programs.
        let now = newest_head(self.dir);
        let has_moved = !held && (self.was_held || now != self.seen);
        if has_moved || (held && self.copied.elapsed() >= COPY_EVERY) {
            self.catch_up()?;
            (self.copied, self.seen) = (Instant::now(), now);
        }
        self.was_held = held;
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }

    /// Checks that the directory still has the log that was followed: the position of one says nothing of another.
    fn check_log(&self, found: LogHeader) -> Result<(), Problem> {
        if found.id == self.id {
            return Ok(());
        }
        Err(Problem::new(
            EXIT_LOG,
            format!("the log in {} is another one now", self.dir.display()),
            format!("the log {} was followed; the directory has the log {}", self.id, found.id),
            "run the same command again to follow the log that is there",
        ))
    }

    /// Prints what comes through a socket until it ends. Returns the reason if nothing can come.
    fn through(&mut self, socket: &SocketReader) -> Result<Option<String>, Problem> {
        let mut follower = match self.follower(socket) {
            Ok(follower) => follower,
            Err(error) => return Ok(Some(error.to_string())),
        };
        loop {
            match follower.next() {
                Ok(FollowerItem::Record(stored)) => self.print(&stored)?,
                Ok(FollowerItem::Lagged { from, to }) => {
                    note(&format!("behind by positions {from} to {to}; they are read from the log"));
                }
                Ok(_) => {}
                Err(FollowEnd::Read(error)) => return Err(error.into()),
                Err(error @ FollowEnd::Busy) => return Ok(Some(error.to_string())),
                Err(FollowEnd::Ended) => {
                    note("the program has closed the log");
                    return Ok(None);
                }
                Err(_) => {
                    self.tell("the link to the program was dropped; following goes on where it was");
                    // A socket that drops each link is not asked without a pause.
                    std::thread::sleep(LOOK_EVERY);
                    return Ok(None);
                }
            }
        }
    }

    fn follower(&self, socket: &SocketReader) -> Result<SocketFollower, SocketError> {
        match &self.of {
            EventsOf::All => socket.follow(Position(self.next)),
            EventsOf::Stream(stream) => socket.follow_stream(stream, Version(self.next)),
        }
    }

    /// Prints what the log holds beyond what was shown.
    fn catch_up(&mut self) -> Result<(), Problem> {
        // A program may be starting at this moment; the next look finds its socket.
        let log = match dirs::open_quietly(self.dir, self.global) {
            Ok(log) => log,
            Err(problem) => {
                self.tell(&problem.to_string());
                return Ok(());
            }
        };
        self.check_log(log.header())?;
        if end_of(log.reader(), &self.of)? < self.next {
            return Ok(());
        }
        self.next = print_events(log.reader(), &self.of, self.next, &mut self.lines, self.screen)?;
        self.screen.flush()
    }

    /// Says why nothing comes, once for each reason.
    fn tell(&mut self, why: &str) {
        if self.told != why {
            note(why);
            why.clone_into(&mut self.told);
        }
    }

    fn print(&mut self, stored: &StoredRecord) -> Result<(), Problem> {
        for row in event_rows(stored) {
            let at = if matches!(self.of, EventsOf::All) { row.position.0 } else { row.version.0 };
            // The first record may begin before what was asked for.
            if at >= self.next {
                self.lines.print(&row, self.screen)?;
                self.next = at + 1;
                // What was said before is said again if it happens again.
                self.told.clear();
            }
        }
        self.screen.flush()
    }
}
