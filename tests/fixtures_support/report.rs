//! Runs every case of every supported area and counts: passed, deviating, failed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proto_events::json::JsonValue as Value;

use super::compare::{Flags, same};
use super::{Area, Case, Failure};
use crate::deviations::Deviation;

/// The results of one area.
#[derive(Debug, Default, Clone)]
struct Counts {
    area: String,
    passed: usize,
    deviating: usize,
    failed: usize,
    later: usize,
    waits_for: &'static str,
}

/// The use of one deviation rule.
#[derive(Debug)]
struct RuleUse {
    rule: &'static Deviation,
    matched: usize,
    touched: usize,
}

/// The results of all areas and rules.
#[derive(Debug, Default)]
pub(crate) struct Report {
    areas: Vec<Counts>,
    not_built: Vec<(String, usize)>,
    rules: Vec<RuleUse>,
    faults: Vec<String>,
}

impl Report {
    /// Returns everything that makes the test fail, each as a line.
    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    fn area(&mut self, name: &str, cases: &[Case], answer: Area) {
        let mut counts = Counts { area: name.to_owned(), ..Counts::default() };
        for case in cases {
            let (ours, deviates) = self.deviate(name, case);
            match judge(&ours, answer) {
                Ok(Verdict::Later(what)) => {
                    counts.later += 1;
                    counts.waits_for = what;
                }
                Ok(Verdict::Same) if deviates => counts.deviating += 1,
                Ok(Verdict::Same) => counts.passed += 1,
                Err(why) => {
                    counts.failed += 1;
                    self.faults.push(format!("{name}/{}: {why}", case.name()));
                }
            }
        }
        self.areas.push(counts);
    }

    /// Returns the case with our expected result, and whether a rule changed it.
    fn deviate(&mut self, area: &str, case: &Case) -> (Case, bool) {
        let mut ours = case.clone();
        for usage in self.rules.iter_mut().filter(|usage| usage.rule.area == area) {
            if !(usage.rule.applies)(&case.whole) {
                continue;
            }
            usage.matched += 1;
            let before = ours.whole.clone();
            (usage.rule.change)(&mut ours.whole);
            usage.touched += usize::from(before != ours.whole);
        }
        let deviates = ours.whole != case.whole;
        (ours, deviates)
    }

    fn check_rules(&mut self) {
        let idle = self.rules.iter().filter(|usage| usage.matched > 0 && usage.touched == 0);
        let faults = idle.map(|usage| {
            let (name, matched) = (usage.rule.name, usage.matched);
            format!("the deviation `{name}` matches {matched} cases and changes none of them")
        });
        let faults: Vec<String> = faults.collect();
        self.faults.extend(faults);
    }
}

/// Runs the cases of `areas` against `built`.
pub(crate) fn run(
    areas: &[(String, Vec<Case>)],
    built: &[(&str, Area)],
    not_built: &[&str],
    rules: &'static [Deviation],
) -> Report {
    let unused = |rule| RuleUse { rule, matched: 0, touched: 0 };
    let mut report = Report { rules: rules.iter().map(unused).collect(), ..Report::default() };
    for (name, cases) in areas {
        let answer = built.iter().find(|(area, _)| area == name);
        let listed = not_built.contains(&name.as_str());
        match answer {
            Some((_, answer)) => report.area(name, cases, *answer),
            None if listed => report.not_built.push((name.clone(), cases.len())),
            None => {
                report.faults.push(format!("the area `{name}` is neither built nor listed as not built yet"));
            }
        }
        if answer.is_some() && listed {
            report.faults.push(format!("the area `{name}` is built and still listed as not built yet"));
        }
    }
    if report.areas.iter().all(|counts| counts.passed + counts.deviating + counts.failed == 0) {
        report.faults.push("no case was run".to_owned());
    }
    report.check_rules();
    report
}

