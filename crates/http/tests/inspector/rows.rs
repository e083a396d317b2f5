//! The rows of each page against the views that say the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use taskreel::System;
use taskreel_http::InspectedLog;
use taskreel_log::api::EventReader;
use taskreel_log::views::{
    CourseAsked, RunFilter, RunRow, newest_runs, stats, streams, task_course, task_rows,
};

use crate::asked::Pages;
use crate::markup::{harmless, unescaped};
use crate::seeded::{post, seeded};
use crate::support::builder;

/// Returns the texts of the first links in the rows of a page's first table.
fn named(page: &str) -> Vec<String> {
    let row = "<th scope=\"row\"><a href=\"";
    let text = |rest: &str| {
        rest.split_once('>').and_then(|(_, rest)| rest.split_once("</a>")).map(|(name, _)| unescaped(name))
    };
    page.split(row).skip(1).filter_map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_stand_once_each_the_newest_first_in_the_states_that_the_view_tells() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let page = pages.page("/").await;
    harmless("/", &page);
    let mut rows = task_rows(system.log().as_ref()).unwrap().rows;
    rows.sort_by_key(|row| std::cmp::Reverse(row.last_position));
    assert_eq!(named(&page), rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>());
    for row in &rows {
        let rest = page.split(&format!(">{}</a></th>", row.id)).nth(1).unwrap();
        let cells = rest.split("</tr>").next().unwrap();
        assert!(cells.contains(&format!(" {}</span>", row.state)), "{}: {cells}", row.id);
        for said in row.waiting_for.iter().chain(&row.error) {
            assert!(unescaped(cells).contains(said.as_str()), "{}: {said}", row.id);
        }
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_stands_first_with_the_commands_that_decide_it() {
    let system = seeded().await;
    let log = InspectedLog::of(&system).typed(|command| format!("prog {command} --here"));
    let page = unescaped(&Pages::of(log).page("/").await);
    let before = page.split("id=\"list\"").next().unwrap();
    for said in [
        "prog approve task-agent/pay-0001 approval_",
        "prog deny task-agent/pay-0001 approval_",
        "prog answer call_",
        "prog reconcile call_",
        "prog abandon call_",
    ] {
        assert!(before.contains(said), "{said}: {before}");
    }
    assert!(before.contains("Which one?") && before.contains(" --here</pre>"));
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_a_task_names_its_stream_which_no_other_task_has() {
    let system = seeded().await;
    let log = InspectedLog::of(&system).typed(|command| format!("prog {command}"));
    let page = unescaped(&Pages::of(log).page("/t/agent/echo-0001").await);
    assert!(page.contains("<code>prog show task-agent/echo-0001</code>"), "{page}");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_take_in_and_leave_out_by_each_field() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let all: BTreeSet<String> = named(&pages.page("/").await).into_iter().collect();
    let talked: BTreeSet<String> =
        all.iter().filter(|id| !id.contains("-0001") && *id != "../odd").cloned().collect();
    assert_eq!(talked.len(), 3, "{all:?}");
    // The log may have been written across a midnight.
    let rows = newest_runs(system.log().as_ref(), &RunFilter::default(), None, (100, 100)).unwrap().rows;
    let day = |row: &RunRow| row.began_at.to_string()[..10].parse::<jiff::civil::Date>().unwrap();
    let (first, last) = (rows.iter().map(day).min().unwrap(), rows.iter().map(day).max().unwrap());
    let around = format!("since={first}&until={last}");
    let before = format!("until={}", first.yesterday().unwrap());
    let without =
        |left_out: &[&str]| all.iter().filter(|id| !left_out.contains(&id.as_str())).cloned().collect();
    let only = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    for (query, wanted) in [
        ("state=failed", only(&["fail-0001"])),
        ("state=failed&state=input-required", only(&["fail-0001", "pay-0001", "ask-0001", "hang-0001"])),
        ("not=state%3Dfailed", without(&["fail-0001"])),
        ("tool=echo", only(&["echo-0001", "../odd"])),
        ("tool=echo&not=text%3Ddots", only(&["echo-0001"])),
        ("text=NO+TABLE", only(&["fail-0001"])),
        ("session=talk", talked.clone()),
        ("model=scripted", talked.clone()),
        ("not=model%3Dscripted+tool%3Decho", only(&["fail-0001", "pay-0001", "ask-0001", "hang-0001"])),
        ("kind=ApprovalRequested", only(&["pay-0001"])),
        ("agent=nobody", only(&[])),
        ("since=2020-01-01&until=2021-01-01T00:00", only(&[])),
        ("since=2020-01-01", all.clone()),
        (around.as_str(), all.clone()),
        (before.as_str(), only(&[])),
    ] {
        let page = pages.page(&format!("/?{query}")).await;
        harmless(query, &page);
        assert_eq!(named(&page).into_iter().collect::<BTreeSet<_>>(), wanted, "{query}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_the_runs_neither_repeat_nor_lose_one_while_others_go_on() {
    let system = builder().start().await.unwrap();
    let at_first = ids(&system, 0..23).await;
    let log = system.log();
    let (mut seen, mut cursor, mut round) = (Vec::new(), None, 100);
    loop {
        let page = newest_runs(log.as_ref(), &RunFilter::default(), cursor, (4, 100)).unwrap();
        seen.extend(page.rows.iter().map(|row| row.task.id.clone()));
        // A new run, and one of the first ones that is posted again and so goes on.
        ids(&system, round..round + 1).await;
        round += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), at_first.len(), "{seen:?}");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), at_first);
    system.shutdown().await.unwrap();
}

async fn ids(system: &System, numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for number in numbers {
        let id = format!("run-{number:04}");
        post(system, &id, "echo", r#"{"text": "x"}"#).await;
        ids.insert(id);
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_shows_each_event_each_state_and_what_was_known_at_each_version() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let log: Arc<dyn EventReader> = system.log();
    for info in streams(log.as_ref(), "task-").unwrap() {
        let name = format!(
            "/t/{}/{}",
            info.stream.agent(),
            info.stream.id().replace('/', "%2F").replace("..", "~..")
        );
        let asked = CourseAsked { window: 1_000, ..CourseAsked::default() };
        let course = task_course(log.as_ref(), &info.stream, asked).unwrap();
        assert_eq!(course.end, info.version);
        let page = pages.page(&name).await;
        harmless(&name, &page);
        for row in &course.events {
            assert!(page.contains(row.kind) && page.contains(&format!("?at={}\"", row.version)), "{name}");
        }
        for at in 1..=info.version.0 {
            let asked = CourseAsked { at: Some(proto_events::id::Version(at)), ..asked };
            let course = task_course(log.as_ref(), &info.stream, asked).unwrap();
            let folded = taskreel_log::read::fold_stream::<proto_events::task::Task>(
                log.as_ref(),
                &info.stream,
                Some(course.at),
            )
            .unwrap();
            assert_eq!(course.now, folded.state, "{name} at {at}");
            let state = pages.page(&format!("{name}?at={at}&tab=state")).await;
            assert!(state.contains(&format!("<dd>{}</dd>", folded.state.state())), "{name} at {at}");
        }
    }
    let talk = task_rows(log.as_ref())
        .unwrap()
        .rows
        .into_iter()
        .find(|row| row.session.as_deref() == Some("talk"))
        .unwrap();
    let prompt = pages.page(&format!("/t/{}/{}?tab=prompt", talk.stream.agent(), talk.id)).await;
    assert!(prompt.contains("✓ checked:") && prompt.contains("rendered again from the log"), "{prompt}");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_sessions_audit_and_the_comparison_say_what_the_views_say() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let tools = pages.page("/tools").await;
    for row in stats(system.log().as_ref()).unwrap().rows.iter().filter(|row| row.group.as_str() == "tool") {
        let name = row.name.clone().unwrap();
        let rest = tools.split(&format!(">{name}</a></th>")).nth(1).unwrap_or_else(|| panic!("{name}"));
        let cells = rest.split("</tr>").next().unwrap();
        for figure in [row.calls, row.succeeded, row.failed] {
            assert!(cells.contains(&format!("<td class=\"figure\">{figure}</td>")), "{name}: {cells}");
        }
    }
    assert_eq!(named(&pages.page("/sessions").await), ["talk"]);
    let talk = pages.page("/s/agent/talk").await;
    assert!(talk.contains(">Hi</div>") && talk.contains("And now?") && talk.contains("hello"), "{talk}");
    assert!(pages.page("/audit?verify=1").await.contains("no fault was found"));
    let same = pages.page("/compare?l=echo-0001&r=echo-0001").await;
    assert!(same.contains("steps are the same."), "{same}");
    let other = pages.page("/compare?l=echo-0001&r=fail-0001").await;
    assert!(other.contains("the first difference is step"), "{other}");
    system.shutdown().await.unwrap();
}
