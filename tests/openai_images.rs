//! Images that tools attach, as a model that takes images is sent them, and as the log names them.
#![cfg(feature = "openai")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod model_server;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model_server::{Answer, ModelServer, Step, json_answer, whole};
use proto_events::call::CallKind;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use serde::Deserialize;
use taskreel::files::{FileError, FileStore, LocalFileStore};
use taskreel::infer::{InferPolicy, OpenAiCompatible};
use taskreel::tool::{ToolContext, ToolError};
use taskreel::{Artifact, JsonSchema, Part, Ports, System, TaskSnapshot, TaskState};
use taskreel_log::artifacts::{A2aArtifact, A2aMessage};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::shown::prompt_of;

/// A PNG file by its first bytes, large enough to stand beside the log: 6,000 bytes.
const PNG: &str = "iVBORw0KGgoA";

fn png() -> String {
    PNG.to_owned() + &"A".repeat(8_000 - PNG.len())
}

#[derive(Deserialize, JsonSchema)]
struct Shot {
    /// The content of the artifact in base64.
    base64: String,
    /// The media type of the artifact.
    kind: String,
}

async fn shoot(cx: ToolContext, shot: Shot) -> Result<String, ToolError> {
    let content = json!({"raw": shot.base64, "mediaType": shot.kind});
    let picture = Artifact::new(vec![Part::new("image", JsonText::from(content))], &mut Ports::default());
    let id = cx.attach(Artifact { id: None, ..picture });
    Ok(format!("an image, artifact {id}"))
}

fn asks(shots: &[(&str, &str)]) -> Answer {
    let calls: Vec<Value> = (0_u64..)
        .zip(shots)
        .map(|(at, (kind, base64))| {
            let arguments = json!({"kind": *kind, "base64": *base64}).to_string();
            let function = json!({"name": "shoot", "arguments": arguments});
            json!({"index": at, "id": format!("c{at}"), "type": "function", "function": function})
        })
        .collect();
    whole(&json!({"role": "assistant", "content": Value::Null, "tool_calls": calls}))
}

fn answers(text: &str) -> Answer {
    whole(&json!({"content": text}))
}

fn model(server: &ModelServer) -> OpenAiCompatible {
    OpenAiCompatible::new(server.url(), "m").idle_timeout(Duration::from_secs(2))
}

async fn start(log: &Arc<MemoryStore>, model: OpenAiCompatible, files: Option<Arc<dyn FileStore>>) -> System {
    let builder = System::builder("-")
        .store(Arc::<MemoryStore>::clone(log))
        .tool("shoot", "Takes a picture", shoot)
        .infer(model)
        .infer_policy(InferPolicy::default().retries(0));
    let builder = match files {
        Some(files) => builder.file_store(files),
        None => builder,
    };
    builder.start().await.unwrap()
}

async fn ask(system: &System, session: &str) -> TaskSnapshot {
    let part = Part::infer("What does it look like?");
    system.session(session).send(part).await.unwrap().finished().await.unwrap()
}

/// Returns the role and the content of each message of a request.
fn messages(body: &Value) -> Vec<(&str, &Value)> {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| (message["role"].as_str().unwrap(), &message["content"])).collect()
}

fn images(body: &Value) -> Vec<&str> {
    let messages = messages(body).into_iter().filter_map(|(_, content)| content.as_array());
    messages.flatten().filter_map(|part| part["image_url"]["url"].as_str()).collect()
}

fn inferences(end: &TaskSnapshot) -> Vec<String> {
    let calls = end.task().calls().iter().filter(|call| call.request.kind == CallKind::Infer);
    calls.map(|call| call.request.call_id.clone()).collect()
}

