//! The JSON that handlers show, the command line with `--json` and the live API alike: the documents of tasks, sessions,
//! tools and verifications, and one table of the fields of everything that is shown, from which the JSON Schemas are
//! made.

pub(crate) mod a2a;
pub(crate) mod answers;
pub(crate) mod condition;
pub(crate) mod decision;
pub(crate) mod forms;
pub(crate) mod lines;
pub(crate) mod parts;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod verification;

pub use crate::documents::condition::condition_over;
pub use crate::documents::decision::decision_json;
pub use crate::documents::forms::Form;
pub use crate::documents::schema::{Described, described, known, schema_of, value_schema};
pub use crate::documents::show::{ShownError, show_json, state_json, task_json};
pub use crate::documents::verification::{finding_json, verified_json};
