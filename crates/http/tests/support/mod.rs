//! Hosts and a client for the tests: the same handler in our own server and nested in a host on axum, and requests as raw
//! bytes over TCP.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::ToolError;
use taskreel::{BoxFuture, Builder, JsonSchema, Principal, System};
use taskreel_http::{
    Caller, HandlerService, HttpHandler, Protolink, Request, Response, RunningServer, Scope, Scopes, Server,
};
use taskreel_log::memory::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The maximum time of anything that a test waits for: far more than it needs, so that a hang is an error.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server with the handler of a system's agents.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    end: End,
}

enum End {
    Actix(RunningServer),
    Axum(tokio::task::JoinHandle<()>),
}

impl Host {
    pub(crate) async fn stop(self) {
        match self.end {
            End::Actix(serving) => serving.stop().await.unwrap(),
            End::Axum(server) => server.abort(),
        }
    }
}

/// Returns our own server with a handler.
pub(crate) async fn actix(handler: Arc<dyn HttpHandler>) -> Host {
    actix_with(Server::new().grace(Duration::from_millis(200)), handler).await
}

pub(crate) async fn actix_with(server: Server, handler: Arc<dyn HttpHandler>) -> Host {
    let serving = server.workers(2).mount("/", handler).start("127.0.0.1:0").await.unwrap();
    Host { name: "actix-web", address: serving.address(), end: End::Actix(serving) }
}

/// Returns a host on axum with a handler as its fallback.
pub(crate) async fn axum(handler: Arc<dyn HttpHandler>) -> Host {
    axum_with(HandlerService::new(handler)).await
}

