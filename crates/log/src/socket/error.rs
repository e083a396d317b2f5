//! Errors of a socket: why it is shut, why a client has no answer, why a follower ends.

use std::io;
use std::path::PathBuf;

use crate::api::error::ReadError;
use crate::socket::operator::OperatorRefusal;

/// The reason why a program that holds a log has no socket. The log works without it.
#[derive(Debug, thiserror::Error)]
#[error("the local socket in {} is shut: {source}; other processes read a copy of the log, and decisions wait until the program ends", .path.display())]
pub struct SocketUnavailable {
    /// The directory of the log.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// The reasons why a client is not served by a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// No program has the socket open.
    #[error("no program has a socket open in {}", .path.display())]
    Shut {
        /// The directory of the log.
        path: PathBuf,
    },
    /// The socket belongs to another user.
    #[error("the socket in {} is another user's", .path.display())]
    NotAllowed {
        /// The directory of the log.
        path: PathBuf,
    },
    /// Too many clients are connected.
    #[error("the socket in {} is busy: too many clients are connected; try again later", .path.display())]
    Busy {
        /// The directory of the log.
        path: PathBuf,
    },
    /// The program is of another release.
    #[error("the program behind the socket in {} speaks version {theirs} of the protocol, this one version {ours}; use the same release", .path.display())]
    OtherProtocol {
        /// The directory of the log.
        path: PathBuf,
        /// The version of the program.
        theirs: u32,
        /// The version of this client.
        ours: u32,
    },
    /// The program did not answer, or the link was dropped.
    #[error("the program behind the socket in {} gave no answer: {source}", .path.display())]
    Link {
        /// The directory of the log.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The reasons why a decision was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The program refused it.
    #[error(transparent)]
    Refused(#[from] OperatorRefusal),
    /// The program was not reached. Nothing was decided.
    #[error(transparent)]
    LocalSocket(#[from] SocketError),
    /// The link was dropped before the answer: the decision may have been made. The same decision again adds nothing.
    #[error(
        "the link was dropped before the answer ({0}), so that it is not known whether the decision was made; send it again, the same decision is made once only"
    )]
    NoAnswer(io::Error),
}

/// The reasons why a follower has no next record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowEnd {
    /// The program has closed the log. All that it wrote before was delivered or can be read from the log.
    #[error("the program has closed the log")]
    Ended,
    /// Too many others follow the log. A copy of it can be read meanwhile.
    #[error("too many others follow the log through the socket; try again later")]
    Busy,
    /// The link to the program was dropped. Following may be resumed after the last record.
    #[error("the link to the program was dropped: {0}")]
    Dropped(io::Error),
    /// A record could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
