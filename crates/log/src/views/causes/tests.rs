//! Causation graphs of any events: each stands once, in bounds, behind its cause, and as text whatever its words are.

use proptest::prelude::*;

use super::layout::layout;
use super::*;
use crate::views::diagram_marks::{DIAGRAM_COLUMNS_MIN, DiagramMarks};
use crate::views::sample;
use crate::views::visible::{columns, is_invisible, is_obeyed};

fn graph(rows: &[EventRow]) -> Vec<CausedEvent> {
    let mut reading = CauseReader::default();
    for row in rows {
        reading.accept_row(row);
    }
    reading.events
}

proptest! {
    #[test]
    fn each_event_is_one_line_behind_its_cause_and_none_is_wider_than_asked(rows in sample::rows(), width in 1_usize..200) {
        let events = graph(&rows);
        prop_assert_eq!(events.len(), rows.len());
        for (at, event) in events.iter().enumerate() {
            prop_assert!(event.cause.is_none_or(|cause| cause < at));
        }
        let lines = causes_text(&events, width, DiagramMarks::BOX);
        prop_assert_eq!(lines.len(), rows.len());
        for (line, row) in lines.iter().zip(&rows) {
            prop_assert!(columns(line) <= width.max(DIAGRAM_COLUMNS_MIN), "{}", line);
            let is_named = line.split(' ').any(|word| word == format!("v{}", row.version));
            prop_assert!(is_named, "{} of {}", line, row.version);
            prop_assert!(!line.chars().any(|letter| is_obeyed(letter) || is_invisible(letter)));
            prop_assert_eq!(line.matches(['●', '✗']).count() >= 1, true);
        }
    }

    #[test]
    fn a_part_of_a_graph_is_that_part_of_the_whole_and_names_causes_before_it(rows in sample::rows(), from in 0_usize..40) {
        let whole = graph(&rows);
        let Some(first) = rows.get(from).map(|row| row.version) else { return Ok(()) };
        let mut reading = CauseReader { first, ..CauseReader::default() };
        for row in &rows {
            reading.accept_row(row);
        }
        let before = whole.len() - reading.events.len();
        for (part, event) in reading.events.iter().zip(&whole[before..]) {
            prop_assert_eq!((part.version, &part.text, part.is_failed), (event.version, &event.text, event.is_failed));
            match event.cause {
                Some(cause) if cause < before => {
                    prop_assert_eq!((part.cause, &part.outside), (None, &format!("v{}", whole[cause].version)));
                }
                cause => {
                    prop_assert_eq!(part.cause, cause.map(|cause| cause - before));
                    prop_assert_eq!(&part.outside, &event.outside);
                }
            }
        }
        let linked = causes_svg_linked(&reading.events, 80, "part", &|version| format!("/t?at={version}&\"<"));
        for event in &reading.events {
            let link = format!("<a href=\"/t?at={}&amp;&quot;&lt;\">", event.version);
            prop_assert!(linked.contains(&link));
        }
    }

    #[test]
    fn no_two_lines_share_a_lane_while_there_are_free_ones(rows in sample::rows()) {
        let events = graph(&rows);
        let places = layout(&events, 1_000);
        // A line stands in its lane from the row of a cause to that of the last event that it caused.
        let ends: Vec<usize> = (0..events.len())
            .map(|at| events.iter().rposition(|event| event.cause == Some(at)).unwrap_or(at))
            .collect();
        for (at, place) in places.iter().enumerate() {
            for (other, around) in places.iter().enumerate().take(at) {
                let is_inside = other < at && at < ends[other];
                prop_assert!(!is_inside || around.lane != place.lane, "{} in {}: {:?}", at, other, places);
            }
        }
    }

    #[test]
    fn pictures_and_languages_hold_each_event_and_nothing_that_is_obeyed(rows in sample::rows(), width in 1_usize..200) {
        let events = graph(&rows);
        let edges = events.iter().filter(|event| event.cause.is_some()).count();
        let svg = causes_svg(&events, width, sample::HOSTILE);
        prop_assert_eq!((svg.matches("<circle").count(), svg.matches("<path").count()), (rows.len(), edges));
        for piece in svg.split('<').skip(1) {
            let name = piece.trim_start_matches('/').split([' ', '>']).next().unwrap();
            prop_assert!(["svg", "title", "text", "path", "circle"].contains(&name), "{}", name);
        }
        let dot = causes_dot(&events, sample::HOSTILE);
        prop_assert_eq!(dot.lines().filter(|line| line.contains(" -> n") && !line.contains("label")).count(), edges);
        // Outside of its quotes, DOT holds only what we wrote.
        for line in dot.lines().filter(|line| line.contains("label=")) {
            let mut quoted = false;
            let mut letters = line.trim().chars();
            let mut outside = String::new();
            while let Some(letter) = letters.next() {
                match letter {
                    '\\' if quoted => { letters.next(); }
                    '"' => quoted = !quoted,
                    letter if !quoted => outside.push(letter),
                    _ => {}
                }
            }
            prop_assert!(!quoted && outside.chars().all(|letter| letter.is_ascii_alphanumeric() || " [=,];".contains(letter)), "{}", line);
        }
        let mermaid = causes_mermaid(&events);
        prop_assert_eq!(mermaid.lines().count(), 1 + rows.len() + edges);
        for label in mermaid.lines().filter_map(|line| line.split_once("[\"")?.1.strip_suffix("\"]")) {
            prop_assert!(!label.contains(['<', '>', '"', '[', ']', '`']), "{}", label);
        }
    }
}

#[test]
fn a_graph_is_drawn_as_expected() {
    use proto_events::call::{CallKind, CallOrigin};
    use proto_events::json::JsonText;
    let call = |event| TaskEvent::Call(event);
    let intent = |id: &str, target: &str| {
        let mut request = sample::requested(id, CallKind::Tool, target, CallOrigin::default());
        request.args = JsonText::null();
        call(CallEvent::Requested(Box::new(request)))
    };
    let sent = |id: &str| {
        call(CallEvent::Dispatched { call_id: id.to_owned(), attempt: 1, epoch: 1, cause: String::new() })
    };
    let failed = |id: &str| {
        call(CallEvent::Failed { call_id: id.to_owned(), attempt: 1, failure: sample::failure("no") })
    };
    let state = |to| TaskEvent::state_changed(TaskState::Working, to);
    let rows: Vec<_> = (1..)
        .zip([
            ("", 1, state(TaskState::Working)),
            ("", 1, intent("a", "add")),
            ("", 1, intent("b", "pay")),
            ("", 1, sent("a")),
            ("", 1, sent("b")),
            ("a", 2, failed("a")),
            ("a", 2, state(TaskState::Failed)),
            ("b", 3, failed("b")),
        ])
        .map(|(at, (cause, set, event))| sample::row(at, cause, set, event))
        .collect();
    let drawn = causes_text(&graph(&rows), 60, DiagramMarks::BOX).join("\n");
    let expected = "\
● v1 Kind working → working
├─● v2 Kind tool add null · manual
● │ v3 Kind tool pay null · manual
│ ● v4 Kind tool add · attempt 1
● │ v5 Kind tool pay · attempt 1
│ ✗ v6 Kind tool add → Error: no
│ ✗ v7 Kind working → failed
✗ v8 Kind tool pay → Error: no";
    assert_eq!(drawn, expected, "\n{drawn}");
}
