//! The bounds of the log, each a named constant with its unit and its reason.

use std::time::Duration;

/// Appends that wait for the writer: two full waves of the most concurrent load measured.
pub const WRITER_QUEUE_APPENDS: usize = 8_192;

/// Appends that one flush makes durable at most: bounds the time to the first reply.
pub const GROUP_APPENDS: usize = 1_024;

/// Largest value in sled's log tree, in bytes (60 KiB): 17 of them stay below a quarter of a 4 MiB segment,
/// so that sled never moves one to a blob file, which it would not sync.
pub const GROUP_VALUE_BYTES: usize = 60 * 1024;

/// Records that a subscriber may lag behind before it is notified and reads on from the log.
pub const SUBSCRIBER_BUFFER: usize = 1_024;

/// Command ids that a live actor remembers; older ones are found in the log.
pub const COMMANDS_REMEMBERED: usize = 1_024;

/// Largest record, in bytes (56 KiB): with its value's header it fits one value whatever else is in the
/// group.
pub const RECORD_BYTES_MAX: usize = 56 * 1024;

/// Newest appends whose set ids the writer keeps in memory; older ones are found in the log.
pub const APPENDS_REMEMBERED: usize = 8_192;

/// Longest time that `HEAD` may lag behind the log: a loss of the events of this time cannot be noticed.
pub const HEAD_REWRITE_EVERY: Duration = Duration::from_secs(1);

/// Longest line of an export that is read, in bytes (512 MiB): fourteen bodies of the largest size, each as
/// bytes and as text. A file without line ends must not fill the memory.
pub const EXPORT_LINE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Records that a reader takes from the log at a time, so that neither a log nor a long stream is ever held
/// in memory as a whole.
pub const READ_PAGE_RECORDS: usize = 256;

/// Bytes of records that a reader takes from the log at a time (4 MiB), unless a single record is larger: records have
/// bodies of up to 16 MiB, and a page of them must not fill the memory.
pub const READ_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of bodies whose streams `replay` rebuilds in one pass over their part of the log (8 MiB), unless a single stream is
/// larger: their states are in memory together, and take some five times as much.
pub const REPLAY_PASS_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of events of the tasks and sessions whose checks `verify` keeps in memory (4 MiB), some 5,000 small events: a stream that
/// comes back after so many others is read again.
pub const VERIFY_BYTES_KEPT: u64 = 4 * 1024 * 1024;

/// Long streams whose record slots are kept for their readers, 8 bytes for each record: a page then costs what it
/// holds, whatever the stream's length.
pub const STREAMS_KEPT: usize = 8;

/// Record slots kept for readers, in all streams together (8 MiB); the stream read last is always kept.
pub const STREAM_SLOTS_KEPT: usize = 1024 * 1024;

/// Streams that a reader lists at a time.
pub const READ_PAGE_STREAMS: usize = 1_024;

/// Bytes of imported records that are made durable together (16 MiB): until then they are held in memory.
pub const IMPORT_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Largest epoch that an import takes. Each start raises the epoch by one: a log with this one can be started as often as
/// any.
pub const EPOCH_IMPORTED_MAX: u64 = 1 << 62;

/// Bytes of log after which a snapshot of sled's page table is made while the log is open. A start reads the log
/// after the last one: this much takes about a second from a slow disk.
pub const SNAPSHOT_EVERY_BYTES: u64 = 256 * 1024 * 1024;

/// Times its own size that is written before another snapshot is made: a large one would otherwise cost more than
/// it saves. A log of 100 GB has one of about 60 MB.
pub const SNAPSHOT_SHARE: u64 = 8;

/// Bytes of a log from which on its size is announced before it is copied for a reader (1 GiB): the copy takes seconds.
pub const COPY_ANNOUNCED_BYTES: u64 = 1 << 30;

/// Clients that a local socket serves at a time, a thread for each. More are told that it is busy, and read a copy.
pub const SOCKET_CONNECTIONS: usize = 64;

/// Clients of a local socket that may follow the log at a time. The other places are kept for those who read, and for a
/// person's decisions: followers stay for hours.
pub const SOCKET_FOLLOWERS: usize = 48;

/// Surveys of the index that a local socket makes at a time. Each builds a second index in the program that has the log open,
/// whose memory and processors are the program's; other clients wait for their turn.
pub const SOCKET_INDEX_SURVEYS: usize = 1;

/// Surveys of the records that a local socket makes at a time. Each reads, checks and sends the whole log with the processors of the
/// program that has it open; other clients wait for their turn, and one that reads too slowly loses its connection.
pub const SOCKET_SURVEYS: usize = 4;

/// Longest request of a client of a socket, in bytes (1 MiB): the largest is a decision with a call's result.
pub const SOCKET_REQUEST_BYTES: usize = 1024 * 1024;

/// The bytes of a request to a socket beside the decision that it holds.
pub(crate) const SOCKET_REQUEST_REST: usize = 1024;

/// Longest frame that a client of a socket takes, in bytes (64 MiB).
pub const SOCKET_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of records that are sent through a socket together. Each write is a system call, and may wake the client.
pub const SOCKET_TOGETHER_BYTES: usize = 64 * 1024;

/// Bytes of a body that a socket sends in one frame (256 KiB): a slow client is given the time for each of them.
pub const SOCKET_PIECE_BYTES: usize = 256 * 1024;

/// Time within which a client of a socket must send its first request.
pub const SOCKET_HELLO_WITHIN: Duration = Duration::from_secs(5);

/// Time for which a socket keeps a client that asks nothing. The client connects again when it goes on.
pub const SOCKET_IDLE: Duration = Duration::from_secs(60);

/// Time within which each frame must be taken by its receiver. A client that does not read loses its connection.
pub const SOCKET_FRAME_WITHIN: Duration = Duration::from_secs(30);

/// Time in which a socket gathers records for a follower that is at the log's end: 4 ms. A person sees no difference, and 16 writers
/// make a dozen groups meanwhile, each of which would wake the follower.
pub const SOCKET_GATHER: Duration = Duration::from_millis(4);

/// Interval at which a socket tells a follower that nothing has happened, and a client that its survey goes on.
pub const SOCKET_QUIET_EVERY: Duration = Duration::from_secs(1);

/// Time for which a follower waits for any word before the link counts as dropped.
pub const SOCKET_SILENT: Duration = Duration::from_secs(15);

/// Time for which a client waits for a decision: the program may be waiting for its disk.
pub const SOCKET_DECISION_WITHIN: Duration = Duration::from_secs(60);

/// Time for what is said at the end of a socket: a client that does not read it holds up its program no longer.
pub const SOCKET_END_WITHIN: Duration = Duration::from_millis(500);
