//! A scripted agent: its card, and an answer to each call as a test makes it, over JSON-RPC at `/rpc` and REST at `/rest`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A call of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The operation, by its name in JSON-RPC.
    pub(crate) operation: String,
    /// The parameters; over REST with the id of the path.
    pub(crate) params: Value,
    /// The head of the request.
    pub(crate) head: String,
    /// The number of calls of this operation before it.
    pub(crate) before: usize,
    pub(crate) at: Instant,
}

impl Call {
    /// Returns a header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// An answer.
pub(crate) enum Reply {
    /// A result.
    Result(Value),
    /// An error of A2A: its code, the status over REST, its reason, and words.
    Error(i64, u16, &'static str, &'static str),
    /// A stream of events, and how it goes on after them.
    Events(Vec<Value>, After),
    /// A body of this status as it stands.
    Raw(u16, String),
    /// No answer, ever.
    Hang,
}

/// The way on after the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The end of the stream.
    End,
    /// A cut.
    Cut,
    /// Silence, until the client goes.
    Open,
}

type Script = Arc<dyn Fn(&Call) -> Reply + Send + Sync>;

/// A scripted agent that answers.
pub(crate) struct Forged {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    cards: Arc<Mutex<Vec<String>>>,
}

/// Returns a card of 1.0 over both bindings; `STREAM` follows `streaming`.
pub(crate) fn card(streaming: bool) -> Value {
    json!({
        "name": "forged", "description": "An agent of a test", "version": "1",
        "supportedInterfaces": [
            {"url": "URL/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "URL/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
        "capabilities": {"streaming": streaming},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["t"]}],
    })
}

/// Returns a task of 1.0.
pub(crate) fn task(state: &str) -> Value {
    json!({"id": "t1", "contextId": "c1", "status": {"state": format!("TASK_STATE_{state}")}})
}

/// Returns the event of a task's state.
pub(crate) fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": format!("TASK_STATE_{state}")}}})
}

/// Returns the event of a result.
pub(crate) fn artifact(text: &str) -> Value {
    json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1",
        "artifact": {"artifactId": "a1", "parts": [{"text": text}]}}})
}

impl Forged {
    /// Starts an agent that does not stream.
    pub(crate) fn start(script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(&card(false), script)
    }

    /// Starts an agent that streams.
    pub(crate) fn streaming(script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(&card(true), script)
    }

    /// Starts an agent with this card, in which URL stands for its address.
    pub(crate) fn with(card: &Value, script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::with_text(&card.to_string(), script)
    }

    /// Starts an agent whose card is this text.
    pub(crate) fn with_text(card: &str, script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let card = card.replace("URL", &url);
        let (calls, cards) = (Arc::<Mutex<Vec<Call>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let script: Script = Arc::new(script);
        let (known, asked) = (Arc::clone(&calls), Arc::clone(&cards));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (script, card) = (Arc::clone(&script), card.clone());
                let (known, asked) = (Arc::clone(&known), Arc::clone(&asked));
                std::thread::spawn(move || answer(socket, &script, &card, &known, &asked));
            }
        });
        Self { url, calls, cards }
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the calls of one operation so far.
    pub(crate) fn of(&self, operation: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.operation == operation).collect()
    }

    /// Returns the heads of the requests for the card.
    pub(crate) fn card_heads(&self) -> Vec<String> {
        self.cards.lock().unwrap().clone()
    }
}

