//! The fixture runner of the workspace, with the area that is answered over a socket.

#[path = "../../../../tests/fixtures_support/case.rs"]
mod case;
#[path = "../../../../tests/fixtures_support/compare.rs"]
mod compare;
#[path = "../../../../tests/fixtures_support/execute_task.rs"]
#[allow(dead_code, reason = "its tools and its model serve here too")]
mod execute_task;
pub(crate) mod http_api;
#[path = "../../../../tests/fixtures_support/report.rs"]
mod report;
mod servers;

pub(crate) use case::{Area, Case, Failure, load};
pub(crate) use report::run;
