//! Deliberate differences between our artifacts and those of a2a-utils, each a rule with an example.
#![allow(
    clippy::indexing_slicing,
    reason = "`Value` answers null for a key that is absent, and the cases are objects"
)]

#[path = "deviations/cap.rs"]
mod cap;
#[path = "../deviations/deviation.rs"]
mod deviation;
#[path = "deviations/limits.rs"]
mod limits;
#[path = "deviations/names.rs"]
mod names;
#[path = "deviations/paths.rs"]
mod paths;
#[path = "deviations/rows.rs"]
mod rows;
#[path = "deviations/saved.rs"]
mod saved;
#[path = "deviations/stores.rs"]
mod stores;
#[path = "deviations/text_ranges.rs"]
mod text_ranges;

pub(crate) use deviation::Deviation;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[
    Deviation {
        area: "data_view",
        name: "a number after a dash selects no rows",
        theirs: "reads `-3` as the first three rows, while the number -3 is the third row from the end",
        ours: "refuses it in every spelling, and says how the first and how the last rows are written",
        why: "who writes `-1` means the last row, and must not be shown the first one",
        applies: rows::has_leading_dash,
        change: rows::refuse_leading_dash,
        example: rows::leading_dash_example,
    },
    Deviation {
        area: "data_view",
        name: "rows are integers",
        theirs: "takes true and false as rows 1 and 0, and crashes at other values in a list",
        ours: "refuses them by their type",
        why: "a truth value in the place of a row is a mistake of the model's",
        applies: rows::has_wrong_type,
        change: rows::refuse_wrong_type,
        example: rows::wrong_type_example,
    },
    Deviation {
        area: "data_view",
        name: "a row that is no object is shown as it is",
        theirs: "crashes at a number or null among objects, searches a text for the columns' names, empties a list",
        ours: "shows the row as it is, since it has no columns to choose from",
        why: "a view must not lose a row, and a mixed list is no reason to show nothing",
        applies: rows::is_mixed,
        change: rows::show_as_it_is,
        example: rows::mixed_example,
    },
    Deviation {
        area: "data_view",
        name: "a backslash makes a dot part of a key",
        theirs: "cannot reach a key that holds a dot",
        ours: "reads `a\\.b` as the key `a.b`, and `\\\\` as a backslash",
        why: "every key must be reachable",
        applies: paths::has_escape,
        change: paths::reach,
        example: paths::escape_example,
    },
    names::rule(),
    paths::rule("data_minimize"),
    paths::rule("minimize_artifacts"),
    paths::rule("task_for_llm"),
    text_ranges::rule("minimize_artifacts"),
    text_ranges::rule("task_for_llm"),
    stores::id_rule("json_task_store"),
    stores::id_rule("local_file_store"),
    Deviation {
        area: "local_file_store",
        name: "a file never replaces another one, and no name hides a character",
        theirs: "writes a second file of the same name over the first, and keeps control characters in names",
        ours: "keeps both: the second gets the beginning of its digest before its ending; control characters are left out",
        why: "a name is chosen by a stranger, and what was saved must stay and be seen",
        applies: saved::is_taken,
        change: saved::name_by_digest,
        example: saved::taken_example,
    },
    Deviation {
        area: "local_file_store",
        name: "a public address in numbers is a host",
        theirs: "refuses every address in numbers, public ones too",
        ours: "lets the client ask a public address of version 4 in its usual form",
        why: "the rule is that the host is on the public internet, and such an address says so itself",
        applies: stores::is_public_address,
        change: stores::allow_public_address,
        example: stores::public_address_example,
    },
    cap::rule("data_minimize"),
    cap::rule("minimize_artifacts"),
    cap::rule("task_for_llm"),
    // Refused before anything else is looked at.
    limits::rule("text_view"),
    limits::rule("text_minimize"),
    limits::rule("data_view"),
    limits::rule("data_minimize"),
    limits::rule("minimize_artifacts"),
    limits::rule("task_for_llm"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_makes_of_its_example_what_it_says_and_of_the_result_nothing_else() {
        deviation::check_examples(RULES);
    }

    #[test]
    fn every_rule_says_where_what_and_why_and_has_a_name_of_its_own() {
        deviation::check_words(RULES);
    }
}
