//! Following a log behind a server.

use proto_events::id::Position;
use taskreel_log::api::{ReadError, StoredRecord};

use crate::api::client::error::HttpLogError;
use crate::api::client::link::Lines;
use crate::api::wire::{WireLine, Word};

/// The next word of a log that is followed.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpFollowed {
    /// The next record.
    Record(Box<StoredRecord>),
    /// The follower was too slow for the live feed. No record is lost: those between these positions, and those after
    /// them, follow from the log.
    Lagged {
        /// Position of the first event that the live feed no longer has.
        from: Position,
        /// The log's last position when that was noticed.
        to: Position,
    },
    /// The log has not changed for about a second.
    Quiet,
    /// The program has closed the log.
    Ended,
    /// A record cannot be read.
    Failed(ReadError),
}

/// A follower of a log behind a server: first the records that exist, then those that become durable, without gaps or
/// repeats. After its end it may be begun again behind the last record.
pub struct HttpFollower<'a>(Lines<'a>);

impl std::fmt::Debug for HttpFollower<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFollower").finish_non_exhaustive()
    }
}

impl<'a> HttpFollower<'a> {
    pub(crate) fn new(lines: Lines<'a>) -> Self {
        Self(lines)
    }

    /// Waits for the next record, or for the news that none has come. Returns about every second.
    ///
    /// # Errors
    /// [`HttpLogError`] if the connection is lost or silent, or the answer is nonsense.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end where this says why it ended")]
    pub fn next(&mut self) -> Result<HttpFollowed, HttpLogError> {
        Ok(match self.0.next()? {
            WireLine::Record(record) => HttpFollowed::Record(record),
            WireLine::Word(Word::Lagged { from, to }) => {
                HttpFollowed::Lagged { from: Position(from), to: Position(to) }
            }
            WireLine::Word(Word::Quiet(_)) => HttpFollowed::Quiet,
            WireLine::Word(Word::Ended(_) | Word::Done(_)) => HttpFollowed::Ended,
            WireLine::Word(Word::Failed(failure)) => HttpFollowed::Failed(failure.into()),
        })
    }
}
