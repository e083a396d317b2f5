//! Every bound of the running system, each with its unit and its reason. The builder sets `passivate_after`,
//! `live_actors`, `resumed_at_once` and `approval_timeout`, policies of tools, models and peers set their timeouts and retries,
//! a model's own description sets its limits; the others are fixed so far. Bounds of the vocabulary are in
//! `proto_events::limits`, limits of the log in `taskreel_log::limits`.

use std::time::Duration;

// Paths from before the split into crates.
#[doc(hidden)]
pub use taskreel_log::limits::*;

/// Commands that wait at one actor. More are refused as `Overloaded`: a caller must feel back-pressure.
pub const MAILBOX_COMMANDS: usize = 256;

/// The time that an answer of a responder may take on an actors' thread, where all other tasks of the thread wait for it. The one after
/// an answer that took longer is computed elsewhere.
pub(crate) const RESPONSE_IN_PLACE: Duration = Duration::from_millis(5);

/// Replies to callers that an actors' thread sends together at most: the callers go on while it works.
pub(crate) const REPLIES_TOGETHER: usize = 8;

/// Commands that wait in the supervisor's mailbox, through which all callers come: as many as for sixteen
/// actors.
pub const SUPERVISOR_MAILBOX: usize = 16 * MAILBOX_COMMANDS;

/// Messages whose lengths and tokens are kept in memory between inferences, of all conversations together: some 40 bytes
/// each. What is forgotten is counted again when its conversation goes on.
pub const COUNTED_MESSAGES: usize = 500_000;

/// Conversations of which that is kept: each has the text of its system prompt with it.
pub const COUNTED_CONVERSATIONS: usize = 1_024;

/// Tasks that are resumed at once after a start, unless the builder says otherwise: enough to keep a disk and a model
/// busy, few enough that a new command waits for tens of them and not for thousands.
pub const RESUMED_AT_ONCE: usize = 64;

/// Longest time for which a task that was resumed keeps the next one waiting: calls may take minutes, and the last of
/// 10,000 tasks should not wait for hours.
pub const RESUMED_FOR: Duration = Duration::from_secs(1);

/// Agents of one system: the definitions of all of them are recorded in one append.
pub const AGENTS_MAX: usize = 256;

/// Names that no agent may have: the first segments of the addresses of the HTTP handlers, at which further agents and ways
/// stand side by side, and what an address cannot hold as a segment.
pub const RESERVED_AGENT_NAMES: &[&str] = &[
    ".",
    "..",
    ".well-known",
    "a2a",
    "agents",
    "api",
    "chat",
    "healthz",
    "heartbeat",
    "inspect",
    "llm",
    "metrics",
    "readyz",
    "registry",
    "state",
    "status",
    "subscribe",
    "tasks",
    "v1",
    "ws",
];

/// Looks at a task of another agent for which a call waits, before it is left to that task to report its end: more are needed
/// only where its actor is overloaded.
pub(crate) const CHILD_LOOKS: usize = 5;

/// Time between two of these looks.
pub(crate) const CHILD_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Newest events of the log in which a start looks for tasks that ended just before the process did, so that the tasks of
/// other agents which wait for them go on: what is told within milliseconds is lost with the process.
pub(crate) const CHILD_ENDS_EVENTS: u64 = 2_048;

/// Idle time after which an actor is passivated.
pub const PASSIVATE_AFTER: Duration = Duration::from_secs(60);

/// Actors that are live at once, tasks and sessions together: at a few KiB each, tens of MiB. The bound is
/// exceeded only by actors with open work: an actor that has a run that goes on, a turn to give or a waiting caller is
/// never passivated.
pub const LIVE_ACTORS: usize = 10_000;

/// Actors of ended tasks that stay live, of all those that are idle: an ended task is rarely asked for again, and each of them
/// keeps some 15 KiB. Waking one reads its events, in some 40 µs.
pub const ENDED_TASKS_LIVE: usize = 64;

/// Actors of ended tasks that are passivated at most when an actor is started, so that those that stay live get fewer, however
/// many have ended at once, and the start takes no long time.
pub(crate) const ENDED_TASKS_TOGETHER: usize = 4;

/// Native tool calls that one reply is read with. A run refuses far fewer, in words that the model can act on.
pub const NATIVE_CALLS_MAX: usize = 1_024;

