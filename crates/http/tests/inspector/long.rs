//! A long task opens by a window of its events.

use std::time::Instant;

use taskreel_http::InspectedLog;

use crate::asked::Pages;
use crate::markup::harmless;
use crate::support::builder;

/// The number of calls of the task; `TASKREEL_LONG_TASK` sets another one. A call has three events and its output one.
fn calls() -> usize {
    std::env::var("TASKREEL_LONG_TASK").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_task_is_shown_by_windows_whose_pages_are_small() {
    let system = builder().start().await.unwrap();
    let part = |number: usize| {
        format!(
            r#"{{"type": "tool_call", "content": {{"tool_name": "echo", "args": {{"text": "{number}"}}, "call_id": "c{number}"}}}}"#
        )
    };
    let parts: Vec<String> = (0..calls()).map(part).collect();
    let task = format!(
        r#"{{"id": "long", "created_at": "2024-02-02T00:00:00+00:00", "messages": [{{"id": "m", "role": "user", "parts": [{}], "timestamp": "2024-02-02T00:00:00+00:00"}}]}}"#,
        parts.join(",")
    );
    let posted = proto_events::model::PostedTask::parse(&task, &mut taskreel::Ports::default()).unwrap();
    system.submit(posted).await.unwrap().finished().await.unwrap();
    let pages = Pages::of(InspectedLog::of(&system));
    let stream = proto_events::id::StreamId::task("agent", "long").unwrap();
    let end = taskreel_log::api::EventReader::stream_version(system.log().as_ref(), &stream).unwrap().0;
    assert!(end > 3 * calls() as u64, "{end}");
    for at in [1, end / 2, end] {
        let began = Instant::now();
        let page = pages.page(&format!("/t/agent/long?at={at}")).await;
        let took = began.elapsed();
        println!("{end} events: version {at} in {took:?}, {} bytes", page.len());
        harmless("long", &page);
        assert!(page.len() < 600_000, "{} bytes", page.len());
        assert!(page.contains(&format!("<h2 id=\"travel\">Event {at} of {end}</h2>")));
        let first = (at - 1) / 200 * 200 + 1;
        assert!(page.contains(&format!("Events {first} to {}", (first + 199).min(end))));
    }
    let diff = pages.page(&format!("/t/agent/long?at={end}&tab=diff&cmp=1")).await;
    harmless("diff", &diff);
    assert!(diff.len() < 600_000 && diff.contains("more changes are not shown here"), "{} bytes", diff.len());
    system.shutdown().await.unwrap();
}
