//! The live page loses and repeats nothing, however often its connection breaks.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use taskreel_http::{InspectedLog, RequestBody, ResponseBody};

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
