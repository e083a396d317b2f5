//! An agent for the public conformance suites of A2A: it does what the suites' messages ask for, so that what they check is the
//! server.
//!
//! ```text
//! cargo run -p taskreel-http --example a2a_conformance -- 127.0.0.1:9999 [1.0|0.3] [modes] [auth] [push] [grpc]
//! ```
//!
//! With a version it speaks that version only. In 0.3 a message that names no behaviour is asked for more, because the suite of 0.3
//! goes on with the tasks that it makes; otherwise it is answered. With `modes` it takes `text/plain` and `application/json` only,
//! and with `auth` it asks for a token: `itk-valid-token` may do all, `itk-insufficient-token` nothing. With `push` it tells webhooks,
//! on this machine too, and with `grpc` (a feature of the crate) it also serves 1.0 over gRPC, at a port that the card names.
//!
//! The TCK names a behaviour by the beginning of the message's id, ACTS by the beginning of its first text; both name the same
//! behaviours in similar words. A message that names none goes on with what the task's first message has named.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::sync::Arc;
use std::time::Duration;

use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::ToolError;
use taskreel::{JsonText, Message, Part, System};
use taskreel_http::a2a::Version;
use taskreel_http::{A2a, Access, Guard, HttpHandler, Mounted, Protolink, Scopes, Server};

/// The behaviours, each with the beginnings of ids and texts that name it. A longer beginning stands before a shorter one.
const NAMED: [(&str, Behaviour); 19] = [
    ("tck-artifact-text", Behaviour::Text),
    ("tck-artifact-file-url", Behaviour::FileUrl),
    ("tck-artifact-file", Behaviour::File),
    ("tck-artifact-data", Behaviour::Data),
    ("tck-message-response", Behaviour::Reply),
    ("tck-input-required", Behaviour::Ask),
    ("tck-auth-required", Behaviour::Auth),
    ("tck-multi-turn", Behaviour::Turns),
    ("tck-reject-task", Behaviour::Reject),
    ("tck-task-failure", Behaviour::Fail),
    ("tck-complete-task", Behaviour::Complete),
    ("tck-cancel", Behaviour::Wait(Duration::from_secs(120))),
    ("tck-long-running", Behaviour::Wait(Duration::from_secs(1))),
    ("test-resubscribe-message-id", Behaviour::Wait(Duration::from_secs(4))),
    ("tck-stream-artifact-chunked", Behaviour::Chunks),
    ("tck-stream-chunked", Behaviour::Chunks),
    ("tck-stream-artifact-file", Behaviour::File),
    ("tck-stream-002", Behaviour::Nothing),
    ("tck-stream", Behaviour::Text),
];

#[derive(Debug, Clone, Copy)]
enum Behaviour {
    Text,
    File,
    FileUrl,
    Data,
    Reply,
    Ask,
    Auth,
    Turns,
    Reject,
    Fail,
    Complete,
    Wait(Duration),
    Chunks,
    Nothing,
}

fn named(message: &Message) -> Option<Behaviour> {
    let text = message.parts.first().and_then(|part| part.content().to_str()).unwrap_or_default();
    let of = |words: &str| NAMED.iter().find(|(name, _)| words.starts_with(name)).map(|(_, one)| *one);
    of(message.id.as_deref().unwrap_or_default()).or_else(|| of(&text))
}

