//! Events that a server selects: it looks through its log, and only what fits travels.

use taskreel_http::{HttpFollowed, HttpLog, HttpLogError};
use taskreel_log::views::event_rows;

use crate::print::events::{EventLines, EventsOf};
use crate::print::problem::Problem;
use crate::print::screen::Screen;

/// Prints the events of a log behind a server for which a condition holds. Returns false if the server does not take
/// conditions: an older one does not.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(super) fn print_where(
    log: &HttpLog,
    of: &EventsOf,
    condition: &str,
    lines: &mut EventLines,
    screen: &mut Screen,
) -> Result<bool, Problem> {
    let stream = match of {
        EventsOf::All => None,
        EventsOf::Stream(stream) => Some(stream),
    };
    let failed = |error: &HttpLogError| Problem::at_server(error, log.url());
    let mut records = match log.records_where(stream, 1, condition) {
        Ok(records) => records,
        Err(HttpLogError::Refused { status: 400, .. }) => return Ok(false),
        Err(error) => return Err(failed(&error)),
    };
    loop {
        match records.next().map_err(|error| failed(&error))? {
            HttpFollowed::Record(stored) => {
                event_rows(&stored).iter().try_for_each(|row| lines.print(row, screen))?;
            }
            HttpFollowed::Failed(error) => return Err(error.into()),
            HttpFollowed::Ended => return Ok(true),
            _ => {}
        }
    }
}
