//! Names, messages, arguments and results that are meant to break a page stay text.

use taskreel_http::InspectedLog;
use taskreel_log::views::streams;

use crate::asked::{Pages, percent};
use crate::markup::{harmless, unescaped};
use crate::support::{builder, tool_task};

const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</pre></title></textarea><svg onload=alert(1)>",
    "javascript:alert(1)//",
    "002\u{202e}gnp.exe\u{202c}\u{2066}x",
    "a\u{1b}[2Jb\u{0}c",
];

#[tokio::test(flavor = "multi_thread")]
async fn markup_escapes_and_turned_text_are_shown_and_never_run() {
    let system = builder().start().await.unwrap();
    for (number, text) in HOSTILE.into_iter().enumerate() {
        let args = serde_json::json!({"text": text}).to_string();
        // Ids take no control characters; everything else may stand in them.
        let name: String = text.chars().filter(|letter| !letter.is_control()).collect();
        let id = serde_json::to_string(&format!("{number} {name}")).unwrap();
        let task = tool_task("THE-ID", "echo", &args).replace("\"THE-ID\"", &id);
        let posted = proto_events::model::PostedTask::parse(&task, &mut taskreel::Ports::default()).unwrap();
        if let Ok(run) = system.submit(posted).await {
            run.finished().await.unwrap();
        }
    }
    let pages = Pages::of(InspectedLog::of(&system).typed(|command| format!("t {command}")));
    let runs = pages.page("/").await;
    let tags = harmless("/", &runs);
    assert!(unescaped(&runs).contains("0 <script>alert(1)</script>"), "{runs}");
    let tasks: Vec<String> = tags
        .iter()
        .flat_map(|tag| &tag.attributes)
        .filter(|(name, value)| name == "href" && value.starts_with("/inspect/t/"))
        .map(|(_, value)| value.clone())
        .collect();
    assert!(tasks.len() >= 5, "{tasks:?}");
    for task in &tasks {
        for tab in
            ["event", "call", "state", "diff", "cause", "recovery", "artifacts", "raw", "sequence", "graph"]
        {
            let path = format!("{}?tab={tab}&at=4", task.trim_start_matches("/inspect"));
            harmless(&path, &pages.page(&path).await);
        }
    }
    for path in [
        "/live",
        "/tools",
        "/audit",
        "/sessions",
        "/?text=%3Cscript%3E&agent=%22%3E%3Cimg+src%3Dx%3E&not=text%3D%E2%80%AE",
    ] {
        harmless(path, &pages.page(path).await);
    }
    for stream in streams(system.log().as_ref(), "").unwrap() {
        let name: String = percent(stream.stream.as_str());
        harmless(&name, &pages.page(&format!("/e/{name}/1")).await);
    }
    // What nobody sees is named.
    let all = pages.page("/?text=gnp").await;
    assert!(
        pages
            .page(tasks.iter().find(|task| task.contains("gnp")).unwrap().trim_start_matches("/inspect"))
            .await
            .contains("⟨U+202E⟩")
    );
    harmless("/?text=gnp", &all);
    // A missing page repeats what was asked for.
    let path = format!("/t/agent/{}", percent("<img src=x onerror=alert(1)>"));
    harmless(&path, &pages.get(&path).await.body);
    system.shutdown().await.unwrap();
}

/// The bytes of the long line; `TASKREEL_LONG_LINE` sets another number, such as 10485760.
fn long_line() -> usize {
    std::env::var("TASKREEL_LONG_LINE").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(1024 * 1024)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_megabytes_is_shown_by_its_beginning_and_whole_on_demand() {
    let system = builder().start().await.unwrap();
    let long = "x<b>".repeat(long_line() / 4);
    let task = tool_task("long-0001", "echo", &serde_json::json!({"text": long}).to_string());
    let posted = proto_events::model::PostedTask::parse(&task, &mut taskreel::Ports::default()).unwrap();
    let began = std::time::Instant::now();
    system.submit(posted).await.unwrap().finished().await.unwrap();
    println!("run in {:?}", began.elapsed());
    let pages = Pages::of(InspectedLog::of(&system));
    for path in [
        "/",
        "/live",
        "/t/agent/long-0001",
        "/t/agent/long-0001?at=1&tab=call",
        "/t/agent/long-0001?tab=state",
        "/e/task-agent%2Flong-0001/1",
    ] {
        let began = std::time::Instant::now();
        let page = pages.page(path).await;
        println!("{path} in {:?}", began.elapsed());
        assert!(page.len() < 400_000, "{path} has {} bytes", page.len());
        harmless(path, &page);
    }
    let page = pages.page("/t/agent/long-0001?at=1").await;
    assert!(page.contains("Only the beginning of ") && page.contains(" MiB is shown"), "{page}");
    let whole = pages.get("/e/task-agent%2Flong-0001/1/body").await;
    assert!(whole.body.len() > long.len() && whole.body.contains("x<b>x<b>"));
    assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");
    system.shutdown().await.unwrap();
}
