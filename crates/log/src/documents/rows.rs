//! The fields of the rows that lines are made of most often.

/// The fields of a line, each with its type.
pub(crate) type Fields = &'static [(&'static str, &'static str)];

/// A task in a list.
pub(crate) const TASK: Fields = &[
    ("id", "text"),
    ("stream", "text"),
    ("state", "text"),
    ("session", "text?"),
    ("events", "number"),
    ("last_at", "text"),
    ("last_position", "number"),
    ("waiting_for", "text?"),
    ("error", "text?"),
];

/// An event with its place, its cause and its payload.
pub(crate) const EVENT: Fields = &[
    ("position", "number"),
    ("stream", "text"),
    ("id", "text"),
    ("version", "number"),
    ("at", "text"),
    ("kind", "text"),
    ("kind_number", "number"),
    ("schema_version", "number"),
    ("command_id", "text"),
    ("causation_id", "text"),
    ("correlation_id", "text"),
    ("principal", "text"),
    ("principal_basis", "text"),
    ("set_id", "text"),
    ("payload", "object?"),
    ("error", "text?"),
];

/// Figures of a group of calls.
pub(crate) const STATS: Fields = &[
    ("group", "text"),
    ("name", "text?"),
    ("calls", "number"),
    ("errors", "number"),
    ("succeeded", "number"),
    ("failed", "number"),
    ("unknown", "number"),
    ("settled", "number"),
    ("canceled", "number"),
    ("open", "number"),
    ("attempts", "number"),
    ("timed_out", "number"),
    ("measured", "number"),
    ("p50_us", "number?"),
    ("p95_us", "number?"),
    ("p99_us", "number?"),
    ("max_us", "number?"),
    ("with_usage", "number"),
    ("input_tokens", "number"),
    ("output_tokens", "number"),
    ("costs", "{text}"),
];

/// A part of a trace.
pub(crate) const TRACE: Fields = &[
    ("node", "number"),
    ("parent", "number?"),
    ("depth", "number"),
    ("kind", "text"),
    ("name", "text"),
    ("id", "text"),
    ("stream", "text"),
    ("version", "number"),
    ("state", "text"),
    ("failed", "bool"),
    ("error", "text?"),
    ("principal", "text"),
    ("began", "text"),
    ("ended", "text?"),
    ("took_us", "number?"),
    ("attempts", "number"),
    ("input_tokens", "number?"),
    ("output_tokens", "number?"),
    ("critical", "bool"),
];

/// A step of a sequence diagram.
pub(crate) const SEQUENCE: Fields = &[
    ("stream", "text"),
    ("version", "number"),
    ("at", "text"),
    ("kind", "text"),
    ("from", "text"),
    ("to", "text"),
    ("text", "text"),
    ("failed", "bool"),
];

/// An event of a causation graph.
pub(crate) const CAUSE: Fields = &[
    ("stream", "text"),
    ("version", "number"),
    ("at", "text"),
    ("kind", "text"),
    ("text", "text"),
    ("failed", "bool"),
    ("caused_by", "number?"),
    ("outside", "text"),
];

/// A message of a conversation.
pub(crate) const TRANSCRIPT: Fields = &[
    ("stream", "text"),
    ("version", "number"),
    ("at", "text"),
    ("task", "text?"),
    ("speaker", "text"),
    ("tool", "text?"),
    ("text", "text"),
    ("raw", "text"),
];

/// A text that a search found.
pub(crate) const HIT: Fields = &[
    ("position", "number"),
    ("stream", "text"),
    ("id", "text"),
    ("version", "number"),
    ("at", "text"),
    ("kind", "text"),
    ("area", "text"),
    ("path", "text"),
    ("before", "text"),
    ("found", "text"),
    ("after", "text"),
    ("cut", "bool"),
];
