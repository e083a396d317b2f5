//! Sequence diagrams of any events: each stands once, in bounds, and as text whatever its words are.

use proptest::prelude::*;

use super::steps::SequenceSteps;
use super::*;
use crate::views::diagram_marks::{DIAGRAM_COLUMNS_MIN, DiagramMarks};
use crate::views::sample;
use crate::views::visible::{columns, is_invisible, is_obeyed};

fn diagram(rows: &[crate::views::event_row::EventRow]) -> SequenceDiagram {
    let mut steps = SequenceSteps::new(&sample::stream());
    for row in rows {
        steps.accept_row(row);
    }
    steps.finish()
}

fn is_safe(text: &str) -> bool {
    !text.chars().any(|letter| letter != '\n' && (is_obeyed(letter) || is_invisible(letter)))
}

proptest! {
    #[test]
    fn each_event_is_one_line_and_none_is_wider_than_asked(rows in sample::rows(), width in 1_usize..200, is_box in any::<bool>()) {
        let diagram = diagram(&rows);
        prop_assert_eq!(diagram.steps.len(), rows.len());
        let marks = if is_box { DiagramMarks::BOX } else { DiagramMarks::ASCII };
        let lines = sequence_text(&diagram, width, marks);
        for line in &lines {
            prop_assert!(columns(line) <= width.max(DIAGRAM_COLUMNS_MIN), "{}", line);
            prop_assert!(is_safe(line));
        }
        let versions: Vec<String> = rows.iter().map(|row| format!("v{}", row.version)).collect();
        let drawn: Vec<&str> =
            lines.iter().filter(|line| line.starts_with('v')).filter_map(|line| line.split(' ').next()).collect();
        prop_assert_eq!(drawn, versions);
        // The two ends of each step are drawn: where they differ an arrow, where not a mark in the lane.
        for participant in &diagram.participants {
            let at = lines.iter().any(|line| line.contains(&participant.name));
            let is_cut = columns(&participant.name) + 4 > width.max(DIAGRAM_COLUMNS_MIN);
            prop_assert!(at || is_cut, "{} of {:#?}", participant.name, lines);
        }
    }

    #[test]
    fn a_part_of_a_diagram_has_its_own_participants_in_their_order_and_nobody_else(rows in sample::rows(), from in 0_usize..40) {
        let whole = diagram(&rows);
        let mut part = whole.clone();
        part.steps.drain(..from.min(whole.steps.len()));
        part.leave_out_who_takes_no_part();
        let name = |diagram: &SequenceDiagram, at: usize| diagram.participants[at].name.clone();
        for (one, other) in part.steps.iter().zip(&whole.steps[from.min(whole.steps.len())..]) {
            prop_assert_eq!(name(&part, one.from), name(&whole, other.from));
            prop_assert_eq!(name(&part, one.to), name(&whole, other.to));
        }
        for at in 0..part.participants.len() {
            prop_assert!(part.steps.iter().any(|step| step.from == at || step.to == at));
        }
        let linked = sequence_svg_linked(&part, 80, "part", &|version| format!("/t?at={version}&\"<"));
        for step in &part.steps {
            let link = format!("<a href=\"/t?at={}&amp;&quot;&lt;\">", step.version);
            prop_assert!(linked.contains(&link));
        }
    }

    #[test]
    fn pictures_and_mermaid_hold_each_event_and_nothing_that_is_obeyed(rows in sample::rows(), width in 1_usize..200) {
        let diagram = diagram(&rows);
        let svg = sequence_svg(&diagram, width, sample::HOSTILE);
        prop_assert!(!svg.contains("<b>") && !svg.contains("<script"));
        let tags = ["svg", "title", "text", "line", "circle", "polygon"];
        for piece in svg.split('<').skip(1) {
            let name = piece.trim_start_matches('/').split([' ', '>']).next().unwrap();
            prop_assert!(tags.contains(&name), "{}", name);
        }
        let rows_drawn = svg.matches("xml:space").count();
        prop_assert_eq!(rows_drawn, rows.len());
        let mermaid = sequence_mermaid(&diagram);
        let lines: Vec<&str> = mermaid.lines().collect();
        prop_assert_eq!(lines.len(), 1 + diagram.participants.len() + rows.len());
        for line in lines.iter().skip(1) {
            let words = line.split_once(": ").or(line.split_once(" as ")).map_or("", |(_, words)| words);
            prop_assert!(!words.contains(['<', '>', '"', '%', ':', '\u{1b}']), "{}", words);
            prop_assert!(!words.to_lowercase().split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "end"), "{}", words);
        }
    }
}

#[test]
fn a_run_is_drawn_as_expected() {
    use proto_events::call::{CallEvent, CallKind, CallOrigin};
    use proto_events::json::JsonText;
    use proto_events::task::TaskEvent;
    let call = |event| TaskEvent::Call(event);
    let id = || "c".to_owned();
    let mut request = sample::requested("c", CallKind::Tool, "add", CallOrigin::default());
    request.args = JsonText::parse(r#"{"a":3}"#).unwrap();
    let events = [
        TaskEvent::CancelRequested { reason: Some("late".to_owned()) },
        call(CallEvent::Requested(Box::new(request))),
        call(CallEvent::Dispatched { call_id: id(), attempt: 1, epoch: 1, cause: String::new() }),
        call(CallEvent::Failed { call_id: id(), attempt: 1, failure: sample::failure("no") }),
    ];
    let rows: Vec<_> = (1..).zip(events).map(|(at, event)| sample::row(at, "", at, event)).collect();
    let drawn = sequence_text(&diagram(&rows), 90, DiagramMarks::BOX).join("\n");
    let expected = "\
             \x20 1 caller
             \x20 2 task order-0001
             \x20 3 tool add
             \x20             1             2             3
v1  +0.000 s  ├────────────▶│             │  Kind late
v2  +0.001 s  │             ●             │  Kind tool add {\"a\":3} · manual
v3  +0.002 s  │             ├────────────▶│  Kind tool add · attempt 1
v4  +0.003 s  │             │✗────────────┤  Kind tool add → Error: no";
    let expected: Vec<&str> =
        expected.lines().map(|line| line.strip_prefix("             ").unwrap_or(line)).collect();
    assert_eq!(drawn, expected.join("\n"), "\n{drawn}");
}
