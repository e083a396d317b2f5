//! Views, statistics and minimized forms of generated artifacts, compared with those of the real a2a-utils. What differs must
//! differ by a rule, the same as for the recorded cases.
//!
//! `TASKREEL_A2A_PYTHON` names a Python that has it, as for `interop`; `TASKREEL_A2A_CASES` is the number of cases of each area.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[cfg(test)]
#[path = "artifact_support/deviations.rs"]
mod deviations;
#[cfg(test)]
#[path = "artifact_support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other test of it loads recorded cases")]
mod fixtures_support;
#[cfg(test)]
#[path = "artifact_support/generated.rs"]
mod generated;

#[cfg(test)]
mod runner {
    use std::io::Write as _;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use proto_events::json;
    use proto_events::json::JsonValue as Value;

    use crate::deviations::RULES;
    use crate::fixtures_support::{AREAS, Case, run};
    use crate::generated::cases;

    /// The cases of each area where nothing else is asked for.
    const COUNT: usize = 150;

    fn answered(python: &Path, cases: &[Value]) -> Vec<Value> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/artifacts_peer.py");
        let mut child =
            Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, given) = (child.stdin.take().unwrap(), Value::from(cases.to_vec()).to_string());
        let writer = std::thread::spawn(move || stdin.write_all(given.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{}", output.status);
        let answers = Value::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
        answers.as_array().unwrap().clone()
    }

    #[test]
    fn generated_artifacts_are_shown_as_a2a_utils_shows_them() {
        let Some(python) = std::env::var_os("TASKREEL_A2A_PYTHON") else {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "TASKREEL_A2A_PYTHON is not set");
            eprintln!("not tried: TASKREEL_A2A_PYTHON is not set");
            return;
        };
        let count = std::env::var("TASKREEL_A2A_CASES").map_or(COUNT, |count| count.parse().unwrap());
        let mut areas = Vec::new();
        for (area, inputs) in cases(count) {
            let case = |(at, input): (usize, Value)| json!({"area": area, "name": at.to_string(), "ordered_keys": true, "input": input});
            let cases: Vec<Value> = inputs.into_iter().enumerate().map(case).collect();
            let answers = answered(python.as_ref(), &cases).into_iter();
            // A figure that no float can hold makes theirs fail; ours leaves it out.
            let is_compared = |case: &Value| case["error"]["type"] != "OverflowError";
            let answers: Vec<Case> = answers.filter(is_compared).map(|whole| Case { whole }).collect();
            assert!(answers.len() * 10 >= count * 9, "{area}: {} of {count} are compared", answers.len());
            areas.push((area.to_owned(), answers));
        }
        let report = run(&areas, AREAS, &[], RULES);
        println!("{report}");
        let input = |fault: &str| {
            let (area, rest) = fault.split_once('/')?;
            let name = rest.split(':').next()?;
            let (_, cases) = areas.iter().find(|(other, _)| other == area)?;
            Some(cases.iter().find(|case| case.name() == name)?.input().to_string())
        };
        let beginning = |text: &str| text.chars().take(1_500).collect::<String>();
        let told = |fault: &String| {
            format!("{}\n  {}", beginning(fault), beginning(&input(fault).unwrap_or_default()))
        };
        let faults: Vec<String> = report.faults().iter().take(12).map(told).collect();
        assert!(faults.is_empty(), "{} faults:\n{}", report.faults().len(), faults.join("\n"));
    }
}
