//! The lifecycle's edges compared with a table in words, so that a new edge shows up in a diff.

use proto_events::model::TaskState;

#[test]
fn every_one_of_the_49_transitions_is_in_the_golden_table() {
    let golden: Vec<&str> =
        include_str!("transitions.txt").lines().filter(|line| !line.starts_with('#')).collect();
    let mut ours = Vec::new();
    for from in TaskState::ALL {
        for to in TaskState::ALL {
            let edge = match (from == to, from.can_become(to)) {
                (true, false) => "stays",
                (false, true) => "may become",
                (false, false) => "may not become",
                (true, true) => "becomes itself",
            };
            ours.push(format!("{from} {edge} {to}"));
        }
    }
    assert_eq!(ours.len(), 49);
    assert_eq!(ours, golden);
}

#[test]
fn a_terminal_state_is_one_that_nothing_follows() {
    for state in TaskState::ALL {
        let followed = TaskState::ALL.into_iter().any(|next| state.can_become(next));
        assert_eq!(state.is_terminal(), !followed, "{state}");
    }
}

#[test]
fn a_state_is_read_from_its_own_name_only() {
    for state in TaskState::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
    }
    for text in ["done", "Working", "input_required", ""] {
        let error = text.parse::<TaskState>().unwrap_err();
        assert_eq!(error.to_string(), format!("'{text}' is not a valid TaskState"));
    }
}
