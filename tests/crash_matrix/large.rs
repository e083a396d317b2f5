//! Runs that are large: parts by the thousand, and texts above every limit. They are cut at a sample of their appends.

use std::time::Duration;

use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::testing::{Broken, CrashMatrix, CrashReport, Driver, sleep};
use taskreel::tool::{DynTool, ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{Builder, Error};
use taskreel_log::ports::Ports;

/// The number of parts of the long task.
const PARTS: usize = 1_000;

/// The number of bytes of an outsized text: above the limit on what an event holds.
const OUTSIZED: usize = 17 * 1024 * 1024;

fn run(matrix: &CrashMatrix) -> Result<CrashReport, Broken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(matrix.run())
}

/// Posts a task with these parts, and waits for its end.
fn posts(parts: Vec<json::JsonValue>) -> CrashMatrixWork {
    Box::new(move |driver| {
        let posted = json!({"id": "t", "messages": [{"id": "m", "role": "user", "parts": parts.clone()}]});
        Box::pin(async move {
            let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default())?;
            let task = driver.submit(posted).await?;
            driver.finish(&task).await.map(drop)
        })
    })
}

type CrashMatrixWork =
    Box<dyn Fn(Driver) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send + Sync>;

#[test]
fn a_task_of_a_thousand_parts_goes_on_after_a_crash_where_it_was() {
    let work = |cx: ToolContext, _: JsonText| async move {
        sleep(Duration::from_millis(1)).await;
        Ok::<_, ToolError>(JsonText::string(cx.call_id()))
    };
    let describe = move |builder: Builder| {
        let builder =
            builder.tool_with("put", "Puts", DynTool::new(json!(null), work), ToolPolicy::idempotent());
        let look = ToolPolicy::read_only().parallel();
        let builder = builder.tool_with("look", "Looks", DynTool::new(json!(null), work), look);
        builder.tool_with("pay", "Pays", DynTool::new(json!(null), work), ToolPolicy::manual())
    };
    // Most of them may run side by side.
    let tool = |part: usize| if part < 700 { "look" } else { ["put", "look", "look", "pay"][part % 4] };
    let part = |part: usize| json!({"type": "tool_call", "content": {"tool_name": tool(part), "args": {"n": part}, "call_id": format!("p{part}")}});
    let of_parts = || CrashMatrix::new(describe, posts((0..PARTS).map(part).collect()));
    // The append of a cancel closes all calls that are open.
    let canceled = of_parts().cuts_at_most(2).meanwhile(
        |_| 3,
        |driver| async move {
            match driver.task("t")?.cancel(None).await {
                Ok(_) | Err(Error::TaskNotFound(_) | Error::TaskNotCancelable { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        },
    );
    run(&canceled).unwrap_or_else(|broken| panic!("{}", short(&broken)));
    let matrix = of_parts().cuts_at_most(6);
    let report = run(&matrix).unwrap_or_else(|broken| panic!("{}", short(&broken)));
    assert!(report.executions > PARTS && report.cuts >= 6, "{report:?}");
}

#[derive(Deserialize)]
struct Says {
    says: String,
}

/// A tool that says more than any event holds: as its result, as its error, as its panic, in a question.
async fn talk(cx: ToolContext, args: JsonText) -> Result<JsonText, ToolError> {
    let text = || "x".repeat(OUTSIZED);
    sleep(Duration::from_millis(5)).await;
    match args.read::<Says>().unwrap().says.as_str() {
        "result" => Ok(JsonText::string(&text())),
        "error" => Err(ToolError::failed(text())),
        "panic" => std::panic::resume_unwind(Box::new(text())),
        "question" => cx.ask(&text()).await.map(|answer| JsonText::string(&answer)),
        // A megabyte is kept as it is.
        _ => Ok(JsonText::string(&"y".repeat(1024 * 1024))),
    }
}

async fn talkative(_: ToolContext, args: Says) -> Result<Verdict, ToolError> {
    match args.says.as_str() {
        "result" => Ok(Verdict::Landed(JsonText::string(&"x".repeat(OUTSIZED)))),
        _ => Ok(Verdict::Inconclusive("x".repeat(OUTSIZED))),
    }
}

#[test]
fn texts_above_every_limit_lose_no_outcome_over_a_crash() {
    let describe = |builder: Builder| {
        let model = Scripted::by_prompt([(String::new(), vec![Entry::Text("z".repeat(OUTSIZED))])]);
        let tools = [("put", ToolPolicy::idempotent()), ("ask", ToolPolicy::reconcile(talkative))];
        let with = |builder: Builder, (name, policy): (&str, ToolPolicy)| {
            builder.tool_with(name, "Talks", DynTool::new(json!(null), talk), policy)
        };
        tools.into_iter().fold(builder, with).infer(model)
    };
    for (tool, says) in [
        ("put", "result"),
        ("put", "error"),
        ("put", "panic"),
        ("put", "question"),
        ("ask", "result"),
        ("ask", "much"),
    ] {
        let part = json!({"type": "tool_call", "content": {"tool_name": tool, "args": {"says": says}, "call_id": "p"}});
        let matrix = CrashMatrix::new(describe, posts(vec![part])).cuts_at_most(3);
        run(&matrix).unwrap_or_else(|broken| panic!("{tool} {says}: {}", short(&broken)));
    }
    let asks = json!({"type": "infer", "content": {"prompt": "and?"}});
    let matrix = CrashMatrix::new(describe, posts(vec![asks])).cuts_at_most(3);
    run(&matrix).unwrap_or_else(|broken| panic!("the model: {}", short(&broken)));
}

/// Returns the faults, without the events of a long log.
fn short(broken: &Broken) -> String {
    broken
        .to_string()
        .lines()
        .take(60)
        .map(|line| line.chars().take(600).collect::<String>() + "\n")
        .collect()
}
