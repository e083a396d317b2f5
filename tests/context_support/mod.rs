//! The fixture runner for context strategies: the areas, and the comparison and report that all fixture tests share.

#[path = "../fixtures_support/case.rs"]
mod case;
#[path = "../fixtures_support/compare.rs"]
mod compare;
#[path = "../fixtures_support/report.rs"]
mod report;
mod strategies;

pub(crate) use case::{Area, Case, Failure, load};
pub(crate) use report::run;

/// The supported areas: the name in the fixture files, and the function that answers a case.
pub(crate) const AREAS: &[(&str, Area)] = &[
    ("context_fit_window", strategies::fit_window),
    ("context_split", strategies::split),
    ("context_token_count", strategies::token_count),
    ("context_trim_rounds", strategies::trim_rounds),
    ("context_truncate_tool_outputs", strategies::truncate_tool_outputs),
];
