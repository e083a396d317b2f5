//! The clock of the machine is corrected while a task is worked on: no deadline is late because it was set back, and no time
//! is negative.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::testing::{TestSystem, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, PostedTask, TaskState};
use taskreel_log::ports::{Clock, Ports};

const HOUR_MS: i64 = 3_600_000;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A system whose tool fails until its `good` attempt, and asks to be called again after two seconds; its calls end 10 s after
/// they were made.
async fn retrying(good: u32, attempts: &Arc<AtomicU32>) -> TestSystem {
    let attempts = Arc::clone(attempts);
    let describe = move |builder: Builder| {
        let attempts = Arc::clone(&attempts);
        let tool = move |_: Nothing| {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                let again = ToolError::failed("busy").retry_after(Duration::from_secs(2));
                if attempt == good { Ok("done") } else { Err(again) }
            }
        };
        let policy = ToolPolicy::read_only().retries(49).deadline(Duration::from_secs(10));
        builder.tool_with("tries", "Tries", tool, policy)
    };
    system(describe).await.unwrap()
}

#[tokio::test]
async fn a_calls_deadline_is_neither_early_nor_late_when_the_clock_is_set_back() {
    for step in [-HOUR_MS, -3_000] {
        let attempts = Arc::default();
        let system = retrying(4, &attempts).await;
        let task = system.submit(Part::tool_call("tries", json!({})).unwrap()).await.unwrap();
        system.advance(Duration::from_secs(3)).await;
        system.step_clock(step).unwrap();
        let end = system.finish(&task).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{step} ms: {:?}", end.task().error());
        assert_eq!(attempts.load(Ordering::SeqCst), 4, "{step} ms");

        let attempts = Arc::default();
        let system = retrying(0, &attempts).await;
        let task = system.submit(Part::tool_call("tries", json!({})).unwrap()).await.unwrap();
        system.advance(Duration::from_secs(3)).await;
        system.step_clock(step).unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Failed);
        assert_eq!(attempts.load(Ordering::SeqCst), 5, "{step} ms: at 0, 2, 4, 6 and 8 s, none at 10 s");
        let found = taskreel_log::audit::verify(system.store().as_ref()).findings;
        assert!(found.is_empty(), "{step} ms: {found:?}");
    }
}

#[tokio::test]
async fn the_time_of_a_run_is_what_has_passed_when_the_clock_is_set_back() {
    for step in [-3_000, -HOUR_MS] {
        let describe = |builder: Builder| {
            let model = Scripted::from_json(
                r#"{"": [{"type": "tool_call", "tool": "waits", "args": {}}, {"type": "final", "content": "yes"}]}"#,
            );
            let waits = |cx: ToolContext, _: Nothing| async move {
                taskreel::testing::sleep(Duration::from_secs(4)).await;
                Ok::<_, ToolError>(cx.attempt())
            };
            builder.stateless().infer(model.unwrap()).tool("waits", "Waits", waits)
        };
        let system = system(describe).await.unwrap();
        let posted = json!({
            "id": "t",
            "messages": [{"id": "m", "role": "user", "parts": [Part::infer("go").to_json().tree()]}],
            "metadata": {"budget": {"max_runtime_seconds": 10}},
        });
        let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
        let task = system.submit(posted).await.unwrap();
        system.advance(Duration::from_secs(1)).await;
        system.step_clock(step).unwrap();
        let end = system.finish(&task).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{step} ms: {:?}", end.task().error());
    }
}

#[tokio::test]
async fn a_tool_is_told_the_time_that_it_has_left_whatever_the_clock_shows() {
    let told: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let tells = Arc::clone(&told);
    let describe = move |builder: Builder| {
        let tells = Arc::clone(&tells);
        let waits = move |cx: ToolContext, _: Nothing| {
            let tells = Arc::clone(&tells);
            async move {
                taskreel::testing::sleep(Duration::from_secs(4)).await;
                tells.lock().unwrap().extend(cx.remaining());
                Ok::<_, ToolError>(())
            }
        };
        builder.tool_with("waits", "Waits", waits, ToolPolicy::read_only().timeout(Duration::from_secs(10)))
    };
    for step in [HOUR_MS, -HOUR_MS] {
        let system = system(describe.clone()).await.unwrap();
        let task = system.submit(Part::tool_call("waits", json!({})).unwrap()).await.unwrap();
        system.advance(Duration::from_secs(1)).await;
        system.step_clock(step).unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(*told.lock().unwrap(), [Duration::from_secs(6); 2]);
}

#[tokio::test]
async fn a_deadline_is_not_late_when_the_clock_was_set_back_before_the_log_was_opened_again() {
    for budget in [json!({}), json!({"max_runtime_seconds": 10})] {
        let attempts = Arc::default();
        let system = retrying(0, &attempts).await;
        let call = Part::tool_call("tries", json!({})).unwrap();
        let posted = json!({
            "id": "t",
            "messages": [{"id": "m", "role": "user", "parts": [call.to_json().tree()]}],
            "metadata": {"budget": budget},
        });
        let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
        let began = system.clock().monotonic();
        let task = system.submit(posted).await.unwrap();
        system.advance(Duration::from_secs(3)).await;
        system.step_clock(-HOUR_MS).unwrap();
        system.run(system.reopen()).await.unwrap().unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Failed);
        let took = system.clock().monotonic().saturating_sub(began);
        assert!(took <= Duration::from_secs(13), "{took:?} of at most 10 s and the tries of one back-off");
    }
}
