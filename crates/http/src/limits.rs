//! The bounds of the handlers, each with its unit and its reason.

use std::time::Duration;

/// The header in which our servers say what a task has used of a budget.
pub(crate) const USED_HEADER: &str = "x-taskreel-used";

/// The most bytes of a request's body: a payload of 16 MiB, its envelope and escapes.
pub const BODY_MAX: usize = 20 * 1024 * 1024;

/// The most bytes of a body of known length that is read whole before its request is answered (64 KiB). Longer ones
/// arrive through a channel, so that they are refused before they are read.
pub const BODY_AT_ONCE: usize = 64 * 1024;

/// The most pieces of a body that wait to be read: what a client sends faster than it is read stays in its socket.
pub const BODY_PIECES_WAITING: usize = 4;

/// The longest pause between two pieces of a body. A client that sends nothing holds a connection and a task.
pub const BODY_PAUSE_MAX: Duration = Duration::from_secs(15);

/// The longest time for a whole body: 20 MiB take 350 KB a second. A client that sends one byte now and then is not
/// stopped by the bound of a pause.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(60);

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

/// The time for which the last bytes of a socket are still carried once its handler is done: a client that keeps the connection open
/// without reading or closing holds a task and a descriptor.
pub const SOCKET_END_WITHIN: Duration = Duration::from_secs(2);

/// The most bytes of a secret: a key of 4,096 bits in any writing.
pub const SECRET_MAX: usize = 4 * 1024;

/// The most bytes of a presented token: what fits into a request's headers beside the rest.
pub const TOKEN_MAX: usize = 16 * 1024;

/// The most bytes of a principal's name, as of any id.
pub const PRINCIPAL_MAX: usize = 200;

/// The most requests of one principal that are answered at once.
pub const REQUESTS_AT_ONCE: usize = 4_096;

/// The most streams and sockets of one principal at once.
pub const STREAMS_AT_ONCE: usize = 4_096;

/// The longest answer that counts in no budget of bytes (64 KiB): what a socket takes at once.
pub const ANSWER_UNCOUNTED: usize = 64 * 1024;

/// The bytes of longer answers that one principal may leave unread at one time (64 MiB). Each principal has one answer, however
/// long it is.
pub const ANSWERS_OF_ONE: usize = 64 * 1024 * 1024;

/// The bytes of longer answers that all principals together may leave unread at one time (256 MiB).
pub const ANSWERS_OF_ALL: usize = 256 * 1024 * 1024;

/// The time for which a long answer waits until others were read, before it is thrown away.
pub const ANSWER_TURN: Duration = Duration::from_secs(10);

/// The bytes after which a page of tasks ends over A2A (2 MiB), whatever number was asked for: the task that reaches them is
/// the last one.
pub const TASKS_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The most principals whose use is counted at once. Above it, one that has nothing open is forgotten.
pub const PRINCIPALS_COUNTED: usize = 10_000;

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

/// The seconds after which an issuer's keys are read again though every token's key is known: a key that the issuer has
/// withdrawn is trusted for that long.
pub const KEYS_FRESH_SECONDS: u64 = 600;

/// The seconds within which an issuer's keys are read.
pub const KEYS_WITHIN_SECONDS: u64 = 10;

/// The most bytes of a path: an id of 200 bytes, each escaped, under the deepest route.
pub const PATH_MAX: usize = 4 * 1024;

/// The most bytes of a query: conditions and lists of names, half of what many proxies take as a request's head.
pub const QUERY_MAX: usize = 16 * 1024;

/// The most bytes of a request's headers, names and values: cookies of a browser and the longest tokens fit.
pub const HEADERS_MAX: usize = 32 * 1024;

/// The longest time in which the head of a request must arrive.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// The time for which a connection without a request is kept.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The time after which a client that takes nothing of what was sent to it is cut off.
pub const READER_STALL_MAX: Duration = Duration::from_secs(60);

/// The pause after which an event stream sends a comment, so that proxies keep the connection and a client that is gone
/// is noticed.
pub const SSE_HEARTBEAT: Duration = Duration::from_secs(15);

/// The pause after which a WebSocket is pinged. One that is silent for two of them is closed.
pub const SOCKET_PING: Duration = Duration::from_secs(30);

/// The most requests of one WebSocket that are carried out at the same time; further ones wait in the socket.
pub const SOCKET_REQUESTS_MAX: usize = 64;

/// The most time that a server which stops leaves to the requests in flight, unless another one is set.
pub const GRACE: Duration = Duration::from_secs(30);

/// The most connections of a server at one time; further ones wait to be accepted.
pub const CONNECTIONS_MAX: usize = 16_384;

/// The most calls over gRPC that one connection has open at one time; a client waits with further ones.
pub const GRPC_CALLS_MAX: u32 = 256;

/// The time after which a connection of gRPC without a call is closed, in order: its client connects again when it needs to.
pub const GRPC_IDLE_MAX: Duration = Duration::from_secs(300);

/// The pause after which a connection of gRPC is pinged. One that does not answer within the same time is closed.
pub const GRPC_PING: Duration = Duration::from_secs(30);

/// The longest wait of the client for an answer, Protolink's for its agents: an answer is a whole run.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(300);

/// The most bytes of an answer, or of one event, that the client reads (64 MiB): a task with its whole history.
pub const CLIENT_ANSWER_MAX: usize = 64 * 1024 * 1024;

/// The time for which the address of an agent, as a registry named it, is used without asking again.
pub const DISCOVERY_KEPT: Duration = Duration::from_secs(30);

