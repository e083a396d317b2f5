//! The fixture runner for the toolkit: areas of a2a-utils that are answered by a script in the place of agents.

pub(crate) mod agents;
#[path = "../../../../../tests/fixtures_support/case.rs"]
pub(crate) mod case;
#[path = "../../../../../tests/fixtures_support/compare.rs"]
mod compare;
#[cfg(unix)]
pub(crate) mod generated;
#[path = "../../../../../tests/fixtures_support/report.rs"]
mod report;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod tools;

use std::path::PathBuf;

pub(crate) use case::{Area, Case, Failure, load};
use proto_events::json::JsonValue as Value;
pub(crate) use report::run;
use taskreel_http::a2a::SessionError;

use crate::deviations::RULES;

/// The areas.
pub(crate) const AREAS: &[(&str, Area)] =
    &[("agents_for_llm", agents::answer), ("session_monitor", session::answer), ("tools", tools::answer)];

fn folder() -> PathBuf {
    std::env::var_os("TASKREEL_FIXTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")),
        PathBuf::from,
    )
}

#[test]
fn the_toolkit_answers_as_a2a_utils_did() {
    let mut areas = load(&folder().join("a2a-utils")).unwrap();
    areas.retain(|(area, _)| AREAS.iter().any(|(built, _)| built == area));
    assert!(!areas.is_empty(), "the folder has an area of the toolkit");
    // A model reads keys in their order.
    for case in areas.iter_mut().filter(|(area, _)| area != "session_monitor").flat_map(|(_, cases)| cases) {
        case.whole["ordered_keys"] = true.into();
    }
    let report = run(&areas, AREAS, &[], RULES);
    println!("{report}");
    assert!(report.faults().is_empty(), "{} faults:\n{}", report.faults().len(), report.faults().join("\n"));
}

/// Runs a case on a clock of its own.
pub(crate) fn on_own_clock<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

pub(crate) fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Unanswerable(error.to_string())
}

/// Returns an error as the recordings write it.
pub(crate) fn python_error(error: &SessionError) -> Value {
    use taskreel_http::a2a::{A2aError, SessionErrorKind};
    let kind = match error {
        SessionError::Agent(A2aError::Refused { .. }) => "A2AClientJSONRPCError",
        SessionError::Agent(A2aError::Card { .. } | A2aError::Answer { .. }) => "A2AClientJSONError",
        SessionError::Agent(_) if error.kind() == SessionErrorKind::TimedOut => "A2AClientTimeoutError",
        SessionError::Agent(_) => "A2AClientHTTPError",
        _ => "ValueError",
    };
    proto_events::json!({"type": kind, "message": error.to_string()})
}
