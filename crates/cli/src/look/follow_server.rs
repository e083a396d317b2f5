//! `tail` and `events --follow` of a log behind a server.

use std::time::Duration;

use proto_events::id::{Position, Version};
use taskreel_http::{HttpFollowed, HttpLog, HttpLogError};
use taskreel_log::api::StoredRecord;
use taskreel_log::views::event_rows;

use crate::print::answer::Answer;
use crate::print::events::{EventLines, EventsOf, print_to_its_end};
use crate::print::problem::{EXIT_LOG, Problem};
use crate::print::screen::{Screen, note};

/// The time between two attempts to reach a server that was lost.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// A log behind a server that is followed.
struct ServerFollower<'a> {
    log: &'a HttpLog,
    of: EventsOf,
    lines: EventLines,
    screen: &'a mut Screen,
    /// The first position of the log, or version of the stream, that was not shown yet.
    next: u64,
}

/// Prints all events that are taken, and goes on with those that are written. A lost connection is made again, for as long
/// as that takes.
///
/// # Errors
/// [`Problem`] if the log cannot be read or is another one, or the reader of the output is gone.
pub(super) fn follow(
    log: &HttpLog,
    of: EventsOf,
    mut lines: EventLines,
    from: u64,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let next = print_to_its_end(log, &of, from, &mut lines, screen)?;
    lines.finish(screen)?;
    screen.flush()?;
    let mut following = ServerFollower { log, of, lines, screen, next };
    loop {
        following.through_connection()?;
        following.await_server()?;
    }
}

impl ServerFollower<'_> {
    /// Prints what comes until the connection is lost.
    fn through_connection(&mut self) -> Result<(), Problem> {
        let log = self.log;
        let follower = match &self.of {
            EventsOf::All => log.follow(Position(self.next)),
            EventsOf::Stream(stream) => log.follow_stream(stream, Version(self.next)),
        };
        let mut follower = match follower {
            Ok(follower) => follower,
            Err(error) => return self.unless_passing(&error),
        };
        loop {
            match follower.next() {
                Ok(HttpFollowed::Record(stored)) => self.print(&stored)?,
                Ok(HttpFollowed::Lagged { from, to }) => {
                    note(&format!("behind by positions {from} to {to}; they are read from the log"));
                }
                Ok(HttpFollowed::Ended) => {
                    note("the program has closed the log");
                    return Ok(());
                }
                Ok(HttpFollowed::Failed(error)) => return Err(error.into()),
                Ok(_) => {}
                Err(error @ HttpLogError::Nonsense { .. }) => {
                    return Err(Problem::at_server(&error, log.url()));
                }
                Err(_) => {
                    note("the connection to the server was lost; following goes on where it was");
                    return Ok(());
                }
            }
        }
    }

    /// Returns the problem of an error that does not pass by itself.
    fn unless_passing(&self, error: &HttpLogError) -> Result<(), Problem> {
        let passes = match error {
            HttpLogError::Unreachable { .. } => true,
            HttpLogError::Refused { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        };
        if passes { Ok(()) } else { Err(Problem::at_server(error, self.log.url())) }
    }

    /// Waits until the server answers, and checks that it still has the log that was followed: the position of one says
    /// nothing of another.
    fn await_server(&self) -> Result<(), Problem> {
        loop {
            std::thread::sleep(TRY_EVERY);
            match self.log.about_now() {
                Ok(about) if about.id == self.log.about().id => return Ok(()),
                Ok(about) => {
                    let known = self.log.about().id;
                    return Err(Problem::new(
                        EXIT_LOG,
                        format!("the log behind {} is another one now", self.log.url()),
                        format!("the log {known} was followed; the server has the log {}", about.id),
                        "run the same command again to follow the log that is there",
                    ));
                }
                Err(error) => self.unless_passing(&error)?,
            }
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
