//! The documents in a form of their own, without a field `schema`, and the forms of all documents.

use crate::documents::rows::Fields;

/// The form of a document or of a part of one.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// An object with these fields.
    Fields(Fields),
    /// A value of this type.
    Of(&'static str),
}

/// Each document: its name, its meaning, and its form.
pub(crate) const DOCUMENTS: &[(&str, &str, Form)] = &[
    (
        "task",
        "A task in Protolink's form, which has no field `schema`.",
        Form::Fields(&[
            ("id", "text"),
            ("state", "text"),
            ("messages", "[message]"),
            ("artifacts", "[artifact]"),
            ("metadata", "object"),
            ("flow_state", "any"),
            ("created_at", "text?"),
        ]),
    ),
    (
        "session-history",
        "The messages of a session, as its model is shown them.",
        Form::Of("[model-message]"),
    ),
    ("tool-state", "The state that a tool keeps: each key with its value.", Form::Of("{kept-value}")),
    (
        "programs",
        "The programs that wrote the log.",
        Form::Fields(&[
            ("starts", "number"),
            ("unclean_ends", "number"),
            ("running", "bool"),
            ("last_start", "start?"),
        ]),
    ),
    (
        "definition",
        "The newest definition of an agent.",
        Form::Fields(&[
            ("revision", "number"),
            ("model", "any"),
            ("system_prompt", "any"),
            ("tools", "any"),
            ("agents", "any"),
            ("parameters", "any"),
        ]),
    ),
    (
        "patch",
        "The changes between two documents, as a JSON Patch (RFC 6902).",
        Form::Of("[patch-operation]"),
    ),
    (
        "record",
        "A record of an export, see docs/format.md.",
        Form::Fields(&[
            ("position", "number"),
            ("stream", "text"),
            ("first_version", "number"),
            ("set_id", "text"),
            ("part", "number"),
            ("parts", "number"),
            ("partition", "number"),
            ("epoch", "number"),
            ("at", "text"),
            ("command_id", "text"),
            ("command_digest", "text?"),
            ("causation_id", "text"),
            ("correlation_id", "text"),
            ("principal", "text"),
            ("principal_basis", "text"),
            ("previous", "text"),
            ("hash", "text"),
            ("events", "[record-event]"),
            ("bytes", "text"),
            ("detached", "[detached-body]"),
        ]),
    ),
    (
        "export-end",
        "The last line of an export.",
        Form::Fields(&[("end", "number"), ("records", "number"), ("root", "text")]),
    ),
];