#[tokio::test]
async fn the_images_of_a_run_are_sent_behind_its_answers_and_not_again_in_the_next_run() {
    let url = format!("data:image/png;base64,{}", png());
    let folder = tempfile::tempdir().unwrap();
    let beside = LocalFileStore::new(folder.path()).unwrap().instead_of_log();
    for files in [None, Some(Arc::new(beside) as Arc<dyn FileStore>)] {
        let two = asks(&[("image/png", &png()), ("text/plain", "eA==")]);
        let server = ModelServer::start([two, answers("Red."), answers("Still red.")]).await;
        let mut log = Arc::new(MemoryStore::new());
        let system = start(&log, model(&server).images(), files.clone()).await;
        let end = ask(&system, "s").await;
        assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
        log = Arc::new(log.reopened().unwrap());
        let system = start(&log, model(&server).images(), files).await;
        assert_eq!(ask(&system, "s").await.state(), TaskState::Completed);

        let seen = server.seen();
        let sent = messages(&seen[1].body);
        let roles: Vec<&str> = sent.iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "user"]);
        assert_eq!(images(&seen[1].body), [url.as_str()]);
        assert!(images(&seen[0].body).is_empty() && images(&seen[2].body).is_empty());

        // The log names what was sent, and its digest covers the name.
        let stream = system.task(end.task().id()).unwrap().stream().clone();
        let [_, second] = inferences(&end).try_into().unwrap();
        let shown = prompt_of(log.as_ref(), &stream, &second).unwrap();
        let named: Vec<_> = shown.sent().flat_map(|(_, _, images)| images).collect();
        assert_eq!(named.len(), 1);
        assert_eq!((named[0].media_type.as_str(), named[0].bytes), ("image/png", 6_000));
        let verified = verify(log.as_ref());
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_image_of_its_type_is_not_sent_and_a_model_without_images_is_sent_none() {
    for (kind, base64, takes) in [
        ("image/png", "eHl6eHl6", true),
        ("image/jpeg", PNG, true),
        ("image/png", "!", true),
        ("image/png", PNG, false),
    ] {
        let server = ModelServer::start([asks(&[(kind, base64)]), answers("Nothing.")]).await;
        let log = Arc::new(MemoryStore::new());
        let model = if takes { model(&server).images() } else { model(&server) };
        let system = start(&log, model, None).await;
        assert_eq!(ask(&system, "s").await.state(), TaskState::Completed);
        system.shutdown().await.unwrap();
        let seen = server.seen();
        assert!(seen.len() == 2 && images(&seen[1].body).is_empty(), "{kind} {base64}: {}", seen[1].body);
    }
}

#[tokio::test]
async fn a_second_attempt_is_sent_the_images_again_and_a_model_that_takes_none_after_a_crash_is_not() {
    let url = format!("data:image/png;base64,{}", png());
    let busy = json_answer("503 Service Unavailable", &[], &json!({}));
    let server = ModelServer::start([asks(&[("image/png", &png())]), busy, vec![Step::Silence]]).await;
    let log = Arc::new(MemoryStore::new());
    let builder = System::builder("-").store(Arc::<MemoryStore>::clone(&log));
    let builder = builder.tool("shoot", "Takes a picture", shoot).infer(model(&server).images());
    let system = builder.infer_policy(InferPolicy::default().retries(3)).start().await.unwrap();
    let task = system.session("s").send(Part::infer("What does it look like?")).await.unwrap();
    server.until_asked(3).await;
    let seen = server.seen();
    assert_eq!([images(&seen[1].body), images(&seen[2].body)], [[url.as_str()], [url.as_str()]]);

    // The program ends in the middle of the second attempt, and the next one has another model.
    let log = Arc::new(log.reopened().unwrap());
    let other = ModelServer::start([answers("I cannot see it.")]).await;
    let system = start(&log, model(&other), None).await;
    let end = system.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let seen = other.seen();
    assert!(seen.len() == 1 && images(&seen[0].body).is_empty(), "{}", seen[0].body);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_image_whose_file_has_changed_fails_the_inference_with_the_reason_and_is_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start([asks(&[("image/png", &png())]), answers("Red.")]).await;
    let log = Arc::new(MemoryStore::new());
    let files = LocalFileStore::new(folder.path()).unwrap().instead_of_log();
    let system = start(&log, model(&server).images(), Some(Arc::new(DamagingStore(files)))).await;
    let end = ask(&system, "s").await;
    system.shutdown().await.unwrap();
    assert_eq!((end.state(), server.seen().len()), (TaskState::Failed, 1));
    let why = end.task().error().unwrap().clone();
    assert!(why.contains("cannot be sent: the file store does not have the file"), "{why}");
}

/// A store that damages each file of an artifact after it was saved.
struct DamagingStore(LocalFileStore);

impl FileStore for DamagingStore {
    fn is_instead_of_log(&self) -> bool {
        self.0.is_instead_of_log()
    }

    fn save_artifact(&self, task_id: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError> {
        let saved = self.0.save_artifact(task_id, artifact)?;
        for file in &saved {
            fs::write(file, b"other").unwrap();
        }
        Ok(saved)
    }

    fn get_artifact(&self, task_id: &str, artifact_id: &str) -> Result<Vec<PathBuf>, FileError> {
        self.0.get_artifact(task_id, artifact_id)
    }

    fn delete_artifact(&self, task_id: &str, artifact_id: &str) -> Result<(), FileError> {
        self.0.delete_artifact(task_id, artifact_id)
    }

    fn save_message(&self, message: &A2aMessage) -> Result<Vec<PathBuf>, FileError> {
        self.0.save_message(message)
    }

    fn get_message(&self, message_id: &str) -> Result<Vec<PathBuf>, FileError> {
        self.0.get_message(message_id)
    }

    fn delete_message(&self, message_id: &str) -> Result<(), FileError> {
        self.0.delete_message(message_id)
    }
}
