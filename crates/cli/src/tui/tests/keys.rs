//! The work of the keys.

use proto_events::id::{StreamId, Version};

use super::*;
use crate::decide::WishKind;
use crate::tui::data::{InboxRow, Tab};
use crate::tui::marks::Sign;
use crate::tui::model::parts::{Page, Pane};

fn demo(size: (u16, u16)) -> Stand {
    Stand::new(log("src/tui/tests/demo.ndjson"), size)
}

fn at(stand: &Stand) -> u64 {
    stand.model.run.as_ref().unwrap().at
}

#[test]
fn time_is_travelled_by_event_by_state_and_by_failure_and_the_row_follows() {
    let mut stand = demo((120, 40));
    stand.keys(":open demo-7-09<Enter>");
    let end = stand.model.run.as_ref().unwrap().data.end;
    assert_eq!(at(&stand), end, "a run opens at its end");
    stand.keys("[[");
    assert_eq!(at(&stand), end - 2);
    stand.keys("]");
    assert_eq!(at(&stand), end - 1);
    stand.keys("4<Home>");
    assert_eq!(at(&stand), 1);
    stand.keys("[");
    assert_eq!(at(&stand), 1, "there is nothing before the first event");
    stand.keys("}");
    let event = stand.model.run.as_ref().unwrap().current().unwrap().clone();
    assert!(event.is_state && event.version > 1);
    stand.keys("<End>e");
    assert!(stand.shown().contains("no failure stands behind"), "{}", stand.shown());
    // Each version has its row, or that of its call.
    for version in 1..=end {
        stand.keys(&format!(":at {version}<Enter>"));
        let run = stand.model.run.as_ref().unwrap();
        let row = run.rows[run.list.at];
        let call = run.current().unwrap().call;
        let own = match row {
            crate::tui::model::run::EventRow::Event(at) | crate::tui::model::run::EventRow::OfCall(at) => {
                run.data.events[at].version == version
            }
            crate::tui::model::run::EventRow::Call(number) => Some(number) == call,
        };
        assert!(own, "v{version}: {row:?}");
    }
}

#[test]
fn back_keeps_what_was_chosen_and_opened() {
    let mut stand = demo((80, 24));
    stand.keys("jjj<Enter>");
    let (row, stream) = (stand.model.streams.list.at, stand.model.run.as_ref().unwrap().stream.clone());
    stand.keys("kk<Enter>");
    assert_eq!(stand.model.pane, Pane::Detail);
    let version = at(&stand);
    stand.keys("<Esc><Esc>");
    assert_eq!((stand.model.pane, stand.model.streams.list.at), (Pane::Streams, row));
    stand.keys("<Enter>");
    assert_eq!(stand.model.run.as_ref().unwrap().stream, stream);
    assert_eq!(at(&stand), version);
}

#[test]
fn a_mark_in_the_same_run_compares_versions_and_in_another_one_runs() {
    let mut stand = demo((120, 40));
    stand.keys(":open demo-7-09<Enter>4<Home>m<End>d");
    assert_eq!((stand.model.page, stand.model.detail.tab), (Page::Run, Tab::Diff));
    assert!(stand.shown().contains("v1 (the mark) to v"), "{}", stand.shown());
    stand.keys(":open demo-7-03<Enter>d");
    assert_eq!(stand.model.page, Page::Compare);
    assert!(
        stand.shown().contains("they part at step") || stand.shown().contains("are the same"),
        "{}",
        stand.shown()
    );
    stand.keys("<Esc>");
    assert_eq!(stand.model.page, Page::Run);
}

#[test]
fn a_filter_takes_in_or_out_and_x_shows_all_again() {
    let mut stand = demo((120, 40));
    let all = stand.model.streams.rows.len();
    stand.keys("fstate=completed<Enter>");
    let completed = stand.model.streams.rows.len();
    assert!(completed > 0 && completed < all, "{completed} of {all}");
    stand.keys("xFstate=completed<Enter>");
    assert_eq!(stand.model.streams.rows.len(), all - completed);
    stand.keys("x");
    assert_eq!(stand.model.streams.rows.len(), all);
    stand.keys(":open demo-7-09<Enter>fkind=call<Enter>");
    let run = stand.model.run.as_ref().unwrap();
    assert!(
        run.data.events.iter().filter(|event| event.is_taken).all(|event| event.kind.starts_with("Call"))
    );
    stand.keys("xFkind=call<Enter>");
    let run = stand.model.run.as_ref().unwrap();
    assert!(
        run.data.events.iter().filter(|event| event.is_taken).all(|event| !event.kind.starts_with("Call"))
    );
}

