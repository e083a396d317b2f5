//! The number of every event. A number, once given, is never used for anything else. Families: 1 to 99
//! task, 100 to 199 session, 200 to 299 calls, 300 to 399 tool store; a number is added with the feature
//! that writes it, and gaps are kept for those that the design names.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $word:literal;)*) => {
        $($(#[$doc])* pub const $name: u16 = $number;)*

        /// Every kind that this version writes, with its name.
        pub const ALL: &[(u16, &str)] = &[$(($number, $word)),*];
    };
}

kinds! {
    /// A task came in.
    SUBMITTED = 1, "Submitted";
    /// A task's lifecycle went on.
    STATE_CHANGED = 2, "StateChanged";
    /// A message was added to a task.
    TASK_MESSAGE_APPENDED = 3, "MessageAppended";
    /// An artifact was added to a task.
    ARTIFACT_APPENDED = 4, "ArtifactAppended";
    /// A task's metadata was set.
    METADATA_MERGED = 6, "MetadataMerged";
    /// Somebody asked to cancel a task.
    CANCEL_REQUESTED = 8, "CancelRequested";
    /// Somebody was asked whether a call may be made.
    APPROVAL_REQUESTED = 9, "ApprovalRequested";
    /// It was decided whether a call may be made.
    APPROVAL_DECIDED = 10, "ApprovalDecided";
    /// A message to or from the model, outside any conversation.
    INFER_MESSAGE_APPENDED = 11, "InferMessageAppended";
    /// A session came to be.
    OPENED = 100, "Opened";
    /// A session's leading system message was set.
    SYSTEM_PROMPT_SET = 101, "SystemPromptSet";
    /// A run took a session's turn.
    TURN_STARTED = 102, "TurnStarted";
    /// A message was added to a session's turn.
    SESSION_MESSAGE_APPENDED = 103, "MessageAppended";
    /// A turn was folded into its session's history.
    TURN_COMMITTED = 104, "TurnCommitted";
    /// A turn was dropped.
    TURN_ABORTED = 105, "TurnAborted";
    /// A call was intended.
    CALL_REQUESTED = 200, "CallRequested";
    /// An attempt of a call was about to be sent.
    CALL_DISPATCHED = 201, "CallDispatched";
    /// A call worked.
    CALL_SUCCEEDED = 202, "CallSucceeded";
    /// A call did not work.
    CALL_FAILED = 203, "CallFailed";
    /// An attempt of a call took too long.
    CALL_TIMED_OUT = 204, "CallTimedOut";
    /// A call was given up with its task.
    CALL_CANCELED = 205, "CallCanceled";
    /// Nobody can say whether a call's effect landed.
    CALL_OUTCOME_UNKNOWN = 206, "CallOutcomeUnknown";
    /// Somebody looked whether a lost call took effect.
    CALL_RECONCILED = 207, "CallReconciled";
    /// Nobody looks any further whether an unknown call took effect.
    CALL_ABANDONED = 208, "CallAbandoned";
    /// A result came after its call was closed.
    LATE_RESULT_IGNORED = 209, "LateResultIgnored";
    /// A key of a tool's state was written.
    TOOL_KEY_PUT = 300, "KeyPut";
    /// A key of a tool's state was taken away.
    TOOL_KEY_DELETED = 301, "KeyDeleted";
}

/// The name of a kind; `Unknown` for one that this version does not write.
pub fn name(kind: u16) -> &'static str {
    ALL.iter().find(|(number, _)| *number == kind).map_or("Unknown", |(_, name)| name)
}

/// Whether an event of this kind stands in the calls family.
pub const fn is_call(kind: u16) -> bool {
    kind >= 200 && kind < 300
}
