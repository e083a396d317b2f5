//! Every bound that the vocabulary itself enforces, each with its unit and its reason.
//! Bounds on queues, actors and disk are in the `taskreel` crate's own `limits`.

/// Longest id that a caller may choose, in bytes: it becomes part of a stream id and of every record of it.
pub const ID_BYTES_MAX: usize = 200;

/// Deepest nesting of free-form JSON, in levels: a deeper text overflows the stacks of readers.
pub const JSON_DEPTH_MAX: usize = 128;

/// Largest body of one event, in bytes (16 MiB): what a decoder may be asked to hold at once.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of one chunk of a body that stands outside its record (56 KiB): with its header it fits one value of
/// a log. Only the last chunk of a body may be shorter.
pub const CHUNK_BYTES: usize = 56 * 1024;

/// Most events in one record: one command's events, which are written or lost together.
pub const EVENTS_PER_APPEND_MAX: usize = 1_024;

/// Most model calls for one infer part, Protolink's bound.
pub const INFER_STEPS_MAX: u32 = 10;

/// Most keys of its tool's state that one call writes: with its outcome and what follows they fit one append.
pub const TOOL_WRITES_MAX: usize = 256;

/// Most keys that one tool keeps: all of them are in memory while the tool is in use.
pub const TOOL_KEYS_MAX: usize = 10_000;

/// Most bytes of keys and values that one tool keeps (16 MiB), for the same reason. What is larger belongs into a
/// file or a database, with its name here.
pub const TOOL_STORE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest value of one key of a tool's state, in bytes (1 MiB), for the same reason.
pub const TOOL_VALUE_BYTES_MAX: usize = 1024 * 1024;
