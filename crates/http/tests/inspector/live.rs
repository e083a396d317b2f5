//! The live page loses and repeats nothing, however often its connection breaks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;
use taskreel_http::{InspectedLog, RequestBody, ResponseBody};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::testing::{DelegatingStore, Overrides, StoreRead};

use crate::asked::{PLACE, Pages};
use crate::seeded::{post, seeded};
use crate::support::PATIENCE;

/// The number of broken connections; `TASKREEL_RECONNECTS` sets another one.
fn reconnects() -> u64 {
    std::env::var("TASKREEL_RECONNECTS").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

/// Takes events until the connection is cut after some of them, and returns their positions.
async fn some(pages: &Pages, last: u64, take: u64) -> Vec<u64> {
    let path = format!("{PLACE}/live/events");
    let request =
        http::Request::get(path).header("host", "localhost").header("last-event-id", last.to_string());
    let response = pages.0.answer(request.body(RequestBody::empty()).unwrap()).await;
    let ResponseBody::Pieces(mut pieces) = response.into_body() else { panic!("the events come in pieces") };
    let mut got = Vec::new();
    while (got.len() as u64) < take {
        let piece = tokio::time::timeout(PATIENCE, pieces.next()).await.unwrap().unwrap();
        let text = String::from_utf8(piece.to_vec()).unwrap();
        let Some(id) = text.lines().find_map(|line| line.strip_prefix("id: ")) else { continue };
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["position"].to_string(), id);
        got.push(id.parse().unwrap());
    }
    got
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_again_and_again_loses_and_repeats_no_event() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let writer = {
        let system = system.clone();
        tokio::spawn(async move {
            for number in 0..reconnects() {
                post(&system, &format!("more-{number:04}"), "echo", r#"{"text": "x"}"#).await;
            }
        })
    };
    let mut seen = Vec::new();
    for round in 0..reconnects() {
        let last = seen.last().copied().unwrap_or(0);
        // One event, or a few, or more than a record has.
        seen.extend(some(&pages, last, round % 7 + 1).await);
    }
    writer.await.unwrap();
    let wanted: Vec<u64> = (1..=*seen.last().unwrap()).collect();
    assert_eq!(seen, wanted);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
    system.shutdown().await.unwrap();
}

/// Takes the data of events that a filter lets through, until it has this many.
async fn filtered(pages: &Pages, query: &str, take: usize) -> Vec<serde_json::Value> {
    let path = format!("{PLACE}/live/events?from=1&{query}");
    let request = http::Request::get(path).header("host", "localhost");
    let response = pages.0.answer(request.body(RequestBody::empty()).unwrap()).await;
    assert_eq!(response.status().as_u16(), 200, "{query}");
    let ResponseBody::Pieces(mut pieces) = response.into_body() else { panic!("the events come in pieces") };
    let mut got = Vec::new();
    while got.len() < take {
        let piece = tokio::time::timeout(PATIENCE, pieces.next()).await.unwrap().unwrap();
        let text = String::from_utf8(piece.to_vec()).unwrap();
        if text.contains("event: ") {
            continue;
        }
        if let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: ")) {
            got.push(serde_json::from_str(data).unwrap());
        }
    }
    got
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_is_judged_on_the_server_for_the_page_and_for_what_follows() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    for (query, kinds, streams) in [
        ("kind=CallFailed", vec!["CallFailed"], vec!["task-agent/fail-0001"]),
        ("task=pay-0001&kind=ApprovalRequested", vec!["ApprovalRequested"], vec!["task-agent/pay-0001"]),
        // An event of a call names its call alone: the tool stands in an earlier one.
        (
            "tool=hang&kind=CallTimedOut&kind=CallOutcomeUnknown",
            vec!["CallTimedOut", "CallOutcomeUnknown"],
            vec!["task-agent/hang-0001"],
        ),
        ("text=no+table&not=kind%3Dtask", vec!["CallFailed"], vec!["task-agent/fail-0001"]),
        ("session=talk&kind=TurnStarted", vec!["TurnStarted"], vec!["session-agent/talk"]),
    ] {
        for event in filtered(&pages, query, 1).await {
            assert!(kinds.contains(&event["kind"].as_str().unwrap()), "{query}: {event}");
            assert!(streams.contains(&event["stream"].as_str().unwrap()), "{query}: {event}");
        }
        let page = pages.page(&format!("/live?{query}")).await;
        crate::markup::harmless(query, &page);
        let rows = page.split("<tbody data-rows>").nth(1).unwrap().split("</tbody>").next().unwrap();
        let count = rows.matches("<tr>").count();
        assert!(count >= 1, "{query}: {page}");
        let fits = rows.split("<tr>").skip(1).all(|row| {
            kinds.iter().any(|kind| row.contains(kind)) && streams.iter().any(|stream| row.contains(stream))
        });
        assert!(fits, "{query}: {rows}");
        assert!(page.contains("data-follow=\"/inspect/live/events?"), "{page}");
    }
    let none =
        pages.page("/live?not=kind%3Dtask+kind%3Dcall+kind%3Dsession+kind%3Dsystem+kind%3Ddefinition").await;
    assert!(none.contains("0 events of those from position 1 on"), "{none}");
    assert_eq!(pages.get("/live?not=odd").await.status.as_u16(), 400);
    assert_eq!(pages.get("/live/events?not=odd").await.status.as_u16(), 400);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_takes_nothing_tells_how_far_the_log_was_looked_through() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let head = taskreel_log::api::EventReader::head(system.log().as_ref()).unwrap().0;
    let path = format!("{PLACE}/live/events?from=1&text=nothing+has+this");
    let request = http::Request::get(path).header("host", "localhost");
    let response = pages.0.answer(request.body(RequestBody::empty()).unwrap()).await;
    let ResponseBody::Pieces(mut pieces) = response.into_body() else { panic!("the events come in pieces") };
    loop {
        let piece = tokio::time::timeout(PATIENCE, pieces.next()).await.unwrap().unwrap();
        let text = String::from_utf8(piece.to_vec()).unwrap();
        assert!(!text.contains("\"kind\""), "{text}");
        // Resumed there, nothing is read twice.
        if text.starts_with(&format!("id: {head}\nevent: seen\n")) {
            break;
        }
    }
    system.shutdown().await.unwrap();
}