/// The result of a case that did not fail.
enum Verdict {
    Same,
    /// The case needs this part, which is not built yet.
    Later(&'static str),
}

/// Runs a case. A panic fails its case, not the whole run.
fn judge(case: &Case, answer: Area) -> Result<Verdict, String> {
    let answered =
        catch_unwind(AssertUnwindSafe(|| answer(case))).map_err(|_| "our code panicked".to_owned())?;
    let error = &case.whole["error"];
    let compared = match answered {
        Err(Failure::NotBuilt(what)) => return Ok(Verdict::Later(what)),
        Err(Failure::Unanswerable(why)) => Err(format!("the runner cannot answer it: {why}")),
        Err(Failure::Refused(text)) if error.is_null() => Err(format!("we refuse it: {text}")),
        Err(Failure::Refused(text)) => refused_alike(&case.whole, &text),
        Ok(ours) if !error.is_null() => Err(format!("they refuse it with {error}, we answer {ours}")),
        Ok(ours) => same(&case.whole["expected"], &ours, &Flags::of(&case.whole)),
    };
    compared.map(|()| Verdict::Same)
}

fn refused_alike(case: &Value, ours: &str) -> Result<(), String> {
    let theirs = case["error"]["message"].as_str().unwrap_or_default();
    // The recordings leave out what pydantic says.
    let unsaid =
        case["python_specific_text"] == Value::Bool(true) || case["error"]["type"] == "ValidationError";
    if unsaid || ours == theirs {
        Ok(())
    } else {
        Err(format!("they refuse it with {theirs:?}, we with {ours:?}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<34}{:>8}{:>11}{:>8}{:>8}", "area", "passed", "deviating", "failed", "later")?;
        let mut all = Counts { area: "all".to_owned(), ..Counts::default() };
        for counts in &self.areas {
            all.passed += counts.passed;
            all.deviating += counts.deviating;
            all.failed += counts.failed;
            all.later += counts.later;
            writeln!(f, "{counts}")?;
        }
        writeln!(f, "{all}")?;
        for (area, cases) in &self.not_built {
            writeln!(f, "{area:<34}not built yet, {cases} cases")?;
        }
        self.rules.iter().try_for_each(|usage| writeln!(f, "{usage}"))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { area, passed, deviating, failed, later, waits_for } = self;
        write!(f, "{area:<34}{passed:>8}{deviating:>11}{failed:>8}{later:>8}  {waits_for}")
    }
}

impl fmt::Display for RuleUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, matched, touched } = self;
        write!(
            f,
            "deviation `{}` in {}: touched {touched} of {matched} matched. Theirs: {}. Ours: {}.",
            rule.name, rule.area, rule.theirs, rule.ours
        )
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    fn echo(case: &Case) -> Result<Value, Failure> {
        match case.input().as_str() {
            Some("panic") => panic!("a panic on purpose"),
            Some("refuse") => Err(Failure::Refused("no".to_owned())),
            _ => Ok(case.input().clone()),
        }
    }

    fn faults(case: Value, rules: &'static [Deviation]) -> Vec<String> {
        let areas = [("echo".to_owned(), vec![Case { whole: case }])];
        run(&areas, &[("echo", echo)], &[], rules).faults().to_vec()
    }

    #[test]
    fn a_wrong_answer_a_wrong_refusal_and_a_panic_each_fail() {
        assert!(faults(json!({"input": 1, "expected": 1}), &[]).is_empty());
        assert_eq!(faults(json!({"input": 1, "expected": 2}), &[]).len(), 1);
        assert_eq!(faults(json!({"input": "panic", "expected": 2}), &[]).len(), 1);
        assert_eq!(faults(json!({"input": "refuse", "expected": 2}), &[]).len(), 1);
        assert_eq!(faults(json!({"input": 1, "error": {"message": "no"}}), &[]).len(), 1);
        assert!(faults(json!({"input": "refuse", "error": {"message": "no"}}), &[]).is_empty());
        assert_eq!(faults(json!({"input": "refuse", "error": {"message": "nay"}}), &[]).len(), 1);
        let python = json!({"input": "refuse", "error": {"message": "nay"}, "python_specific_text": true});
        assert!(faults(python, &[]).is_empty());
    }

    #[test]
    fn an_area_that_nobody_names_fails_and_so_does_one_without_cases() {
        let unknown = [("new".to_owned(), vec![])];
        assert_eq!(run(&unknown, &[("echo", echo)], &[], &[]).faults().len(), 2);
        assert_eq!(run(&unknown, &[], &["new"], &[]).faults(), ["no case was run"]);
    }

    const fn rule(change: fn(&mut Value)) -> Deviation {
        Deviation {
            area: "echo",
            name: "rule",
            theirs: "two",
            ours: "one",
            why: "a test",
            applies: |case| case["input"] == 1,
            change,
            example: || (Value::Null, Value::Null),
        }
    }

    #[test]
    fn a_rule_that_matches_and_changes_nothing_fails_and_one_that_matches_nothing_is_silent() {
        static CHANGES: [Deviation; 1] = [rule(|case| case["expected"] = json!(1))];
        static IDLE: [Deviation; 1] = [rule(|_| ())];
        assert!(faults(json!({"input": 1, "expected": 2}), &CHANGES).is_empty());
        assert_eq!(faults(json!({"input": 3, "expected": 2}), &CHANGES).len(), 1);
        assert_eq!(faults(json!({"input": 1, "expected": 1}), &IDLE).len(), 1);
        assert!(faults(json!({"input": 3, "expected": 3}), &IDLE).is_empty());
    }
}
