//! The transport to a server that is a program: one JSON message a line. It stands in front of `rmcp`, whose own transport
//! replies to log lines and ignores lines that it cannot read.
//!
//! A line that is not a message is a log line of the server and is ignored. A line that is an answer but cannot be read, or is too
//! long, ends its request at once with [`UNREADABLE`]. Answers about tools are passed on as raw JSON.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{CustomResult, ErrorCode, ErrorData, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleClient, model};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use crate::lenient_json::repaired;
use crate::limits::MCP_LINE_BYTES_MAX;
use crate::tools::mcp::process::ServerProcess;

/// The code of the error with which a request ends whose answer cannot be read. A server that sends it says the same.
pub(crate) const UNREADABLE: ErrorCode = ErrorCode(-32_099);

/// The first bytes of a line that is too long, in which the id of its request is looked for.
const HEAD_BYTES: usize = 4 * 1024;

/// A request that has no answer yet.
struct OpenRequest {
    id: RequestId,
    method: String,
}

/// The requests without an answer, by the text of their ids.
type OpenRequests = Arc<Mutex<HashMap<String, OpenRequest>>>;

/// The transport to a program.
pub(crate) struct StdioTransport {
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// Whether the rest of a line that was too long is being dropped.
    is_discarding: bool,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    open: OpenRequests,
    process: ServerProcess,
}

impl StdioTransport {
    pub(crate) fn new(stdin: ChildStdin, stdout: ChildStdout, process: ServerProcess) -> Self {
        let stdin = Arc::new(tokio::sync::Mutex::new(Some(stdin)));
        let (stdout, open) = (BufReader::new(stdout), OpenRequests::default());
        Self { stdout, line: Vec::new(), is_discarding: false, stdin, open, process }
    }

