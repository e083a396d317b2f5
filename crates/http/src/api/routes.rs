//! The routes of the live API: their paths, the scopes that they need, their parameters, and the documents that they
//! take and answer with. Requests are checked against this table, and the `OpenAPI` document is made from it.

use crate::auth::caller::Scope;
use crate::limits::{PAGE_ITEMS_MAX, WAIT_SECONDS_MAX};

/// A route.
#[derive(Debug)]
pub(crate) struct ApiRoute {
    pub(crate) method: &'static str,
    /// The path below the place of the handler; `{…}` is an open piece.
    pub(crate) path: &'static str,
    pub(crate) operation: ApiOperation,
    pub(crate) scope: Scope,
    pub(crate) about: &'static str,
    pub(crate) params: &'static [Param],
    /// The type of the body, as named in [`taskreel_log::documents`].
    pub(crate) body: Option<&'static str>,
    pub(crate) answer: Answer,
}

/// The work of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiOperation {
    Agents,
    Calls,
    Control(Control),
    Live,
    Log,
    OpenApi,
    Records,
    Session,
    Stats,
    Streams,
    Submit,
    Task,
    TaskEvents,
    TaskState,
    Tasks,
    Verify,
}

/// A decision about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    Abandon,
    Answer,
    Approve,
    Budget,
    Cancel,
    Deny,
    Reconcile,
}

