//! Deliberate differences between our toolkit and that of a2a-utils, each a rule with an example.
#![allow(
    clippy::indexing_slicing,
    reason = "`Value` answers null for a key that is absent, and the cases are objects"
)]

#[path = "../../../../tests/deviations/deviation.rs"]
mod deviation;

pub(crate) use deviation::Deviation;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[];

#[test]
fn every_rule_makes_of_its_example_what_it_says_and_of_the_result_nothing_else() {
    deviation::check_examples(RULES);
}

#[test]
fn every_rule_says_where_what_and_why_and_has_a_name_of_its_own() {
    deviation::check_words(RULES);
}
