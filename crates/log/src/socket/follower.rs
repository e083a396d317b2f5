//! Following a log that another process writes, through its socket.

use std::{fmt, io};

use proto_events::id::Position;

use crate::api::record::StoredRecord;
use crate::limits::SOCKET_SILENT;
use crate::socket::error::FollowEnd;
use crate::socket::link::{Link, Word, unexpected};
use crate::socket::wire::{Answer, Request, StreamName};

/// The next word of a log that is followed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FollowerItem {
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
}

/// A follower of a log through a socket: first the records that exist, then those that become durable, without gaps or
/// repeats. After its end it may be begun again behind the last record.
pub struct SocketFollower {
    link: Option<Link>,
}

impl fmt::Debug for SocketFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketFollower").field("is_linked", &self.link.is_some()).finish()
    }
}

impl SocketFollower {
    pub(crate) fn start(link: Link, stream: Option<StreamName>, from: u64) -> io::Result<Self> {
        link.ask(&Request::Follow { stream, from })?;
        Ok(Self { link: Some(link) })
    }

    /// Waits for the next record, or for the news that none has come. Returns about every second.
    ///
    /// # Errors
    /// [`FollowEnd::Ended`] once the program has closed the log, [`FollowEnd::Busy`] if too many others follow it,
    /// [`FollowEnd::Dropped`] if the link is lost or silent,
    /// [`FollowEnd::Read`] if a record cannot be read. After an error every call returns [`FollowEnd::Dropped`].
    #[expect(clippy::should_implement_trait, reason = "an iterator would end where this says why it ended")]
    pub fn next(&mut self) -> Result<FollowerItem, FollowEnd> {
        let link = self.link.take().ok_or_else(|| FollowEnd::Dropped(io::ErrorKind::NotConnected.into()))?;
        let followed = match link.hear_within(SOCKET_SILENT).map_err(FollowEnd::Dropped)? {
            Word::Record(record) => FollowerItem::Record(record),
            Word::Newer(error) => return Err(FollowEnd::Read(error)),
            Word::Answer(Answer::Lagged { from, to }) => {
                FollowerItem::Lagged { from: Position(from), to: Position(to) }
            }
            Word::Answer(Answer::Quiet) => FollowerItem::Quiet,
            Word::Answer(Answer::Ended) => return Err(FollowEnd::Ended),
            Word::Answer(Answer::Busy) => return Err(FollowEnd::Busy),
            Word::Answer(Answer::Failed(failure)) => return Err(FollowEnd::Read(failure.into())),
            other @ Word::Answer(_) => return Err(FollowEnd::Dropped(unexpected(&other))),
        };
        self.link = Some(link);
        Ok(followed)
    }
}
