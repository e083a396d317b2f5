//! The bounds of the faces, each with its unit and its reason.

use std::time::Duration;

/// The most bytes of a request's body: a payload of 16 MiB, its envelope and escapes.
pub const BODY_MAX: usize = 20 * 1024 * 1024;

/// The items of a page of the live API where the request names no number.
pub const PAGE_ITEMS: usize = 100;

/// The most items of a page of the live API.
pub const PAGE_ITEMS_MAX: usize = 1_000;

/// The most streams that one page of tasks looks through for those that a filter takes: each is folded.
pub const PAGE_LOOKED_MAX: usize = 2_000;

/// The reads of the log that the live API carries out at the same time: each has a thread.
pub const READS_MAX: usize = 16;

/// The time for which a request waits for its turn to read, before it is refused as one too many.
pub const READ_TURN: Duration = Duration::from_secs(10);

/// The connections that may follow the log through the live API at the same time.
pub const FOLLOWERS_MAX: usize = 1_024;

/// The time after which a follower is told that nothing has come, so that both sides notice a lost connection.
pub const QUIET_AFTER: Duration = Duration::from_secs(1);

/// The longest time for which a request that submits a task waits for its end, in seconds.
pub const WAIT_SECONDS_MAX: u64 = 300;

/// The bytes that a socket after an upgrade buffers in each direction.
pub const SOCKET_BUFFER: usize = 64 * 1024;
