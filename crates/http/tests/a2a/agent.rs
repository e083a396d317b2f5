//! An agent whose handler does what the first text of the message says.

use std::sync::Arc;

use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::ToolError;
use taskreel::{Builder, Message, Part, System};
use taskreel_log::memory::MemoryStore;
use tokio::sync::Semaphore;

/// The gate behind which a task that is told to `wait` stays until it is opened.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Waits until the gate lets one task through.
    #[allow(dead_code, reason = "not each program that uses the agent has others at the gate")]
    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }

    /// Lets one task go on.
    #[allow(dead_code, reason = "not each program that uses the agent opens it")]
    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }
}

/// Gives a builder the handler.
pub(crate) fn with_handler(builder: Builder, gate: &Gate) -> Builder {
    let gate = gate.0.clone();
    builder.handler(move |cx: HandlerContext, message: Message| {
        let gate = Arc::clone(&gate);
        async move { work(&cx, &message, &gate).await }
    })
}

async fn work(cx: &HandlerContext, message: &Message, gate: &Semaphore) -> Result<HandlerEnd, ToolError> {
    let text = message.parts.first().and_then(|part| part.content().to_str()).unwrap_or_default();
    match text.as_str() {
        "ask" => Ok(HandlerEnd::InputRequired("Which city?".into())),
        "reject" => Ok(HandlerEnd::Rejected("not my work".into())),
        "log in" => Ok(HandlerEnd::AuthRequired("Please log in".into())),
        "reply" => {
            cx.say("only words").await?;
            Ok(HandlerEnd::Replied)
        }
        "reply late" => {
            gate.acquire().await.unwrap().forget();
            cx.say("only words").await?;
            Ok(HandlerEnd::Replied)
        }
        "fail" => Ok(HandlerEnd::Failed("no paper".into())),
        "wait" => {
            cx.say("waiting").await?;
            gate.acquire().await.unwrap().forget();
            Ok(HandlerEnd::Completed)
        }
        "report" => {
            cx.append_piece("report", vec![Part::text("one ")], false).await?;
            cx.append_piece("report", vec![Part::text("two")], true).await?;
            cx.append_artifact(vec![Part::json(serde_json::json!({"count": 42})).unwrap()]).await?;
            Ok(HandlerEnd::Completed)
        }
        _ => {
            cx.say(&format!("heard {text}")).await?;
            Ok(HandlerEnd::Completed)
        }
    }
}

/// Starts the agent, with its log in memory.
pub(crate) async fn agent(gate: &Gate) -> System {
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    with_handler(builder, gate).start().await.unwrap()
}
