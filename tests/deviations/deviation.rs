//! A deliberate difference between our results and the recorded ones, and the checks that hold for every one.

use proto_events::json::JsonValue as Value;

/// A deliberate difference.
#[derive(Debug)]
pub(crate) struct Deviation {
    /// The area whose cases it may touch.
    pub(crate) area: &'static str,
    /// A short name.
    pub(crate) name: &'static str,
    /// Protolink's behaviour.
    pub(crate) theirs: &'static str,
    /// The behaviour of taskreel.
    pub(crate) ours: &'static str,
    /// The reason.
    pub(crate) why: &'static str,
    /// Whether a case (`{"input", "expected" | "error", …}`) is one of those that differ.
    pub(crate) applies: fn(&Value) -> bool,
    /// Changes the recorded result into ours.
    pub(crate) change: fn(&mut Value),
    /// A case as recorded, and with our result.
    pub(crate) example: fn() -> (Value, Value),
}

/// Asserts that every rule turns its example into what it says, and that it changes its result no further.
#[cfg(test)]
pub(crate) fn check_examples(rules: &[Deviation]) {
    for rule in rules {
        let (theirs, ours) = (rule.example)();
        assert!((rule.applies)(&theirs), "{}", rule.name);
        let mut changed = theirs.clone();
        (rule.change)(&mut changed);
        assert_eq!(changed, ours, "{}", rule.name);
        assert_ne!(theirs, ours, "{}", rule.name);
        (rule.change)(&mut changed);
        assert_eq!(changed, ours, "{} twice", rule.name);
    }
}

/// Asserts that every rule says where, what and why, and that no two rules of an area have the same name.
#[cfg(test)]
pub(crate) fn check_words(rules: &[Deviation]) {
    for (at, rule) in rules.iter().enumerate() {
        for text in [rule.area, rule.name, rule.theirs, rule.ours, rule.why] {
            assert!(!text.trim().is_empty(), "{rule:?}");
        }
        let same = |other: &Deviation| other.area == rule.area && other.name == rule.name;
        assert!(!rules.iter().skip(at + 1).any(same), "{rule:?}");
    }
}
