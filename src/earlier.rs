//! Paths from before the split into crates: programs written against them compile. Each item has its documented path in
//! [`crate::log`], which holds what these modules re-export; nothing new is added here.

/// Replay, verification and comparison; now `log::audit`, without modules inside.
#[doc(hidden)]
pub mod audit {
    pub use taskreel_log::audit::*;
    pub use taskreel_log::read::{for_each_record, for_each_stream};

    pub mod diff {
        pub use taskreel_log::audit::{
            Area, Change, ChangeKind, diff_sessions, diff_tasks, diff_tools, first_other_record,
        };
    }
    pub mod difference {
        pub use taskreel_log::audit::{Difference, first_difference};
    }
    pub mod explain {
        pub use taskreel_log::audit::{CallRecovery, Explained, Explanation, explain};
    }
    pub mod export {
        pub use taskreel_log::audit::{Exported, export};
    }
    pub mod import {
        pub use taskreel_log::audit::{ImportError, Imported, import};
    }
    pub mod patch {
        pub use taskreel_log::audit::patch;
    }
    pub mod replay {
        pub use taskreel_log::audit::{Mismatch, Replayed, replay_all, replay_stream};
    }
    pub mod verify {
        pub use taskreel_log::audit::{
            Finding, FindingKind, Progress, Scope, Verified, verify, verify_within,
        };
    }
}

/// The size of what a model is shown; now `log::context`.
#[doc(hidden)]
pub mod context {
    pub mod tokens {
        pub use taskreel_log::context::{MessagesEstimate, estimate_tokens as estimate};
    }
}

/// Rows, statistics and lookup; now `log::views` and `log::doctor`.
#[doc(hidden)]
pub mod inspect {
    pub use taskreel_log::doctor;

    pub mod calls {
        pub use taskreel_log::views::{CallRow, shell_word, unsettled};
    }
    pub mod find {
        pub use taskreel_log::views::{FindError, find, find_call, streams};
    }
    pub mod stats {
        pub use taskreel_log::views::{Durations, Stats, StatsGroup as Group, StatsRow, stats};
    }
    pub mod summary {
        pub use taskreel_log::views::Summaries;
    }
    pub mod view {
        pub use taskreel_log::views::{
            EventRow, SessionRow, TaskRow, ToolRow, call_json, event_rows, session_row, task_row, tool_row,
            waiting_for,
        };
    }
}

/// Time and randomness; now `log::ports`.
#[doc(hidden)]
pub mod ports {
    pub use taskreel_log::ports::*;
}

/// Stores and what readers make of them; now `log::{api, sled, memory, jsonl, read, testing}`.
#[doc(hidden)]
pub mod store {
    pub use taskreel_log::api::*;
    pub use taskreel_log::jsonl::{self, JsonLines};
    pub use taskreel_log::memory::MemoryStore;
    pub use taskreel_log::read::{Delivery, Subscription};
    pub use taskreel_log::sled::*;
    #[cfg(feature = "testing")]
    pub use taskreel_log::testing::*;

    #[cfg(feature = "testing")]
    pub mod faulty {
        pub use taskreel_log::testing::{AppendFault, Faults, FaultyStore, InjectedFault, ReadFault};
    }
    pub mod fold {
        pub use taskreel_log::read::{Answered, Folded, decode_record, fold_stream};
    }
    pub mod open_work {
        pub use taskreel_log::read::open_work;
    }
}
