//! What only the live API answers with: the pages of its lists, and the documents that no command prints.

use crate::documents::lines::Fields;

/// The fields of each answer, as those of [`LINES`](crate::documents::lines::LINES).
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
    ("error", "A request that was not carried out.", &[("error", "error-body")]),
];
