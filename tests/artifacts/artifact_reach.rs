//! The reach of the tools that view artifacts: the task of the call, its session under the same principal, its child tasks, and
//! what a host allows. All else answers as what does not exist.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;

use crate::artifact_tool_support::calls::{call, desk, first_call, report, result, started, text, view};
use crate::artifact_tool_support::model::{Reads, Says, told};
use proptest::prelude::*;
use proto_events::call::CallKind;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use proto_events::task::Task;
use taskreel::artifact::{ArtifactTools, CharacterLimit};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{JsonSchema, Message, Part, Ports, Principal, System, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{fold_stream, for_each_stream};
use taskreel_log::views::artifact_rows;

#[derive(serde::Deserialize, JsonSchema)]
struct Login {
    password: String,
}

#[tokio::test]
async fn a_call_sees_its_session_of_the_same_principal_and_all_else_answers_as_what_does_not_exist() {
    let system = started().await;
    let made = call(&system, ("s", "ada"), "report", json!({})).await;
    let (task, id) = (made.task().id().to_owned(), first_call(&made));
    let output = made.task().artifacts().iter().next().unwrap().id.clone().unwrap();
    for artifact in [&id, &output] {
        let shown = view(&system, ("s", "ada"), &task, artifact).await;
        assert_eq!(text(&shown), Some("line"), "{shown}");
        assert_eq!(shown["artifact_id"].as_str(), Some(artifact.as_str()));
        // A log in which there is no such task gives the answers that hide it.
        let empty = started().await;
        for of in [("s", "eve"), ("other", "ada"), ("other", "eve")] {
            let nothing = view(&empty, of, &task, artifact).await;
            assert_eq!(nothing["error"], json!(true));
            assert_eq!(view(&system, of, &task, artifact).await, nothing, "{of:?}");
        }
        let checked = system.acting_as(Principal::authenticated("ada"));
        let part = json!({"task_id": task, "artifact_id": artifact});
        let part = Part::tool_call("view_text_artifact", part).unwrap();
        let end = checked.session("s").send(part).await.unwrap().finished().await.unwrap();
        assert_eq!(result(&end)["error"], json!(true), "a name that was checked is another principal");
    }
    let nothing = view(&system, ("s", "ada"), &task, "art_0").await;
    assert_eq!(nothing["kind"].as_str(), Some("not_found"));
}

#[tokio::test]
async fn a_failed_call_and_content_of_another_kind_are_told_as_what_they_are() {
    let system = started().await;
    let failed = call(&system, ("s", "ada"), "breaks", json!({})).await;
    let shown = view(&system, ("s", "ada"), failed.task().id(), &first_call(&failed)).await;
    assert_eq!(shown["kind"].as_str(), Some("no_result"));
    assert!(
        shown["error_message"].as_str().unwrap().ends_with("has no result: it failed: out of paper."),
        "{shown}"
    );
    let made = call(&system, ("s", "ada"), "report", json!({})).await;
    let args = json!({"task_id": made.task().id(), "artifact_id": first_call(&made), "rows": "0"});
    let shown = result(&call(&system, ("s", "ada"), "view_data_artifact", args).await);
    let said = shown["error_message"].as_str().unwrap();
    assert!(
        said.ends_with("does not contain data content. Found part types: TextPart Use view_text_artifact."),
        "{said}"
    );
    let args = json!({"task_id": made.task().id(), "artifact_id": first_call(&made), "line_start": 900});
    let shown = result(&call(&system, ("s", "ada"), "view_text_artifact", args).await);
    assert_eq!(shown["kind"].as_str(), Some("range"));
}

#[tokio::test]
async fn a_task_sees_its_child_at_another_agent_of_the_same_log_and_no_other_task_of_that_agent() {
    let store = Arc::new(MemoryStore::new());
    let other = System::builder("-")
        .store(Arc::<MemoryStore>::clone(&store))
        .name("other")
        .tool_with("report", "A report", report, ToolPolicy::read_only())
        .start()
        .await
        .unwrap();
    let foreign = call(&other, ("s", ""), "report", json!({})).await;
    let (log, foreign) = (Arc::clone(&store), (foreign.task().id().to_owned(), first_call(&foreign)));
    let look = |(task, id): &(String, String)| {
        let args = json!({"task_id": task, "artifact_id": id, "line_end": 1});
        Says::Call("view_text_artifact", args)
    };
    let hidden = foreign.clone();
    let model = Reads::by(false, move |request| match request.messages.len() {
        2 => Says::Agent(json!({"agent": "other", "action": "tool_call", "tool": "report", "args": {}})),
        // A model is told no ids of its child's artifacts: a host or the child's answer names them.
        4 => look(&of_child(&log, &hidden.0)),
        6 => look(&hidden),
        _ => Says::Final("done".to_owned()),
    });
    let system =
        desk(&store, ArtifactTools::new()).peer(other.peer()).infer(model.clone()).start().await.unwrap();
    let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let requests = model.requests();
    assert_eq!(text(&told(&requests[2])), Some("line"));
    assert_eq!(told(&requests[3])["kind"].as_str(), Some("not_found"));

    let child = of_child(&store, &foreign.0);
    let sibling = view(&system, ("s", ""), &child.0, &child.1).await;
    assert_eq!(sibling["kind"].as_str(), Some("not_found"), "another task of the session has no such child");
    let asked = end.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap();
    let answer = view(&system, ("s", ""), end.task().id(), &asked.request.call_id).await;
    assert_eq!(text(&answer), Some("{"), "the agent's answer is a result of the task itself: {answer}");
}

/// Returns the ids of the task of the agent `other` that is not this one, and of its call.
fn of_child(log: &MemoryStore, foreign: &str) -> (String, String) {
    let mut found = None;
    for_each_stream(log, "task-other/", |info| {
        if info.stream.id() != foreign {
            let task = fold_stream::<Task>(log, &info.stream, None).unwrap().state;
            let call = task.calls().iter().next().unwrap().request.call_id.clone();
            found = Some((task.id().to_owned(), call));
        }
    })
    .unwrap();
    found.unwrap()
}

/// Hands over a text of 20 MB in pieces, and many small artifacts.
async fn writes(cx: HandlerContext, _: Message) -> Result<HandlerEnd, ToolError> {
    for number in 0..20 {
        let piece = vec![Part::text(format!("{number:02}\n{}", "a".repeat(1_000_000)))];
        cx.append_piece("large", piece, number == 19).await?;
    }
    for number in 0..1_000 {
        cx.append_artifact(vec![Part::text(format!("small {number}"))]).await?;
    }
    Ok(HandlerEnd::Completed)
}

#[tokio::test]
async fn a_host_widens_the_reach_and_a_text_of_20_mb_that_came_in_pieces_is_viewed_beside_a_thousand_others()
{
    let store = Arc::new(MemoryStore::new());
    let writer = System::builder("-").store(Arc::<MemoryStore>::clone(&store)).name("writer").handler(writes);
    let writer = writer.start().await.unwrap();
    let written = writer.session("w").send(Part::text("go")).await.unwrap().finished().await.unwrap();
    let stream = format!("task-writer/{}", written.task().id());
    let allowed = |cx: &ToolContext, task: &taskreel::StreamId, _: &taskreel::artifact::TaskOwner| {
        cx.principal().name == "ada" && task.as_str().starts_with("task-writer/")
    };
    let system = desk(&store, ArtifactTools::new().reach(allowed)).start().await.unwrap();
    let args = |stream: &str| {
        json!({"task_id": stream, "artifact_id": "large",
            "character_start": 19 * 1_000_003, "character_end": 19 * 1_000_003 + 5})
    };
    let shown = result(&call(&system, ("s", "ada"), "view_text_artifact", args(&stream)).await);
    assert_eq!(text(&shown), Some("19\naa"));
    let shown = result(&call(&system, ("s", "eve"), "view_text_artifact", args(&stream)).await);
    assert_eq!(shown["kind"].as_str(), Some("not_found"));
    let whole = json!({"task_id": stream, "artifact_id": "large"});
    let shown = result(&call(&system, ("s", "ada"), "view_text_artifact", whole).await);
    assert_eq!(shown["kind"].as_str(), Some("too_large"));
    let stream = taskreel::StreamId::parse(&stream).unwrap();
    let rows = artifact_rows(&*store, &stream).unwrap();
    assert_eq!((rows.len(), rows[0].characters, rows[0].parts), (1_001, 20 * 1_000_003, 20));
    assert!(rows[0].is_complete && rows[1].kinds.contains("text"));
}

#[tokio::test]
async fn ids_of_any_characters_name_what_they_name_and_nothing_else() {
    let system = started().await;
    let strange = ["../../etc/passwd", "a\"b\\", "ü😀", "task-desk/x", " ", "%2e%2e", "'; --"];
    for id in strange {
        let artifact = |text: &str| json!({"id": id, "parts": [{"type": "text", "content": text}]});
        let posted = json!({"id": id, "metadata": {"session_id": "s"}, "state": "completed",
            "artifacts": [artifact("older"), artifact(&format!("of {id}"))]});
        let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
        system.acting_as("ada").submit(posted).await.unwrap();
        let shown = view(&system, ("s", "ada"), id, id).await;
        assert_eq!(text(&shown), Some(format!("of {id}").as_str()), "{shown}");
    }
    for id in ["", "\u{1}", &"x".repeat(300)] {
        assert_eq!(view(&system, ("s", "ada"), id, id).await["kind"].as_str(), Some("not_found"), "{id:?}");
    }
}

#[tokio::test]
async fn a_secret_value_in_a_long_result_is_shown_by_no_view() {
    let dir = tempfile::tempdir().unwrap();
    let secret = "correct-horse-battery-4711";
    let login =
        |asked: Login| async move { Ok::<_, Infallible>(format!("{}{}", "x".repeat(3_000), asked.password)) };
    let tools = ArtifactTools::new().outputs_over(CharacterLimit::new(1_000).unwrap());
    let policy = ToolPolicy::read_only().secret_args(["password"]);
    let system = System::builder(dir.path())
        .name("desk")
        .tool_with("login", "Logs in", login, policy)
        .artifact_tools(tools)
        .start()
        .await
        .unwrap();
    let made = call(&system, ("s", "ada"), "login", json!({"password": secret})).await;
    let args =
        json!({"task_id": made.task().id(), "artifact_id": first_call(&made), "character_start": 3_000});
    let shown = result(&call(&system, ("s", "ada"), "view_text_artifact", args).await);
    let shown = text(&shown).unwrap();
    assert!(!shown.contains(secret) && shown.starts_with("secret:"), "{shown}");
    system.shutdown().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_arguments_make_a_view_panic_or_fail(
        start in proptest::option::of(any::<i64>()),
        end in proptest::option::of(any::<i64>()),
        by_line in any::<bool>(),
        path in proptest::option::of("rows|a|a\\.b\\\\\\.c(\\.)?|[a-z.\\\\é]{0,8}"),
        rows in proptest::option::of("[0-9]|[0-9]-[0-9]|-?[0-9]|[0-9],-?[0-9]|[0-9,-]{0,6}|all"),
        columns in proptest::option::of("name|age,name|all|[a-z,\"]{0,6}"),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let system = started().await;
            let made = call(&system, ("s", "ada"), "report", json!({})).await;
            let (first, last) = if by_line { ("line_start", "line_end") } else { ("character_start", "character_end") };
            let mut of_text = json!({"task_id": made.task().id(), "artifact_id": first_call(&made)});
            for (key, value) in [(first, start), (last, end)] {
                if let (Some(value), Some(fields)) = (value, of_text.as_object_mut()) {
                    fields.insert(key, value.into());
                }
            }
            result(&call(&system, ("s", "ada"), "view_text_artifact", of_text).await);
            let table = call(&system, ("s", "ada"), "table", json!({})).await;
            let mut of_data = json!({"task_id": table.task().id(), "artifact_id": first_call(&table)});
            for (key, value) in [("json_path", path), ("rows", rows), ("columns", columns)] {
                if let (Some(value), Some(fields)) = (value, of_data.as_object_mut()) {
                    fields.insert(key, value.into());
                }
            }
            let shown = result(&call(&system, ("s", "ada"), "view_data_artifact", of_data).await);
            assert!(shown["error"] == json!(true) || shown.pointer("/parts/0/data").is_some(), "{shown}");
        });
    }
}