async fn work(cx: HandlerContext, message: Message, otherwise: Behaviour) -> Result<HandlerEnd, ToolError> {
    let text = message.parts.first().and_then(|part| part.content().to_str()).unwrap_or_default();
    let earlier = || cx.task().messages().iter().find_map(named);
    let goes_on = cx.task().messages().iter().filter(|said| said.role.as_deref() == Some("user")).count() > 1;
    let behaviour = named(&message).or_else(earlier).unwrap_or(otherwise);
    match behaviour {
        Behaviour::Text => drop(cx.append_artifact(vec![Part::text("Generated text content")]).await?),
        Behaviour::File => {
            let file = r#"{"raw":"dGNr","filename":"output.txt","mediaType":"text/plain"}"#;
            cx.append_artifact(vec![part("bytes", file)?]).await?;
        }
        Behaviour::FileUrl => {
            let file = r#"{"url":"https://example.com/output.txt","filename":"output.txt","mediaType":"text/plain"}"#;
            cx.append_artifact(vec![part("uri", file)?]).await?;
        }
        Behaviour::Data => {
            cx.append_artifact(vec![part("json", r#"{"key":"value","count":42}"#)?]).await?;
        }
        Behaviour::Reply => {
            cx.say("Direct message response").await?;
            return Ok(HandlerEnd::Replied);
        }
        Behaviour::Ask if goes_on && named(&message).is_none() => cx.say("input received").await?,
        Behaviour::Ask => return Ok(HandlerEnd::InputRequired("more input needed".to_owned())),
        Behaviour::Auth if goes_on => cx.say("credentials received").await?,
        Behaviour::Auth => return Ok(HandlerEnd::AuthRequired("credentials needed".to_owned())),
        Behaviour::Turns if goes_on && text.to_lowercase().contains("done") => cx.say("done").await?,
        Behaviour::Turns => return Ok(HandlerEnd::InputRequired("say done to finish".to_owned())),
        Behaviour::Reject => return Ok(HandlerEnd::Rejected("rejected".to_owned())),
        Behaviour::Fail => return Ok(HandlerEnd::Failed("failed on request".to_owned())),
        Behaviour::Complete => cx.say("Hello from TCK").await?,
        Behaviour::Wait(time) => {
            tokio::select! {
                () = cx.cancellation().canceled() => {}
                () = tokio::time::sleep(time) => {}
            }
            cx.append_artifact(vec![Part::text("Waited")]).await?;
        }
        Behaviour::Chunks => {
            cx.append_piece("chunked", vec![Part::text("chunk-1 ")], false).await?;
            cx.append_piece("chunked", vec![Part::text("chunk-2")], true).await?;
        }
        Behaviour::Nothing => {}
    }
    Ok(HandlerEnd::Completed)
}

fn part(kind: &'static str, json: &str) -> Result<Part, ToolError> {
    let content = JsonText::parse(json).map_err(|error| ToolError::failed(error.to_string()))?;
    Ok(Part::new(kind, content))
}

/// Returns the handler with what the words of the command line ask for, behind the rules for callers.
fn a2a(system: &System, words: &[String]) -> Result<(A2a, Access), Box<dyn std::error::Error>> {
    let has = |word: &str| words.iter().any(|named| named == word);
    let mut a2a = A2a::new(system.clone()).reply_wait(Duration::from_millis(500));
    for (word, version) in [("1.0", Version::V1), ("0.3", Version::V03)] {
        if has(word) {
            a2a = a2a.only(version);
        }
    }
    if has("modes") {
        a2a = a2a.input_modes(["text/plain", "application/json"]);
    }
    let access = access(words)?;
    Ok((a2a.access(&access), access))
}

fn access(words: &[String]) -> Result<Access, Box<dyn std::error::Error>> {
    let mut access = Access::open();
    if words.iter().any(|named| named == "auth") {
        access = access.with_token("suite", Scopes::ALL, "itk-valid-token")?;
        access = access.with_token("nobody", Scopes::NONE, "itk-insufficient-token")?;
    }
    Ok(access)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = words.first().map_or("127.0.0.1:9999", String::as_str);
    let otherwise =
        if words.iter().any(|word| word == "0.3") { Behaviour::Turns } else { Behaviour::Complete };
    let dir = tempfile::tempdir()?;
    let handler = move |cx, message| work(cx, message, otherwise);
    let system = System::builder(dir.path()).handler(handler).start().await?;
    let (mut a2a, access) = a2a(&system, &words)?;
    let has = |word: &str| words.iter().any(|named| named == word);
    let pushing =
        has("push").then(|| taskreel_http::a2a::Push::new().allow_loopback().start(&system)).transpose()?;
    if let Some(pushing) = &pushing {
        a2a = a2a.push(pushing);
    }
    #[cfg(feature = "grpc")]
    let grpc = if has("grpc") {
        let own: Arc<dyn HttpHandler> = Arc::new(Guard::new(self::access(&words)?, Arc::new(a2a.grpc())));
        let serving = Server::new().mount("/", own).start_grpc("127.0.0.1:0").await?;
        a2a.grpc_at(&serving.address().to_string());
        Some(serving)
    } else {
        None
    };
    let handlers =
        Mounted::new().mount("/", Arc::new(a2a)).mount("/", Arc::new(Protolink::new(system.clone())));
    let serving =
        Server::new().mount("/", Arc::new(Guard::new(access, Arc::new(handlers)))).start(address).await?;
    println!("http://{}", serving.address());
    tokio::signal::ctrl_c().await?;
    serving.stop().await?;
    #[cfg(feature = "grpc")]
    if let Some(grpc) = grpc {
        grpc.stop().await?;
    }
    if let Some(pushing) = pushing {
        pushing.stop().await;
    }
    system.shutdown().await?;
    Ok(())
}