/// Calls of one run that are open at once, and as many again that these have asked for: what closes them all fits one
/// record. Further parallel parts and requests start when these have ended.
pub const PARALLEL_CALLS_MAX: usize = 128;

/// Events of one task that are written together, as far as one command does not decide more: a quarter of what one
/// record holds, so that what a single command adds still fits.
pub const EVENTS_TOGETHER: usize = 128;

/// Tasks of another system that are taken in with one append: they share its sync.
pub const TAKEN_IN_TASKS: usize = 64;

/// Messages of a conversation that are taken in as one turn: a quarter of the events of a record.
pub const TAKEN_IN_MESSAGES: usize = 256;

/// Bytes after which an append of what is taken in ends (4 MiB), unless a single item is larger.
pub const TAKEN_IN_BYTES: usize = 4 * 1024 * 1024;

/// Longest wait of a start for what other agents, elsewhere, say of themselves: their cards are shown to models, and the system
/// starts without those that do not come.
pub const PEER_START_WAIT: Duration = Duration::from_secs(5);

/// First wait before an agent elsewhere is asked again what it says of itself. It doubles each time.
pub const PEER_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait before it is asked again, and before a directory of agents is listed again.
pub const PEER_RETRY_MAX: Duration = Duration::from_secs(60);

/// The most agents of a directory that a model is shown. Others may still be asked by their names.
pub const PEERS_FOUND_MAX: usize = 100;

/// The longest that the description and the skills of one such agent may be, in bytes.
pub const PEER_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Longest question of a call to a person, in bytes: it is compared with the recorded one, so it is refused and not cut.
pub const QUESTION_BYTES_MAX: usize = 16 * 1024;

/// Longest attempt of one call, unless its policy says otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest wait for the reply of another agent in this process, unless its policy says otherwise: an agent's
/// run is many calls, each with a bound of its own.
pub const DELEGATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Times that another agent is asked to give up a task that it does not know: the delegation may still be on
/// its way.
pub const RECALL_TRIES: u32 = 5;

/// Wait between two such requests.
pub const RECALL_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Longest wait for another agent to give up a task. Only a shutdown waits for its reply.
pub const RECALL_WITHIN: Duration = Duration::from_secs(10);

/// Longest time for which an approval handler is asked, unless the builder says otherwise; then a person is
/// asked. The session waits during this time.
pub const APPROVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Time that a tool has to end by itself after it was canceled or timed out, before it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Longest wait for work to end after it was dropped. What has not ended then blocks its thread and is treated as
/// work that cannot be dropped.
pub const DROP_WITHIN: Duration = Duration::from_secs(1);

/// The most artifacts that a call attaches to its task: one append holds them and the success of the call.
pub const ATTACHED_ARTIFACTS_MAX: usize = 512;

/// Largest result that a probe may find, in bytes: an event holds it together with its call's id.
pub const PROBED_RESULT_BYTES_MAX: usize = proto_events::limits::PAYLOAD_BYTES_MAX - 4 * 1024;

/// Times that a lost attempt (a crash, a timeout) is repeated where that is allowed: enough for a transient
/// fault, too few for a call that kills its process each time.
pub const REPEATS_AFTER_LOSS: u32 = 3;

/// Retries of an inference after a transient failure, Protolink's figure.
pub const INFERENCE_RETRIES: u32 = 3;

/// Longest time to connect to a model's server.
pub const INFER_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence of a model's server within a reply: even a slow model sends a token a second.
pub const INFER_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest reply of a model that is accepted, in bytes (8 MiB): more than any model writes at once, and half
/// of what one event may hold.
pub const INFER_ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most that is read of an error response, in bytes (16 KiB): it is quoted, not kept.
pub const INFER_ERROR_BYTES_MAX: usize = 16 * 1024;

/// Longest back-off accepted from a provider; a longer one is shortened to this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Longest error text that is kept, in bytes (4 KiB): it is stored in the call, the output and the task.
pub const ERROR_TEXT_BYTES: usize = 4 * 1024;

/// Longest text of a panic that is kept, in bytes (1 KiB): what follows it is a backtrace or the values at fault.
pub const PANIC_TEXT_BYTES: usize = 1024;

/// Longest text of a post, reply or result that an actor reads on its own thread, in bytes (64 KiB, a millisecond's work). A
/// task that holds a longer one is worked on by the runtime for calls, since all actors share their thread.
pub const READ_IN_PLACE_BYTES: usize = 64 * 1024;

