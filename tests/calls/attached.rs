//! Artifacts that a tool attaches to its task: they are there together with the success of the call, or not at all.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::files::LocalFileStore;
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Artifact, Builder, JsonSchema, Part, Ports, System, TaskSnapshot, TaskState};
use taskreel_log::artifacts::KeptFile;
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::sled::SledStore;

#[derive(Deserialize, JsonSchema)]
struct Print {
    /// The number of pages.
    pages: usize,
    /// The characters of each page in base64.
    size: usize,
    fails: bool,
}

async fn print(cx: ToolContext, ask: Print) -> Result<Vec<String>, ToolError> {
    let ids = (0..ask.pages).map(|_| {
        let content = json!({"raw": "A".repeat(ask.size), "mediaType": "image/png"});
        let page = Artifact::new(vec![Part::new("image", JsonText::from(content))], &mut Ports::default());
        cx.attach(Artifact { id: None, ..page })
    });
    let ids = ids.collect();
    if ask.fails { Err(ToolError::failed("no paper")) } else { Ok(ids) }
}

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: u32,
}

async fn pay(ask: Cents) -> Result<u32, Infallible> {
    Ok(ask.cents)
}

fn builder(dir: &Path) -> Builder {
    System::builder(dir).tool("print", "Prints pages", print)
}

async fn printed(system: &System, pages: usize, size: usize, fails: bool) -> TaskSnapshot {
    let part = Part::tool_call("print", json!({"pages": pages, "size": size, "fails": fails})).unwrap();
    system.submit(part).await.unwrap().finished().await.unwrap()
}

/// Returns the artifacts beside the output of the call.
fn pages(end: &TaskSnapshot) -> Vec<&Artifact> {
    end.task()
        .artifacts()
        .iter()
        .filter(|artifact| artifact.parts.iter().all(|part| part.kind() == "image"))
        .collect()
}

#[tokio::test]
async fn a_call_that_succeeds_adds_what_it_attached_and_one_that_fails_adds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let system = builder(dir.path()).start().await.unwrap();
    // The last one is larger than a record, and goes to the store in pieces.
    for (count, size) in [(0, 0), (1, 4), (300, 40), (2, 4 << 20)] {
        let end = printed(&system, count, size, false).await;
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        let ids: Vec<&str> = pages(&end).iter().map(|page| page.id.as_deref().unwrap()).collect();
        let told = end.answer().unwrap();
        assert!(
            ids.len() == count && ids.iter().all(|id| told.as_str().contains(&format!("\"{id}\""))),
            "{ids:?}"
        );
    }
    let failed = printed(&system, 3, 40, true).await;
    assert_eq!((failed.state(), pages(&failed).len()), (TaskState::Failed, 0));
    // More than an event or an append holds: the call is a failure in words, and leaves nothing half done.
    for (count, size) in [(1, 17 << 20), (1_200, 4)] {
        let end = printed(&system, count, size, false).await;
        assert_eq!((end.state(), pages(&end).len()), (TaskState::Failed, 0));
        let CallStatus::Failed(failure) = &end.task().calls().iter().next().unwrap().status else {
            panic!("{}", end.to_json())
        };
        assert!(failure.message.contains("at most"), "{failure:?}");
    }
    system.shutdown().await.unwrap();
    let log = SledStore::open(dir.path()).unwrap();
    assert!(verify(&log).findings.is_empty(), "{:?}", verify(&log).findings);
    assert_eq!(replay_all(&log).unwrap().mismatch, None);
}

#[tokio::test]
async fn a_run_that_attached_a_file_goes_on_after_an_approval_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"{"was approved": [{"type": "final", "content": "done"}], "": [
        {"type": "tool_call", "tool": "print", "args": {"pages": 2, "size": 4, "fails": false}},
        {"type": "tool_call", "tool": "pay", "args": {"cents": 5}}, {"type": "final", "content": "done"}]}"#;
    let start = || {
        builder(dir.path())
            .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money"]))
            .capability_policy(CapabilityPolicy::new().require_approval("money"))
            .approvals_by_person()
            .infer(Scripted::from_json(script).unwrap())
            .start()
    };
    let system = start().await.unwrap();
    let waits = system.submit(Part::infer("Print and pay")).await.unwrap().finished().await.unwrap();
    assert_eq!((waits.state(), pages(&waits).len()), (TaskState::InputRequired, 2), "{}", waits.to_json());
    system.shutdown().await.unwrap();

    let system = start().await.unwrap();
    let task = system.task(waits.task().id()).unwrap();
    let id = waits.task().awaited_approvals().next().unwrap().request.approval_id.clone();
    task.approve(&id, "ada").await.unwrap();
    let end = task.finished().await.unwrap();
    assert_eq!((end.state(), pages(&end).len()), (TaskState::Completed, 2), "{}", end.to_json());
    assert!(
        verify(system.log().as_ref()).findings.is_empty(),
        "{:?}",
        verify(system.log().as_ref()).findings
    );
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_file_that_a_tool_attached_goes_to_a_store_that_stands_instead_of_the_log() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = LocalFileStore::new(files.path()).unwrap().instead_of_log();
    let system = builder(dir.path()).file_store(Arc::new(store)).start().await.unwrap();
    let end = printed(&system, 1, 8_000, false).await;
    let page = pages(&end)[0].clone();
    let kept = KeptFile::from_part(&page.parts[0]).unwrap();
    assert_eq!((kept.size, kept.mime_type.as_deref()), (6_000, Some("image/png")));
    assert!(verify(system.log().as_ref()).findings.is_empty());
    system.shutdown().await.unwrap();
}