pub(crate) async fn axum_with(service: HandlerService) -> Host {
    let router = axum::Router::new().fallback_service(service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    Host { name: "axum", address, end: End::Axum(server) }
}

/// Returns both hosts with the same system.
pub(crate) async fn hosts(system: &System) -> [Host; 2] {
    hosts_of(Arc::new(Protolink::new(system.clone()))).await
}

/// Returns both hosts with the same handler.
pub(crate) async fn hosts_of(handler: Arc<dyn HttpHandler>) -> [Host; 2] {
    [actix(Arc::clone(&handler)).await, axum(handler).await]
}

/// A check of credentials for tests: the caller is whom the header `x-caller` names, with the scope of running tasks, and
/// of control if the name is `operator`.
pub(crate) struct Named(pub(crate) Arc<dyn HttpHandler>);

impl HttpHandler for Named {
    fn answer(&self, mut request: Request) -> BoxFuture<'static, Response> {
        let name = request.headers().get("x-caller").and_then(|name| name.to_str().ok()).map(str::to_owned);
        if let Some(name) = name {
            let scopes = Scopes::NONE.with(Scope::Read).with(Scope::Run);
            let scopes = if name == "operator" { scopes.with(Scope::Control) } else { scopes };
            request.extensions_mut().insert(Caller { principal: Principal::authenticated(name), scopes });
        }
        self.0.answer(request)
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Text {
    pub(crate) text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Ms {
    ms: u64,
}

/// Returns a builder of an agent in memory with the tools `echo` and `slow`.
pub(crate) fn builder() -> Builder {
    with_tools(System::builder("in memory").store(Arc::new(MemoryStore::new())))
}

pub(crate) fn with_tools(builder: Builder) -> Builder {
    builder.tool("echo", "the text", |args: Text| async move { Ok::<_, ToolError>(args.text) }).tool(
        "slow",
        "waits",
        |args: Ms| async move {
            tokio::time::sleep(Duration::from_millis(args.ms)).await;
            Ok::<_, ToolError>(args.ms)
        },
    )
}

/// Returns a model that answers every prompt with these texts, one after another.
pub(crate) fn model(answers: &[&str]) -> Scripted {
    let entry = |answer: &&str| Entry::Text(format!(r#"{{"type": "final", "content": "{answer}"}}"#));
    Scripted::new(answers.iter().map(entry).collect::<Vec<_>>())
}

/// Returns a task that calls a tool.
pub(crate) fn tool_task(id: &str, tool: &str, args: &str) -> String {
    format!(
        r#"{{"id": "{id}", "created_at": "2024-02-02T00:00:00+00:00", "messages": [{{"id": "m-{id}", "role": "user", "parts": [{{"type": "tool_call", "content": {{"tool_name": "{tool}", "args": {args}, "call_id": "c1"}}}}], "timestamp": "2024-02-02T00:00:00+00:00"}}]}}"#
    )
}

/// A response, as it came over the socket.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Returns a request as bytes.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        text += &[name, ": ", value, "\r\n"].concat();
    }
    if !body.is_empty() || method == "POST" {
        text += &["content-length: ", &body.len().to_string(), "\r\n"].concat();
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// Sends a request on a connection of its own, and returns the response.
pub(crate) async fn ask(host: &Host, method: &str, path: &str, body: &str) -> Answer {
    send(host, &request(method, path, &[("content-type", "application/json")], body)).await
}

/// Sends bytes on a connection of its own, and returns the response.
pub(crate) async fn send(host: &Host, bytes: &[u8]) -> Answer {
    let mut connection = connect(host).await;
    connection.write_all(bytes).await.unwrap();
    connection.answer().await
}

pub(crate) async fn connect(host: &Host) -> Connection {
    let socket = TcpStream::connect(host.address).await.unwrap();
    Connection { socket, read: Vec::new(), name: host.name }
}

/// A connection, and what was read from it and not used yet.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    read: Vec<u8>,
    name: &'static str,
}

impl Connection {
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(bytes).await
    }

    /// Reads more, and returns whether something came before the connection ended.
    async fn more(&mut self) -> bool {
        let mut piece = vec![0; 64 * 1024];
        let read = tokio::time::timeout(PATIENCE, self.socket.read(&mut piece)).await;
        let count = read.unwrap_or_else(|_| panic!("{} answers nothing", self.name)).unwrap_or(0);
        self.read.extend_from_slice(&piece[..count]);
        count > 0
    }

    /// Reads until the text stands there, and returns all up to its end; `None` if the connection ends before.
    pub(crate) async fn until(&mut self, text: &str) -> Option<String> {
        loop {
            let found = self.read.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(at) = found {
                let rest = self.read.split_off(at + text.len());
                let taken = std::mem::replace(&mut self.read, rest);
                return Some(String::from_utf8(taken).unwrap());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads this many bytes.
    pub(crate) async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            assert!(self.more().await, "the connection ends too early");
        }
        let rest = self.read.split_off(count);
        std::mem::replace(&mut self.read, rest)
    }

    /// Reads until the connection ends, and returns all of it.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// Reads the head of a response.
    pub(crate) async fn head(&mut self) -> (u16, String) {
        let head = self.until("\r\n\r\n").await.expect("a response has a head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head)
    }

    /// Reads a whole response.
    pub(crate) async fn answer(&mut self) -> Answer {
        let (status, head) = self.head().await;
        let mut answer = Answer { status, head, body: String::new() };
        if let Some(length) = answer.header("content-length") {
            let bytes = self.exactly(length.parse().unwrap()).await;
            answer.body = String::from_utf8(bytes).unwrap();
        } else if answer.header("transfer-encoding").is_some() {
            while let Some(piece) = self.chunk().await {
                answer.body.push_str(&piece);
            }
        }
        answer
    }

    /// Reads a piece of a chunked body; `None` at its end, or where the connection ends.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let size = self.until("\r\n").await?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let piece = self.exactly(size + 2).await;
        (size > 0).then(|| String::from_utf8(piece[..size].to_vec()).unwrap())
    }

    /// Reads the next frame of an event stream: its id and its data. Comments are skipped.
    pub(crate) async fn frame(&mut self) -> Option<(Option<String>, serde_json::Value)> {
        loop {
            let text = self.chunk().await?;
            let line = |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
            if let Some(data) = line("data: ") {
                return Some((line("id: "), serde_json::from_str(&data).unwrap()));
            }
        }
    }
}
