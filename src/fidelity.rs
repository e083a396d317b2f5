//! The pure functions that tests compare with the answers of Protolink and agentix. Not part of the public API.

pub use taskreel_log::context::estimate_tokens as estimate;

pub use crate::grammar::action::{Action, AgentAction, parse_action, parse_reply, signature};
pub use crate::models::output_schema::OutputSchema;
pub use crate::python::python_json;
pub use crate::run::notes::{fatal_output, output_refused};
pub use crate::tools::schema::check_args;
pub use taskreel_log::shown::extract_summary;
