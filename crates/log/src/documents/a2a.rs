//! The JSON that the command line of A2A prints: A2A's own types as its definition has them, and the documents of the commands for which it
//! has none.

use crate::documents::forms::Form;
use crate::documents::forms::Form::Fields;
use crate::documents::rows;

/// The lines that name their schema: each with its meaning and its fields.
pub(crate) const LINES: &[(&str, &str, rows::Fields)] = &[
    (
        "taskreel.a2a-check/1",
        "The results of the checks of an agent; with `--stream`, their counts alone.",
        &[
            ("agent", "text"),
            ("checks", "[a2a-checked]*"),
            ("passed", "number"),
            ("failed", "number"),
            ("warned", "number"),
            ("skipped", "number"),
        ],
    ),
    (
        "taskreel.a2a-checked/1",
        "The result of one check: `pass`, `fail`, `warn` or `skip`.",
        &[("check", "text"), ("interface", "text?"), ("result", "text"), ("detail", "text")],
    ),
    ("taskreel.a2a-config/1", "The settings in force.", &[("settings", "[a2a-setting]")]),
    (
        "taskreel.a2a-login/1",
        "The token that `auth login` has brought: its agent, and its end if that is known.",
        &[
            ("agent", "text"),
            ("scheme", "text"),
            ("flow", "text"),
            ("expires_at", "text?"),
            ("renewable", "bool"),
        ],
    ),
    (
        "taskreel.a2a-logout/1",
        "The agent whose token was forgotten, and whether there was one.",
        &[("agent", "text"), ("removed", "bool")],
    ),
    (
        "taskreel.a2a-saved/1",
        "The results of a task that were saved as files.",
        &[("task", "text"), ("files", "[a2a-file]")],
    ),
];

/// The documents of A2A.
pub(crate) const DOCUMENTS: &[(&str, &str, Form)] = &[
    (
        "a2a-error",
        "The failure of a command, by the specification of A2A command lines.",
        Fields(&[("error", "a2a-failure")]),
    ),
    (
        "a2a-event",
        "`StreamResponse` or `SendMessageResponse` of A2A: one of its members is there.",
        Fields(&[
            ("task", "a2a-task*"),
            ("message", "a2a-message*"),
            ("statusUpdate", "a2a-status-update*"),
            ("artifactUpdate", "a2a-artifact-update*"),
        ]),
    ),
    (
        "a2a-task",
        "`Task` of A2A.",
        Fields(&[
            ("id", "text"),
            ("contextId", "text*"),
            ("status", "a2a-status"),
            ("artifacts", "[a2a-artifact]*"),
            ("history", "[a2a-message]*"),
            ("metadata", "object*"),
        ]),
    ),
    (
        "a2a-tasks",
        "`ListTasksResponse` of A2A.",
        Fields(&[
            ("tasks", "[a2a-task]"),
            ("nextPageToken", "text"),
            ("pageSize", "number"),
            ("totalSize", "number"),
        ]),
    ),
    (
        "a2a-card",
        "`AgentCard` of A2A, as the agent wrote it.",
        Fields(&[
            ("name", "text*"),
            ("description", "text*"),
            ("version", "text*"),
            ("supportedInterfaces", "[a2a-interface]*"),
            ("capabilities", "a2a-capabilities*"),
            ("defaultInputModes", "[text]*"),
            ("defaultOutputModes", "[text]*"),
            ("skills", "[a2a-skill]*"),
            ("protocolVersion", "text*"),
            ("url", "text*"),
            ("preferredTransport", "text*"),
            ("additionalInterfaces", "[a2a-interface]*"),
            ("supportsAuthenticatedExtendedCard", "bool*"),
            ("securitySchemes", "any*"),
            ("securityRequirements", "any*"),
            ("security", "any*"),
            ("signatures", "any*"),
        ]),
    ),
];

