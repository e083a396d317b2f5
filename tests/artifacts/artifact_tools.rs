//! Long results in prompts: minimized as data of the intent, seen again by the tools that view artifacts, and rendered by the
//! log alone after restarts, passivation and on several arbiters.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::artifact_tool_support::model::{Reads, Says, ids, told};
use crate::artifact_tool_support::texts::{of_many_keys, report, rows};
use crate::prompt_support::{assert_rendered, inferences, selection};
use proto_events::call::CutRule;
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::JsonValue;
use proto_events::session::Session;
use taskreel::artifact::{ArtifactTools, CharacterLimit};
use taskreel::context::{FitContextWindow, TruncateToolOutputs};
use taskreel::infer::{Entry, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Message, Part, Ports, System, TaskState, testing};
use taskreel_log::api::EventStore;
use taskreel_log::artifacts::DataArtifacts;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::fold_stream;

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

fn limited() -> ArtifactTools {
    ArtifactTools::new().outputs_over(CharacterLimit::new(2_000).unwrap())
}

fn builder(store: Arc<dyn EventStore>) -> Builder {
    let text = |_: Nothing| async { Ok::<_, Infallible>(report()) };
    let table = |_: Nothing| async { Ok::<_, Infallible>(rows()) };
    let wide = |_: Nothing| async { Ok::<_, Infallible>(of_many_keys()) };
    let policy = || ToolPolicy::read_only().repeatable();
    System::builder("-")
        .store(store)
        .name("desk")
        .tool_with("report", "A report", text, policy())
        .tool_with("rows", "A table", table, policy())
        .tool_with("wide", "An object of many keys", wide, policy())
}

/// A model that asks for the tool, looks at what was left out of its result, and answers with it.
fn curious(tool: &'static str, is_native: bool) -> Reads {
    Reads::by(is_native, move |request| {
        let last = request.messages.last().unwrap();
        if last.role.as_str() == "user" {
            return Says::Call(tool, json!({}));
        }
        let told = told(request);
        match ids(&told) {
            Some((task_id, artifact_id)) if told.get("_total_characters").is_some() => {
                let at = |key: &str| told[key].as_str().unwrap().split_once('-').unwrap();
                let (_, from) = at("_start_character_range");
                let (to, _) = at("_end_character_range");
                let number = |text: &str| text.parse::<u64>().unwrap();
                Says::Call(
                    "view_text_artifact",
                    json!({"task_id": task_id, "artifact_id": artifact_id,
                        "character_start": number(from), "character_end": number(to)}),
                )
            }
            Some((task_id, artifact_id)) => Says::Call(
                "view_data_artifact",
                json!({"task_id": task_id, "artifact_id": artifact_id, "rows": "7-9", "columns": "name"}),
            ),
            None => Says::Final(JsonValue::to_string(&told)),
        }
    })
}

/// Returns the artifact that the model was shown last.
fn viewed(requests: &[InferRequest]) -> JsonValue {
    told(requests.last().unwrap())
}

#[tokio::test]
async fn what_a_minimized_text_leaves_out_is_exactly_what_the_view_that_it_names_shows() {
    for is_native in [true, false] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let model = curious("report", is_native);
        let system =
            builder(store.clone()).artifact_tools(limited()).infer(model.clone()).start().await.unwrap();
        let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        system.shutdown().await.unwrap();
        let requests = model.requests();
        assert_eq!(requests.len(), 3);
        let shown = told(&requests[1]);
        let text = shown["text"].as_str().unwrap();
        let begin = text.split("\n\n[... ").next().unwrap();
        let rest = text.rsplit(" characters omitted ...]\n\n").next().unwrap();
        let seen = viewed(&requests);
        let middle = seen.pointer("/parts/0/text").unwrap().as_str().unwrap();
        assert_eq!([begin, middle, rest].concat(), report());
        assert!(middle.len() > 10_000, "what a view returns is not shortened again");
        assert!(requests[1].messages.last().unwrap().omitted > 10_000);
        let log = store.reopen().unwrap();
        assert_rendered(&*log, &requests);
        let intents = inferences(&*log);
        let cuts: Vec<_> =
            intents.iter().map(|(_, call)| selection(call).map(|it| it.cuts.clone())).collect();
        let cut = cuts[1].as_ref().unwrap()[0];
        assert_eq!((cut.rule, cut.characters, cuts[0].is_none()), (CutRule::Minimized, 2_000, true));
        assert_eq!(cuts[2].as_ref().unwrap().len(), 1, "only the report is minimized");
        let session = StreamId::session("desk", "s").unwrap();
        let history = fold_stream::<Session>(&*log, &session, None).unwrap().state;
        let kept = history.history().as_slice().iter().any(|message| message.content.contains("1999"));
        assert!(kept && history.history().len() == 1 + 6, "the log keeps all of it");
    }
}

