//! A model that looks at what it is sent, and what the log says was sent.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::{Arc, Mutex};

use proto_events::call::{Call, Selection};
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use proto_events::task::Task;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest, ToolAsk};
use taskreel_log::api::EventReader;
use taskreel_log::audit::verify;
use taskreel_log::read::{fold_stream, for_each_stream};
use taskreel_log::shown::{prompt_digest, prompt_of};

/// The next step of a model, read from what it is sent.
pub(crate) enum Says {
    Call(&'static str, JsonValue),
    /// An action in the text that asks another agent, without its type.
    Agent(JsonValue),
    Final(String),
}

type Rule = dyn Fn(&InferRequest) -> Says + Send + Sync;

/// A model that decides by a rule, in the text or by the provider's own interface, and keeps its requests.
#[derive(Clone)]
pub(crate) struct Reads {
    rule: Arc<Rule>,
    is_native: bool,
    requests: Arc<Mutex<Vec<InferRequest>>>,
}

impl Reads {
    pub(crate) fn by(is_native: bool, rule: impl Fn(&InferRequest) -> Says + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule), is_native, requests: Arc::default() }
    }

    pub(crate) fn requests(&self) -> Vec<InferRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl InferBackend for Reads {
    fn backend(&self) -> &'static str {
        "reads"
    }

    fn model(&self) -> &'static str {
        "reads"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let said = (self.rule)(&request);
        self.requests.lock().unwrap().push(request);
        let text = |value: JsonValue| JsonText::from(value).as_str().to_owned();
        let (content, calls) = match said {
            Says::Final(text_of) => (text(json!({"type": "final", "content": text_of})), Vec::new()),
            Says::Agent(mut action) => {
                if let Some(fields) = action.as_object_mut() {
                    fields.insert("type", "agent_call".into());
                }
                (text(action), Vec::new())
            }
            Says::Call(tool, args) if self.is_native => {
                (String::new(), vec![ToolAsk { tool: tool.to_owned(), args: args.into() }])
            }
            Says::Call(tool, args) => {
                (text(json!({"type": "tool_call", "tool": tool, "args": args})), Vec::new())
            }
        };
        Box::pin(async { Ok(InferReply { content, usage: None, model: "reads".to_owned(), calls }) })
    }
}

/// Returns the result that the newest message tells: the message itself, or the result in the system's note.
pub(crate) fn told(request: &InferRequest) -> JsonValue {
    let message = request.messages.last().unwrap();
    let value = JsonValue::parse(&message.content).unwrap_or_else(|_| message.content.as_str().into());
    value.get("result").cloned().unwrap_or(value)
}

/// Returns the ids that a shortened result names in its tip.
pub(crate) fn ids(told: &JsonValue) -> Option<(String, String)> {
    let tip = told.get("_tip").or_else(|| told.pointer("/data/_tip"))?.as_str()?;
    let (_, ids) = tip.split_once("task_id: ")?;
    let (task, artifact) = ids.split_once(", artifact_id: ")?;
    Some((task.to_owned(), artifact.to_owned()))
}

/// Returns the inferences of a log, each with the stream of its task.
pub(crate) fn inferences(log: &dyn EventReader) -> Vec<(StreamId, Call)> {
    let mut found = Vec::new();
    for_each_stream(log, "task-", |info| {
        let task = fold_stream::<Task>(log, &info.stream, None).unwrap().state;
        let calls = task.calls().iter().filter(|call| call.request.prompt.is_some());
        found.extend(calls.map(|call| (info.stream.clone(), call.clone())));
    })
    .unwrap();
    found
}

pub(crate) fn selection(call: &Call) -> Option<&Selection> {
    call.request.prompt.as_ref().unwrap().selection.as_ref()
}

/// Checks that the log alone renders each prompt as the model received it, and that all its digests hold.
pub(crate) fn assert_rendered(log: &dyn EventReader, requests: &[InferRequest]) {
    let found = inferences(log);
    for request in requests {
        let (stream, call) = found.iter().find(|(_, call)| call.request.call_id == request.call_id).unwrap();
        let prompt = prompt_of(log, stream, &request.call_id).unwrap();
        let shown: Vec<(&str, &str)> = std::iter::once(("system", prompt.system.as_str()))
            .chain(prompt.messages.iter().map(|message| (message.role.as_str(), message.content.as_str())))
            .collect();
        let sent: Vec<(&str, &str)> = request
            .messages
            .iter()
            .map(|message| (message.role.as_str(), message.content.as_str()))
            .collect();
        assert_eq!(shown, sent);
        assert_eq!(call.request.prompt.as_ref().unwrap().messages as usize, sent.len());
        assert!(prompt_digest(log, stream, &request.call_id).unwrap().is_equal());
    }
    let verified = verify(log);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
}
