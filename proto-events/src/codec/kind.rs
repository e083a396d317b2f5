//! The number of every event. A number is never reused. Families: 1 to 99 task, 100 to 199 session, 200 to
//! 299 calls, 300 to 399 tool store, 400 to 499 system, 500 to 599 agent, 600 to 699 flow, 700 to 799 registry. Reserved are
//! 800 to 899 for timers, 900 to 999 for redaction and forks. A number is added with the feature that writes it; gaps are reserved for
//! those that the design names.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $word:literal;)*) => {
        $($(#[$doc])* pub const $name: u16 = $number;)*

        /// Every kind that this version writes, with its name.
        pub const ALL: &[(u16, &str)] = &[$(($number, $word)),*];
    };
}

kinds! {
    /// A task was submitted.
    SUBMITTED = 1, "Submitted";
    /// A task's lifecycle state changed.
    STATE_CHANGED = 2, "StateChanged";
    /// A message was added to a task.
    TASK_MESSAGE_APPENDED = 3, "MessageAppended";
    /// An artifact was added to a task.
    ARTIFACT_APPENDED = 4, "ArtifactAppended";
    /// A piece of an artifact was added to a task.
    ARTIFACT_PART_APPENDED = 5, "ArtifactPartAppended";
    /// A task's metadata was set.
    METADATA_MERGED = 6, "MetadataMerged";
    /// A caller requested a task's cancellation.
    CANCEL_REQUESTED = 8, "CancelRequested";
    /// An approval was requested for a call.
    APPROVAL_REQUESTED = 9, "ApprovalRequested";
    /// An approval was decided.
    APPROVAL_DECIDED = 10, "ApprovalDecided";
    /// A message to or from the model, outside any conversation.
    INFER_MESSAGE_APPENDED = 11, "InferMessageAppended";
    /// A task was posted again with new items.
    POSTED_AGAIN = 12, "PostedAgain";
    /// A webhook of a task was registered.
    WEBHOOK_SET = 13, "WebhookSet";
    /// The registration of a webhook was removed.
    WEBHOOK_REMOVED = 14, "WebhookRemoved";
    /// A webhook was told everything up to a version.
    WEBHOOK_DELIVERED = 15, "WebhookDelivered";
    /// A delivery to a webhook has failed several times.
    WEBHOOK_FAILED = 16, "WebhookFailed";
    /// A session was opened.
    OPENED = 100, "Opened";
    /// A session's leading system message was set.
    SYSTEM_PROMPT_SET = 101, "SystemPromptSet";
    /// A run started a session's turn.
    TURN_STARTED = 102, "TurnStarted";
    /// A message was added to a session's turn.
    SESSION_MESSAGE_APPENDED = 103, "MessageAppended";
    /// A turn was committed to its session's history.
    TURN_COMMITTED = 104, "TurnCommitted";
    /// A turn was aborted.
    TURN_ABORTED = 105, "TurnAborted";
    /// The oldest messages of a session's history were removed.
    HISTORY_COMPACTED = 109, "HistoryCompacted";
    /// A session's history was cleared.
    CLEARED = 110, "Cleared";
    /// A model is about to be asked for a summary of a history.
    SUMMARY_REQUESTED = 111, "SummaryRequested";
    /// A model answered with a summary.
    SUMMARY_RECEIVED = 112, "SummaryReceived";
    /// A call for a summary failed.
    SUMMARY_FAILED = 113, "SummaryFailed";
    /// A call was requested.
    CALL_REQUESTED = 200, "CallRequested";
    /// An attempt of a call was about to be sent.
    CALL_DISPATCHED = 201, "CallDispatched";
    /// A call succeeded.
    CALL_SUCCEEDED = 202, "CallSucceeded";
    /// A call failed.
    CALL_FAILED = 203, "CallFailed";
    /// An attempt of a call timed out.
    CALL_TIMED_OUT = 204, "CallTimedOut";
    /// A call was canceled with its task.
    CALL_CANCELED = 205, "CallCanceled";
    /// The outcome of a call is unknown.
    CALL_OUTCOME_UNKNOWN = 206, "CallOutcomeUnknown";
    /// A verdict was recorded on the effect of a lost call.
    CALL_RECONCILED = 207, "CallReconciled";
    /// The investigation of an unknown call was stopped.
    CALL_ABANDONED = 208, "CallAbandoned";
    /// A result arrived after its call was closed.
    LATE_RESULT_IGNORED = 209, "LateResultIgnored";
    /// An attempt of a call failed, and another one was scheduled.
    CALL_RETRY_SCHEDULED = 210, "CallRetryScheduled";
    /// An attempt of a call ended with a question to a person.
    CALL_ASKED = 211, "CallAsked";
    /// A person answered the question of a call.
    CALL_ANSWERED = 212, "CallAnswered";
    /// Another agent took the task of a call, under an id of its own.
    CALL_ACCEPTED = 213, "CallAccepted";
    /// A key of a tool's state was written.
    TOOL_KEY_PUT = 300, "KeyPut";
    /// A key of a tool's state was deleted.
    TOOL_KEY_DELETED = 301, "KeyDeleted";
    /// A key of a tool's state was written from outside its calls.
    TOOL_KEY_SET = 302, "KeySet";
    /// A key of a tool's state was removed from outside its calls.
    TOOL_KEY_REMOVED = 303, "KeyRemoved";
    /// All keys of a tool's state were removed.
    TOOL_CLEARED = 304, "Cleared";
    /// A program began to write to a partition.
    STARTED = 400, "Started";
    /// A program ended in order.
    STOPPED = 401, "Stopped";
    /// A server of tools brought less than it should, or has answered since.
    TOOL_SERVER_SEEN = 402, "ToolServerSeen";
    /// An agent's definition was changed.
    REVISED = 500, "Revised";
    /// The checkpoint of a run was stored.
    CHECKPOINT_PUT = 600, "CheckpointPut";
    /// The checkpoint of a run was deleted.
    CHECKPOINT_DELETED = 601, "CheckpointDeleted";
    /// An agent registered.
    AGENT_REGISTERED = 700, "AgentRegistered";
    /// An agent was unregistered.
    AGENT_UNREGISTERED = 701, "AgentUnregistered";
    /// An agent was not heard of for too long.
    AGENT_EXPIRED = 702, "AgentExpired";
}

/// Returns the name of a kind; `Unknown` for one that this version does not write.
pub fn name(kind: u16) -> &'static str {
    ALL.iter().find(|(number, _)| *number == kind).map_or("Unknown", |(_, name)| name)
}

/// Whether this version knows the kind.
pub fn is_known(kind: u16) -> bool {
    ALL.iter().any(|(number, _)| *number == kind)
}

/// Whether a kind belongs to the calls family.
pub const fn is_call(kind: u16) -> bool {
    kind >= 200 && kind < 300
}
