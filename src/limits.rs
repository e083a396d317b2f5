//! Every bound of the running system, each with its unit and its reason. The builder sets `passivate_after`,
//! `live_actors` and `approval_timeout`, policies of tools, models and peers their timeouts and retries, a model's own
//! description its limits; the others are fixed so far. Bounds of the vocabulary are in
//! `proto_events::limits`.

use std::time::Duration;

/// Commands that wait at one actor. More are refused as `Overloaded`: a caller must feel back-pressure.
pub const MAILBOX_COMMANDS: usize = 256;

/// Commands that wait at the one door that all callers come through: sixteen actors' worth.
pub const DOOR_COMMANDS: usize = 16 * MAILBOX_COMMANDS;

/// Appends that wait for the writer: two full waves of the most concurrent load measured.
pub const WRITER_QUEUE_APPENDS: usize = 8_192;

/// Appends that one flush makes durable at most: bounds the time to the first answer.
pub const GROUP_APPENDS: usize = 1_024;

/// Largest value in sled's log tree, in bytes (60 KiB): 17 of them stay below a quarter of a 4 MiB segment,
/// so that sled never moves one to a blob file, which it would not sync.
pub const GROUP_VALUE_BYTES: usize = 60 * 1024;

/// Idle time after which an actor is put to sleep.
pub const PASSIVATE_AFTER: Duration = Duration::from_secs(60);

/// Actors that are awake at once, tasks and sessions together: at a few KiB each, tens of MiB. More than that are
/// awake only while they have open work: an actor that has a run, a turn to give or somebody waiting is never put to sleep.
pub const LIVE_ACTORS: usize = 10_000;

/// When there are too many, one in so many of the bound is put to sleep beyond need, so that the next ones
/// find room without a look at all of them.
pub const LIVE_ACTORS_SPARE: usize = 16;

/// Longest attempt of one call, unless its policy says otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest answer of another agent in this process, unless its policy says otherwise: an agent's run is many calls, each
/// with a bound of its own.
pub const DELEGATION_TIMEOUT: Duration = Duration::from_secs(600);

/// How often another agent is asked to give up a task that it does not know: what was sent to it may still be on its way.
pub const RECALL_TRIES: u32 = 5;

/// The wait between two such tries.
pub const RECALL_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Longest wait for another agent to give up a task. Nobody waits for the answer but a shutdown.
pub const RECALL_WITHIN: Duration = Duration::from_secs(10);

/// Longest time for which an approval handler is asked, unless the builder says otherwise; then a person is asked. The
/// session waits meanwhile.
pub const APPROVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a tool that was canceled, or took too long, may go on to come to an end by itself before it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// How often an attempt that was lost (a crash, a timeout) is made again where that is allowed: enough for a
/// bad moment, too few for a call that kills its process each time.
pub const REPEATS_AFTER_LOSS: u32 = 3;

/// Retries of an inference after a passing failure, Protolink's figure.
pub const INFERENCE_RETRIES: u32 = 3;

/// Longest time to connect to a model's server.
pub const INFER_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence of a model's server in the middle of an answer: a slow model still says a token a second.
pub const INFER_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest answer of a model that is taken, in bytes (8 MiB): more than any model writes in one go, and half of
/// what one event may hold.
pub const INFER_ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most that is read of an answer that says no, in bytes (16 KiB): it is quoted, not kept.
pub const INFER_ERROR_BYTES_MAX: usize = 16 * 1024;

/// Longest back-off that a provider may ask for: a call that waits longer is better asked for anew.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Longest error text that is kept, in bytes (4 KiB): it stands in the call, the output and the task.
pub const ERROR_TEXT_BYTES: usize = 4 * 1024;

/// How often a session's actor asks again for a turn that its task holds and does not ask for.
pub const DOUBT_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Pieces of a live feed that wait for one listener: a long answer's last seconds. Older ones are dropped, and the
/// listener is told how many.
pub const LIVE_BUFFER: usize = 256;

/// Longest piece of a live feed, in bytes (4 KiB): with the buffer it bounds what a listened task holds to 1 MiB.
pub const LIVE_PIECE_BYTES: usize = 4 * 1024;

/// Progress texts of one attempt that are passed on within a second: more than anyone reads.
pub const PROGRESS_PER_SECOND: u32 = 20;

/// Records that a subscriber may lag behind before it is told so and reads on from the log.
pub const SUBSCRIBER_BUFFER: usize = 1_024;

/// Command ids that a live actor remembers; older ones are found in the log.
pub const COMMANDS_REMEMBERED: usize = 1_024;

/// Largest record, in bytes (56 KiB): with its value's header it fits one value whatever else is in the group.
pub const RECORD_BYTES_MAX: usize = 56 * 1024;

/// Newest appends whose set ids the writer knows at once; older ones are found in the log.
pub const APPENDS_REMEMBERED: usize = 8_192;

/// Appends in doubt that a reopening resolves by name: all that the writer can have had in its hands.
pub const DOUBTFUL_APPENDS: usize = WRITER_QUEUE_APPENDS + GROUP_APPENDS;

/// Longest wait for calls in flight to end when the system is opened anew. One that hears no interruption is left
/// behind, as by a process that died.
pub const HALT_WITHIN: Duration = Duration::from_secs(5);

/// Largest snapshot that is kept, in bytes (56 KiB), so that 17 of them stay below what sled moves to a blob file. Of
/// a larger state there is none: all its events are folded.
pub const SNAPSHOT_BYTES_MAX: usize = 56 * 1024;

/// Newest commands whose ids stand in a snapshot; older ones are found in the log.
pub const SNAPSHOT_COMMANDS: usize = 128;

/// Snapshots that are made at once; a stream whose turn it would be meanwhile gets one the next time.
pub const SNAPSHOTS_AT_ONCE: usize = 4;

/// Longest time that `HEAD` may lag behind the log: what is cut off within it cannot be noticed.
pub const HEAD_REWRITE_EVERY: Duration = Duration::from_secs(1);

/// Longest line of an export that is read, in bytes (512 MiB): fourteen bodies of the largest size, each in its bytes
/// and in words. A file without line ends must not fill the memory.
pub const EXPORT_LINE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Bytes of imported records that are made durable together (16 MiB): what waits is held in memory.
pub const IMPORT_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Longest wait for an MCP server to start and to list its tools: one that is fetched from a registry first is slow.
pub const MCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