/// A log whose program is gone while the test says so.
#[derive(Default)]
struct Away(AtomicBool);

impl Overrides for Away {
    fn before_read(&self, _: StoreRead<'_>) -> Result<(), ReadError> {
        if self.0.load(Ordering::SeqCst) { Err(ReadError::Closed) } else { Ok(()) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_waits_for_a_program_that_is_gone_and_misses_nothing_of_what_it_wrote_meanwhile() {
    let system = seeded().await;
    let store = Arc::new(DelegatingStore::new(system.log(), Away::default()));
    let is_away = |away: bool| store.overrides().0.store(away, Ordering::SeqCst);
    let pages = Pages::reading(Arc::clone(&store) as Arc<dyn EventReader>);
    let head = system.log().head().unwrap().0;
    let request = http::Request::get(format!("{PLACE}/live/events?from={head}")).header("host", "localhost");
    let response = pages.0.answer(request.body(RequestBody::empty()).unwrap()).await;
    let ResponseBody::Pieces(mut pieces) = response.into_body() else { panic!("the events come in pieces") };
    let mut next = async || {
        loop {
            let piece = tokio::time::timeout(PATIENCE, pieces.next()).await.unwrap().unwrap();
            let text = String::from_utf8(piece.to_vec()).unwrap();
            if text.contains("data: ") {
                return text;
            }
        }
    };
    assert!(next().await.starts_with(&format!("id: {head}\n")));
    is_away(true);
    assert!(next().await.starts_with("event: waiting\n"));
    post(&system, "meanwhile", "echo", r#"{"text": "x"}"#).await;
    is_away(false);
    // The browser is told that the waiting is over, in the place where it was, before anything that is new.
    let told = next().await;
    assert!(told.starts_with(&format!("id: {head}\nevent: seen\n")), "{told}");
    for position in head + 1..=system.log().head().unwrap().0 {
        let event = next().await;
        assert!(event.starts_with(&format!("id: {position}\ndata: ")), "{event}");
    }
    system.shutdown().await.unwrap();
}