/// The first and the longest pause before an agent that still works on a task is asked for its answer again.
pub const REPEAT_FIRST: Duration = Duration::from_millis(100);

/// The longest of these pauses.
pub const REPEAT_LONGEST: Duration = Duration::from_secs(2);

/// The most bytes of an A2A agent's card that the client reads.
pub const A2A_CARD_MAX: usize = 1024 * 1024;

/// The longest wait of one attempt for the end of a task that an A2A agent elsewhere has: its work may be long, and each further
/// attempt takes up the same task.
pub const A2A_TASK_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The longest time that the client of A2A waits because an agent asks for it (`Retry-After`) before it tries again: a longer
/// one is left to the caller.
pub const A2A_RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The number of times that the client of A2A tries what may be repeated, and takes up a stream again that brings nothing
/// new, unless another one is set.
pub const A2A_ATTEMPTS: u32 = 5;

/// The pause between two heartbeats to a registry, unless another one is set: several within any time to live.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

/// The longest wait for an answer of a registry: it keeps a card, and carries out nothing.
pub const REGISTRY_TIMEOUT: Duration = Duration::from_secs(10);

/// The first pause before a registry that did not answer is asked again.
pub const REGISTER_AGAIN_FIRST: Duration = Duration::from_millis(500);

/// The longest of these pauses.
pub const REGISTER_AGAIN_LONGEST: Duration = Duration::from_secs(30);

/// The time that a server which stops takes to unregister its agents: nobody waits longer for a registry that is away.
pub const UNREGISTER_WITHIN: Duration = Duration::from_secs(2);

/// The most webhooks of a task, unless the host sets another number: each event of the task is sent as often.
pub const PUSH_WEBHOOKS_OF_TASK: usize = 10;

/// The time for one delivery to a webhook.
pub const PUSH_TIME: Duration = Duration::from_secs(15);

/// The time for the connection of a delivery.
pub const PUSH_CONNECT_TIME: Duration = Duration::from_secs(5);

/// The time for looking up the host of a webhook.
pub const PUSH_LOOK_UP_TIME: Duration = Duration::from_secs(5);

/// The look-ups of hosts at the same time: each holds a thread.
pub const PUSH_LOOK_UPS: usize = 16;

/// The attempts of a delivery.
pub const PUSH_ATTEMPTS: u32 = 16;

/// The attempt from which on the log says that a delivery fails: a receiver that restarts is nothing to tell.
pub const PUSH_TOLD_FROM: u32 = 3;

/// The pause after the first failed attempt.
pub const PUSH_PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause between two attempts.
pub const PUSH_PAUSE_LONGEST: Duration = Duration::from_secs(600);

/// The deliveries at the same time: each holds a connection.
pub const PUSH_AT_ONCE: usize = 512;

/// The deliveries to one host at the same time: the rest of [`PUSH_AT_ONCE`] is for the others.
pub const PUSH_AT_ONCE_OF_HOST: usize = 16;

/// The hosts whose turns are kept, before those without a delivery are dropped.
pub const PUSH_HOSTS_KEPT: usize = 1_024;

/// The most bytes that are read of a webhook's answer (16 KiB): nothing in it counts.
pub const PUSH_ANSWER_MAX: usize = 16 * 1024;

/// The deliveries after which progress is noted: so many events are delivered again after a crash at most.
pub const PUSH_NOTED_AFTER: u32 = 32;

/// The time without news after which progress is noted.
pub const PUSH_QUIET: Duration = Duration::from_secs(1);

/// The time without news after which a worker drops the task that it has folded.
pub const PUSH_IDLE: Duration = Duration::from_secs(30);

/// The tasks that are read for deliveries at the same time: each has a thread.
pub const PUSH_READS: usize = 8;

/// The records of a task that are read at once.
pub const PUSH_PAGE: usize = 64;

/// The time that deliveries have to end.
pub const PUSH_STOP_TIME: Duration = Duration::from_secs(2);

/// The most bytes of a payload that a page of the inspector shows at once (64 KiB); a longer one is fetched on demand.
pub const INSPECT_BLOCK_MAX: usize = 64 * 1024;

/// The bytes of contents that a page of the inspector shows (512 KiB); of those beyond, each is shown by its beginning and fetched on
/// demand: a page may have thousands of contents.
pub const INSPECT_PAGE_MAX: usize = 512 * 1024;

/// The most bytes of a form that decides (1 MiB): a result or a reason that a person types or pastes.
pub const INSPECT_FORM_MAX: usize = 1024 * 1024;

/// The rows of a page of the inspector.
pub const INSPECT_ROWS: usize = 50;

/// The most runs that one page of the inspector looks through for those that a filter takes.
pub const INSPECT_LOOKED_MAX: u64 = 2_000;

/// The events of a task that one page of the inspector lists.
pub const INSPECT_EVENTS: u64 = 200;

/// The time for which the page of runs waits for the list of what needs a person, before it shows the last one that is known: half
/// of the time in which the page is to be there.
pub const INSPECT_NEEDS_WITHIN: Duration = Duration::from_millis(150);

/// The time for which the list of what needs a person is used while the log stays as it is: some of it depends on the clock.
pub const INSPECT_NEEDS_FRESH: Duration = Duration::from_secs(5);

/// The pause after which a page that follows with a filter is told how far the log was looked through.
pub const INSPECT_SEEN_EVERY: Duration = Duration::from_secs(1);

/// The pause between two looks at the end of the log, for pages that follow it.
pub const INSPECT_FOLLOW_EVERY: Duration = Duration::from_millis(250);