    /// Reads the next line into the buffer and returns whether it is whole; `None` at the end. Cancel safe: what was read stays in
    /// the buffer.
    async fn next_line(&mut self) -> Option<bool> {
        loop {
            let available = self.stdout.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let (text, used) = match end {
                Some(end) => (available.get(..end).unwrap_or_default(), end + 1),
                None => (available, available.len()),
            };
            let was_discarding = self.is_discarding;
            let is_over = !was_discarding && self.line.len() + text.len() > MCP_LINE_BYTES_MAX;
            if !was_discarding && !is_over {
                self.line.extend_from_slice(text);
            }
            self.stdout.consume(used);
            self.is_discarding = (was_discarding || is_over) && end.is_none();
            if is_over {
                return Some(false);
            }
            if end.is_some() && !was_discarding {
                return Some(true);
            }
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (stdin, open) = (Arc::clone(&self.stdin), Arc::clone(&self.open));
        async move {
            let value = serde_json::to_value(&item)?;
            note_sent(&open, &value);
            let mut line = serde_json::to_vec(&value)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let is_whole = self.next_line().await?;
            let line = std::mem::take(&mut self.line);
            let message = if is_whole {
                read_line(&self.open, &String::from_utf8_lossy(&line))
            } else {
                let head = String::from_utf8_lossy(line.get(..HEAD_BYTES).unwrap_or(&line)).into_owned();
                let why = format!("it has more than {MCP_LINE_BYTES_MAX} bytes in one line");
                unreadable(&self.open, &head, &why)
            };
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.stdin.lock().await.take();
        self.process.stop().await;
        Ok(())
    }
}

/// Returns the text by which an id is found: a server may answer the request 7 as "7".
fn key_of(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Notes the request that a message opens, or gives up.
fn note_sent(open: &OpenRequests, message: &Value) {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(method) = message.get("method").and_then(Value::as_str) else { return };
    if method == "notifications/cancelled" {
        let id = message.pointer("/params/requestId").map(key_of).unwrap_or_default();
        open.remove(&id);
    }
    let Some(value) = message.get("id") else { return };
    if let Ok(id) = serde_json::from_value(value.clone()) {
        open.insert(key_of(value), OpenRequest { id, method: method.to_owned() });
    }
}

/// Returns the message of a line; `None` for a log line and for an answer that nothing waits for.
fn read_line(open: &OpenRequests, line: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let line = line.trim_start_matches('\u{feff}').trim();
    match serde_json::from_str(line).or_else(|_| serde_json::from_str(&repaired(line))) {
        Ok(value) => read_message(open, &value),
        Err(error) if is_part_of_message(line) => unreadable(open, line, &error.to_string()),
        Err(_) => None,
    }
}

/// Whether a line that cannot be read was meant as a message: log lines have words of other kinds.
fn is_part_of_message(line: &str) -> bool {
    line.starts_with("{\"") || ["\"jsonrpc\"", "\"result\""].iter().any(|member| line.contains(member))
}

fn read_message(open: &OpenRequests, value: &Value) -> Option<RxJsonRpcMessage<RoleClient>> {
    let is_rpc = value.get("jsonrpc").is_some();
    if value.get("method").is_some() {
        return serde_json::from_value(value.clone()).ok().filter(|_| is_rpc);
    }
    let (result, error) = (value.get("result"), value.get("error"));
    if result.is_none() && error.is_none() {
        return None;
    }
    let id = value.get("id").filter(|id| !id.is_null());
    let request = id.and_then(|id| open.lock().unwrap_or_else(PoisonError::into_inner).remove(&key_of(id)));
    let Some(OpenRequest { id, method }) = request else {
        // An answer without an id, or an error about a message that the server could not read.
        let is_lost = id.is_none() && (is_rpc || result.is_some());
        return if is_lost { unreadable(open, "", &format!("it has no id: {value}")) } else { None };
    };
    if let Some(error) = error.filter(|error| !error.is_null()) {
        let error = serde_json::from_value(error.clone())
            .unwrap_or_else(|_| ErrorData::internal_error(error.to_string(), None));
        return Some(RxJsonRpcMessage::<RoleClient>::error(error, Some(id)));
    }
    let result = result.cloned().unwrap_or_default();
    if matches!(method.as_str(), "tools/list" | "tools/call") {
        let result = ServerResult::CustomResult(CustomResult(result));
        return Some(RxJsonRpcMessage::<RoleClient>::response(result, id));
    }
    Some(match serde_json::from_value::<ServerResult>(result) {
        Ok(result) => RxJsonRpcMessage::<RoleClient>::response(result, id),
        Err(error) => lost(id, &error.to_string()),
    })
}

/// Ends the request whose answer cannot be read: the one whose id stands in the text, else the only call in flight.
fn unreadable(open: &OpenRequests, text: &str, why: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let named = id_in(text).and_then(|id| open.remove(&id));
    let request = named.or_else(|| {
        let mut calls = open.iter().filter(|(_, request)| request.method != "initialize");
        let only = calls.next().map(|(key, _)| key.clone()).filter(|_| calls.next().is_none())?;
        open.remove(&only)
    });
    if request.is_none() {
        tracing::warn!(why, "a line of an MCP server cannot be read");
    }
    request.map(|request| lost(request.id, why))
}

fn lost(id: RequestId, why: &str) -> RxJsonRpcMessage<RoleClient> {
    let words = format!("the server's answer cannot be read: {why}");
    RxJsonRpcMessage::<RoleClient>::error(model::ErrorData::new(UNREADABLE, words, None), Some(id))
}

/// Returns the id that a message names beside its other members, as far as the text goes.
fn id_in(text: &str) -> Option<String> {
    let (mut depth, mut rest) = (0_usize, text);
    while let Some(at) = rest.find(['{', '[', '}', ']', '"']) {
        let (sign, after) = rest.get(at..)?.split_at_checked(1)?;
        rest = after;
        match sign {
            "{" | "[" => depth += 1,
            "}" | "]" => depth = depth.saturating_sub(1),
            _ => {
                let end = end_of_text(rest)?;
                let (member, after) = (rest.get(..end)?, rest.get(end + 1..)?.trim_start());
                rest = after;
                if let Some(value) = after.strip_prefix(':').filter(|_| depth == 1 && member == "id") {
                    let value = value.trim_start().trim_start_matches('"');
                    let end = value.find(['"', ',', '}', ' ']).unwrap_or(value.len());
                    return value.get(..end).map(str::to_owned);
                }
            }
        }
    }
    None
}

/// Returns the place of the quotation mark that ends a text.
fn end_of_text(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}
