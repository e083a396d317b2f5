//! Compares our results with those of Protolink, case by case. The folder in `TASKREEL_FIXTURES` holds
//! `protolink/` and `a2a-utils/`; without it the copy in `tests/fixtures` is read. Run with `-- --nocapture`
//! to see the table.

#[cfg(test)]
mod deviations;
#[cfg(test)]
mod fixtures_support;

#[cfg(test)]
mod runner {
    use std::path::PathBuf;

    use crate::deviations::RULES;
    use crate::fixtures_support::{AREAS, NOT_BUILT, load, run};

    fn folder() -> PathBuf {
        std::env::var_os("TASKREEL_FIXTURES").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")),
            PathBuf::from,
        )
    }

    #[test]
    fn every_area_that_is_built_answers_as_the_real_systems_did() {
        let areas = load(&folder().join("protolink")).unwrap();
        let report = run(&areas, AREAS, NOT_BUILT, RULES);
        println!("{report}");
        assert!(
            report.faults().is_empty(),
            "{} faults:\n{}",
            report.faults().len(),
            report.faults().join("\n")
        );
    }
}
