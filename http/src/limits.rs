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

/// The most bytes of a secret: a key of 4,096 bits in any writing.
pub const SECRET_MAX: usize = 4 * 1024;

/// The most bytes of a presented token: what fits into a request's headers beside the rest.
pub const TOKEN_MAX: usize = 16 * 1024;

/// The most bytes of a principal's name, as of any id.
pub const PRINCIPAL_MAX: usize = 200;

/// The most bytes of a request's headers, names and values together.
pub const HEADERS_MAX: usize = 32 * 1024;

/// The most headers of a request.
pub const HEADER_COUNT_MAX: usize = 96;

/// The most requests of one principal that are answered at once.
pub const REQUESTS_AT_ONCE: usize = 4_096;

/// The most streams and sockets of one principal at once.
pub const STREAMS_AT_ONCE: usize = 4_096;

/// The most principals whose use is counted at once. Above it, one that has nothing open is forgotten.
pub const PRINCIPALS_COUNTED: usize = 10_000;

/// The seconds without a byte after which a body is given up: a client that sends nothing holds its place no longer.
pub const BODY_IDLE_SECONDS: u64 = 30;

/// The seconds within which a request is answered: a task that runs longer goes on without its client.
pub const REQUEST_SECONDS: u64 = 900;

/// The seconds by which the clocks of a token's issuer and of this machine may differ.
pub const LEEWAY_SECONDS: u64 = 60;

/// The most keys of one issuer.
pub const KEYS_MAX: usize = 64;

/// The most bytes of a set of keys.
pub const KEY_SET_MAX: usize = 1024 * 1024;

/// The seconds between two readings of an issuer's keys, however many tokens name a key that is not known.
pub const KEYS_AGAIN_SECONDS: u64 = 30;
