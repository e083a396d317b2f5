//! `tail` and `events --follow`: what there is, then what is written, through the door of the program that writes it.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use proto_events::id::{Position, Version};
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::door::{DoorError, DoorFollower, DoorReader, FollowEnd, Followed};
use taskreel_log::sled::is_held;
use taskreel_log::views::{Selection, event_rows};

use crate::args::Global;
use crate::args::filters::KindsOf;
use crate::args::reading::{EventsArgs, TailArgs};
use crate::dirs;
use crate::look::OpenLog;
use crate::print::answer::Answer;
use crate::print::events::{EventLines, EventsOf, print_events};
use crate::print::problem::{EXIT_HELD, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};

/// The number of events that `tail` begins with.
const BEGIN_WITH: usize = 10;

/// The number of events before these that are read all the same: what a line says may stand in an earlier event.
const READ_BEFORE: u64 = 2_000;

/// The time between two looks for a program that has the log open.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The time between two copies of a log whose program has no door.
const COPY_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn tail(args: &TailArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let filters = &args.filters;
    let limit = if filters.limit.is_some() { filters.limit() } else { Some(BEGIN_WITH) };
    let selection = Selection::new(filters.filter(KindsOf::Events)?);
    let log = OpenLog::open(&crate::args::source::ReadFrom { file: None }, global)?;
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
    let lines = EventLines::of(&of, selection, limit);
    follow(log, of, lines, from, screen, global)
}

/// Prints all events that are taken, and goes on with those that are written.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn events(args: &EventsArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let selection = Selection::new(args.filters.filter(KindsOf::Events)?);
    let log = OpenLog::open(&args.from, global)?;
    let of = match &args.id {
        None => EventsOf::All,
        Some(id) => EventsOf::Stream(log.find(id)?),
    };
    let lines = EventLines::of(&of, selection, args.filters.limit());
    follow(log, of, lines, 1, screen, global)
}

fn end_of(reader: &dyn EventReader, of: &EventsOf) -> Result<u64, Problem> {
    Ok(match of {
        EventsOf::All => reader.head()?.0,
        EventsOf::Stream(stream) => reader.stream_version(stream)?.0,
    })
}

/// A log that is followed.
struct Following<'a> {
    dir: &'a Path,
    global: &'a Global,
    of: EventsOf,
    lines: EventLines,
    screen: &'a mut Screen,
    /// The first position of the log, or version of the stream, that was not shown yet.
    next: u64,
    /// The reason that was told last why nothing comes.
    told: String,
}

/// Returns the time at which a log's `HEAD` was written last: it changes with each orderly end, and every second while
/// anything is written.
fn newest_head(dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(dir.join("HEAD")).ok()?.modified().ok()
}

fn follow(
    log: OpenLog,
    of: EventsOf,
    mut lines: EventLines,
    from: u64,
    screen: &mut Screen,
    global: &Global,
) -> Result<Answer, Problem> {
    let OpenLog::Dir { dir, .. } = &log else {
        let why = "nobody writes to an export";
        let hint = "follow the log itself, with --data-dir";
        return Err(Problem::new(EXIT_USAGE, "an export cannot be followed", why, hint));
    };
    let dir = dir.clone();
    let next = print_events(log.reader(), &of, from, &mut lines, screen)?;
    lines.finish(screen)?;
    screen.flush()?;
    // A private copy is as old as its beginning.
    drop(log);
    Following { dir: &dir, global, of, lines, screen, next, told: String::new() }.run()
}

impl Following<'_> {
    /// Follows through door after door until an error; between two programs it says so and waits.
    fn run(mut self) -> Result<Answer, Problem> {
        let (mut is_said, mut was_held) = (false, true);
        let mut copied = Instant::now();
        let mut seen = newest_head(self.dir);
        loop {
            match DoorReader::connect(self.dir) {
                Ok(door) => {
                    (is_said, was_held) = (false, true);
                    if !self.through(&door)? {
                        std::thread::sleep(LOOK_EVERY);
                    }
                }
                Err(DoorError::NotAllowed { .. } | DoorError::OtherProtocol { .. }) if is_held(self.dir) => {
                    return Err(self.shut_out());
                }
                Err(_) => {
                    let held = is_held(self.dir);
                    if !std::mem::replace(&mut is_said, true) {
                        note(if held {
                            "the program that has the log open has no door; a copy is read every 5 s"
                        } else {
                            "no program has the log open; waiting for one"
                        });
                    }
                    // What a program wrote last is in the log, however it ended; so is what was decided between two programs.
                    let now = newest_head(self.dir);
                    let has_moved = !held && (was_held || now != seen);
                    if has_moved || (held && copied.elapsed() >= COPY_EVERY) {
                        self.catch_up()?;
                        (copied, seen) = (Instant::now(), now);
                    }
                    was_held = held;
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }

    fn shut_out(&self) -> Problem {
        let why = DoorReader::connect(self.dir).err().map_or_else(String::new, |error| error.to_string());
        Problem::new(
            EXIT_HELD,
            format!("cannot follow the log in {}", self.dir.display()),
            why,
            "follow it as the user who runs the program, and with the same release",
        )
    }

    /// Prints what comes through a door until it ends. Returns whether anything could come.
    fn through(&mut self, door: &DoorReader) -> Result<bool, Problem> {
        let mut follower = match self.follower(door) {
            Ok(follower) => follower,
            Err(error) => {
                self.tell(&error.to_string());
                return Ok(false);
            }
        };
        loop {
            match follower.next() {
                Ok(Followed::Record(stored)) => self.print(&stored)?,
                Ok(Followed::Lagged { from, to }) => {
                    note(&format!("behind by positions {from} to {to}; they are read from the log"));
                }
                Ok(_) => {}
                Err(FollowEnd::Read(error)) => return Err(error.into()),
                Err(FollowEnd::Ended) => {
                    note("the program has closed the log");
                    return Ok(true);
                }
                Err(_) => {
                    note("the link to the program was dropped; following goes on where it was");
                    return Ok(true);
                }
            }
        }
    }

    fn follower(&self, door: &DoorReader) -> Result<DoorFollower, DoorError> {
        match &self.of {
            EventsOf::All => door.follow(Position(self.next)),
            EventsOf::Stream(stream) => door.follow_stream(stream, Version(self.next)),
        }
    }

    /// Prints what the log holds beyond what was shown.
    fn catch_up(&mut self) -> Result<(), Problem> {
        // A program may be starting at this moment; the next look finds its door.
        let log = match dirs::open_quietly(self.dir, self.global) {
            Ok(log) => log,
            Err(problem) => {
                self.tell(&problem.to_string());
                return Ok(());
            }
        };
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
            }
        }
        self.screen.flush()
    }
}