#[test]
fn a_search_finds_arguments_and_results_and_goes_through_them() {
    let mut stand = demo((120, 40));
    stand.keys(":open demo-7-09<Enter>4<Home>1<Esc>2/once<Enter>");
    let found = stand.model.run.as_ref().unwrap().found.clone();
    assert!(found.len() > 1, "{}", stand.shown());
    stand.keys("4<Home>2");
    let mut through = vec![];
    for _ in 0..found.len() {
        let before = at(&stand);
        stand.keys("n");
        if at(&stand) != before {
            through.push(at(&stand));
        }
    }
    let behind: Vec<u64> = found.iter().copied().filter(|version| *version > 1).collect();
    assert_eq!(through, behind);
}

#[test]
fn what_is_copied_is_the_event_its_command_its_link_or_the_path_of_a_value() {
    let mut stand = demo((120, 40));
    stand.keys(":open demo-7-09<Enter>4<Home>yj");
    let Some(Effect::Copy(json)) = stand.effects.pop() else { panic!("{:?}", stand.effects) };
    let event: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((event["schema"].as_str(), event["version"].as_u64()), (Some("taskreel.event/1"), Some(1)));
    stand.keys("yc");
    let Some(Effect::Copy(command)) = stand.effects.pop() else { panic!() };
    assert!(command.starts_with("taskreel event task-") && command.ends_with("demo-7-09 1"), "{command}");
    stand.keys("yl");
    let Some(Effect::Copy(link)) = stand.effects.pop() else { panic!() };
    assert!(link.starts_with("taskreel tui task-") && link.ends_with("--at 1"), "{link}");
    stand.keys("3");
    let value =
        stand.model.detail.rows.iter().position(|row| row.line.text().starts_with("messages")).unwrap();
    stand.model.detail.list.select(value);
    stand.keys("yp");
    assert_eq!(stand.effects.pop(), Some(Effect::Copy("payload.task.messages".to_owned())));
    stand.keys("yj");
    let Some(Effect::Copy(json)) = stand.effects.pop() else { panic!() };
    assert!(json.starts_with('['), "{json}");
    stand.model.source.url = Some("http://127.0.0.1:1".to_owned());
    stand.keys("yc");
    let Some(Effect::Copy(command)) = stand.effects.pop() else { panic!() };
    assert!(command.starts_with("curl ") && command.contains("/api/v1/records?stream=task-"), "{command}");
}

#[test]
fn while_it_is_paused_new_events_are_counted_and_then_all_are_shown() {
    let mut stand = demo((80, 24));
    stand.reading.used = LogUse::Open;
    stand.seen(Duration::from_secs(1));
    stand.keys(":open demo-7-09<Enter>");
    let head = stand.model.live.head;
    stand.keys(" ");
    let seen = |head: u64, at: u64| {
        Action::Seen(SeenEnd {
            head: Ok(head),
            writer: Some("pid 1".to_owned()),
            at: Duration::from_secs(at),
        })
    };
    stand.model.update(seen(head + 37, 2));
    assert!(stand.model.take_asks().is_empty(), "what is paused asks for nothing");
    assert!(stand.shown().contains("+37 new"), "{}", stand.shown());
    stand.keys(" ");
    assert!(!stand.shown().contains("new"), "{}", stand.shown());
    // Then it follows: each end of the log is asked for once.
    stand.model.update(seen(head + 38, 10));
    let asked = stand.model.take_asks().len();
    assert_eq!(asked, 3, "streams, the run and what waits");
    stand.model.update(seen(head + 39, 11));
    assert!(stand.model.take_asks().is_empty(), "nothing is asked twice at a time");
}

