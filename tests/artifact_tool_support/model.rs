//! A model that looks at what it is sent.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::{Arc, Mutex};

use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest, ToolAsk};

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
            Says::Call(tool, args) if self.is_native => (
                String::new(),
                vec![ToolAsk { tool: tool.to_owned(), args: args.into(), ..ToolAsk::default() }],
            ),
            Says::Call(tool, args) => {
                (text(json!({"type": "tool_call", "tool": tool, "args": args})), Vec::new())
            }
        };
        Box::pin(async {
            Ok(InferReply { content, model: "reads".to_owned(), calls, ..InferReply::default() })
        })
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
