//! Traces of any events, and of one with all that a trace tells of.

use proptest::prelude::*;
use proto_events::call::{CallEvent, CallKind, CallOrigin};
use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;

use super::build::of_rows;
use super::*;
use crate::views::sample;

proptest! {
    #[test]
    fn each_call_and_approval_stands_once_behind_its_cause(rows in sample::rows()) {
        let trace = of_rows(&sample::stream(), &rows);
        let intents = rows.iter().filter(|row| {
            use proto_events::codec::AnyEvent;
            matches!(&row.event, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(_)) | TaskEvent::ApprovalRequested(_))))
        });
        let expected: Vec<_> = intents.map(|row| row.version).collect();
        let mut found: Vec<_> = trace.nodes.iter().skip(1).filter(|node| node.kind != TraceKind::Attempt).map(|node| node.version).collect();
        found.sort();
        prop_assert_eq!(found, expected);
        for (at, node) in trace.nodes.iter().enumerate() {
            prop_assert_eq!(node.parent.is_none(), at == 0);
            if let Some(parent) = node.parent {
                prop_assert!(parent < at && trace.nodes[parent].depth + 1 == node.depth);
                prop_assert!(trace.nodes[parent].version <= node.version, "a cause comes first");
            }
        }
        // Nothing on the critical path that lies directly in the task overlaps another such part.
        let critical: Vec<_> = trace.nodes.iter().skip(1).filter(|node| node.is_critical && node.depth == 1).collect();
        for (at, a) in critical.iter().enumerate() {
            for b in &critical[at + 1..] {
                let (Some(a_end), Some(b_end)) = (a.ended, b.ended) else { continue };
                prop_assert!(a_end <= b.began || b_end <= a.began, "{:?} {:?}", a, b);
            }
        }
        let all = trace.with_causes(|node| node.is_failed);
        for (node, kept) in trace.nodes.iter().zip(&all) {
            prop_assert!(*kept || !node.is_failed);
        }
    }
}

#[test]
fn retries_errors_and_what_the_end_waited_for_are_told() {
    let call = |event| TaskEvent::Call(event);
    let sent = |id: &str, attempt| {
        call(CallEvent::Dispatched { call_id: id.to_owned(), attempt, epoch: 1, cause: String::new() })
    };
    let intent = |id: &str, kind, target: &str, infer_call: Option<&str>| {
        let origin = CallOrigin { infer_call: infer_call.map(str::to_owned), ..CallOrigin::default() };
        call(CallEvent::Requested(Box::new(sample::requested(id, kind, target, origin))))
    };
    let result = |id: &str| {
        call(CallEvent::Succeeded {
            call_id: id.to_owned(),
            attempt: 1,
            result: JsonText::null(),
            usage: None,
        })
    };
    let failed = |id: &str, due: i64| {
        let failure = sample::failure("busy");
        call(CallEvent::RetryScheduled { call_id: id.to_owned(), attempt: 1, failure, due: Timestamp(due) })
    };
    let events = [
        TaskEvent::state_changed(TaskState::Submitted, TaskState::Working),
        intent("infer", CallKind::Infer, "model", None),
        sent("infer", 1),
        result("infer"),
        intent("quick", CallKind::Tool, "quick", Some("infer")),
        intent("slow", CallKind::Tool, "slow", Some("infer")),
        sent("quick", 1),
        sent("slow", 1),
        result("quick"),
        failed("slow", 0),
        sent("slow", 2),
        result("slow"),
        TaskEvent::state_changed(TaskState::Working, TaskState::Completed),
    ];
    let rows: Vec<_> = (1..).zip(events).map(|(at, event)| sample::row(at, "", at, event)).collect();
    let trace = of_rows(&sample::stream(), &rows);
    let told: Vec<String> = trace
        .nodes
        .iter()
        .map(|node| {
            let error = node.error.as_deref().unwrap_or("-");
            let mark = if node.is_critical { "*" } else { "" };
            format!(
                "{} {} {} {} {:?} {}{mark}",
                node.depth,
                node.kind.as_str(),
                node.name,
                node.state,
                node.took_us(),
                error
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "0 task order-0001 completed Some(12000) -*",
            "1 infer model succeeded Some(2000) -*",
            "2 tool quick succeeded Some(4000) -",
            "2 tool slow succeeded Some(6000) -*",
            "3 attempt 1 failed Some(2000) Error: busy",
            "3 attempt 2 succeeded Some(1000) -",
        ]
    );
    assert_eq!(trace.nodes[3].attempts, 2);
    let failed = trace.with_causes(|node| node.is_failed);
    assert_eq!(failed, [true, true, false, true, true, false]);
}

#[test]
fn a_session_has_the_traces_of_its_tasks_below_it_in_the_order_in_which_they_came() {
    use proto_events::id::Category;

    use crate::jsonl::JsonLines;
    use crate::views::filter::session_of;
    use crate::views::view::task_rows;

    let log = JsonLines::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v2/varied.ndjson")).unwrap();
    let sessions = crate::views::find::streams(&log, Category::Session.prefix()).unwrap();
    let rows = task_rows(&log).unwrap().rows;
    let mut with_tasks = 0;
    for session in sessions {
        let found = trace(&log, &session.stream).unwrap();
        let first = &found.nodes[0];
        assert_eq!((first.kind, first.depth, first.parent), (TraceKind::Session, 0, None));
        let below: Vec<_> =
            found.nodes.iter().filter(|node| node.depth == 1 && node.kind == TraceKind::Task).collect();
        let is_of = |row: &&crate::views::view::TaskRow| {
            row.stream.agent() == session.stream.agent()
                && session_of(&row.stream, row.session.as_deref()) == session.stream.id()
        };
        let expected: std::collections::BTreeSet<_> =
            rows.iter().filter(is_of).map(|row| row.stream.clone()).collect();
        assert_eq!(
            below.iter().map(|node| node.stream.clone()).collect::<std::collections::BTreeSet<_>>(),
            expected
        );
        assert!(below.is_sorted_by_key(|node| node.began));
        for task in below {
            with_tasks += 1;
            let at = found.nodes.iter().position(|node| node == task).unwrap();
            let alone = trace(&log, &task.stream).unwrap();
            for (node, shown) in alone.nodes.iter().zip(&found.nodes[at..]) {
                assert_eq!(
                    (&node.id, node.kind, node.version, &node.state),
                    (&shown.id, shown.kind, shown.version, &shown.state)
                );
                assert_eq!(
                    (node.depth + 1, node.parent.map(|parent| parent + at)),
                    (shown.depth, shown.parent.filter(|_| node.depth > 0))
                );
            }
        }
    }
    assert!(with_tasks > 0);
}
