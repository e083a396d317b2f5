//! Compares our context strategies, under agentix's rules, with the answers of agentix 0.5.0, case by case. The folder in
//! `TASKREEL_FIXTURES` holds `a2a-utils/`; without it the copy in `tests/fixtures` is read. Run with `-- --nocapture` to
//! see the table.

#[cfg(test)]
#[path = "context_support/deviations.rs"]
mod deviations;
#[cfg(test)]
#[path = "context_support/mod.rs"]
mod fixtures_support;

#[cfg(test)]
mod runner {
    use std::path::PathBuf;

    use crate::deviations::RULES;
    use crate::fixtures_support::{AREAS, load, run};

    #[test]
    fn every_strategy_answers_as_agentix_did() {
        let folder = std::env::var_os("TASKREEL_FIXTURES").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")),
            PathBuf::from,
        );
        let mut areas = load(&folder.join("a2a-utils")).unwrap();
        areas.retain(|(area, _)| area.starts_with("context_"));
        let report = run(&areas, AREAS, &[], RULES);
        println!("{report}");
        assert!(report.faults().is_empty(), "{}", report.faults().join("\n"));
        assert!(areas.iter().map(|(_, cases)| cases.len()).sum::<usize>() > 0);
    }
}