/// The parts of them.
pub(crate) const PARTS: &[(&str, &str, Form)] = &[
    (
        "a2a-checked",
        "The result of a check.",
        Fields(&[("check", "text"), ("interface", "text?"), ("result", "text"), ("detail", "text")]),
    ),
    (
        "a2a-setting",
        "A setting, without what is secret.",
        Fields(&[("name", "text"), ("value", "text?"), ("source", "text")]),
    ),
    (
        "a2a-file",
        "A file with a part of a result.",
        Fields(&[
            ("artifact", "text"),
            ("part", "number"),
            ("path", "text"),
            ("bytes", "number"),
            ("media_type", "text?"),
        ]),
    ),
    (
        "a2a-failure",
        "A failure: the protocol's name for it or a code of the specification, words, and advice.",
        Fields(&[("code", "text"), ("message", "text"), ("hint", "text?"), ("a2aCode", "text|number?")]),
    ),
    (
        "a2a-status",
        "`TaskStatus` of A2A.",
        Fields(&[("state", "text"), ("message", "a2a-message*"), ("timestamp", "text*")]),
    ),
    (
        "a2a-message",
        "`Message` of A2A.",
        Fields(&[
            ("messageId", "text"),
            ("contextId", "text*"),
            ("taskId", "text*"),
            ("role", "text"),
            ("parts", "[a2a-part]"),
            ("metadata", "object*"),
            ("extensions", "[text]*"),
            ("referenceTaskIds", "[text]*"),
        ]),
    ),
    (
        "a2a-part",
        "`Part` of A2A: one of its first four members is there.",
        Fields(&[
            ("text", "text*"),
            ("raw", "text*"),
            ("url", "text*"),
            ("data", "any*"),
            ("metadata", "object*"),
            ("filename", "text*"),
            ("mediaType", "text*"),
        ]),
    ),
    (
        "a2a-artifact",
        "`Artifact` of A2A.",
        Fields(&[
            ("artifactId", "text"),
            ("name", "text*"),
            ("description", "text*"),
            ("parts", "[a2a-part]"),
            ("metadata", "object*"),
            ("extensions", "[text]*"),
        ]),
    ),
    (
        "a2a-status-update",
        "`TaskStatusUpdateEvent` of A2A.",
        Fields(&[
            ("taskId", "text"),
            ("contextId", "text"),
            ("status", "a2a-status"),
            ("metadata", "object*"),
        ]),
    ),
    (
        "a2a-artifact-update",
        "`TaskArtifactUpdateEvent` of A2A.",
        Fields(&[
            ("taskId", "text"),
            ("contextId", "text"),
            ("artifact", "a2a-artifact"),
            ("append", "bool"),
            ("lastChunk", "bool"),
            ("metadata", "object*"),
        ]),
    ),
    (
        "a2a-interface",
        "`AgentInterface` of A2A, in the form of either version.",
        Fields(&[
            ("url", "text*"),
            ("protocolBinding", "text*"),
            ("protocolVersion", "text*"),
            ("transport", "text*"),
            ("tenant", "text*"),
        ]),
    ),
    (
        "a2a-capabilities",
        "`AgentCapabilities` of A2A.",
        Fields(&[
            ("streaming", "bool*"),
            ("pushNotifications", "bool*"),
            ("extendedAgentCard", "bool*"),
            ("stateTransitionHistory", "bool*"),
            ("extensions", "[a2a-extension]*"),
        ]),
    ),
    (
        "a2a-extension",
        "`AgentExtension` of A2A.",
        Fields(&[("uri", "text*"), ("description", "text*"), ("required", "bool*"), ("params", "any*")]),
    ),
    (
        "a2a-skill",
        "`AgentSkill` of A2A.",
        Fields(&[
            ("id", "text"),
            ("name", "text"),
            ("description", "text"),
            ("tags", "[text]"),
            ("examples", "[text]*"),
            ("inputModes", "[text]*"),
            ("outputModes", "[text]*"),
        ]),
    ),
];
