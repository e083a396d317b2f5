//! Output of the commands that only read: most files hold one command, as a function from an
//! [`EventReader`](taskreel_log::api::EventReader) to lines. Data goes to stdout, everything else to stderr.
//!
//! [`screen`] has the rules for both, [`problem`] the form of errors; [`plain`], [`time`] and [`progress`]
//! are shared.

pub(crate) mod answer;
pub(crate) mod artifact;
pub(crate) mod artifact_files;
pub(crate) mod attention;
pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod causes;
pub(crate) mod compare;
pub(crate) mod diagram;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod grid;
pub(crate) mod list;
pub(crate) mod log_summary;
pub(crate) mod marked_text;
pub(crate) mod newer;
pub(crate) mod pager;
pub(crate) mod plain;
pub(crate) mod problem;
pub(crate) mod progress;
pub(crate) mod prompt;
pub(crate) mod screen;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod show_task;
pub(crate) mod state_style;
pub(crate) mod stats;
pub(crate) mod steps;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod transcript;
pub(crate) mod whole_event;

pub(crate) use crate::print::attention::attention;
pub(crate) use crate::print::calls::calls;
pub(crate) use crate::print::doctor::doctor;
pub(crate) use crate::print::events::{end_of_events, events};
pub(crate) use crate::print::prompt::prompt;
pub(crate) use crate::print::show::{show, state};
pub(crate) use crate::print::stats::stats;
pub(crate) use crate::print::steps::steps;
pub(crate) use crate::print::whole_event::whole_event;
