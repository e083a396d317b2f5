//! Views for readers: rows made from the log alone, statistics, and the lookup of typed names. Everything
//! takes an [`EventReader`](crate::api::EventReader) and knows no actor.

pub(crate) mod agent_change;
pub(crate) mod align;
pub(crate) mod artifact_content;
pub(crate) mod artifact_rows;
pub(crate) mod as_of;
pub(crate) mod asked_args;
pub(crate) mod attention;
pub(crate) mod attention_row;
pub(crate) mod call_row;
pub(crate) mod calls;
pub(crate) mod candidates;
pub(crate) mod causes;
pub(crate) mod changed_tools;
pub(crate) mod common_steps;
pub(crate) mod course;
pub(crate) mod courses;
pub(crate) mod diagram_marks;
pub(crate) mod durations;
pub(crate) mod effects;
pub(crate) mod event_row;
pub(crate) mod expression;
pub(crate) mod extract;
pub(crate) mod filter;
pub(crate) mod find;
pub(crate) mod find_artifact;
pub(crate) mod find_call;
pub(crate) mod history;
pub(crate) mod log_summary;
pub(crate) mod newest_first;
pub(crate) mod own_ids;
pub(crate) mod pattern;
pub(crate) mod point;
pub(crate) mod readable;
pub(crate) mod rows;
pub(crate) mod run_facts;
pub(crate) mod run_row;
pub(crate) mod runs;
pub(crate) mod same_prompts;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod schema_change;
pub(crate) mod search;
pub(crate) mod searched_texts;
pub(crate) mod selection;
pub(crate) mod sequence;
pub(crate) mod stats;
pub(crate) mod stats_watch;
pub(crate) mod steps;
pub(crate) mod summaries;
pub(crate) mod summary;
pub(crate) mod task_owner;
pub(crate) mod task_rows;
pub(crate) mod tool_servers;
pub(crate) mod trace;
pub(crate) mod transcript;
pub(crate) mod tree;
pub(crate) mod unclean_end;
pub(crate) mod view;
pub(crate) mod visible;
pub(crate) mod webhooks;
pub(crate) mod whole_event;

pub use crate::audit::call_json::call_json;
pub use crate::audit::export::{EXTRACT_END_SCHEMA, EXTRACT_SCHEMA};
pub use crate::views::agent_change::agent_change;
pub use crate::views::align::{AlignedStep, align_steps};
pub use crate::views::artifact_content::{ArtifactContent, file_in};
pub use crate::views::artifact_rows::{ArtifactRow, artifact_rows};
pub use crate::views::as_of::AsOf;
pub use crate::views::asked_args::asked_args;
pub use crate::views::attention::{attention, attention_since};
pub use crate::views::attention_row::{Attention, AttentionRow, LogUse};
pub use crate::views::call_row::CallRow;
#[doc(hidden)]
pub use crate::views::call_row::shell_word;
pub use crate::views::calls::unsettled;
pub use crate::views::candidates::AttentionWatch;
pub use crate::views::causes::{
    CausedEvent, causes, causes_between, causes_dot, causes_mermaid, causes_svg, causes_svg_linked,
    causes_text,
};
pub use crate::views::changed_tools::{ChangedTool, changed_tools};
pub use crate::views::course::{CallCourse, CallSpan, Course, CourseAsked, SpanKind, task_course};
pub use crate::views::courses::Courses;
pub use crate::views::diagram_marks::{DIAGRAM_COLUMNS_MIN, DiagramMarks};
pub use crate::views::durations::Durations;
pub use crate::views::effects::{Effects, EffectsRow, effects};
pub use crate::views::event_row::{EventRow, event_rows};
pub use crate::views::expression::{Expression, ExpressionError};
pub use crate::views::extract::{extract, extract_with_files};
pub use crate::views::filter::{
    CALL_KINDS, Field, Filter, KindError, KindsOf, Term, TermError, family, kind_names,
};
pub use crate::views::find::{FindError, find, streams};
pub use crate::views::find_artifact::{
    ArtifactLookup, ArtifactSource, FoundArtifact, child_task, find_artifact,
};
pub use crate::views::find_call::{find_approval, find_call, find_question, resolve_call};
pub use crate::views::history::{ApprovalTimes, CallTimes, StateTime, TaskHistory, task_history};
pub use crate::views::log_summary::{LogSummary, log_summary};
pub use crate::views::pattern::{Pattern, PatternError, pattern, pattern_of_text};
pub use crate::views::point::{Point, PointError, position_at, version_at};
pub use crate::views::readable::Readable;
pub use crate::views::run_facts::RunFacts;
pub use crate::views::run_row::RunRow;
pub use crate::views::runs::{RunCursor, RunFilter, RunPage, newest_runs, newest_runs_with};
pub use crate::views::same_prompts::{ComparedPrompts, PromptPair, compare_prompts};
pub use crate::views::schema_change::narrowed;
pub use crate::views::search::{Hit, SearchEnd, search};
pub use crate::views::searched_texts::SearchedArea;
pub use crate::views::selection::Selection;
pub use crate::views::sequence::{
    Participant, ParticipantKind, SequenceDiagram, SequenceStep, sequence, sequence_between,
    sequence_mermaid, sequence_svg, sequence_svg_linked, sequence_text,
};
pub use crate::views::stats::{Stats, StatsGroup, StatsRow};
pub use crate::views::stats_watch::{StatsWatch, stats, stats_of};
pub use crate::views::steps::{RunStep, run_steps};
pub use crate::views::summary::Summaries;
pub use crate::views::task_owner::{TaskOwner, task_owner};
pub use crate::views::tool_servers::tool_servers;
pub use crate::views::trace::{Trace, TraceKind, TraceNode, trace};
pub use crate::views::transcript::{Speaker, TranscriptEntry, transcript};
pub use crate::views::tree::{TreeMarks, tree_lines};
pub use crate::views::view::{
    SessionRow, TaskRow, ToolRow, session_row, session_rows, task_row, task_rows, tool_row, tool_rows,
    waiting_for,
};
pub use crate::views::visible::{columns, cut, is_invisible, is_obeyed, visible, visible_cut};
pub use crate::views::webhooks::tasks_with_webhooks;
pub use crate::views::whole_event::{WholeEvent, whole_event};
