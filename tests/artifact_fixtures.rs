//! Compares our views and minimized forms of artifacts, our task files and saved files with those of a2a-utils, case by
//! case. The folder in `TASKREEL_FIXTURES` holds `protolink/` and `a2a-utils/`; without it the copy in
//! `tests/fixtures` is read. Run with `-- --nocapture` to see the table.

#[cfg(test)]
#[path = "artifact_support/deviations.rs"]
mod deviations;
#[cfg(test)]
#[path = "artifact_support/mod.rs"]
mod fixtures_support;

#[cfg(test)]
mod runner {
    use std::path::PathBuf;

    use crate::deviations::RULES;
    use crate::fixtures_support::{AREAS, NOT_BUILT, is_of_another_test, load, run};

    fn folder() -> PathBuf {
        std::env::var_os("TASKREEL_FIXTURES").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")),
            PathBuf::from,
        )
    }

    #[test]
    fn every_area_that_is_built_answers_as_a2a_utils_did() {
        let mut areas = load(&folder().join("a2a-utils")).unwrap();
        areas.retain(|(area, _)| !is_of_another_test(area));
        // A model reads keys in their order. Stores are compared by what they hold.
        let is_shown = |area: &str| !area.ends_with("_store");
        for case in areas.iter_mut().filter(|(area, _)| is_shown(area)).flat_map(|(_, cases)| cases) {
            case.whole["ordered_keys"] = true.into();
        }
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