/// The body of a good answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// JSON of this type.
    Json(&'static str),
    /// A line of JSON of this type after another.
    Lines(&'static str),
    /// Server-sent events with data of this type.
    Events(&'static str),
}

/// A parameter of the query.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterType,
    /// Whether it may be there several times.
    pub(crate) is_list: bool,
    pub(crate) about: &'static str,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParameterType {
    Flag,
    /// A text that fits this regular expression.
    Form(&'static str),
    /// A whole number within these bounds.
    Number {
        least: u64,
        most: u64,
    },
    OneOf(&'static [&'static str]),
    Text,
    /// A time as RFC 3339 writes it, or a date and perhaps a time of day without an offset.
    Time,
}

/// Any number that the program counts with.
const NUMBER: ParameterType = ParameterType::Number { least: 0, most: u64::MAX };

const STATES: ParameterType = ParameterType::OneOf(&[
    "submitted",
    "working",
    "input-required",
    "completed",
    "failed",
    "canceled",
    "unknown",
]);

const fn param(name: &'static str, kind: ParameterType, about: &'static str) -> Param {
    Param { name, kind, is_list: false, about }
}

const fn list(name: &'static str, kind: ParameterType, about: &'static str) -> Param {
    Param { name, kind, is_list: true, about }
}

const LIMIT: Param = param(
    "limit",
    ParameterType::Number { least: 1, most: PAGE_ITEMS_MAX as u64 },
    "The most items of the page, 1 to 1000.",
);
const AFTER: Param =
    param("after", ParameterType::Text, "Begins after this place, the `next` of the page before.");
const AGENT: Param = param("agent", ParameterType::Text, "The agent that has the task or session.");
const SINCE: Param = param(
    "since",
    ParameterType::Time,
    "Only what is as late as this time: RFC 3339, or a date and perhaps a time of day without an offset, which is UTC.",
);
const UNTIL: Param = param(
    "until",
    ParameterType::Time,
    "Only what is before this time, which is given as `since` is; a date is taken with all of its day.",
);
const OF_KIND: Param =
    list("kind", ParameterType::Form("^(tool|infer|delegate|handler|agent)$"), "Only calls of this kind.");
const OF_EVENT_KIND: Param = list(
    "kind",
    ParameterType::Text,
    "Only events of this kind, by its name such as `CallFailed` or by its family such as `call`.",
);
const OF_TOOL: Param = list("tool", ParameterType::Text, "Only of this tool.");
const OF_TEXT: Param = list("text", ParameterType::Text, "Only what holds this text.");
const OF_SESSION: Param = list("session", ParameterType::Text, "Only of this session.");
const OF_AGENT: Param = list("agent", ParameterType::Text, "Only of this agent.");
const WHERE: Param = param(
    "where",
    ParameterType::Text,
    "Only where this condition over the fields of what is shown holds, such as `state = failed and not id ~ test`: the conditions of `--where` of the command line.",
);
const NOT: Param = list(
    "not",
    ParameterType::Form(r"^(kind=(tool|infer|delegate|handler|agent)|(tool|text|session|agent)=.+)$"),
    "Only where this does not hold, as `FIELD=VALUE`.",
);

const fn get(
    path: &'static str,
    operation: ApiOperation,
    about: &'static str,
    params: &'static [Param],
    answer: Answer,
) -> ApiRoute {
    ApiRoute { method: "GET", path, operation, scope: Scope::Read, about, params, body: None, answer }
}

const fn control(
    path: &'static str,
    control: Control,
    scope: Scope,
    about: &'static str,
    body: &'static str,
) -> ApiRoute {
    ApiRoute {
        method: "POST",
        path,
        operation: ApiOperation::Control(control),
        scope,
        about,
        params: &[AGENT],
        body: Some(body),
        answer: Answer::Json("taskreel.decision/1"),
    }
}

/// All routes.
pub(crate) static ROUTES: &[ApiRoute] = &[
    get("/openapi.json", ApiOperation::OpenApi, "This document.", &[], Answer::Json("object")),
    get(
        "/v1/log",
        ApiOperation::Log,
        "The log: its id, its end, its file HEAD, and the room on its disk.",
        &[],
        Answer::Json("taskreel.log/1"),
    ),
    get(
        "/v1/streams",
        ApiOperation::Streams,
        "The streams of the log, in the order of their names.",
        &[
            param("prefix", ParameterType::Text, "Only streams whose names begin so."),
            param("open", ParameterType::Flag, "Only streams with open work."),
            AFTER,
            LIMIT,
        ],
        Answer::Json("streams"),
    ),
    get("/v1/agents", ApiOperation::Agents, "The agents of the server.", &[], Answer::Json("agents")),
    get(
        "/v1/tasks",
        ApiOperation::Tasks,
        "The tasks, in the order of the names of their streams. A page with a filter may have fewer items than its limit although others follow.",
        &[
            list("state", STATES, "Only tasks in this state."),
            param("session", ParameterType::Text, "Only tasks that name this session."),
            AGENT,
            WHERE,
            AFTER,
            LIMIT,
        ],
        Answer::Json("tasks"),
    ),
    ApiRoute {
        method: "POST",
        path: "/v1/tasks",
        operation: ApiOperation::Submit,
        scope: Scope::Run,
        about: "Submits a task, and answers once it is on disk. With the header `idempotency-key` the same task under the same key of the same caller is submitted once.",
        params: &[
            AGENT,
            param(
                "wait",
                ParameterType::Number { least: 0, most: WAIT_SECONDS_MAX },
                "Waits this many seconds, 0 to 300, until nothing more happens without a person.",
            ),
        ],
        body: Some("posted-task"),
        answer: Answer::Json("taskreel.task/1"),
    },
    get(
        "/v1/tasks/{id}",
        ApiOperation::Task,
        "A task whole: its states, calls, approvals and outputs.",
        &[AGENT],
        Answer::Json("taskreel.show/1"),
    ),
    get(
        "/v1/tasks/{id}/events",
        ApiOperation::TaskEvents,
        "The events of a task, oldest first.",
        &[AGENT, param("from", NUMBER, "The first version."), LIMIT],
        Answer::Json("events"),
    ),
    get(
        "/v1/tasks/{id}/state",
        ApiOperation::TaskState,
        "A task in Protolink's form, as it is or as it was after a version.",
        &[AGENT, param("at", NUMBER, "The version.")],
        Answer::Json("task"),
    ),
    control("/v1/tasks/{id}/cancel", Control::Cancel, Scope::Run, "Cancels a task.", "cancel-request"),
    control(
        "/v1/tasks/{id}/approve",
        Control::Approve,
        Scope::Control,
        "Approves a call that waits for approval.",
        "approve-request",
    ),
    control(
        "/v1/tasks/{id}/deny",
        Control::Deny,
        Scope::Control,
        "Denies a call that waits for approval.",
        "deny-request",
    ),
    control(
        "/v1/tasks/{id}/reconcile",
        Control::Reconcile,
        Scope::Control,
        "States the outcome of a call whose outcome is unknown.",
        "reconcile-request",
    ),
    control(
        "/v1/tasks/{id}/abandon",
        Control::Abandon,
        Scope::Control,
        "Ends the investigation of a call whose outcome is unknown.",
        "abandon-request",
    ),
    control(
        "/v1/tasks/{id}/answer",
        Control::Answer,
        Scope::Control,
        "Answers the question of a call, or declines to.",
        "answer-request|decline-request",
    ),
    control(
        "/v1/tasks/{id}/budget",
        Control::Budget,
        Scope::Control,
        "Replaces the budget of a task, which goes on if it waits for that.",
        "budget-request",
    ),
    get(
        "/v1/sessions/{id}",
        ApiOperation::Session,
        "A session whole, with its history.",
        &[AGENT],
        Answer::Json("taskreel.show/1"),
    ),
    get(
        "/v1/calls",
        ApiOperation::Calls,
        "The calls that are not settled, oldest first.",
        &[SINCE, UNTIL, OF_KIND, OF_TOOL, OF_TEXT, OF_SESSION, OF_AGENT, NOT, WHERE, AFTER, LIMIT],
        Answer::Json("calls"),
    ),
    get(
        "/v1/stats",
        ApiOperation::Stats,
        "Sums over calls, by tool, model, agent and session.",
        &[
            SINCE,
            UNTIL,
            OF_KIND,
            OF_TOOL,
            OF_TEXT,
            OF_SESSION,
            OF_AGENT,
            NOT,
            WHERE,
            param("newest", NUMBER, "Only over this many of the newest calls."),
            AFTER,
            LIMIT,
        ],
        Answer::Json("stats"),
    ),
    get(
        "/v1/verify",
        ApiOperation::Verify,
        "Verifies the log, or one stream of it. The files beside the log are not looked at.",
        &[param("stream", ParameterType::Text, "Only this stream.")],
        Answer::Json("verification"),
    ),
    get(
        "/v1/records",
        ApiOperation::Records,
        "The records as an export has them, from a position on, or of one stream from a version on. Each line is a record or a word; the last one is the word `done`, `ended` or `failed`.",
        &[
            param("from", NUMBER, "The first position, or the first version of the stream [1]."),
            param("stream", ParameterType::Text, "Only the records of this stream."),
            param("records", NUMBER, "The most records; without it, all."),
            param("bytes", NUMBER, "The bytes of records after which the answer ends."),
            param("follow", ParameterType::Flag, "Goes on with the records that are written."),
            param(
                "where",
                ParameterType::Text,
                "Only records with an event for which this condition over the fields of events holds; takes no bounds.",
            ),
            param(
                "survey",
                ParameterType::OneOf(&["log", "index"]),
                "Every record, and a word for each place that cannot be read; or the faults of the index alone.",
            ),
        ],
        Answer::Lines("record|record-word"),
    ),
    get(
        "/v1/live",
        ApiOperation::Live,
        "The events of the log as server-sent events, from a position on or from now on. The `id` of each is its position; after a lost connection the header `last-event-id` resumes without a gap or a repeat.",
        &[
            param("from", NUMBER, "The first position; without it, the next one."),
            list("stream", ParameterType::Text, "Only of this stream."),
            OF_EVENT_KIND,
            list("state", STATES, "Only events by which a task enters this state."),
            OF_AGENT,
            WHERE,
        ],
        Answer::Events("taskreel.event/1|taskreel.lagged/1|live-word"),
    ),
];
