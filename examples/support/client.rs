//! A client for the examples that are servers: plain HTTP/1.1 over TCP, so that nothing has to be installed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Blocks until the server has been used: by the client below, or with `--serve` until a person presses
/// Enter.
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
pub(crate) fn use_it(address: SocketAddr) -> Result<(), Failure> {
    println!("listening on http://{address}");
    if std::env::args().any(|argument| argument == "--serve") {
        println!("press Enter to stop");
        std::io::stdin().read_line(&mut String::new())?;
        return Ok(());
    }
    talk(address)
}

/// Posts a task, follows it to its end, requests it, and requests one that does not exist.
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
fn talk(address: SocketAddr) -> Result<(), Failure> {
    let task = r#"{"id":"t1","messages":[{"role":"user","parts":[{"type":"infer","content":{"prompt":"A coat in Oslo?"}}]}]}"#;
    println!("\nPOST /tasks\n{}", ask(address, "POST", "/tasks", task)?);
    println!("\nGET /tasks/t1/events");
    let events = ask(address, "GET", "/tasks/t1/events", "")?;
    for frame in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let rows: serde_json::Value = serde_json::from_str(frame)?;
        let kinds = rows.as_array().into_iter().flatten().filter_map(|row| row.get("kind")?.as_str());
        println!("  {}", kinds.collect::<Vec<_>>().join(", "));
    }
    let task: serde_json::Value = serde_json::from_str(body(&ask(address, "GET", "/tasks/t1", "")?))?;
    let output = task.pointer("/artifacts/0/parts/0/content").cloned().unwrap_or_default();
    println!("\nGET /tasks/t1\n{}: {output}", task.get("state").cloned().unwrap_or_default());
    println!("\nGET /tasks/t2\n{}\n", ask(address, "GET", "/tasks/t2", "")?);
    Ok(())
}

/// Sends a request and returns status line and body.
fn ask(address: SocketAddr, method: &str, path: &str, content: &str) -> Result<String, Failure> {
    let mut server = TcpStream::connect(address)?;
    let length = content.len();
    write!(
        server,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{content}"
    )?;
    let mut answer = String::new();
    server.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer has no body")?;
    let status = head.lines().next().unwrap_or_default();
    Ok(format!("{status}\n{}", unchunked(head, body)))
}

/// Returns the body without its status line.
fn body(answer: &str) -> &str {
    answer.split_once('\n').map_or("", |(_, body)| body)
}

/// Joins a chunked body: every other line of it is a length.
fn unchunked(head: &str, body: &str) -> String {
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut whole) = (body, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        let Some(chunk) = after.get(..length).filter(|chunk| !chunk.is_empty()) else { break };
        whole.push_str(chunk);
        rest = after.get(length..).map_or("", |rest| rest.trim_start_matches("\r\n"));
    }
    whole
}
