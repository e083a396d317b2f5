//! Every limit that this crate itself enforces, each with its unit and its reason.
//! Limits of the log and the disk are in `taskreel_log::limits`, limits of queues and actors in `taskreel::limits`.

/// The longest id that a caller may choose, in bytes: it becomes part of a stream id and of every record of
/// it.
pub const ID_BYTES_MAX: usize = 200;

/// The deepest nesting of free-form JSON, in levels: a deeper text overflows the stacks of readers.
pub const JSON_DEPTH_MAX: usize = 128;

/// The most bytes of a text from outside that an error quotes (1 KiB): errors are kept, shown and sent on.
pub const QUOTED_BYTES_MAX: usize = 1024;

/// The largest body of one event, in bytes (16 MiB): the most that a decoder must hold at once.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The size of one chunk of a body outside its record (56 KiB): with its header it fits one value of a log.
/// Only the last chunk of a body may be shorter.
pub const CHUNK_BYTES: usize = 56 * 1024;

/// The most events in one record: the events of one command, written or lost together.
pub const EVENTS_PER_APPEND_MAX: usize = 1_024;

/// The longest address of a webhook, in bytes: what browsers and servers take.
pub const WEBHOOK_URL_BYTES_MAX: usize = 2_048;

/// The longest id, scheme or format of a webhook, in bytes.
pub const WEBHOOK_TEXT_BYTES_MAX: usize = 200;

/// The most parts of one message or artifact that a task is posted with: a run carries them out one by one and keeps
/// an output of each in memory.
pub const PARTS_MAX: usize = 100_000;

/// The most bytes that are kept of an answer that came too late (64 KiB): it is evidence, not a result.
pub const LATE_RESULT_BYTES_MAX: usize = 64 * 1024;

/// The largest id that another agent gives a task of a call, in bytes (1 KiB): it comes from outside, and each attempt's
/// cause quotes it.
pub const HANDLE_BYTES_MAX: usize = 1_024;

/// The most model calls for one infer part unless the agent sets another number, Protolink's limit.
pub const INFER_STEPS_MAX: u32 = 10;

/// The most keys of its tool's state that one call may write: they fit one append with its outcome and the
/// events that follow.
pub const TOOL_WRITES_MAX: usize = 256;

/// The most keys of one tool: all of them are in memory while the tool is in use.
pub const TOOL_KEYS_MAX: usize = 10_000;

/// The most bytes of keys and values of one tool (16 MiB), for the same reason. Larger data belongs in a file
/// or a database, with its name stored here.
pub const TOOL_STORE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest value of one key of a tool's state, in bytes (1 MiB), for the same reason.
pub const TOOL_VALUE_BYTES_MAX: usize = 1024 * 1024;

/// The most agents of one registry: all of them are in memory while it is in use.
pub const REGISTRY_AGENTS_MAX: usize = 10_000;

/// The largest card that a registry takes, in bytes of JSON (256 KiB), for the same reason: it is the size of hundreds of
/// skills with their schemas.
pub const REGISTRY_CARD_BYTES_MAX: usize = 256 * 1024;