#[tokio::test]
async fn data_that_no_summary_fits_is_shown_as_a_text_whose_rest_the_other_view_shows() {
    for is_native in [true, false] {
        let model = curious("wide", is_native);
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let system =
            builder(store.clone()).artifact_tools(limited()).infer(model.clone()).start().await.unwrap();
        system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
        system.shutdown().await.unwrap();
        let requests = model.requests();
        let shown = told(&requests[1]);
        let text = shown["text"].as_str().unwrap();
        let begin = text.split("\n\n[... ").next().unwrap();
        let rest = text.rsplit(" characters omitted ...]\n\n").next().unwrap();
        let seen = viewed(&requests);
        let middle = seen.pointer("/parts/0/text").unwrap().as_str().unwrap();
        assert_eq!([begin, middle, rest].concat(), DataArtifacts::text(&of_many_keys()));
        assert_rendered(&*store.reopen().unwrap(), &requests);
    }
}

#[tokio::test]
async fn a_table_is_summarized_and_its_rows_and_columns_can_be_seen() {
    for is_native in [true, false] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let model = curious("rows", is_native);
        let system =
            builder(store.clone()).artifact_tools(limited()).infer(model.clone()).start().await.unwrap();
        system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
        system.shutdown().await.unwrap();
        let requests = model.requests();
        let summary = told(&requests[1]);
        assert_eq!(summary.pointer("/data/_total_rows").unwrap().as_u64(), Some(500));
        let seen = viewed(&requests);
        let wanted = json!([{"name": "person 7"}, {"name": "person 8"}]);
        assert_eq!(seen.pointer("/parts/0/data"), Some(&wanted));
        assert_rendered(&*store.reopen().unwrap(), &requests);
    }
}

#[tokio::test]
async fn without_the_tools_or_with_whole_outputs_nothing_is_minimized_and_nothing_is_noted() {
    for tools in [None, Some(ArtifactTools::new().whole_outputs())] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let model = curious("report", true);
        let described = match tools {
            Some(tools) => builder(store.clone()).artifact_tools(tools),
            None => builder(store.clone()),
        };
        let system = described.infer(model.clone()).start().await.unwrap();
        system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
        system.shutdown().await.unwrap();
        let log = store.reopen().unwrap();
        assert_rendered(&*log, &model.requests());
        assert_eq!(told(&model.requests()[1]).as_str(), Some(report().as_str()));
        assert!(inferences(&*log).iter().all(|(_, call)| selection(call).is_none()));
        let session = StreamId::session("desk", "s").unwrap();
        let history = fold_stream::<Session>(&*log, &session, None).unwrap().state;
        assert!(
            history
                .history()
                .as_slice()
                .iter()
                .all(|message| message.metadata.get("taskreel.result").is_none())
        );
    }
}

