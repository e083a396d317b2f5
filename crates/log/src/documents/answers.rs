//! The documents that only the live API takes and answers with: the pages of its lists, what no command prints, and the
//! bodies of requests.

use crate::documents::rows::Fields;

/// The fields of each answer and body, described as in [`LINES`](crate::documents::lines::LINES).
pub(crate) const ANSWERS: &[(&str, &str, Fields)] = &[
    (
        "taskreel.log/1",
        "The log behind a server, the text of its file HEAD, and the room on its disk.",
        &[
            ("log", "text"),
            ("format", "number"),
            ("durability", "text"),
            ("head", "number"),
            ("head_file", "text?"),
            ("disk", "disk-room?"),
            ("poisoned", "text?"),
        ],
    ),
    (
        "taskreel.stream/1",
        "A stream of the log in a list.",
        &[("stream", "text"), ("kind", "text"), ("id", "text"), ("version", "number")],
    ),
    (
        "taskreel.agent/1",
        "An agent of the server in a list.",
        &[("name", "text"), ("default", "bool"), ("streams", "text")],
    ),
    ("streams", "A page of streams.", &[("items", "[taskreel.stream/1]"), ("next", "text?")]),
    ("agents", "The agents of the server.", &[("items", "[taskreel.agent/1]"), ("next", "text?")]),
    (
        "tasks",
        "A page of tasks. Those that a newer release wrote are named in `not_read`.",
        &[("items", "[taskreel.task/1]"), ("next", "text?"), ("not_read", "[text]")],
    ),
    ("events", "A page of events.", &[("items", "[taskreel.event/1]"), ("next", "text?")]),
    (
        "calls",
        "A page of calls that are not settled. Tasks that a newer release wrote are named in `not_read`.",
        &[("items", "[taskreel.call/1]"), ("next", "text?"), ("not_read", "[text]")],
    ),
    (
        "stats",
        "Sums over the calls of the log, or of its newest calls.",
        &[("items", "[taskreel.stats/1]"), ("next", "text?"), ("not_read", "[text]")],
    ),
    (
        "verification",
        "The result of a verification, and its findings.",
        &[("findings", "[taskreel.finding/1]"), ("report", "taskreel.verify/1")],
    ),
    (
        "taskreel.lagged/1",
        "Positions that a follower was too slow for; they follow from the log.",
        &[("from", "number"), ("to", "number")],
    ),
    (
        "live-word",
        "The data of the last event of a stream: of `ended`, without a field, or of `failed`, with what went wrong.",
        &[("error", "text*")],
    ),
    (
        "record-word",
        "A line between records or after the last one: exactly one of these fields.",
        &[
            ("failed", "read-failure*"),
            ("lagged", "lagged-positions*"),
            ("quiet", "bool*"),
            ("ended", "bool*"),
            ("done", "number*"),
        ],
    ),
    ("cancel-request", "Cancels a task.", &[("reason", "text?*")]),
    ("approve-request", "Approves a call that waits for approval.", &[("approval", "name")]),
    ("deny-request", "Denies a call that waits for approval.", &[("approval", "name"), ("reason", "text?*")]),
    (
        "reconcile-request",
        "States the outcome of a call whose outcome is unknown. With `landed` it took effect, and the value is its result; without, it did not happen.",
        &[("call", "name"), ("landed", "any*")],
    ),
    (
        "abandon-request",
        "Ends the investigation of a call whose outcome is unknown.",
        &[("call", "name"), ("reason", "name")],
    ),
    ("answer-request", "Answers the question of a call.", &[("question", "name"), ("answer", "text")]),
    (
        "decline-request",
        "Declines to answer the question of a call.",
        &[("question", "name"), ("declined", "text")],
    ),
    ("budget-request", "Replaces the budget of a task.", &[("budget", "budget")]),
    (
        "posted-task",
        "A task in Protolink's form, of which every field may be left out.",
        &[
            ("id", "id*"),
            ("state", "'submitted'|'working'|'input-required'|'completed'|'failed'|'canceled'|'unknown'*"),
            ("messages", "[posted-message]*"),
            ("artifacts", "[posted-artifact]*"),
            ("metadata", "object*"),
            ("created_at", "text?*"),
        ],
    ),
    ("error", "A request that was not carried out.", &[("error", "error-body")]),
];