/// Commands of one task that may panic one after another before its actor gives up: a fault that passes costs one.
pub const PANICS_IN_A_ROW: u32 = 3;

/// Interval at which a session's actor checks on a turn that its task holds but has not asked for.
pub const TURN_OWNER_RECHECK: Duration = Duration::from_millis(500);

/// Delay after which a change of a session's history is tried again that met the turn on its way from one task to another.
pub const SESSION_OP_RECHECK: Duration = Duration::from_millis(5);

/// Pieces of a live feed that wait for one listener: the last seconds of a long reply. Older ones are
/// dropped, and their number is reported to the listener.
pub const LIVE_BUFFER: usize = 256;

/// Longest piece of a live feed, in bytes (4 KiB): with the buffer this bounds what a followed task holds to
/// 1 MiB.
pub const LIVE_PIECE_BYTES: usize = 4 * 1024;

/// Progress texts of one attempt that are passed on in each second: more than anyone reads.
pub const PROGRESS_PER_SECOND: u32 = 20;

/// Unresolved appends that a reopening resolves by set id: as many as the writer and its queue can hold.
pub const UNRESOLVED_APPENDS_MAX: usize = WRITER_QUEUE_APPENDS + GROUP_APPENDS;

/// Longest wait for calls in flight to end when the system is reopened. A call that ignores the interruption
/// is abandoned, as by a process that died.
pub const HALT_WITHIN: Duration = Duration::from_secs(5);

/// Longest wait for an MCP server to start and to answer: a server that is first fetched from a registry is slow.
pub const MCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest wait for an MCP server to list its tools, in all pages together: the server answers already.
pub const MCP_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Pages of one MCP server's tool list: a list without an end is not read.
pub const MCP_LIST_PAGES_MAX: usize = 100;

/// Tools of one MCP server. A server that lists more is not used: each tool costs tokens in every prompt.
pub const MCP_LIST_TOOLS_MAX: usize = 1_000;

/// Longest wait of a start for an MCP server, unless the server's description says otherwise. The server's tools
/// join later.
pub const MCP_START_WAIT: Duration = Duration::from_secs(10);

/// Longest description and schema of one MCP tool together, in bytes (64 KiB): each prompt has all of them.
pub const MCP_TOOL_BYTES_MAX: usize = 64 * 1024;

/// Descriptions and schemas of all tools of one MCP server together, in bytes (1 MiB): they are one text in the log, and
/// no list of a server may keep a system from starting.
pub const MCP_TOOLS_BYTES_MAX: usize = 1024 * 1024;

/// Longest line of an MCP server over its standard streams, in bytes (16 MiB). A longer one ends its call at once.
pub const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// First wait before an MCP server that could not be used is tried again. It doubles each time.
pub const MCP_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait before an MCP server that could not be used is tried again.
pub const MCP_RETRY_MAX: Duration = Duration::from_secs(60);

/// Events at the end of the log in which the keys of runs that were requested once are looked for, when the first key is
/// used after a start: a second's work at most.
pub const ONCE_WINDOW_EVENTS: u64 = 65_536;

/// Keys of runs requested once that are kept in memory, about 10 MiB.
pub const ONCE_KEYS: usize = 65_536;

/// Longest question to a person that a host's own text may be, in bytes (16 KiB): it is a message of its task.
pub const APPROVAL_QUESTION_BYTES_MAX: usize = 16 * 1024;

/// First wait of a submission for room in a full mailbox. It doubles each time.
pub const ROOM_FIRST: Duration = Duration::from_millis(1);

/// Longest wait of a submission before it looks for room again.
pub const ROOM_LONGEST: Duration = Duration::from_millis(100);

/// Operations of an agent's file store that go on at once, for all its tasks: enough for a disk, too few to take the threads on
/// which everything else blocks, where the store hangs.
pub const FILE_STORE_OPERATIONS: usize = 8;

/// Longest wait for an agent's file store, for the files of one command, the wait for other operations included: a large file
/// on a slow disk takes seconds. An artifact whose files must be there first is refused then.
pub const FILE_STORE_WITHIN: Duration = Duration::from_secs(60);

/// The longest result of a call that is repeated in the conversation at the end of a turn that failed, in bytes: one of any size may
/// be why the turn failed.
pub(crate) const KEPT_RESULT_BYTES_MAX: usize = 64 << 10;
