//! Servers that answer each request with the bytes that a test makes of it.

use serde_json::{Value, json};
use taskreel_http::a2a::{Binding, Client, Interface, Message, Options, Part, SendRequest, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::PATIENCE;

/// A request.
pub(crate) struct Asked {
    /// The head, with names of headers as they came.
    pub(crate) head: String,
    /// The body; null if there is none.
    pub(crate) body: Value,
}

impl Asked {
    /// Whether the request is one to this path, or of this method of JSON-RPC.
    pub(crate) fn is(&self, what: &str) -> bool {
        self.body["method"] == what || self.head.lines().next().unwrap().contains(what)
    }

    /// Returns a header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// An answer: its bytes, and those that follow again and again.
pub(crate) struct Answer(pub(crate) Vec<u8>, pub(crate) Vec<u8>);

/// Starts a server, and returns its address.
pub(crate) async fn forge(answer: impl Fn(&Asked) -> Answer + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let Some(asked) = read(&mut socket).await else { return };
                let Answer(first, endless) = answer(&asked);
                let _sent = socket.write_all(&first).await;
                while !endless.is_empty() && socket.write_all(&endless).await.is_ok() {}
                let _ended = socket.shutdown().await;
                while socket.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    url
}

async fn read(socket: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let asked = Asked { head: head.to_owned(), body: Value::Null };
            let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(Asked { body: serde_json::from_str(body).unwrap_or_default(), ..asked });
            }
        }
        let mut piece = [0; 4096];
        match socket.read(&mut piece).await.ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Returns a whole answer.
pub(crate) fn whole(status: u16, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    Answer((head + body).into_bytes(), Vec::new())
}

/// Returns an answer of JSON-RPC to a request, with this member.
pub(crate) fn rpc(asked: &Asked, name: &str, value: &Value) -> Answer {
    whole(200, &json!({"jsonrpc": "2.0", "id": asked.body["id"], name: value}).to_string())
}

/// Returns a stream of JSON-RPC with these results, which ends or breaks off.
pub(crate) fn events(asked: &Asked, results: &[Value], ends: bool) -> Answer {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut bytes = head.as_bytes().to_vec();
    for result in results {
        let data = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": result});
        let frame = format!("data: {data}\n\n");
        bytes.extend(format!("{:x}\r\n{frame}\r\n", frame.len()).into_bytes());
    }
    if ends {
        bytes.extend(b"0\r\n\r\n");
    }
    Answer(bytes, Vec::new())
}

/// Returns a card of 1.0 over JSON-RPC at an address.
pub(crate) fn card(url: &str, extensions: &Value) -> String {
    json!({
        "name": "forged", "description": "d", "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "extensions": extensions},
    })
    .to_string()
}

/// Returns a task of 1.0.
pub(crate) fn task(state: &str) -> Value {
    json!({"id": "t", "contextId": "c", "status": {"state": format!("TASK_STATE_{state}")}})
}

pub(crate) fn options() -> Options {
    Options::new().timeout(PATIENCE)
}

/// Returns a client of 1.0 at an address.
pub(crate) fn at(url: &str, binding: Binding, options: &Options) -> Client {
    Client::at(Interface::new(url, binding, Version::V1), options).unwrap()
}

/// Returns the request to send a text.
pub(crate) fn say(text: &str) -> SendRequest {
    SendRequest::new(Message::user("m1", vec![Part::text(text)]))
}
