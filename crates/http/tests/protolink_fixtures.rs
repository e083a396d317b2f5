//! Compares our answers over a socket with those of Protolink's servers, case by case: the area `http_api`. The folder in
//! `TASKREEL_FIXTURES` holds `protolink/`; without it the copy in `tests/fixtures` of the workspace is read. Run with
//! `-- --nocapture` to see the table.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "http_deviations/mod.rs"]
mod deviations;
mod fixtures_support;
mod support;

use std::path::PathBuf;

use crate::deviations::RULES;
use crate::fixtures_support::{http_api, load, run};

/// The folder of the recorded cases.
fn folder() -> PathBuf {
    std::env::var_os("TASKREEL_FIXTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")),
        PathBuf::from,
    )
}

#[test]
fn every_request_is_answered_as_the_real_servers_answered_it() {
    let mut areas = load(&folder().join("protolink")).unwrap();
    areas.retain(|(area, _)| area == "http_api");
    assert!(!areas.is_empty(), "the folder has the area `http_api`");
    let report = run(&areas, &[("http_api", http_api::answer)], &[], RULES);
    println!("{report}");
    assert!(report.faults().is_empty(), "{} faults:\n{}", report.faults().len(), report.faults().join("\n"));
}