/// Returns a screen with a payment that waits for approval, whose arguments have this text.
fn waiting(text: &str, size: (u16, u16), used: LogUse) -> Stand {
    use taskreel_log::views::{CallRow, unsettled};
    let mut stand = Stand::with(log("src/tui/tests/demo.ndjson"), size, MARKS, used);
    let calls = unsettled(&*stand.reading.reader, None, now()).unwrap().rows;
    let mut approval: CallRow = calls.into_iter().next().expect("the demo has a call that waits");
    approval.approval_id = Some("approval-1".to_owned());
    let args = proto_events::json::JsonText::from(proto_events::json!({ "to": text.to_owned() }));
    stand.keys("i");
    stand.model.inbox.rows = vec![InboxRow {
        kind: "approval".to_owned(),
        sign: Sign::Asks,
        what: "tool pay waits for approval".to_owned(),
        task: Some(approval.stream.clone()),
        since: None,
        commands: approval.commands(),
        call: Some(Box::new(approval)),
        advice: None,
        args: Some(args),
    }];
    stand.model.inbox.readings += 1;
    stand.resize(size.0, size.1);
    stand
}

#[test]
fn an_approval_is_sent_after_a_question_and_only_once_its_arguments_were_read_to_their_end() {
    let mut stand = waiting("Rentenversicherung", (80, 24), LogUse::Open);
    stand.keys("ax");
    assert!(stand.decided.lock().unwrap().is_empty(), "any other key than y decides nothing");
    assert!(stand.shown().contains("nothing was decided"), "{}", stand.shown());
    stand.keys("a");
    assert!(stand.shown().contains("Rentenversicherung"), "what is approved stands on the screen");
    stand.keys("y");
    let decided = stand.decided.lock().unwrap().clone();
    assert_eq!(decided.len(), 1);
    assert_eq!(decided[0].kind, WishKind::Approve("approval-1".to_owned()));
    assert!(decided[0].task.starts_with("task-"));

    let long = format!("{} the end", "long ".repeat(1_000));
    let mut stand = waiting(&long, (80, 24), LogUse::Open);
    stand.keys("ay");
    assert!(stand.decided.lock().unwrap().is_empty());
    assert!(
        stand.model.said.as_ref().is_some_and(|(said, _)| said.contains("read them to their end"))
            || stand.model.over.is_none()
    );
    stand.keys(&"<PgDn>".repeat(20));
    assert!(stand.shown().contains("the end"), "{}", stand.shown());
    stand.keys("ay");
    assert_eq!(stand.decided.lock().unwrap().len(), 1);
}

#[test]
fn a_denial_takes_a_reason_and_nothing_is_sent_where_nobody_takes_it() {
    let mut stand = waiting("x", (80, 24), LogUse::Open);
    stand.keys("dover the limit<Enter>y");
    let wish = WishKind::Deny("approval-1".to_owned(), "over the limit".to_owned());
    assert_eq!(stand.decided.lock().unwrap()[0].kind, wish);
    let mut stand = waiting("x", (80, 24), LogUse::Closed);
    stand.keys("ay");
    assert!(stand.decided.lock().unwrap().is_empty());
    let mut stand = waiting("x", (80, 24), LogUse::Closed);
    stand.keys("a");
    assert!(stand.shown().contains("taskreel approve"), "{}", stand.shown());
    stand.keys("d");
    assert!(stand.shown().contains("taskreel deny"), "the command is that of the key: {}", stand.shown());
}

#[test]
fn a_pasted_text_presses_no_keys() {
    let mut stand = waiting("x", (80, 24), LogUse::Open);
    stand.model.update(Action::Paste("ay".to_owned()));
    assert!(stand.decided.lock().unwrap().is_empty() && stand.model.over.is_none());
    stand.keys("d");
    stand.model.update(Action::Paste("because\nof this".to_owned()));
    stand.keys("<Enter>y");
    let wish = WishKind::Deny("approval-1".to_owned(), "because of this".to_owned());
    assert_eq!(stand.decided.lock().unwrap()[0].kind, wish);
}

#[test]
fn an_answer_that_comes_late_changes_nothing() {
    let mut stand = demo((120, 40));
    stand.keys(":open demo-7-09<Enter>");
    let before = stand.shown();
    let place =
        crate::tui::data::EventRef { stream: StreamId::task("other", "gone").unwrap(), at: Version(1) };
    let ask = crate::tui::ask::Ask::Detail(place, Tab::Payload, None);
    let answer =
        crate::tui::ask::AnswerContent::Detail(crate::tui::data::Content::single_line("of another event"));
    let told = AskAnswer { ask, answer: Ok(answer), took: Duration::ZERO };
    stand.model.update(Action::Told(Box::new(told)));
    assert_eq!(stand.shown(), before);
}
