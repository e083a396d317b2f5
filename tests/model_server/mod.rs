//! A server that speaks chat completions over raw bytes, and misbehaves on demand: one answer for each
//! request, in order, the last one for all further requests.
#![allow(dead_code, reason = "each test file uses its own half")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::id::Digest;
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::infer::{ChatMessage, Deltas, InferRequest, LlmRole};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The maximum wait in a test: far more than is needed, so that a hang is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A step of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends these bytes at once.
    Send(Vec<u8>),
    /// Sends nothing until the client disconnects.
    Silence,
}

/// An answer: after its last step the connection is closed.
pub(crate) type Answer = Vec<Step>;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Method and path.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body's JSON.
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    answers: Vec<Answer>,
}

/// A server that stops when it is dropped.
pub(crate) struct ModelServer {
    address: std::net::SocketAddr,
    state: Arc<Mutex<State>>,
    /// The number of clients that disconnected while the server was silent.
    gone: watch::Receiver<usize>,
    came: watch::Receiver<usize>,
    serving: JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { seen: Vec::new(), answers: answers.into_iter().collect() };
        let state = Arc::new(Mutex::new(state));
        let (went, gone) = watch::channel(0);
        let (comes, came) = watch::channel(0);
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            let (went, comes) = (Arc::new(went), Arc::new(comes));
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, went, comes) = (Arc::clone(&shared), Arc::clone(&went), Arc::clone(&comes));
                tokio::spawn(async move { serve(stream, &shared, &went, &comes).await });
            }
        });
        Self { address, state, gone, came, serving }
    }

    /// Returns the base URL for a model.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the received requests, oldest first.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Waits until `times` requests have been received.
    pub(crate) async fn until_asked(&self, times: usize) {
        let mut came = self.came.clone();
        let waited = tokio::time::timeout(PATIENCE, came.wait_for(|asked| *asked >= times)).await;
        waited.expect("no request came").unwrap();
    }

    /// Waits until a client has disconnected from a silent server.
    pub(crate) async fn until_left(&self) {
        let mut gone = self.gone.clone();
        let waited = tokio::time::timeout(PATIENCE, gone.wait_for(|gone| *gone > 0)).await;
        waited.expect("the client never hung up").unwrap();
    }
}

async fn serve(
    mut stream: TcpStream,
    state: &Mutex<State>,
    went: &watch::Sender<usize>,
    comes: &watch::Sender<usize>,
) {
    let Some(request) = read_request(&mut stream).await else { return };
    let answer = {
        let mut state = state.lock().unwrap();
        state.seen.push(request);
        let at = (state.seen.len() - 1).min(state.answers.len().saturating_sub(1));
        state.answers.get(at).cloned().unwrap_or_default()
    };
    comes.send_modify(|asked| *asked += 1);
    for step in answer {
        match step {
            Step::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                    went.send_modify(|gone| *gone += 1);
                    return;
                }
            }
            Step::Silence => {
                let mut rest = [0; 64];
                while matches!(stream.read(&mut rest).await, Ok(read) if read > 0) {}
                went.send_modify(|gone| *gone += 1);
                return;
            }
        }
    }
    let _ = stream.shutdown().await;
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Seen { line, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

/// Returns an answer with status, headers and body, ended by the end of the connection.
pub(crate) fn raw(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    vec![Step::Send(bytes(status, headers, body))]
}

fn bytes(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Returns an answer of JSON with a status.
pub(crate) fn json_answer(status: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let headers = [headers, &[("content-type", "application/json; charset=utf-8")]].concat();
    raw(status, &headers, body.to_string().as_bytes())
}

/// Returns a completion as one document.
pub(crate) fn whole(message: &Value) -> Answer {
    let body = json!({
        "id": "cmpl-1", "object": "chat.completion", "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    });
    json_answer("200 OK", &[], &body)
}

/// Returns the head of a stream.
pub(crate) fn stream_head() -> Vec<u8> {
    bytes("200 OK", &[("content-type", "text/event-stream")], b"")
}

/// Returns an event of a stream.
pub(crate) fn event(json: &Value) -> Vec<u8> {
    format!("data: {json}\n\n").into_bytes()
}

/// Returns a piece of an answer's text.
pub(crate) fn piece(text: &str) -> Value {
    json!({"model": "served-model", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

/// Returns the end of a stream: the finish reason, the usage, the end mark.
pub(crate) fn ending() -> Vec<u8> {
    let reason = event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    let usage = event(&json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}));
    [reason, usage, b"data: [DONE]\n\n".to_vec()].concat()
}

/// Returns a stream of these pieces, each sent on its own.
pub(crate) fn streamed(pieces: &[&str]) -> Answer {
    let pieces = pieces.iter().map(|text| Step::Send(event(&piece(text))));
    std::iter::once(Step::Send(stream_head())).chain(pieces).chain([Step::Send(ending())]).collect()
}

/// Returns a final action, as a model writes it.
pub(crate) fn said(content: &str) -> String {
    json!({"type": "final", "content": content}).to_string()
}

/// Returns a request of these messages for a model alone.
pub(crate) fn request_of(messages: &[(LlmRole, &str)]) -> InferRequest {
    InferRequest {
        messages: messages.iter().map(|(role, text)| ChatMessage::new(*role, *text)).collect(),
        tools: Vec::new(),
        task_id: "t".to_owned(),
        session_id: None,
        call_id: "c".to_owned(),
        idempotency_key: "k".to_owned(),
        attempt: 1,
        output_schema: None,
        prompt_digest: Digest::default(),
        deltas: Deltas::default(),
    }
}

/// Returns the folders with bodies of real servers.
pub(crate) fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wild/model");
    let other = std::env::var_os("TASKREEL_WILD").map(|folder| PathBuf::from(folder).join("model"));
    std::iter::once(own).chain(other).collect()
}

/// Returns the bodies by name.
pub(crate) fn bodies() -> BTreeMap<String, Vec<u8>> {
    let mut bodies = BTreeMap::new();
    for folder in folders() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "http") {
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                bodies.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    bodies
}