/// A model that asks for both tools in each turn.
fn busy(is_native: bool) -> Reads {
    Reads::by(is_native, |request| {
        let since =
            request.messages.iter().rev().position(|message| message.role.as_str() == "user").unwrap();
        match since {
            0 => Says::Call("report", json!({})),
            2 => Says::Call("rows", json!({})),
            _ => Says::Final("done".to_owned()),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_with_minimized_results_verify_after_restart_passivation_and_on_several_arbiters() {
    for (arbiters, is_native) in [(1, false), (2, true), (4, false)] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let first = busy(is_native);
        let system = builder(store.clone())
            .artifact_tools(limited())
            .context_window(3_000)
            .arbiters(arbiters)
            .passivate_after(Duration::from_millis(1))
            .live_actors(1)
            .infer(first.clone())
            .start()
            .await
            .unwrap();
        let turn = |system: System, session: usize| async move {
            let session = system.session(&format!("s{session}"));
            let end = session.send(Part::infer("go")).await.unwrap().finished().await.unwrap();
            assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        };
        for _ in 0..2 {
            futures_util::future::join_all((0..4).map(|n| turn(system.clone(), n))).await;
        }
        system.shutdown().await.unwrap();
        let store = store.reopen().unwrap();
        assert_rendered(&*store, &first.requests());
        // Another limit, for what is sent from now on: earlier intents say what they say.
        let other = ArtifactTools::new().outputs_over(CharacterLimit::new(900).unwrap());
        let second = busy(is_native);
        let system =
            builder(store.clone()).artifact_tools(other).infer(second.clone()).start().await.unwrap();
        futures_util::future::join_all((0..4).map(|n| turn(system.clone(), n))).await;
        system.shutdown().await.unwrap();
        let log = store.reopen().unwrap();
        let requests: Vec<_> = first.requests().into_iter().chain(second.requests()).collect();
        assert_rendered(&*log, &requests);
        let minimized = inferences(&*log).iter().filter_map(|(_, call)| selection(call)).count();
        assert!(minimized >= 20, "{minimized}");
        let last = second.requests().last().unwrap().messages.iter().filter(|said| said.omitted > 0).count();
        assert_eq!(last, 6, "results of earlier turns are minimized too");
    }
}

#[tokio::test]
async fn strategies_that_come_after_bound_minimized_results_further_and_keep_the_tip() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = Reads::by(true, |request| {
        let is_first = request.messages.last().unwrap().role.as_str() == "user";
        if is_first { Says::Call("report", json!({})) } else { Says::Final("done".to_owned()) }
    });
    let system = builder(store.clone())
        .artifact_tools(limited())
        .context(TruncateToolOutputs::new(600).unwrap())
        .infer(model.clone())
        .start()
        .await
        .unwrap();
    system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    assert_rendered(&*store.reopen().unwrap(), &model.requests());
    let sent = &model.requests()[1].messages.last().unwrap().content.clone();
    assert_eq!(sent.chars().count(), 600);
    assert!(sent.contains("...[truncated] Shortened. view_text_artifact shows the rest"), "{sent}");

    // A window that the minimized form itself exceeds.
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = Reads::by(false, |request| {
        let is_first = request.messages.last().unwrap().role.as_str() == "user";
        if is_first { Says::Call("report", json!({})) } else { Says::Final("done".to_owned()) }
    });
    let system = builder(store.clone())
        .artifact_tools(limited())
        .context(FitContextWindow::new(1_050).unwrap())
        .infer(model.clone())
        .start()
        .await
        .unwrap();
    let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    system.shutdown().await.unwrap();
    let log = store.reopen().unwrap();
    assert_rendered(&*log, &model.requests());
    let intents = inferences(&*log);
    let sizes = selection(&intents[1].1).unwrap().sizes.clone().unwrap();
    assert!(sizes.tokens_after <= 1_050 && sizes.tokens_before > 4_000, "{sizes:?}");
}

#[tokio::test]
async fn an_agent_without_conversations_minimizes_and_views_within_its_task() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = curious("report", false);
    let described = builder(store.clone()).stateless().artifact_tools(limited());
    let system = described.infer(model.clone()).start().await.unwrap();
    let end = system.submit(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    system.shutdown().await.unwrap();
    let requests = model.requests();
    assert!(viewed(&requests).pointer("/parts/0/text").unwrap().as_str().unwrap().contains("zoë 1000"));
    assert_rendered(&*store.reopen().unwrap(), &requests);
}

#[tokio::test]
async fn more_views_at_once_than_are_made_at_once_are_all_made() {
    let system = builder(Arc::new(MemoryStore::new())).artifact_tools(limited()).start().await.unwrap();
    let made = Part::tool_call("report", json!({})).unwrap();
    let made = system.session("s").send(made).await.unwrap().finished().await.unwrap();
    let call = made.task().calls().iter().next().unwrap().request.call_id.clone();
    let view = |line: u64| {
        let args =
            json!({"task_id": made.task().id(), "artifact_id": call, "line_start": line, "line_end": line});
        Part::tool_call("view_text_artifact", args).unwrap()
    };
    let views: Vec<Part> = (1..=40).map(view).collect();
    let message = Message::new("user", views, &mut Ports::default());
    let end = system.session("s").send(message).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let shown: Vec<_> =
        end.task().artifacts().iter().map(|output| output.to_json().as_str().to_owned()).collect();
    assert!((0..40).all(|line| shown[line].contains(&format!("zoë {line}\""))), "{shown:?}");
}

#[tokio::test]
async fn on_virtual_time_a_crash_at_each_append_leaves_minimized_prompts_that_the_log_renders() {
    let describe = |builder: Builder| {
        let text = |_: Nothing| async { Ok::<_, Infallible>(report()) };
        let call = |tool: &str, args: JsonValue| {
            Entry::json(&json!({"type": "tool_call", "tool": tool, "args": args}))
        };
        let view = json!({"task_id": "none", "artifact_id": "none"});
        let said = vec![
            call("report", json!({})),
            call("view_text_artifact", view),
            Entry::json(&json!({"type": "final", "content": "yes"})),
        ];
        builder
            .tool_with("report", "A report", text, ToolPolicy::read_only())
            .artifact_tools(limited())
            .infer(Scripted::by_prompt([("go".to_owned(), said)]))
    };
    let workload = |driver: testing::Driver| async move {
        driver.session("s").send(Part::infer("go")).await?.finished().await.map(|_| ())
    };
    let report = testing::CrashMatrix::new(describe, workload).run().await;
    let report = report.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.appends >= 5, "{report:?}");
}

#[tokio::test]
async fn a_wrong_view_is_told_the_model_as_a_value_and_ends_no_run() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let asked = json!({"task_id": "nobody", "artifact_id": "nothing"});
    let lines = json!({"task_id": "nobody", "artifact_id": "nothing", "line_start": 1, "character_start": 0});
    let model = Reads::by(true, move |request| match request.messages.len() {
        2 | 8 => Says::Call("view_text_artifact", asked.clone()),
        4 => Says::Call("view_data_artifact", asked.clone()),
        6 => Says::Call("view_text_artifact", lines.clone()),
        _ => Says::Final("done".to_owned()),
    });
    let system = builder(store.clone()).artifact_tools(limited()).infer(model.clone()).start().await.unwrap();
    let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    system.shutdown().await.unwrap();
    for request in &model.requests()[1..] {
        let told = told(request);
        assert_eq!(told["error"], json!(true));
        assert_eq!((told["kind"].as_str(), told["subject"].as_str()), (Some("not_found"), Some("nothing")));
        assert_eq!(
            told["error_message"].as_str(),
            Some(
                "Artifact 'nothing' not found in task 'nobody'. Check the task's artifacts list for valid artifact IDs."
            )
        );
    }
    assert_eq!(model.requests().len(), 5, "the same view may be asked for again");
}

#[tokio::test]
async fn a_tool_of_the_host_with_the_name_of_a_view_is_refused_at_the_start() {
    let own = |_: Nothing| async { Ok::<_, Infallible>(1) };
    let refused = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("view_text_artifact", "mine", own)
        .artifact_tools(ArtifactTools::new())
        .start()
        .await
        .err()
        .unwrap();
    assert!(refused.to_string().contains("two tools are named `view_text_artifact`"), "{refused}");
}
