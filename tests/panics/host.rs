//! A host's code: its tools, its model, the agent that it asks, its approval handler. Each method passes the fuse.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, Approver, CapabilityPolicy};
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError};
use taskreel::tool::{
    DynTool, IntoTool, SecretProvider, SecretRequest, Tool, ToolContext, ToolError, ToolParts, ToolPolicy,
    Verdict,
};
use taskreel::{BoxFuture, BudgetUsage, Builder, JsonObject, JsonSchema, TaskState};

use crate::fuse::at;

/// A tool whose code the host wrote as traits.
struct Raw;

impl Tool for Raw {
    fn call(&self, _: ToolContext, _: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        at("Tool::call");
        Box::pin(async {
            tokio::task::yield_now().await;
            at("Tool::call, later");
            Ok(JsonText::string("done"))
        })
    }

    fn is_blocking(&self) -> bool {
        at("Tool::is_blocking");
        false
    }
}

/// The shape of [`Raw`].
pub(crate) enum ByHand {}

impl IntoTool<ByHand> for Raw {
    fn into_tool(self) -> ToolParts {
        at("IntoTool::into_tool");
        ToolParts { input_schema: JsonValue::Null, tool: Arc::new(self) }
    }
}

/// The arguments of a typed tool.
struct Args;

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        at("Deserialize of arguments");
        serde::de::IgnoredAny::deserialize(from).map(|_| Self)
    }
}

impl JsonSchema for Args {
    fn schema_name() -> Cow<'static, str> {
        "Args".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        at("JsonSchema::json_schema");
        schemars::json_schema!({"type": "object"})
    }
}

/// The result of a typed tool, and a value in its state.
struct Output(&'static str);

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        at(self.0);
        to.serialize_str("done")
    }
}

/// An error of a typed tool.
#[derive(Debug)]
struct Fault;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        at("Display of an error");
        f.write_str("a fault")
    }
}

impl std::error::Error for Fault {}

async fn typed(cx: ToolContext, _: Args) -> Result<Output, ToolError> {
    at("async fn");
    cx.state().put("k", &Output("Serialize of a state's value"), proto_events::id::Version(0)).ok();
    Ok(Output("Serialize of a result"))
}

async fn faulty(_: Args) -> Result<(), Fault> {
    Err(Fault)
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a tool")]
fn plain(_: Args) -> Result<&'static str, std::convert::Infallible> {
    at("blocking fn");
    Ok("done")
}

/// Panics when it is dropped.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        at("Drop of a tool's future");
    }
}

async fn hangs(_: Args) -> Result<(), std::convert::Infallible> {
    let _guard = Guard;
    WAITS.notify_one();
    std::future::pending().await
}

async fn loses(_: Args) -> Result<(), ToolError> {
    Err(ToolError::lost("no answer"))
}

#[allow(clippy::unused_async, reason = "the shape of a probe")]
async fn probe(_: ToolContext, _: Args) -> Result<Verdict, ToolError> {
    at("probe, later");
    Ok(Verdict::DidNotHappen)
}

/// A model that asks the other agent where the prompt says so.
struct Model;

impl InferBackend for Model {
    fn backend(&self) -> &'static str {
        at("InferBackend::backend");
        "host"
    }

    fn model(&self) -> &'static str {
        at("InferBackend::model");
        "model-1"
    }

    fn parameters(&self) -> JsonObject {
        at("InferBackend::parameters");
        JsonObject::new()
    }

    fn check(&self) -> Result<(), String> {
        at("InferBackend::check");
        Ok(())
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        at("InferBackend::infer");
        let shown = format!("{:?}", request.messages);
        let asks = shown.contains("ask the other") && !shown.contains("the other says");
        let content = if asks {
            let prompt = if shown.contains("and wait") { "wait" } else { "hello" };
            json!({"type": "agent_call", "agent": "other", "action": "infer", "prompt": prompt})
        } else {
            json!({"type": "final", "content": "done"})
        };
        Box::pin(async move {
            at("InferBackend::infer, later");
            Ok(InferReply {
                content: content.to_string(),
                model: "model-1".to_owned(),
                ..InferReply::default()
            })
        })
    }
}

/// Told when the other agent waits.
pub(crate) static WAITS: tokio::sync::Notify = tokio::sync::Notify::const_new();

/// Another agent; it hangs where it is asked to wait.
struct Other;

impl Peer for Other {
    fn name(&self) -> &'static str {
        at("Peer::name");
        "other"
    }

    fn description(&self) -> &'static str {
        at("Peer::description");
        "Another agent"
    }

    fn skills(&self) -> Vec<String> {
        at("Peer::skills");
        Vec::new()
    }

    fn policy(&self) -> ToolPolicy {
        at("Peer::policy");
        ToolPolicy::idempotent()
    }

    fn send(&self, request: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        at("Peer::send");
        let hangs = format!("{:?}", request.task).contains("wait");
        Box::pin(async move {
            at("Peer::send, later");
            if hangs {
                WAITS.notify_one();
                return std::future::pending().await;
            }
            let (state, result) = (TaskState::Completed, JsonText::string("the other says hi"));
            Ok(PeerAnswer { state, result, error: None, used: BudgetUsage::default() })
        })
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        at("Peer::cancel");
        Box::pin(async {
            at("Peer::cancel, later");
            Ok(())
        })
    }
}

/// An approval handler.
struct Judge;

impl Approver for Judge {
    fn ask(&self, _: ApprovalRequest) -> BoxFuture<'static, ApprovalVerdict> {
        at("Approver::ask");
        Box::pin(async {
            at("Approver::ask, later");
            ApprovalVerdict::Approved
        })
    }
}

/// A lookup of secrets.
struct Vault;

impl SecretProvider for Vault {
    fn secret(&self, _: SecretRequest) -> BoxFuture<'static, Result<Option<String>, String>> {
        at("SecretProvider::secret");
        Box::pin(async {
            at("SecretProvider::secret, later");
            Ok(Some("open sesame".to_owned()))
        })
    }
}

/// Registers all of the host's code.
pub(crate) fn describe(builder: Builder) -> Builder {
    let probed = |cx: ToolContext, args: Args| {
        at("probe");
        probe(cx, args)
    };
    // Its schema names no argument, so that any is taken.
    let unlocks = DynTool::new(JsonValue::Null, |_, _| async { Ok(JsonText::string("done")) });
    builder
        .name("desk")
        .tool("by-hand", "By hand", Raw)
        .tool("typed", "Typed", typed)
        .tool("faulty", "Faulty", faulty)
        .tool("plain", "Plain", plain)
        .tool("hangs", "Hangs", hangs)
        .tool_with("loses", "Loses", loses, ToolPolicy::reconcile(probed))
        .tool_with("guarded", "Guarded", plain, ToolPolicy::manual().capabilities(["money"]))
        .tool_with("locked", "Locked", unlocks, ToolPolicy::idempotent().secret_args(["pin"]))
        .secrets(Vault)
        .capability_policy(CapabilityPolicy::new().require_approval("money"))
        .approval_handler(Judge)
        .infer(Model)
        .peer(Other)
}