fn read(socket: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
            });
            if bytes.len() >= at + 4 + length.unwrap_or(0) {
                return Some((head, String::from_utf8_lossy(&bytes[at + 4..]).into_owned()));
            }
        }
        let mut piece = vec![0; 256 * 1024];
        match socket.read(&mut piece).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn answer(
    mut socket: TcpStream,
    script: &Script,
    card: &str,
    calls: &Mutex<Vec<Call>>,
    cards: &Mutex<Vec<String>>,
) -> Option<()> {
    let (head, body) = read(&mut socket)?;
    let mut words = head.split(' ');
    let (method, target) = (words.next()?, words.next()?.to_owned());
    if target.ends_with("/agent-card.json") {
        cards.lock().unwrap().push(head);
        return whole(&mut socket, 200, card);
    }
    // The authorization server of the agent: its forms are told as they stand.
    let form = target.starts_with("/oauth/").then(|| (target.clone(), json!(body.clone())));
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let is_rpc = target.starts_with("/rpc");
    let (operation, params) = if is_rpc {
        (body["method"].as_str()?.to_owned(), body["params"].clone())
    } else if let Some(found) = form.or_else(|| of_rest(method, &target, &body)) {
        found
    } else {
        return whole(&mut socket, 404, r#"{"detail":"Not Found"}"#);
    };
    let call = {
        let mut calls = calls.lock().unwrap();
        let before = calls.iter().filter(|call| call.operation == operation).count();
        let call = Call { operation, params, head, before, at: Instant::now() };
        calls.push(call.clone());
        call
    };
    let wrapped = |name: &str, value: &Value| json!({"jsonrpc": "2.0", "id": body["id"], name: value});
    match script(&call) {
        Reply::Result(result) if is_rpc => whole(&mut socket, 200, &wrapped("result", &result).to_string()),
        Reply::Result(result) => whole(&mut socket, 200, &result.to_string()),
        Reply::Error(code, status, reason, message) => {
            let detail = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}]);
            if is_rpc {
                let error = json!({"code": code, "message": message, "data": detail});
                whole(&mut socket, 200, &wrapped("error", &error).to_string())
            } else {
                let error = json!({"error": {"code": status, "message": message, "details": detail}});
                whole(&mut socket, status, &error.to_string())
            }
        }
        Reply::Events(events, after) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
            socket.write_all(head.as_bytes()).ok()?;
            for event in &events {
                let data = if is_rpc { wrapped("result", event).to_string() } else { event.to_string() };
                let frame = format!("data: {data}\n\n");
                socket.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes()).ok()?;
            }
            match after {
                After::End => socket.write_all(b"0\r\n\r\n").ok(),
                After::Cut => None,
                After::Open => wait(&mut socket),
            }
        }
        Reply::Raw(status, body) => whole(&mut socket, status, &body),
        Reply::Hang => wait(&mut socket),
    }
}

/// Waits until the client is gone.
fn wait(socket: &mut TcpStream) -> Option<()> {
    socket.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    while socket.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
    None
}

fn whole(socket: &mut TcpStream, status: u16, body: &str) -> Option<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).ok()?;
    socket.write_all(body.as_bytes()).ok()
}

/// Returns the operation of a path of REST.
fn of_rest(method: &str, target: &str, body: &Value) -> Option<(String, Value)> {
    let path = target.strip_prefix("/rest")?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut params = if body.is_object() { body.clone() } else { json!({}) };
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        params[name] = json!(value);
    }
    let (path, tenant) = match path.strip_prefix("/tenant-1") {
        Some(rest) => (rest, true),
        None => (path, false),
    };
    if tenant {
        params["tenant"] = json!("tenant-1");
    }
    let named = |name: &str| Some((name.to_owned(), params.clone()));
    match (method, path) {
        ("POST", "/message:send") => named("SendMessage"),
        ("POST", "/message:stream") => named("SendStreamingMessage"),
        ("GET", "/tasks") => named("ListTasks"),
        ("GET", "/extendedAgentCard") => named("GetExtendedAgentCard"),
        _ => {
            let rest = path.strip_prefix("/tasks/")?;
            let (id, operation) = match rest.split_once(':') {
                Some((id, "cancel")) => (id, "CancelTask"),
                Some((id, "subscribe")) => (id, "SubscribeToTask"),
                _ => (rest, "GetTask"),
            };
            params["id"] = json!(id);
            Some((operation.to_owned(), params))
        }
    }
}
